// What is always in view: figures at a glance, overrides with their countdown, the configuration and what is wrong with it.

import { button, byId, counted, h, moment, number, redraw, span, standing, table, text } from "./dom.js";
import { fact } from "./services.js";

/** `remove(id, scope)` takes an override away. */
export function overview(remove) {
  let summary = null;
  let offset = 0;
  const countdowns = [];

  /** Once a second: what ends when. The server's clock counts. */
  function tick() {
    const now = Date.now() + offset;
    for (const { element, ends } of countdowns) text(element, ends > now ? `ends in ${span(ends - now)}` : "ended");
  }
  setInterval(tick, 1000);

  return {
    take(next) {
      summary = next;
      offset = next.now - next.at;
      text(byId("version"), `${next.version}`);
      byId("tiles").replaceChildren(...tiles(next));
      countdowns.length = 0;
      redraw(byId("overrides-body"), overrides(next.overrides, countdowns, remove));
      redraw(byId("config-body"), configuration(next));
      clusterNames(next.clusterNames);
      tick();
    },
    get readAt() {
      return summary?.at ?? null;
    },
  };
}

/** What can be typed where a cluster is asked for. */
function clusterNames(names) {
  const list = byId("cluster-names");
  if (list.dataset.names === names.join(" ")) return;
  list.dataset.names = names.join(" ");
  list.replaceChildren(...names.map((name) => h("option", {}, name)));
}

function tiles({ names, pools, poolsDown, poolsPartly, clusters, clustersUp, clustersProbed, overrides, config, ready, notReady }) {
  const trouble = [poolsDown > 0 ? `${number(poolsDown)} down` : null, poolsPartly > 0 ? `${number(poolsPartly)} partly up` : null].filter(Boolean);
  const wrong = config.stale ? "a newer one is refused" : ready ? "in force" : notReady;
  return [
    tile("Names", number(names), `of ${counted(pools, "pool")}`, "fine"),
    tile("Pools", number(pools), trouble.join(", ") || "all members up", poolsDown > 0 ? "bad" : poolsPartly > 0 ? "doubt" : "fine"),
    tile("Clusters up", `${number(clustersUp)} / ${number(clustersProbed)}`, `${number(clusters)} declared`, clustersUp === clustersProbed ? "fine" : clustersUp === 0 ? "bad" : "doubt"),
    tile("Overrides", number(overrides.length), overrides.length > 0 ? "in force" : "none", overrides.length > 0 ? "doubt" : "fine"),
    tile("Configuration", `#${number(config.number)}`, wrong, config.stale || !ready ? "bad" : "fine"),
  ];
}

const tile = (name, value, words, level) =>
  h("div", { class: "tile", "data-level": level }, h("dt", {}, name), h("dd", {}, h("b", {}, value), h("span", { class: "muted" }, words)));

function overrides(all, countdowns, remove) {
  if (all.length === 0) return [h("p", { class: "muted" }, "None: what probes say counts.")];
  const row = (said) => {
    const countdown = h("span", { class: "countdown" });
    countdowns.push({ element: countdown, ends: Date.parse(said.expires) });
    const { some, count } = said.addresses;
    const holds = count > 0 ? some.slice(0, 5).join(", ") + (count > 5 ? ` and ${number(count - 5)} more` : "") : "nothing: look at the scope";
    return [
      h("code", {}, said.scope),
      standing(said.action === "up" ? "up" : said.action === "down" ? "down" : "out", said.action),
      said.reason,
      h("span", {}, countdown, " (", moment(said.expires), ")"),
      holds,
      [said.createdBy, said.createdFrom].filter(Boolean).join(", "),
      said.source === "config" ? "configuration" : said.id,
      said.source === "config" ? "" : button("Take away", () => remove(said.id, said.scope), { "data-key": `remove ${said.id}`, "aria-label": `Take away the override of ${said.scope}` }),
    ];
  };
  return [table("Overrides in force", ["Scope", "Force", "Reason", "Ends", "Holds for", "Added by", "Id", ""], all.map(row), { class: "stack" })];
}

function configuration({ config, conflicts, listeners, zones, startedAt, now }) {
  const { lastReload } = config;
  const list = (title, { count, some }, kind) =>
    count === 0 ? [] : [h("h3", {}, `${title} (${number(count)})`), h("ul", { class: kind }, some.map((line) => h("li", {}, line)), count > some.length ? h("li", { class: "muted" }, `and ${number(count - some.length)} more`) : null)];
  const faults = lastReload && !lastReload.accepted ? lastReload.errors : [];
  return [
    config.stale ? h("p", { class: "problem", role: "status" }, "The last change was refused: what serves is older than what is written.") : null,
    h(
      "dl",
      { class: "facts" },
      fact("Number", number(config.number)),
      fact("Read from", h("code", {}, config.source)),
      fact("In force since", moment(config.loadedAt)),
      fact("Last reload", lastReload ? h("span", {}, standing(lastReload.accepted ? "up" : "down", lastReload.accepted ? "taken" : "refused"), " ", moment(lastReload.at), `, trigger: ${lastReload.trigger}`) : "none since the start"),
      fact("Snapshot", h("code", {}, config.snapshot)),
      fact("Runtime state", h("code", {}, config.runtimeState)),
      fact("Running for", span(now - Date.parse(startedAt))),
      fact("Listens on", listeners.some.map(({ kind, address }) => h("span", { class: "line" }, `${kind} `, h("code", {}, address)))),
    ),
    ...list("Faults of the refused change", { count: faults.length, some: faults.slice(0, 20) }, "faults"),
    ...list("Warnings", config.warnings, "warnings"),
    ...list("Said twice and differently", conflicts, "warnings"),
    table("Zones", ["Zone", "Serial", "Records", "Steered names"], zones.some.map((z) => [z.name, `${z.serial ?? "–"}`, number(z.records), number(z.names)])),
    zones.count > zones.some.length ? h("p", { class: "muted" }, `and ${counted(zones.count - zones.some.length, "more zone", "more zones")}`) : null,
  ].filter(Boolean);
}
