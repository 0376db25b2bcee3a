// A list of any length of which only the rows in view exist: a grid that is scrolled, or walked with the keyboard.
//
// Rows are of one height, which the style sheet says (`--row`). They are asked for by number and drawn when they come.

import { h } from "./dom.js";

export class Rows {
  /** `make()` gives `{ element, fill(row, index) }`; `ask(from, to)` asks for rows; `open(row)` is Enter or a click. */
  constructor(grid, { heads, make, ask, open, empty }) {
    Object.assign(this, { grid, make, ask, open });
    this.total = 0;
    this.rows = new Map();
    this.drawn = new Map();
    this.free = [];
    this.active = 0;
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.empty = h("p", { class: "empty muted", hidden: true }, empty);
    const head = h("div", { class: "row head", role: "row", "aria-rowindex": "1" }, heads.map((words) => h("span", { role: "columnheader" }, words)));
    this.head = h("div", { role: "rowgroup", class: "heads" }, head);
    grid.replaceChildren(this.head, this.body, this.empty);
    grid.addEventListener("scroll", () => this.soon(), { passive: true });
    grid.addEventListener("keydown", (event) => this.key(event));
    grid.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.measure()).observe(grid);
    this.measure();
  }

  /** Takes rows that were asked for. `wanted` names the filter: another one begins at the top. */
  take({ total, from, rows, wanted }) {
    if (wanted !== this.wanted) {
      this.wanted = wanted;
      this.active = 0;
      this.grid.scrollTop = 0;
    }
    this.rows.clear();
    rows.forEach((row, at) => this.rows.set(from + at, row));
    this.asked = [from, from + rows.length];
    if (total !== this.total) {
      this.total = total;
      this.body.style.height = `${total * this.height}px`;
      // The style sheet makes a short list as high as it is.
      this.grid.style.setProperty("--rows", total);
      this.grid.setAttribute("aria-rowcount", total + 1);
      this.active = Math.min(this.active, Math.max(0, total - 1));
    }
    if (this.empty.hidden !== total > 0) this.empty.hidden = total > 0;
    this.draw(true);
  }

  /** Asks for the rows in view anew, as after a change of the filter. */
  refresh(top) {
    const [from, to] = this.window(AHEAD, top);
    this.asked = [from, to];
    this.ask(from, to);
  }

  measure() {
    this.view = this.grid.clientHeight;
    this.height = Number.parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 56;
    this.body.style.height = `${this.total * this.height}px`;
    this.soon();
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw(false);
    });
  }

  /** The rows in view and some more on both sides. */
  window(more, top = this.grid.scrollTop) {
    const from = Math.floor(top / this.height) - more;
    const to = Math.ceil((top + this.view) / this.height) + more;
    return [Math.max(0, from), Math.max(0, this.total ? Math.min(this.total, to) : to)];
  }

  draw(anew) {
    // Read once, before anything is written: a look at it afterwards would have the browser lay out all of the page at once.
    const top = this.grid.scrollTop;
    const [from, to] = this.window(OVER, top);
    for (const [index, row] of this.drawn) {
      if (index < from || index >= to) {
        row.element.hidden = true;
        this.drawn.delete(index);
        this.free.push(row);
      }
    }
    for (let index = from; index < Math.min(to, this.total); index += 1) {
      const drawn = this.drawn.get(index);
      if (!drawn) this.place(index);
      else if (anew || !drawn.isFilled) this.fill(drawn, index);
    }
    this.sort();
    this.mark();
    const [known, end] = this.asked ?? [0, 0];
    if (this.total > 0 && (from < known || Math.min(to, this.total) > end)) this.refresh(top);
  }

  place(index) {
    const row = this.free.pop() ?? this.made();
    this.drawn.set(index, row);
    row.element.hidden = false;
    row.element.id = `${this.grid.id}-${index}`;
    row.element.dataset.index = index;
    row.element.setAttribute("aria-rowindex", index + 2);
    row.element.style.transform = `translateY(${index * this.height}px)`;
    row.isFilled = false;
    this.fill(row, index);
  }

  /** Brings the elements into the order of their rows, for who reads them one after the other. */
  sort() {
    let next = null;
    for (const index of [...this.drawn.keys()].sort((a, b) => b - a)) {
      const { element } = this.drawn.get(index);
      if (element.nextSibling !== next) this.body.insertBefore(element, next);
      next = element;
    }
  }

  made() {
    const row = this.make();
    row.element.classList.add("row");
    row.element.setAttribute("role", "row");
    this.body.append(row.element);
    return row;
  }

  fill(row, index) {
    const known = this.rows.get(index);
    row.element.classList.toggle("waiting", !known);
    row.isFilled = Boolean(known);
    if (!known) return;
    // What says the same as before is left alone: most rows do when the state was read anew.
    const said = JSON.stringify(known);
    if (said === row.said) return;
    row.said = said;
    row.fill(known, index);
  }

  mark() {
    for (const [index, { element }] of this.drawn) {
      tell(element, "aria-selected", index === this.active ? "true" : null);
    }
    tell(this.grid, "aria-activedescendant", this.drawn.has(this.active) ? `${this.grid.id}-${this.active}` : null);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 1);
    const last = Math.max(0, this.total - 1);
    const steps = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last };
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) {
      event.preventDefault();
      this.active = Math.max(0, Math.min(last, steps[event.key]));
      this.show(this.active);
    } else if (event.key === "Enter" && this.rows.has(this.active)) {
      event.preventDefault();
      this.open?.(this.rows.get(this.active));
    }
  }

  click(event) {
    const index = Number(event.target.closest?.(".rows > .row")?.dataset.index ?? NaN);
    if (!this.rows.has(index)) return;
    this.active = index;
    this.mark();
    this.open?.(this.rows.get(index));
  }

  show(index) {
    const heads = this.head.offsetHeight;
    const [top, bottom] = [index * this.height, (index + 1) * this.height + heads];
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (bottom > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = bottom - this.grid.clientHeight;
    this.draw(false);
  }
}

/** Sets an attribute, or takes it away, where it differs: who reads aloud is told of each change. */
function tell(element, name, value) {
  if (element.getAttribute(name) === value) return;
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

/** Rows drawn beyond the view, and rows asked for beyond it. */
const OVER = 4;
const AHEAD = 60;
