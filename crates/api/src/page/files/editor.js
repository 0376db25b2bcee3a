// The editor of one intent: typed values go into a draft, the server tries it as one types, and says what is wrong where, or what
// would come of it. Nothing is written before Save, and nothing over what somebody else wrote meanwhile.

import { request, why } from "./ask.js";
import { byId, button, counted, h, moment, text } from "./dom.js";
import { bare, differences, rebased, turned } from "./fields.js";
import { Form } from "./form.js";

/** `wrote(words)` is told of each change that was made. */
export function editor(wrote) {
  const dialog = byId("editor");
  const form = byId("editor-form");
  const said = byId("editor-said");
  const outcome = byId("editor-outcome");
  const conflict = byId("editor-conflict");
  const buttons = { save: byId("editor-save"), remove: byId("editor-delete"), sure: byId("editor-sure") };
  const fields = new Form(form, () => changed());
  let now = null;
  let pause;

  const isDirty = () => now !== null && differences(now.base, now.draft).length > 0;
  const path = () => `/v1/intents/${now.key()}`;
  const expects = () => (now.tag ? { "If-Match": now.tag } : { "If-None-Match": "*" });

  function begin(next) {
    now = { busy: false, again: false, warned: false, base: {}, tag: null, ...next };
    text(byId("editor-title"), now.tag ? `Intent ${now.names.at(-1)}` : "New intent");
    text(byId("editor-key"), now.tag ? now.fixed : "");
    buttons.remove.hidden = !now.tag;
    form.elements.reason.value = "";
    conflict.replaceChildren();
    outcome.replaceChildren();
    lock(null);
    sure(false);
    fields.show(now);
    if (!dialog.open) dialog.showModal();
    fields.focus();
    check();
  }

  function create() {
    begin({ kind: "inbound", draft: turned({ metadata: { name: "" } }, null, "inbound"), key: () => fields.key(), names: [] });
  }

  async function open(key) {
    const answer = await request("GET", `/v1/intents/${key}`);
    if (!answer.ok) {
      wrote(why(answer));
      return;
    }
    const [kind, ...names] = key.split("/");
    const base = bare(answer.body);
    begin({ kind, names, fixed: key, key: () => key, base, tag: answer.tag, draft: structuredClone(base) });
  }

  /** What is typed is tried after a moment without typing. Until then the last answer is about another draft. */
  function changed() {
    now.warned = false;
    text(said, "It is tried …");
    sure(false);
    clearTimeout(pause);
    pause = setTimeout(check, TYPING);
  }

  /** Has the server try the draft: what is wrong with it, or what would come of it. One at a time, the last draft at the end. */
  async function check() {
    const own = now;
    const missing = fields.missing();
    if (missing !== null) {
      settle("bad", missing);
      return;
    }
    if (own.busy) {
      own.again = true;
      return;
    }
    own.busy = true;
    own.again = false;
    text(said, "It is tried …");
    const answer = await request("PUT", `${path()}?dryRun=true`, { body: own.draft, headers: expects() });
    own.busy = false;
    if (now !== own) return;
    if (own.again) {
      check();
      return;
    }
    told(answer);
  }

  function told(answer) {
    sure(false);
    fields.faults(answer.ok ? [] : (answer.body.errors ?? []));
    if (answer.ok) {
      const changes = differences(now.base, now.draft);
      conflict.replaceChildren();
      outcome.replaceChildren(...effects(answer.body, changes));
      const left = answer.body.rejected.length > 0;
      settle(left ? "doubt" : "fine", changes.length === 0 ? "Nothing is changed yet." : left ? "It would be kept, and not heeded as it stands." : `It fits: ${counted(changes.length, "value")} would change.`, changes.length > 0);
    } else if (answer.status === 401 || answer.status === 403) lock(why(answer));
    else if (answer.status === 412) clash();
    else {
      outcome.replaceChildren();
      const faults = answer.body.errors?.length ?? 0;
      settle("bad", faults > 0 ? `${counted(faults, "fault")}: ${answer.body.errors.map(({ detail }) => detail).join("; ")}` : why(answer));
    }
  }

  function settle(level, words, isSavable = false) {
    said.dataset.level = level;
    text(said, words);
    buttons.save.disabled = !isSavable;
  }

  /** Shows only, and says why; or not any more. */
  function lock(words) {
    fields.lock(words !== null);
    buttons.save.hidden = words !== null;
    buttons.remove.hidden = words !== null || !now.tag;
    if (words !== null) settle("doubt", `Read only: ${words}`);
  }

  /** Somebody else has written: what they did, and the ways on. */
  async function clash() {
    settle("bad", now.tag ? "Somebody else has changed it meanwhile." : "It is there already.");
    if (!now.tag) {
      conflict.replaceChildren(h("p", {}, "An intent of this name is there. "), button("Open that one", () => open(fields.key())));
      return;
    }
    const own = now;
    const [theirs, listed] = await Promise.all([request("GET", path()), request("GET", `/v1/intents?limit=10&contains=${encodeURIComponent(own.fixed)}`)]);
    if (now !== own) return;
    if (theirs.status === 404) {
      conflict.replaceChildren(
        h("p", {}, "It was deleted meanwhile. "),
        button("Make it anew from what is here", () => begin({ ...own, base: {}, tag: null, busy: false, key: () => own.fixed })),
        button("Leave it deleted", () => dialog.close()),
      );
      return;
    }
    if (!theirs.ok) {
      settle("bad", why(theirs));
      return;
    }
    const base = bare(theirs.body);
    const item = listed.body.items?.find(({ key }) => key === own.fixed);
    const by = item ? h("p", {}, h("b", {}, item.metadata.changedBy || "Somebody"), " changed it at ", moment(item.metadata.changed), item.metadata.reason ? `: ${item.metadata.reason}` : "") : null;
    const go = (draft) => begin({ ...own, base, tag: theirs.tag, busy: false, draft });
    conflict.replaceChildren(
      ...[by, difference("What the other one changed", differences(own.base, base))].filter(Boolean),
      h("p", { class: "buttons" }, button("Take theirs, drop mine", () => go(structuredClone(base))), button("Put my changes on top of theirs", () => go(rebased(own.base, own.draft, base)))),
    );
  }

  /** Writes. What is listed may tell of that before the answer does: nobody else has changed it then, and nothing is to be tried. */
  async function written(own, ...asked) {
    own.busy = true;
    const answer = await request(...asked);
    own.busy = false;
    return answer;
  }

  async function save() {
    const own = now;
    buttons.save.disabled = true;
    const query = new URLSearchParams({ reason: form.elements.reason.value.trim() });
    const answer = await written(own, "PUT", `${path()}?${query}`, { body: own.draft, headers: expects() });
    if (now !== own) return;
    if (!answer.ok) {
      told(answer);
      if (own.again) check();
      return;
    }
    const key = own.key();
    own.base = own.draft;
    dialog.close();
    wrote(`Saved ${key}.`);
  }

  /** Whether the next press deletes: then what would come of it is in view. */
  function sure(isSure) {
    buttons.sure.hidden = !isSure;
    buttons.remove.setAttribute("aria-expanded", String(isSure));
  }

  async function wouldRemove() {
    const own = now;
    clearTimeout(pause);
    const answer = await request("DELETE", `${path()}?dryRun=true`, { headers: expects() });
    // Closed meanwhile: what is open now is another one.
    if (now !== own) return;
    if (!answer.ok) {
      told(answer);
      return;
    }
    outcome.replaceChildren(h("h3", {}, "What would come of deleting it"), ...effects(answer.body, []));
    settle("doubt", "Press Delete for good to delete it.");
    sure(true);
    buttons.sure.focus();
  }

  async function remove() {
    const own = now;
    const query = new URLSearchParams({ reason: form.elements.reason.value.trim() });
    const answer = await written(own, "DELETE", `${path()}?${query}`, { headers: expects() });
    if (now !== own) return;
    if (!answer.ok) {
      told(answer);
      return;
    }
    own.base = own.draft;
    dialog.close();
    wrote(`Deleted ${own.fixed}.`);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!buttons.save.disabled && !buttons.save.hidden) save();
  });
  buttons.remove.addEventListener("click", wouldRemove);
  buttons.sure.addEventListener("click", remove);
  const leave = (event) => {
    if (!isDirty() || now.warned || buttons.save.hidden) {
      dialog.close();
      return;
    }
    event.preventDefault();
    now.warned = true;
    settle("doubt", "Not saved: close once more to drop what was changed.", !buttons.save.disabled);
  };
  byId("editor-close").addEventListener("click", leave);
  dialog.addEventListener("cancel", leave);
  dialog.addEventListener("close", () => {
    clearTimeout(pause);
    const opener = now?.fixed && document.querySelector(`[data-key="${CSS.escape(`open ${now.fixed}`)}"]`);
    (opener || byId("intents-new")).focus();
    now = null;
  });

  return {
    create,
    open,
    /** Of what is listed now: whether the one that is open was changed by somebody else. One that is not listed may be gone: it is tried. */
    seen(items) {
      if (!now?.tag || now.busy || conflict.childElementCount > 0) return;
      const item = items.find(({ key }) => key === now.fixed);
      if (!item) check();
      else if (item.metadata.revision > Number(now.tag.replaceAll('"', ""))) clash();
    },
  };
}

