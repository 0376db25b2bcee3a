// The explain box: one question played against what is served now, and every step that led to its answer.

import { byId, h, standing, table, text } from "./dom.js";
import { fact } from "./services.js";
import { withToken } from "./token.js";

const NODES = {
  static: "a static name of the zone's file",
  steered: "a steered name",
  emptyNonTerminal: "a name that only has names below it",
  wildcard: "stands for a wildcard",
  delegation: "delegated",
  dname: "below a DNAME",
  nothing: "no such name",
  outside: "outside of all zones",
};

export function explain() {
  const form = byId("explain-form");
  const result = byId("explain-result");
  let latest = 0;
  const ask = async () => {
    const turn = ++latest;
    const asked = new URLSearchParams();
    for (const key of ["name", "type", "client"]) {
      const value = form.elements[key].value.trim();
      if (value) asked.set(key, value);
    }
    result.setAttribute("aria-busy", "true");
    const shown = await answer(`/v1/explain?${asked}`);
    // A slower answer to an older question is not shown over a newer one.
    if (turn !== latest) return;
    result.removeAttribute("aria-busy");
    result.replaceChildren(...shown);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  return {
    /** Asks for a name, as if typed. */
    of(name) {
      form.elements.name.value = name;
      byId("explain").scrollIntoView();
      form.elements.name.focus();
      ask();
    },
  };
}

async function answer(path) {
  try {
    const response = await fetch(path, withToken({ signal: AbortSignal.timeout(20_000) }));
    const body = await response.json();
    if (response.ok) return explained(body, path);
    return [h("p", { class: "problem" }, body.detail ?? `status ${response.status}`)];
  } catch {
    return [h("p", { class: "problem" }, "The server does not answer; ask again when it does.")];
  }
}

function explained(body, path) {
  const { name, type, client, rcode, authoritative, answer: records, steps, ttlReason, scope } = body;
  const lines = records.map((record) => h("li", {}, h("code", {}, `${record.name} ${record.ttl} ${record.type} ${record.data}`)));
  const verdict = records.length > 0 ? "up" : rcode === "NOERROR" ? "pending" : "down";
  return [
    h(
      "div",
      { class: "verdict" },
      h("h3", {}, `${name} ${type} for ${client ? `client ${client}` : "a client that says nothing of itself"}`),
      h("p", {}, standing(verdict, rcode), h("span", { class: "muted" }, authoritative ? " authoritative" : " not authoritative")),
      records.length > 0 ? h("ul", { class: "plain records" }, lines) : h("p", {}, "The answer section is empty."),
    ),
    h("ol", { class: "chain" }, steps.map(step)),
    h(
      "dl",
      { class: "facts" },
      ttlReason ? fact("TTL", ttlReason) : null,
      scope === null ? null : fact("ECS scope", `/${scope}`),
      fact("Snapshot", h("code", {}, body.snapshot)),
      fact("Runtime state", h("code", {}, body.runtimeState)),
    ),
    h("p", {}, h("a", { href: path }, "The same as JSON, with every term of the formulas")),
  ];
}

function step({ name, zone, node, through, pool }) {
  const where = [NODES[node] ?? node, through ? `through ${through}` : null, zone ? `in zone ${zone}` : null].filter(Boolean).join(", ");
  return h("li", {}, h("p", {}, h("b", {}, name), ` ${where}`), pool ? poolChoice(pool) : null);
}

/** A pool's choice, filter by filter, and how every member came out of it. */
function poolChoice(pool) {
  const { members, groups, location } = pool;
  const rows = members.map((member) => [
    member.cluster,
    standing(member.in ? "up" : "out", member.in ? "in" : "out"),
    member.reason,
    `${member.weight}`,
    `${member.tier}`,
    h("ul", { class: "plain" }, member.addresses.map((a) => h("li", {}, h("code", {}, a.address), ` ${a.eligibility}${a.cause ? `: ${a.cause}` : ""}`))),
  ]);
  return h(
    "div",
    { class: "choice" },
    h("p", {}, h("span", { class: "muted" }, "Pool "), h("b", {}, pool.name), h("span", { class: "muted" }, ` ${pool.policy}`)),
    h("ol", { class: "filters-chain" }, pool.policySteps.map((words) => h("li", {}, words))),
    h(
      "dl",
      { class: "facts" },
      fact("Rests on", pool.basisText),
      fact("Depends on", pool.dependsOn === "everyone" ? "nothing of the client: everyone gets the same" : pool.dependsOn),
      pool.locationSource ? fact("Location from", pool.locationSource) : null,
      location.classes > 1 ? fact("Location class", `${location.class + 1} of ${location.classes}`) : null,
      groups.length > 1 ? fact("Order", groups.map((group) => group.join(", ")).join("; then ")) : null,
      pool.assignmentText ? fact("Load", pool.assignmentText) : null,
      fact("Scope", location.scopeReason),
    ),
    table(`Members of pool ${pool.name} in this answer`, ["Cluster", "Answer", "Why", "Weight", "Tier", "Addresses"], rows, { class: "stack members" }),
  );
}
