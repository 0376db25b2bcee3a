// Forcing clusters from the page: an override with a reason and an end, and taking one away.

import { request, why } from "./ask.js";
import { byId, text } from "./dom.js";

export function override(post) {
  const form = byId("override-form");
  const said = byId("override-said");

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { scope, force, minutes, reason } = form.elements;
    const body = { scope: scope.value.trim(), action: force.value, reason: reason.value.trim(), forSecs: 60 * Number(minutes.value) };
    const answer = await add(body);
    if (answer === null) return;
    said.dataset.level = answer.ok ? "fine" : "bad";
    text(said, answer.ok ? `${body.scope}: ${body.action} is in force.` : why(answer));
    if (!answer.ok) return;
    form.reset();
    post({ kind: "written" });
  });

  return {
    /** Takes one away by its id. */
    async remove(id, scope) {
      const answer = await request("DELETE", `/v1/overrides/${encodeURIComponent(id)}`);
      said.dataset.level = answer.ok ? "fine" : "bad";
      text(said, answer.ok ? `${scope}: what probes say counts again.` : why(answer));
      if (answer.ok) post({ kind: "written" });
    },
  };
}

/** Adds an override; asks first if names would be left without a healthy member. Null: the answer was no. */
async function add(body) {
  const would = await request("POST", "/v1/overrides?dryRun=true", { body });
  const { namesWithoutHealthyMember: count = 0, firstNames = [] } = would.body.effect ?? {};
  if (!would.ok) return would;
  const more = count > firstNames.length ? ", …" : "";
  if (count > 0 && !confirm(`Names without a healthy member: ${count} (${firstNames.join(", ")}${more}). Add the override?`)) return null;
  return request("POST", `/v1/overrides?confirm=${count > 0}`, { body });
}
