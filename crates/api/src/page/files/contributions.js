// What clients of the webhook bring: who, what, since when, under which lease, and what of it is not heeded; and taking it out.

import { request, why } from "./ask.js";
import { button, byId, counted, h, moment, number, percent, redraw, span, standing, table, text } from "./dom.js";

export function contributions(post) {
  const body = byId("contributions-body");
  const said = byId("contributions-said");
  const dialog = byId("evict");
  const form = byId("evict-form");
  const countdowns = [];
  let leaving = null;

  setInterval(() => {
    for (const { element, at, words } of countdowns) text(element, at > Date.now() ? `${words} in ${span(at - Date.now())}` : `${words} now`);
  }, 1000);

  function ask(item) {
    leaving = item;
    text(byId("evict-what"), `${counted(item.endpoints, "endpoint")} of ${counted(item.names, "name")} that ${item.owner} brings over ${item.path}${item.set ? ` as set ${item.set}` : ""}.`);
    text(byId("evict-fault"), "");
    form.elements.reason.value = "";
    dialog.showModal();
    form.elements.reason.focus();
  }

  form.addEventListener("submit", async (event) => {
    // A press of Cancel closes the dialog by itself.
    if (event.submitter?.value === "cancel") return;
    event.preventDefault();
    const { owner, path, set } = leaving;
    const asked = new URLSearchParams({ owner, path, set, reason: form.elements.reason.value.trim() });
    const answer = await request("DELETE", `/v1/contributions?${asked}`);
    if (!answer.ok) {
      text(byId("evict-fault"), why(answer));
      return;
    }
    dialog.close();
    text(said, `${counted(answer.body.endpoints, "endpoint")} of ${owner} taken out. A writer that still runs brings them again.`);
    post({ kind: "written" });
  });

  const row = (item) => {
    const key = `${item.path} ${item.owner} ${item.set}`;
    return [
      h("span", { class: "break" }, item.owner, h("span", { class: "muted sub" }, item.set ? `set ${item.set}` : "no set identifier")),
      h("code", {}, item.path),
      number(item.names),
      number(item.endpoints),
      moment(item.since),
      lease(item, countdowns),
      conditions(item, key),
      button("Evict…", () => ask(item), { "data-key": `evict ${key}`, "aria-label": `Evict what ${item.owner} brings${item.set ? ` as ${item.set}` : ""}` }),
    ];
  };

  return {
    take({ body: told, why: refused }) {
      countdowns.length = 0;
      if (!told) {
        redraw(body, h("p", { class: "problem" }, refused));
        return;
      }
      const { items } = told;
      text(byId("contributions-count"), items.length === 0 ? "" : counted(items.length, "contribution"));
      if (items.length === 0) {
        redraw(body, h("p", { class: "muted" }, "None: no client of the webhook has brought anything."));
        return;
      }
      const heads = ["Owner", "Path", "Names", "Endpoints", "Since", "Lease", "Conditions", ""];
      redraw(
        body,
        table("What is brought over the webhook", heads, items.slice(0, SHOWN).map(row), { class: "stack", id: "contributions-table" }),
        items.length > SHOWN ? h("p", { class: "muted" }, `and ${number(items.length - SHOWN)} more: fairway contributions lists all`) : null,
      );
    },
  };
}

/** How long it is good: as long as its writer is heard of, or for ever. */
function lease({ lastSeen, leaseWeight, fadesAt, goneAt }, countdowns) {
  const seen = lastSeen ? h("span", { class: "muted sub" }, "heard of ", moment(lastSeen)) : null;
  if (!fadesAt) return h("span", {}, "none", seen);
  const left = h("span", { class: "sub countdown" });
  const fades = leaseWeight >= 1;
  const at = Date.parse(fades ? fadesAt : goneAt ?? fadesAt);
  countdowns.push({ element: left, at, words: fades ? "fades" : "gone" });
  text(left, at > Date.now() ? `${fades ? "fades" : "gone"} in ${span(at - Date.now())}` : "");
  return h("span", {}, standing(leaseWeight >= 1 ? "up" : leaseWeight > 0 ? "partly" : "down", leaseWeight >= 1 ? "full weight" : `${percent(100 * leaseWeight)} of its weight`), left, seen);
}

function conditions({ warnings: all }, key) {
  if (all.length === 0) return standing("up", "heeded");
  const said = all.map(({ name, message }) => h("li", {}, h("b", {}, name), ` ${message}`));
  const words = h("summary", { "data-key": `conditions of ${key}` }, standing("partly", counted(all.length, "condition")));
  return h("details", { "data-key": key }, words, h("ul", { class: "warnings" }, said));
}

/** Contributions that are shown at once. */
const SHOWN = 200;
