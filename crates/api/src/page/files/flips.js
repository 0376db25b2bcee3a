// What happened: each flip with its cause and what it moved, each reload with what became of it. The newest is on top.

import { byId, counted, h, moment, percent, span, standing, text } from "./dom.js";

export function flips() {
  const list = byId("flips-list");
  const live = byId("flips-live");
  const seen = new Set();
  const said = [];
  let timer;
  list.append(h("li", { class: "empty muted" }, "Nothing yet: the flips and reloads of this run appear here as they happen."));

  /** Reads out what came, at once for several, so that a storm is one sentence. */
  function announce(words, isOld) {
    if (isOld) return;
    said.push(words);
    timer ??= setTimeout(() => {
      timer = undefined;
      text(live, said.length > 3 ? `${said.length} things happened; the last: ${said.at(-1)}` : said.join(". "));
      said.length = 0;
    }, 400);
  }

  return {
    take(kind, body) {
      if (body.id && kind !== "reset") {
        if (seen.has(body.id)) return;
        seen.add(body.id);
      }
      const made = { transition: flip, reload: reload, reset: missed }[kind]?.(body);
      if (!made) return;
      list.querySelector(".empty")?.remove();
      list.prepend(made.story);
      while (list.children.length > STORIES_MAX) list.lastElementChild.remove();
      text(byId("flips-count"), counted(list.children.length, "entry", "entries"));
      const at = Date.parse(body.applied || body.at || "");
      announce(made.words, Date.now() - at > 15_000);
    },
  };
}

function flip(body) {
  const { at, applied, address, monitor, clusters, from, to, cause, poolsTotal, poolsMoved, namesMoved, pools } = body;
  const who = clusters.join(", ") || address;
  const late = Date.parse(applied) - Date.parse(at);
  const why = cause;
  const moved =
    poolsTotal === 0
      ? "No pool is judged by it now."
      : poolsMoved === null
      ? `${counted(poolsTotal, "pool")} judged by it; too many to ask what moved.`
      : poolsMoved === 0
        ? `No answer changed (${counted(poolsTotal, "pool")} asked).`
        : `${counted(namesMoved, "name")} of ${counted(poolsMoved, "pool")} answered otherwise${late >= 0 ? `, ${late < 1 ? "within 1 ms" : `${late} ms`} after the verdict` : ""}.`;
  const story = h(
    "li",
    { class: "story", "data-to": to, "data-clusters": clusters.join(" ") },
    h("p", { class: "story-head" }, standing(to, `${who} is ${to}`), h("span", { class: "muted" }, ` was ${from} `), moment(at)),
    h("p", {}, h("span", { class: "muted" }, "Why: "), why, h("span", { class: "muted" }, ` (${monitor} at ${address})`)),
    h("p", {}, moved),
    pools.map(pool),
    poolsMoved > pools.length ? h("p", { class: "muted" }, `and ${counted(poolsMoved - pools.length, "more pool", "more pools")}`) : null,
  );
  return { story, words: `${who} is ${to}: ${why}. ${moved}` };
}

/** What moved in a pool: the parts before and after, the most changed cluster first. */
function pool({ name, moved, names, someNames, shares }) {
  const rest = names > someNames.length ? ` and ${names - someNames.length} more` : "";
  const share = ({ cluster, before, after }) =>
    h(
      "li",
      {},
      h("span", { class: "share-name" }, cluster),
      h("span", { class: "was-is", "aria-hidden": "true" }, level("was", before), level("is", after)),
      h("span", { class: "share-figures" }, `${percent(before)} → ${percent(after)}`),
    );
  return h(
    "details",
    { open: true },
    h("summary", {}, h("b", {}, name), ` ${percent(moved)} of clients moved`),
    h("ul", { class: "moves" }, shares.map(share)),
    h("p", { class: "muted names" }, someNames.join("  ") + rest),
  );
}

function level(kind, part) {
  const piece = h("span", { class: kind });
  piece.style.width = `${part}%`;
  return piece;
}

function reload(body) {
  const { at, trigger, accepted, configuration, durationMs: millis, changes, errors: faults, errorCount } = body;
  const words = accepted ? `Configuration ${configuration} serves` : `A configuration was refused: ${counted(errorCount, "fault")}`;
  const story = h(
    "li",
    { class: "story", "data-to": accepted ? "reload" : "refused" },
    h("p", { class: "story-head" }, standing(accepted ? "info" : "down", words), " ", moment(at)),
    h("p", { class: "muted" }, `trigger: ${trigger}, took ${span(millis) === "0 s" ? `${millis} ms` : span(millis)}`),
    changes.length > 0 ? h("ul", {}, changes.map((change) => h("li", {}, change))) : null,
    faults.length > 0 ? h("ul", { class: "faults" }, faults.map((fault) => h("li", {}, h("code", {}, fault)))) : null,
    errorCount > faults.length ? h("p", { class: "muted" }, `and ${errorCount - faults.length} more`) : null,
  );
  return { story, words };
}

function missed() {
  const words = "Some events were missed: the server was started anew, or this page was away for long";
  return { story: h("li", { class: "story", "data-to": "reset" }, h("p", { class: "muted" }, `${words}.`)), words };
}

const STORIES_MAX = 100;
