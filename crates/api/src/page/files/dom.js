// Making elements and words. What strangers declared goes in as text nodes and attributes' values, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; children that are no nodes become texts. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets a text where it differs, so that nothing is laid out or read out again for nothing. */
export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

export const byId = (id) => document.getElementById(id);

/** A word about health with its mark: a shape and a word, so that nobody needs the colour. */
export function standing(word, shown = word) {
  return h("span", { class: "standing", "data-standing": word }, h("span", { class: "mark", "aria-hidden": "true" }), shown);
}

/** A table with a caption for who cannot see it; `rows` are lists of cells, the first of each is its header. */
export function table(caption, heads, rows, attributes = {}) {
  const head = h("tr", {}, heads.map((words) => h("th", { scope: "col" }, words)));
  const cells = (row) => row.map((cell, at) => h(at ? "td" : "th", at ? { "data-head": heads[at] } : { scope: "row" }, cell));
  return h(
    "div",
    { class: "scroll-x", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      attributes,
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, head),
      h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))),
    ),
  );
}

/** Puts new children in the place of old ones. What has a `data-key` keeps the focus, and stays open if it was. */
export function redraw(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const opened = new Set([...element.querySelectorAll("details[open][data-key]")].map((of) => of.dataset.key));
  const scrolled = [...element.querySelectorAll(".scroll-x")].map((of) => of.scrollLeft);
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const details of element.querySelectorAll("details[data-key]")) if (opened.has(details.dataset.key)) details.open = true;
  element.querySelectorAll(".scroll-x").forEach((of, at) => (of.scrollLeft = scrolled[at] ?? 0));
  if (focused) element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/** A button that does something. */
export function button(words, work, attributes = {}) {
  const element = h("button", { type: "button", ...attributes }, words);
  element.addEventListener("click", work);
  return element;
}

export const number = (value) => value.toLocaleString("en-US");
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
export const percent = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} %`);

/** A span of time in one or two units: `1 h 59 min`, `42 s`. */
export function span(millis) {
  const secs = Math.max(0, Math.round(millis / 1000));
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = units.findIndex(([size]) => secs >= size);
  if (at < 0) return "0 s";
  const [size, unit] = units[at];
  const [less, lesser] = units[at + 1] ?? [];
  const rest = less ? Math.floor((secs % size) / less) : 0;
  return `${Math.floor(secs / size)} ${unit}${rest ? ` ${rest} ${lesser}` : ""}`;
}

/** A moment by the viewer's clock, with the date where that is not today's. */
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return h("span", {}, text);
  const today = at.toDateString() === new Date().toDateString();
  const words = at.toLocaleTimeString([], { hour12: false }) + (today ? "" : ` ${at.toLocaleDateString()}`);
  return h("time", { datetime: text, title: text }, words);
}