/** What would come of it: values of the body, objects, what is served, and what would not be heeded. */
function effects({ created, changed, deleted, effect, rejected }, changes) {
  const objects = [...created.map((of) => `${of} is made`), ...changed.map((of) => `${of} is changed`), ...deleted.map((of) => `${of} is deleted`)];
  const list = (words, lines, kind) => (lines.length === 0 ? [] : [h("h4", {}, words), h("ul", { class: kind }, lines.slice(0, LINES).map((line) => h("li", {}, line)))]);
  return [
    changes.length > 0 ? difference("What you changed", changes) : null,
    ...list("Plan", objects, "plan-objects"),
    h("h4", {}, "In the answers"),
    effect.length === 0 ? h("p", { "data-part": "effect" }, "Nothing changes.") : h("ul", { "data-part": "effect" }, effect.slice(0, LINES).map((line) => h("li", {}, line))),
    ...list("Would not be heeded", rejected, "warnings"),
  ].filter(Boolean);
}

/** Values as they were and as they are, a line each. */
function difference(words, changes) {
  const line = ([at, before, after]) => [
    before === undefined ? null : h("li", { class: "change", "data-change": "from" }, h("b", { "aria-hidden": "true" }, "−"), h("span", { class: "hidden" }, "was "), h("code", {}, `${at} ${JSON.stringify(before)}`)),
    after === undefined ? null : h("li", { class: "change", "data-change": "to" }, h("b", { "aria-hidden": "true" }, "+"), h("span", { class: "hidden" }, "is "), h("code", {}, `${at} ${JSON.stringify(after)}`)),
  ];
  return h("div", { class: "difference" }, h("h4", {}, words), h("ul", { class: "plain changes" }, changes.slice(0, LINES).map(line)));
}

/** Milliseconds without typing, after which it is tried. */
const TYPING = 350;
/** Lines of a list that are shown. */
const LINES = 100;
