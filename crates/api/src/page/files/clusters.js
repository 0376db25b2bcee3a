// Clusters: health now and over the last half hour, load against capacity and over time, and what is done about it.

import { colour, gauge, sparkline, strip } from "./chart.js";
import { byId, counted, h, moment, number, percent, span, standing, text } from "./dom.js";
import { Rows } from "./rows.js";

const HEALTH = { partly: "partly up", unused: "not probed", out: "taken out" };

export function clusters(post) {
  const rows = new Rows(byId("clusters-grid"), {
    heads: ["Cluster", "Health", "Over time", "Load"],
    make: clusterRow,
    ask: (from, to) => post({ kind: "rows", list: "clusters", from, to }),
    empty: "No cluster is declared.",
  });
  rows.refresh();
  return {
    take(message) {
      const past = message.rows.length > 0 ? `, the past ${span(message.rows[0].now - message.rows[0].since)}` : "";
      text(byId("clusters-count"), counted(message.total, "cluster") + past);
      rows.take(message);
    },
  };
}

function clusterRow() {
  const cells = ["what", "health", "past", "load"].map((kind) => h("span", { role: "gridcell", class: `cell ${kind}` }));
  const [what, health, past, load] = cells;
  const element = h("div", {}, cells);
  const fill = (row) => {
    what.replaceChildren(
      h("span", { class: "name" }, h("i", { class: `swatch ${colour(row.index)}` }), row.name),
      h("span", { class: "muted sub" }, [row.region, row.addresses.slice(0, 2).join(", ")].filter(Boolean).join(" · ")),
    );
    health.replaceChildren(...healthCell(row));
    past.replaceChildren(...pastCell(row));
    load.replaceChildren(...loadCell(row));
  };
  return { element, fill };
}

function healthCell({ health, exhausted, drain, warnings }) {
  const { word, up, targets, cause, since } = health;
  const sub = h("span", { class: "muted sub" });
  if (drain) sub.append(`drained, clients gone at `, moment(drain.over), drain.left === null ? "" : ` (${percent(drain.left)} left)`);
  else if (word !== "up" && cause) sub.append(cause);
  else if (targets > 0) sub.append(`${up} of ${counted(targets, "target")}`, since ? " since " : "", since ? moment(since) : "");
  const notes = [exhausted ? "exhausted" : null, ...warnings].filter(Boolean);
  return [standing(word, HEALTH[word] ?? word), sub, notes.length > 0 ? h("span", { class: "warning sub" }, notes.join("; ")) : null].filter(Boolean);
}

function pastCell({ strip: pieces, past, since, now, target, limit, load }) {
  if (pieces.length === 0) return [h("span", { class: "muted sub" }, "nothing known")];
  const downs = pieces.filter(([, , word]) => word === "down").length;
  const most = Math.max(100, limit ?? 0, target ?? 0, ...past.map(([, value]) => value));
  const up = pieces.filter(([, , word]) => word === "up").reduce((sum, [from, to]) => sum + to - from, 0);
  // Before the first verdict nothing is known.
  const judged = pieces.filter(([, , word]) => word !== "pending");
  const whole = judged.reduce((sum, [from, to]) => sum + to - from, 0);
  const words = `${percent((100 * up) / Math.max(1, whole))} up${downs > 0 ? `, down ${downs === 1 ? "once" : `${downs} times`}` : ""}`;
  return [
    load !== null || past.length > 0 ? sparkline(past, { from: since, to: now, most }) : null,
    strip(pieces, { from: since, to: now }),
    h("span", { class: "muted sub" }, words),
  ].filter(Boolean);
}

function loadCell({ load, loadWord, target, limit, capacity, share }) {
  const taken = share === null ? "" : ` · gets ${percent(share)} of the demand`;
  if (load === null) {
    const why = loadWord?.failure ?? (loadWord ? `load ${loadWord.status}` : "no load reported");
    return [gauge(null, target, limit), h("span", { class: "muted sub" }, why + taken)];
  }
  const used = capacity ? `${number(Math.round((load / 100) * capacity))} of ${number(capacity)}` : "";
  const age = loadWord?.ageMs > 15_000 ? ` · ${span(loadWord.ageMs)} old` : "";
  return [
    h("span", { class: "load" }, h("b", {}, percent(load)), " ", h("span", { class: "muted" }, used)),
    gauge(load, target, limit),
    h("span", { class: "muted sub" }, [loadWord.source ?? "pushed", loadWord.signal].filter(Boolean).join(", ") + age + taken),
  ];
}
