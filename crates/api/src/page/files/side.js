// What is read beside the state, for the worker: contributions, publishing, intents. Each is one path of the API.
//
// It is read when an event says that it may have changed, and every few seconds for what has no events. An answer that says the
// same as the one before is not passed on, so that nothing is drawn for nothing.

import { refusal } from "./stream.js";
import { withToken } from "./token.js";

export class Side {
  /** `hears` is given `{ query, body }`, or `{ query, why }` where the server refuses it or is not there. */
  constructor(path, hears) {
    Object.assign(this, { path, hears, query: "", token: null, busy: false, again: false, paused: true, said: null, took: 0 });
  }

  /** Asks with this token from now on, or with none; at first, begins. */
  give(token) {
    this.token = token;
    this.paused = false;
    this.said = null;
    this.read();
  }

  /** Asks with this query from now on. */
  ask(query) {
    this.query = query;
    if (!this.paused) this.read();
  }

  pause() {
    this.paused = true;
    clearTimeout(this.timer);
  }

  resume() {
    if (!this.paused) return;
    this.paused = false;
    this.read();
  }

  /** Reads soon, since something has changed. */
  nudge() {
    if (this.paused) return;
    if (this.busy) this.again = true;
    else this.later(Math.max(SOON, 3 * this.took));
  }

  /** Reads now. One reading at a time; who asks meanwhile gets the next one. */
  async read() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.again = false;
    clearTimeout(this.timer);
    const { query } = this;
    const began = performance.now();
    let rest = EVERY;
    try {
      const response = await fetch(this.path + query, withToken({ cache: "no-store", signal: AbortSignal.timeout(READ_MAX) }, this.token));
      if (!response.ok) throw await refusal(response);
      const text = await response.text();
      this.took = performance.now() - began;
      rest = Math.max(EVERY, 10 * this.took);
      if (text + query !== this.said) this.hears({ query, body: JSON.parse(text) });
      this.said = text + query;
    } catch (error) {
      this.said = null;
      // What is refused is asked for seldom: a browser writes a line of each into its console.
      if (error.status) rest = SELDOM;
      this.hears({ query, why: error.status ? error.message : "The server does not answer." });
    } finally {
      this.busy = false;
    }
    this.later(this.again || query !== this.query ? Math.max(SOON, this.took) : rest);
  }

  later(wait) {
    clearTimeout(this.timer);
    if (!this.paused) this.timer = setTimeout(() => this.read(), wait);
  }
}

// Milliseconds.
const EVERY = 5_000;
const SELDOM = 60_000;
const SOON = 150;
const READ_MAX = 30_000;
