// Where records are published to: how each provider stands, what is not there yet and why, and what a sync would change.

import { request, why } from "./ask.js";
import { button, byId, counted, h, moment, number, redraw, span, standing, table, text } from "./dom.js";
import { fact } from "./services.js";

const STANDING = { ok: "up", standby: "up", behind: "partly", failing: "down", starting: "pending" };
const CONDITION = { published: "up", waiting: "pending", leaving: "closed", refused: "down" };

export function publishing(post) {
  const body = byId("publishing-body");
  const filter = byId("records-filter");
  const times = [];
  const plans = new Map();
  let last = null;
  let pause;

  filter.form.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(() => post({ kind: "records", filter: filter.value.trim().toLowerCase() }), 120);
  });
  setInterval(tick, 1000);

  function tick() {
    for (const { element, at, ahead, behind } of times) text(element, at > Date.now() ? `${ahead} ${span(at - Date.now())}` : `${behind(Date.now() - at)}`);
  }

  async function plan(name) {
    plans.set(name, h("p", { class: "muted" }, "It is asked what is there …"));
    draw();
    const answer = await request("GET", `/v1/publishing/${encodeURIComponent(name)}/plan`);
    plans.set(name, answer.ok ? planned(answer.body) : h("p", { class: "problem" }, why(answer)));
    draw();
    body.querySelector(`[data-plan="${CSS.escape(name)}"]`)?.focus();
  }

  function hide(name) {
    plans.delete(name);
    draw();
  }

  function draw() {
    if (last === null) return;
    times.length = 0;
    const { body: told, why: refused, filter: wanted } = last;
    if (!told) {
      redraw(body, h("p", { class: "problem" }, refused));
      return;
    }
    const { providers } = told;
    text(byId("publishing-count"), providers.length === 0 ? "" : counted(providers.length, "provider"));
    filter.form.hidden = providers.length === 0;
    if (providers.length === 0) {
      redraw(body, h("p", { class: "muted" }, "None: the section publish of the configuration says where to, or a declared dns-update-record."));
      return;
    }
    redraw(body, providers.map((provider) => article(provider, wanted)));
    tick();
  }

  function clock(said, ahead, behind) {
    if (!said) return "not yet";
    const element = h("span", { class: "countdown" });
    times.push({ element, at: Date.parse(said), ahead, behind });
    return h("span", {}, element, h("span", { class: "muted" }, " (", moment(said), ")"));
  }

  function article(provider, wanted) {
    const { name, zones, auto, status: word, behindSince, syncedAt, succeededAt, nextSyncAt, standby, error, failures, owned, foreign, changed, drifted } = provider;
    const ago = (millis) => `${span(millis)} ago`;
    const shownPlan = plans.get(name);
    return h(
      "article",
      { class: "provider", "data-provider": name },
      h("h3", {}, name, " ", standing(STANDING[word] ?? "unknown", word)),
      standby ? h("p", { class: "muted" }, standby) : null,
      error ? h("p", { class: "problem", "data-part": "error" }, error) : null,
      h(
        "dl",
        { class: "facts" },
        fact("Zones", zones.join(", ")),
        fact("Changes are", auto ? "carried out as they come" : "carried out when an operator says so"),
        fact("Lag", behindSince ? clock(behindSince, "from in", (millis) => `behind for ${span(millis)}`) : "none"),
        fact("Last sync", clock(syncedAt, "in", ago)),
        fact("Last good one", clock(succeededAt, "in", ago)),
        fact("Next sync", clock(nextSyncAt, "in", () => "due")),
        fact("Failures in a row", number(failures)),
        fact("Record sets there", `${number(owned)} of ours, ${number(foreign)} of others`),
        fact("Changed since the start", number(changed)),
        fact("Drift found", h("span", { "data-part": "drifted" }, number(drifted))),
      ),
      records(provider, wanted),
      h(
        "p",
        { class: "buttons" },
        button(shownPlan ? "Plan again" : "What would a sync change?", () => plan(name), { "data-key": `plan ${name}`, "aria-label": `What would a sync of ${name} change?` }),
        shownPlan ? button("Hide the plan", () => hide(name), { "data-key": `hide ${name}` }) : null,
      ),
      shownPlan ? h("div", { "data-plan": name, tabindex: "-1", role: "region", "aria-label": `Plan of ${name}` }, shownPlan) : null,
    );
  }

  return {
    take(said) {
      last = said;
      draw();
    },
  };
}

/** How it stands with each record set: those that are not there, or those that were looked for. */
function records({ name, counts, records: some, found, inAll }, wanted) {
  const words = Object.entries(counts).map(([condition, count]) => `${number(count)} ${condition}`);
  const row = (record) => [h("span", { class: "break" }, record.name), record.type ?? "", standing(CONDITION[record.status] ?? "unknown", record.status), record.reason ?? ""];
  return [
    h("p", { class: "muted", "data-part": "counts" }, inAll === 0 ? "No record set is wanted there." : `${counted(inAll, "record set")}: ${words.join(", ")}`),
    wanted && found === 0 ? h("p", {}, `None is called like ${wanted}.`) : null,
    some.length > 0 ? table(`Record sets of ${name}`, ["Name", "Type", "Is", "Why"], some.map(row), { class: "stack" }) : null,
    found > some.length ? h("p", { class: "muted" }, `and ${number(found - some.length)} more: look for one by its name`) : null,
  ];
}

/** What a sync would do, a line a change. */
function planned(plan) {
  const { create, update, delete: gone, kept, foreign, registry, refused, deletionsRefused } = plan;
  const set = ({ name, type, ttl, records: data }) => `${name} ${ttl} ${type} ${data.join(", ")}`;
  const line = (sign, kind, words) => h("li", { class: "change", "data-change": kind }, h("b", { "aria-hidden": "true" }, sign), h("span", { class: "hidden" }, `${kind} `), h("code", {}, words));
  const lines = [
    ...create.map((of) => line("+", "create", set(of))),
    ...update.flatMap(({ from, to }) => [line("−", "from", set(from)), line("+", "to", set(to))]),
    ...gone.map((of) => line("−", "delete", set(of))),
  ];
  const faults = refused.map(({ name, type, reason }) => h("li", {}, h("b", {}, `${name} ${type}`), ` ${reason}`));
  return h(
    "div",
    { class: "plan" },
    h("p", {}, lines.length === 0 ? "Nothing: all is there as it is wanted." : `${counted(create.length, "set")} created, ${number(update.length)} changed, ${number(gone.length)} deleted; ${number(registry)} of the registry.`),
    h("ul", { class: "plain changes" }, lines.slice(0, LINES)),
    lines.length > LINES ? h("p", { class: "muted" }, `and ${counted(lines.length - LINES, "more line", "more lines")}`) : null,
    deletionsRefused ? h("p", { class: "problem" }, deletionsRefused) : null,
    faults.length > 0 ? h("ul", { class: "faults" }, faults.slice(0, LINES)) : null,
    h("p", { class: "muted" }, `${number(kept)} of ours stay as they are; ${number(foreign)} of others are not touched.`),
  );
}

/** Lines of a plan that are shown. */
const LINES = 200;
