// The page's second thread: it holds the whole state, so that the first one only ever sees the rows in view.

import { Model } from "./model.js";
import { Server } from "./server.js";

const model = new Model();
const asked = { services: null, clusters: null, service: null };

const server = new Server({
  state(state, at) {
    model.take(state, at);
    postMessage({ kind: "summary", summary: model.summary() });
    for (const list of ["services", "clusters"]) send(list);
    sendService();
  },
  event(kind, body) {
    postMessage({ kind: "event", event: kind, body });
  },
  link(link) {
    postMessage({ kind: "link", link });
  },
});

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
  visible({ visible }) {
    if (visible) server.resume();
    else server.pause();
  },
  retry() {
    server.retry();
  },
  // The first one begins.
  token({ token }) {
    server.give(token);
  },
};

addEventListener("message", ({ data }) => does[data.kind](data));
