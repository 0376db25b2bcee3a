// Intents: each with what has become of it, who answers for it with which weight and why, and the way into the editor.

import { byId, button, counted, h, moment, number, percent, redraw, standing, text } from "./dom.js";
import { editor } from "./editor.js";

/** How the state of an intent looks. */
const READY = { Served: ["up", "in the answers"], Pending: ["pending", "on its way"], NotExternal: ["unused", "not external"], Rejected: ["down", "rejected"], NoMemberUp: ["down", "no member up"] };

export function intents(post) {
  const body = byId("intents-body");
  const filter = byId("intents-filter");
  const said = byId("intents-said");
  // The keys after which the pages begin, from the first one to the one that is shown.
  let pages = [""];
  let wanted = "";
  let pause;

  function ask() {
    const query = new URLSearchParams({ limit: PAGE });
    if (wanted) query.set("contains", wanted);
    if (pages.at(-1)) query.set("after", pages.at(-1));
    post({ kind: "intents", query: `?${query}` });
  }

  function turn(to) {
    pages = to;
    ask();
  }

  const edits = editor((words) => {
    text(said, words);
    post({ kind: "written" });
  });
  byId("intents-new").addEventListener("click", () => edits.create());
  filter.form.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      wanted = filter.value.trim();
      turn([""]);
    }, 150);
  });
  ask();

  function row({ key, metadata, intent }) {
    const [kind, ...names] = key.split("/");
    const status = intent?.status ?? {};
    const { answered, members = [], conditions = [] } = status;
    return h(
      "li",
      { class: "intent", "data-intent": key },
      h(
        "div",
        { class: "intent-head" },
        h("h3", { class: "break" }, names.at(-1), h("span", { class: "muted sub" }, `${kind.replace("-", " ")} of ${names.slice(0, 3).join(" / ")}`)),
        state(conditions),
        button("Open", () => edits.open(key), { "data-key": `open ${key}`, "aria-label": `Open intent ${names.at(-1)}` }),
      ),
      h(
        "dl",
        { class: "facts" },
        h("div", {}, h("dt", {}, "Answered"), h("dd", { class: "break" }, answered ? [h("b", {}, answered.name), h("span", { class: "muted sub" }, `pool ${answered.pool} · TTL ${answered.ttl} s`)] : "nowhere")),
        h("div", {}, h("dt", {}, "Since"), h("dd", {}, answered ? moment(answered.since) : "–")),
        h("div", {}, h("dt", {}, "Changed"), h("dd", {}, moment(metadata.changed), h("span", { class: "muted sub" }, [metadata.changedBy, metadata.reason].filter(Boolean).join(": ")))),
      ),
      weights(members),
      h("ul", { class: "conditions plain" }, conditions.filter(isTold).map((of) => h("li", { "data-condition": of.type }, h("b", {}, `${of.type}: ${of.reason}`), of.message ? ` ${of.message}` : ""))),
    );
  }

  return {
    take({ body: told, why: refused }) {
      byId("intents-new").disabled = !told;
      if (!told) {
        redraw(body, h("p", { class: "problem" }, refused));
        return;
      }
      const { items, next } = told;
      // The last one of a page has gone: the page before has what there is.
      if (items.length === 0 && pages.length > 1) {
        turn(pages.slice(0, -1));
        return;
      }
      const before = (pages.length - 1) * PAGE;
      const isWhole = before === 0 && !next;
      text(byId("intents-count"), isWhole ? counted(items.length, "intent") : `${number(before + 1)} to ${number(before + items.length)}${next ? "" : ", the last"}`);
      redraw(
        body,
        items.length === 0 ? h("p", { class: "muted" }, wanted ? "None is called like that." : "None is declared: services come from the configuration, the API's objects and the webhook.") : h("ul", { class: "plain intents" }, items.map(row)),
        isWhole
          ? null
          : h(
              "nav",
              { class: "pager", "aria-label": "Pages of intents" },
              button("Previous", () => turn(pages.slice(0, -1)), { "data-key": "previous", disabled: before === 0 }),
              button("Next", () => turn([...pages, next]), { "data-key": "next", disabled: !next }),
            ),
      );
      edits.seen(items);
    },
  };
}

function state(conditions) {
  const ready = conditions.find(({ type }) => type === "Ready") ?? conditions.find(({ type }) => type === "Accepted");
  const [kind, words] = READY[ready?.reason] ?? [ready?.status === "True" ? "info" : "down", ready?.reason ?? "unknown"];
  return standing(kind, words);
}

/** What is not as one would wish. */
const isTold = ({ type, status, message }) => Boolean(message) || (type === "Conflict" ? status === "True" : status !== "True");

/** Who answers: weight, where it comes from, and the share of the tier. */
function weights(members) {
  if (members.length === 0) return null;
  const chip = ({ cluster, eligible, reason, weight, tier, share }) =>
    h(
      "li",
      { class: "weight", "data-standing": eligible ? "up" : "down", "data-cluster": cluster },
      h("b", { class: "break" }, cluster),
      h("span", {}, `weight ${weight.effective}`, tier > 1 ? `, tier ${tier}` : "", share === null ? "" : `, ${percent(share)}`),
      h("span", { class: "muted" }, `by ${weight.source}`),
      standing(eligible ? "up" : AWAY.includes(reason) ? reason : "down", reason),
    );
  return h("ul", { class: "plain weights", "aria-label": "Members with their effective weights" }, members.map(chip));
}

/** Reasons that are no fault. */
const AWAY = ["closed", "exhausted", "out", "pending"];
/** Intents of one page. */
const PAGE = 50;
