// The page's first thread: takes what the worker tells to the part that shows it, and says how fresh it is.

import { clusters } from "./clusters.js";
import { contributions } from "./contributions.js";
import { byId, span, text } from "./dom.js";
import { explain } from "./explain.js";
import { flips } from "./flips.js";
import { intents } from "./intents.js";
import { override } from "./override.js";
import { overview } from "./overview.js";
import { publishing } from "./publishing.js";
import { services } from "./services.js";
import { who } from "./who.js";

const worker = new Worker("/page/worker.js", { type: "module" });
const post = (message) => worker.postMessage(message);

const box = explain();
const force = override(post);
const parts = { overview: overview((id, scope) => force.remove(id, scope)), flips: flips(), services: services(post, (name) => box.of(name)), clusters: clusters(post) };
const sides = { contributions: contributions(post), publishing: publishing(post), intents: intents(post) };
const asker = who((token) => post({ kind: "token", token }));
let link = { reading: "connecting", watching: "connecting" };

const hears = {
  summary: ({ summary }) => {
    parts.overview.take(summary);
    freshness();
  },
  rows: (message) => parts[message.list].take(message),
  service: ({ service }) => parts.services.takeOne(service),
  side: (message) => sides[message.list].take(message),
  event: ({ event, body }) => parts.flips.take(event, body),
  link: (message) => {
    link = message.link;
    freshness();
  },
};
worker.addEventListener("message", ({ data }) => hears[data.kind](data));
worker.addEventListener("error", () => {
  text(byId("banner-text"), "The page's own program has failed; load it again.");
  byId("banner").hidden = false;
});

/** Says whether what is shown is of now, and else how old it is and what is done about it. */
function freshness() {
  const { readAt } = parts.overview;
  const age = readAt === null ? null : Date.now() - readAt;
  const isLost = link.reading === "lost";
  const isRefused = link.reading === "refused";
  asker.ask(isRefused ? link.why : null);
  const isOld = isLost || isRefused || (age !== null && age > OLD);
  const state = isOld ? "lost" : readAt === null ? "connecting" : link.watching === "open" ? "live" : "slow";
  byId("link").dataset.link = state;
  const words = { live: "Live", slow: "Reads every few seconds", connecting: "Connecting", lost: isRefused ? "Refused" : "No connection" }[state];
  text(byId("link-text"), age === null || age < 1500 ? words : `${words} · ${span(age)} old`);
  document.documentElement.dataset.stale = String(isOld && readAt !== null);
  const banner = byId("banner");
  banner.hidden = !isLost;
  if (!isLost) return;
  const wait = Math.max(0, (link.retryAt ?? 0) - Date.now());
  const seen = age === null ? "Nothing was read yet." : `What you see is ${span(age)} old.`;
  // What changes each second stands beside the alert, which would be read out with each change.
  text(byId("banner-text"), `The server is gone: ${link.why}. This page comes back by itself.`);
  text(byId("link-text"), `${seen} Next try ${wait > 900 ? `in ${span(wait)}` : "now"}`);
}
setInterval(freshness, 1000);

byId("retry").addEventListener("click", () => post({ kind: "retry" }));

// A page that nobody sees for a while asks for nothing: a server has few places for watchers.
let unseen;
document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.visibilityState === "visible") post({ kind: "visible", visible: true });
  else unseen = setTimeout(() => post({ kind: "visible", visible: false }), UNSEEN);
});

// Milliseconds.
const OLD = 90_000;
const UNSEEN = 60_000;
