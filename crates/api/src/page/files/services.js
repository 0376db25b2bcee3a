// Services: each steered name with the shares of its pool's members as declared, answered and arrived; and one of them at length.

import { bar, colour } from "./chart.js";
import { byId, counted, h, number, percent, standing, table, text } from "./dom.js";
import { Rows } from "./rows.js";

const KINDS = [["declared", "D"], ["answered", "A"], ["arrived", "R"]];
const HEALTH = { up: "up", partly: "partly up", down: "down", unused: "no name" };

export function services(post, explain) {
  const dialog = byId("service");
  const wanted = { filter: "", which: "all" };
  const rows = new Rows(byId("services-grid"), {
    heads: ["Name and pool", "Shares", "Members", "Health"],
    make: serviceRow,
    ask: (from, to) => post({ kind: "rows", list: "services", from, to, ...wanted }),
    open: (row) => {
      post({ kind: "service", key: row.key });
      show(row);
      dialog.showModal();
    },
    empty: "No service fits.",
  });

  let pause;
  const change = () => {
    wanted.filter = byId("filter").value.trim();
    wanted.which = byId("which").value;
    post({ kind: "rows", list: "services", from: 0, to: 100, ...wanted });
  };
  byId("filter").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(change, 80);
  });
  byId("which").addEventListener("change", change);
  byId("filter").form.addEventListener("submit", (event) => event.preventDefault());
  dialog.addEventListener("close", () => post({ kind: "service", key: null }));
  dialog.addEventListener("click", (event) => {
    // A click beside the dialog is one on it and not on what is in it.
    if (event.target === dialog) dialog.close();
  });
  rows.refresh();

  /** What is known from the row, until the rest comes. */
  function show(row) {
    text(byId("service-title"), row.name ?? row.pool);
    byId("service-body").replaceChildren();
  }

  return {
    take(message) {
      const { total, all } = message;
      text(byId("services-count"), total === all ? counted(all, "service") : `${number(total)} of ${counted(all, "service")}`);
      rows.take(message);
    },
    /** The open service, anew; none where it is gone. */
    takeOne(service) {
      if (!dialog.open) return;
      const body = byId("service-body");
      const scrolled = dialog.scrollTop;
      if (service === null) body.replaceChildren(h("p", {}, "It is not served any more."));
      else body.replaceChildren(...atLength(service, () => (dialog.close(), explain(service.name))));
      dialog.scrollTop = scrolled;
    },
  };
}

/** One row, to be filled again and again. */
function serviceRow() {
  const name = h("span", { class: "name" });
  const pool = h("span", { class: "muted sub" });
  const bars = h("span", { class: "bars", "aria-hidden": "true" });
  const said = h("span", { class: "hidden" });
  const members = h("span", { class: "chips" });
  const health = h("span", { class: "cell-health" });
  const cell = (kind, ...children) => h("span", { role: "gridcell", class: `cell ${kind}` }, children);
  const element = h("div", {}, cell("what", name, pool), cell("shares", bars, said), cell("members", members), cell("health", health));
  const fill = (row) => {
    text(name, row.name ?? "no name");
    name.title = row.name ?? "";
    text(pool, `${row.pool} · ${row.policy} · TTL ${row.ttl} s`);
    bars.replaceChildren(...KINDS.map(([kind, letter]) => bar(letter, row.bars[kind])));
    text(said, spoken(row));
    const chips = row.members.map(chip);
    if (row.count > row.members.length) chips.push(h("span", { class: "chip more" }, `+${row.count - row.members.length}`));
    members.replaceChildren(...chips);
    health.replaceChildren(standing(row.health, HEALTH[row.health]), h("span", { class: "muted sub" }, `${row.up} of ${row.count} up`));
  };
  return { element, fill };
}

function chip({ cluster, index, standing: word, share }) {
  const shown = share.answered ?? share.declared;
  const title = `${cluster}: ${word}, declared ${percent(share.declared)}, answered ${percent(share.answered)}, arrived ${percent(share.arrived)}`;
  return h(
    "span",
    { class: "chip", "data-standing": word, title },
    h("i", { class: `swatch ${colour(index)}` }),
    h("span", { class: "chip-name" }, cluster),
    h("b", {}, word === "up" ? (shown === null ? "" : `${Math.round(shown)} %`) : word),
  );
}

/** The bars in words. */
function spoken({ members, bars }) {
  const said = ([kind]) =>
    bars[kind] === null ? `${kind} unknown` : `${kind} ${members.map((m) => `${m.cluster} ${percent(m.share[kind])}`).join(", ")}`;
  return KINDS.map(said).join("; ");
}

function atLength(service, explain) {
  const { pool, policy, ttl, ttlReason, members, names, namesInAll, bars } = service;
  const head = h(
    "dl",
    { class: "facts" },
    fact("Pool", pool),
    fact("Policy", policy),
    fact("TTL", `${ttl} s: ${ttlReason}`),
    fact("Members", `${service.up} of ${service.count} up`),
  );
  const big = h("div", { class: "bars big", "aria-hidden": "true" }, KINDS.map(([kind]) => bar(kind, bars[kind])));
  const rows = members.map((member) => [
    h("span", {}, h("i", { class: `swatch ${colour(member.index)}` }), member.cluster),
    standing(member.standing),
    `${member.weight}`,
    `${member.tier}`,
    ...KINDS.map(([kind]) => percent(member.share[kind])),
    h("ul", { class: "plain" }, member.schedule ? h("li", {}, member.schedule) : null, member.addresses.map((a) => h("li", {}, h("code", {}, a.address), ` ${a.reason}`))),
  ]);
  const more = namesInAll > names.length ? ` and ${number(namesInAll - names.length)} more` : "";
  const ask = h("button", { type: "button" }, "Explain an answer");
  ask.addEventListener("click", explain);
  return [
    head,
    big,
    table(`Members of pool ${pool}`, ["Cluster", "Standing", "Weight", "Tier", "Declared", "Answered", "Arrived", "Addresses"], rows, { class: "stack", id: "service-members" }),
    h("h3", {}, `Names of the pool (${number(namesInAll)})`),
    h("p", { class: "names" }, names.join("  ") + more),
    service.name ? ask : null,
  ].filter(Boolean);
}

export const fact = (name, ...values) => h("div", {}, h("dt", {}, name), h("dd", {}, values));
