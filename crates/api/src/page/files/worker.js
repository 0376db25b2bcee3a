// The page's second thread: it holds the whole state, so that the first one only ever sees the rows in view.

import { Model } from "./model.js";
import { Server } from "./server.js";
import { Side } from "./side.js";

const model = new Model();
const asked = { services: null, clusters: null, service: null };
let mark = "";

const sides = Object.fromEntries(
  ["contributions", "publishing", "intents"].map((list) => [list, new Side(`/v1/${list}`, (said) => postMessage({ kind: "side", list, ...shown(list, said) }))]),
);

const server = new Server({
  state(state, at) {
    model.take(state, at);
    postMessage({ kind: "summary", summary: model.summary() });
    for (const list of ["services", "clusters"]) send(list);
    sendService();
  },
  event(kind, body) {
    postMessage({ kind: "event", event: kind, body });
    for (const side of Object.values(sides)) side.nudge();
    if (kind !== "state") return true;
    // Objects and syncs alone are told by the lists that are read beside the state.
    const { id: _id, objects: _objects, syncs: _syncs, ...rest } = body;
    const before = mark;
    mark = JSON.stringify(rest);
    return mark !== before;
  },
  link(link) {
    postMessage({ kind: "link", link });
  },
});

/** Of what may be long, what is shown. */
function shown(list, said) {
  if (list !== "publishing" || !said.body) return said;
  const filter = asked.records ?? "";
  const provider = ({ records, ...rest }) => {
    const counts = {};
    for (const { status } of records) counts[status] = (counts[status] ?? 0) + 1;
    const fits = filter === "" ? ({ status }) => status !== "published" : ({ name }) => name.includes(filter);
    const found = records.filter(fits);
    return { ...rest, counts, records: found.slice(0, RECORDS_SHOWN), found: found.length, inAll: records.length };
  };
  return { ...said, filter, body: { providers: said.body.providers.map(provider) } };
}

/** Sends the rows of a list that were asked for last. */
function send(list) {
  const { from, to, filter, which } = asked[list] ?? { from: 0, to: 0 };
  if (!asked[list] || !model.known) return;
  postMessage({ kind: "rows", list, ...model.rows(list, { from, to, filter, which }) });
}

function sendService() {
  if (asked.service !== null && model.known) postMessage({ kind: "service", service: model.service(asked.service) });
}

const does = {
  rows({ list, ...wanted }) {
    asked[list] = wanted;
    send(list);
  },
  service({ key }) {
    asked.service = key;
    sendService();
  },
  /** Which intents are wanted, as the query of `/v1/intents`. */
  intents({ query }) {
    sides.intents.ask(query);
  },
  /** Records of providers whose names hold this text. */
  records({ filter }) {
    asked.records = filter;
    sides.publishing.said = null;
    sides.publishing.read();
  },
  /** Something was written from here: what is shown follows at once. */
  written() {
    for (const side of Object.values(sides)) side.read();
    server.nudge();
  },
  visible({ visible }) {
    for (const part of [server, ...Object.values(sides)]) {
      if (visible) part.resume();
      else part.pause();
    }
  },
  retry() {
    server.retry();
    for (const side of Object.values(sides)) side.read();
  },
  // The first one begins.
  token({ token }) {
    server.give(token);
    for (const side of Object.values(sides)) side.give(token);
  },
};

addEventListener("message", ({ data }) => does[data.kind](data));

/** Records of a provider that are shown at once. */
const RECORDS_SHOWN = 100;
