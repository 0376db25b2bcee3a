// The way to the server, for the worker: reads /v1/state, watches /v1/watch, and comes back by itself when either fails.
//
// Events say that something changed; the state says what. It is read at once after an event, and every few seconds for what has
// no events (load, shares). A state that takes long to read is read less often, so that watching costs the server little.

import { events, refusal } from "./stream.js";
import { withToken } from "./token.js";

export class Server {
  /** `hears` has `state(state, at)`, `event(kind, body)`, which says whether the state is to be read for it, and `link(link)`. */
  constructor(hears) {
    this.hears = hears;
    this.link = { reading: "connecting", watching: "connecting", why: "", retryAt: null, readAt: null };
    this.lastId = null;
    this.failures = { read: 0, watch: 0 };
    this.timers = {};
    this.took = 0;
    this.busy = false;
    this.again = false;
    this.paused = false;
    this.token = null;
    this.stream = null;
  }

  /** Asks with this token from now on, or with none; at first, begins. */
  give(token) {
    this.token = token;
    this.stream?.abort();
    this.stream = null;
    this.retry();
  }

  /** Stops asking, for a page that nobody sees; `start` goes on where it was. */
  pause() {
    this.paused = true;
    this.stream?.abort();
    this.stream = null;
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
  }

  resume() {
    if (!this.paused) return;
    this.paused = false;
    this.retry();
  }

  /** Tries both ways now. */
  retry() {
    this.failures = { read: 0, watch: 0 };
    if (this.link.watching !== "open" || this.stream === null) this.watch();
    this.read();
  }

  /** Reads the state. One reading at a time; who asks meanwhile gets the next one. */
  async read() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.again = false;
    clearTimeout(this.timers.read);
    const began = performance.now();
    try {
      const response = await fetch("/v1/state", withToken({ cache: "no-store", signal: AbortSignal.timeout(READ_MAX) }, this.token));
      if (!response.ok) throw await refusal(response);
      const state = await response.json();
      this.took = performance.now() - began;
      this.failures.read = 0;
      this.tell({ reading: "open", why: "", retryAt: null, readAt: Date.now() });
      this.hears.state(state, Date.now());
      this.later("read", this.again ? this.pace() : Math.max(READ_EVERY, 10 * this.took), () => this.read());
    } catch (error) {
      if (isUnknown(error)) {
        // Another token is needed, or another grant: asking again and again would only be counted as attempts.
        this.tell({ reading: "refused", why: error.message, retryAt: null });
        return;
      }
      const wait = backoff(this.failures.read++);
      const why = error.name === "TimeoutError" ? "it does not answer" : error.status ? `it answers: ${error.message}` : "it cannot be reached";
      this.tell({ reading: "lost", why, retryAt: Date.now() + wait });
      this.later("read", wait, () => this.read());
    } finally {
      this.busy = false;
    }
  }

  /** Reads soon: at once where the last reading was quick and long ago. */
  nudge() {
    if (this.busy) this.again = true;
    else if (this.link.reading === "open") this.later("read", this.pace(), () => this.read());
  }

  pace() {
    const since = Date.now() - (this.link.readAt ?? 0);
    return Math.max(READ_SOON, READ_LEAST - since, 3 * this.took - since);
  }

  watch() {
    this.stream?.abort();
    clearTimeout(this.timers.watch);
    const stream = new AbortController();
    this.stream = stream;
    const asked = this.lastId === null ? `recent=${RECENT}` : `after=${encodeURIComponent(this.lastId)}`;
    let opened = 0;
    const hears = {
      open: () => {
        opened = Date.now();
        this.tell({ watching: "open" });
        // Whoever was away and is back has old news.
        if (this.link.reading === "lost" || this.failures.watch > 0) this.read();
      },
      event: (kind, id, data) => {
        this.failures.watch = 0;
        this.lastId = id || this.lastId;
        if (this.hears.event(kind, { id, ...JSON.parse(data) })) this.nudge();
      },
    };
    // The server ends each stream after two minutes, which is no failure: the next one goes on where this one was.
    const ended = (error) => {
      if (stream !== this.stream) return;
      this.stream = null;
      const orderly = opened > 0 && Date.now() - opened > ORDERLY;
      if (!orderly) this.tell({ watching: "lost" });
      if (!isUnknown(error)) this.later("watch", orderly ? 50 : backoff(this.failures.watch++), () => this.watch());
    };
    events(`/v1/watch?${asked}`, this.token, stream.signal, hears).then(ended, ended);
  }

  tell(change) {
    Object.assign(this.link, change);
    this.hears.link({ ...this.link });
  }

  later(name, wait, work) {
    clearTimeout(this.timers[name]);
    if (!this.paused) this.timers[name] = setTimeout(work, wait);
  }
}

/** Whether an answer says that it matters who asks. */
const isUnknown = (error) => error?.status === 401 || error?.status === 403;

/** Half a second, doubled with each failure up to 15 s, a fifth more or less so that pages do not come together. */
function backoff(failures) {
  return Math.min(15_000, 500 * 2 ** failures) * (0.8 + 0.4 * Math.random());
}

// Milliseconds.
const READ_EVERY = 5_000;
const READ_SOON = 100;
const READ_LEAST = 400;
const READ_MAX = 30_000;
const ORDERLY = 20_000;
// Events of the past to begin with.
const RECENT = 50;
