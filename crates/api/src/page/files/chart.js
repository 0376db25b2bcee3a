// Small drawings: shares as a bar of parts, load as a line over time, health as a strip. Each has its words beside it.

import { h, s } from "./dom.js";

/** How many colours there are for clusters; the words beside them tell clusters apart. */
const COLOURS = 8;
export const colour = (index) => `c${index % COLOURS}`;

/** One bar of parts in percent; `parts` are `[colour index, percent]`. An unknown whole is hatched. */
export function bar(letter, parts) {
  const track = h("span", { class: parts ? "track" : "track unknown" });
  for (const [index, part] of parts ?? []) {
    if (!(part > 0)) continue;
    const piece = h("span", { class: `part ${colour(index)}` });
    piece.style.width = `${Math.min(100, part)}%`;
    track.append(piece);
  }
  return h("span", { class: "bar" }, h("b", {}, letter), track);
}

/** Load against capacity, with the marks it is held under. Values in percent. */
export function gauge(load, target, limit) {
  const most = Math.max(100, load ?? 0, limit ?? 0);
  const track = h("span", { class: "gauge" });
  if (load !== null) {
    const level = limit !== null && load > limit ? "over" : target !== null && load > target ? "high" : "fine";
    const filled = h("span", { class: "filled", "data-level": level });
    filled.style.width = `${(100 * load) / most}%`;
    track.append(filled);
  }
  for (const [value, kind] of [[target, "target"], [limit, "limit"]]) {
    if (value === null) continue;
    const tick = h("span", { class: `tick ${kind}` });
    tick.style.left = `${(100 * value) / most}%`;
    track.append(tick);
  }
  return track;
}

/** A line over time. `points` are `[milliseconds, value]`; gaps of over `gap` break it. */
export function sparkline(points, { from, to, most, gap = 60_000 }) {
  const x = (at) => (WIDTH * (at - from)) / Math.max(1, to - from);
  const y = (value) => HEIGHT - 2 - ((HEIGHT - 4) * value) / Math.max(1, most);
  let path = "";
  let before = -Infinity;
  for (const [at, value] of points) {
    if (at < from) continue;
    path += `${at - before > gap ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = at;
  }
  const box = { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return s("svg", box, s("path", { d: path || "M0 0", fill: "none", "vector-effect": "non-scaling-stroke" }));
}

/** Health over time. `pieces` are `[from, to, word]` in milliseconds. */
export function strip(pieces, { from, to }) {
  const x = (at) => (WIDTH * (Math.max(from, at) - from)) / Math.max(1, to - from);
  const box = { class: "strip", viewBox: `0 0 ${WIDTH} 8`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const piece = ([begin, end, word]) =>
    s("rect", { x: x(begin).toFixed(2), y: 0, width: Math.max(0.6, x(end) - x(begin)).toFixed(2), height: 8, "data-standing": word });
  return s("svg", box, pieces.filter(([, end]) => end > from).map(piece));
}

const WIDTH = 120;
const HEIGHT = 28;
