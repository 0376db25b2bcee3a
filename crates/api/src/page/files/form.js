// The editor's form: a field for each value, members in rows, and the whole body as JSON. What is typed goes into the draft; faults
// stand at the field that they are about. What is asked of the server is not here.

import { button, byId, h, text } from "./dom.js";
import { MEMBERS, fieldsOf, get, listsMembers, namesOf, set, shown, turned, typed } from "./fields.js";

/** What a key begins with where nothing else is typed. */
const USUAL = { version: "v1", group: "default", trafficGroup: "default" };

export class Form {
  /** `changed` is called when the draft is another one. */
  constructor(form, changed) {
    Object.assign(this, { form, changed, controls: new Map(), names: new Map() });
    this.where = byId("editor-where");
    this.what = byId("editor-fields");
    this.rows = byId("editor-members");
    this.json = byId("editor-json");
    this.general = byId("editor-faults");
    this.json.addEventListener("input", () => this.readJson());
    byId("editor-add").addEventListener("click", () => this.add());
  }

  /** Shows an intent: `{ kind, names, draft, fixed }`, of which `draft` is changed as one types. */
  show(now) {
    this.now = now;
    this.controls.clear();
    this.names.clear();
    this.where.hidden = Boolean(now.fixed);
    if (!now.fixed) this.askWhere();
    this.showFields();
    this.faults([]);
  }

  focus() {
    (this.where.hidden ? this.what : this.where).querySelector("input, select")?.focus();
  }

  /** The key that is typed. */
  key() {
    return this.now.fixed ?? [this.now.kind, ...[...this.names.values()].map(({ input }) => encodeURIComponent(input.value.trim()))].join("/");
  }

  /** What is missing before it can be tried; null where nothing is. */
  missing() {
    const empty = [...this.names.values()].filter(({ input }) => input.value.trim() === "");
    for (const { input, fault } of this.names.values()) mark(input, fault, input.value.trim() === "" && input.dataset.typed ? "Needed." : "");
    if (!this.sound) return "The text below is no JSON.";
    return empty.length === 0 ? null : `Still needed: ${empty.map(({ words }) => words).join(", ")}.`;
  }

  lock(isLocked) {
    for (const set of this.form.querySelectorAll("fieldset")) set.disabled = isLocked;
    this.json.readOnly = isLocked;
  }

  /** Shows each fault at its field, and those of no field together. */
  faults(all) {
    const rest = [];
    const at = new Map([...this.controls.keys()].map((pointer) => [pointer, []]));
    for (const fault of all) {
      const fits = (pointer) => fault.pointer === pointer || fault.pointer.startsWith(`${pointer}/`);
      const place = [...at.keys()].filter(fits).sort((a, b) => b.length - a.length)[0];
      if (place) at.get(place).push(fault.detail);
      else rest.push(`${fault.pointer} ${fault.detail}`.trim());
    }
    for (const [pointer, words] of at) {
      const { input, fault } = this.controls.get(pointer);
      mark(input, fault, words.join("; "));
    }
    this.general.replaceChildren(...rest.map((words) => h("li", {}, words)));
  }

  askWhere() {
    const kinds = [["inbound", "A service that is exposed"], ["compound", "Several services under one name"], ["compound-inbound", "A service below a compound"], ["outbound", "A service that is used"]];
    const kind = h("select", { id: "editor-kind", name: "kind" }, kinds.map(([value, words]) => h("option", { value, selected: value === this.now.kind }, words)));
    kind.addEventListener("change", () => {
      this.now.draft = turned(this.now.draft, this.now.kind, kind.value);
      this.now.kind = kind.value;
      const typedNames = new Map([...this.names].map(([name, { input }]) => [name, input.value]));
      this.show(this.now);
      for (const [name, value] of typedNames) if (this.names.has(name)) this.names.get(name).input.value = value;
      byId("editor-kind").focus();
      this.changed();
    });
    const names = namesOf(this.now.kind).map(([name, words]) => {
      const input = h("input", { id: `editor-at-${name}`, name: `at-${name}`, maxlength: "128", value: USUAL[name] ?? "", ...PLAIN, required: true });
      const fault = h("p", { class: "fault", id: `${input.id}-fault` });
      input.addEventListener("input", () => {
        input.dataset.typed = "yes";
        if (name === "name") this.typed("/metadata/name", input.value.trim());
        this.changed();
      });
      this.names.set(name, { input, fault, words });
      if (name === "name") this.controls.set("/metadata/name", { input, fault });
      return labelled(input, words, "", fault);
    });
    this.where.replaceChildren(h("legend", {}, "Where it belongs"), labelled(kind, "Kind", "", null), ...names);
  }

  /** Shows the draft in all fields. */
  showFields() {
    for (const pointer of [...this.controls.keys()]) if (pointer !== "/metadata/name") this.controls.delete(pointer);
    const { kind, draft } = this.now;
    const all = fieldsOf(kind).map((field) => {
      const id = `editor${field.at.replaceAll("/", "-")}`;
      const value = get(draft, field.at);
      const input = control(field, id, value);
      const fault = h("p", { class: "fault", id: `${id}-fault` });
      this.controls.set(field.at, { input, fault });
      input.addEventListener(field.type === "flag" || field.type === "choice" ? "change" : "input", () => {
        this.typed(field.at, field.type === "flag" ? input.checked : typed(field, input.value));
        this.changed();
      });
      return labelled(input, field.words, field.hint, fault, field.type === "flag");
    });
    this.what.replaceChildren(h("legend", {}, "What it says"), ...all);
    byId("editor-steering").hidden = !listsMembers(kind);
    this.showMembers();
    this.showJson();
  }

  showMembers() {
    for (const pointer of [...this.controls.keys()]) if (pointer.startsWith(MEMBERS)) this.controls.delete(pointer);
    if (!listsMembers(this.now.kind)) return;
    const fault = byId("editor-members-fault");
    this.controls.set(MEMBERS, { input: null, fault });
    const members = get(this.now.draft, MEMBERS) ?? [];
    this.rows.replaceChildren(...members.map((member, at) => this.member(member, at)));
    byId("editor-no-members").hidden = members.length > 0;
  }

  member(member, at) {
    const cell = (key, words, type) => {
      const id = `editor-member-${at}-${key}`;
      const field = { at: `${MEMBERS}/${at}/${key}`, type };
      const input = control({ ...field, list: key === "cluster" ? "cluster-names" : null }, id, member[key]);
      const fault = h("p", { class: "fault", id: `${id}-fault` });
      this.controls.set(field.at, { input, fault });
      input.addEventListener("input", () => {
        const value = typed(field, input.value);
        if (value === undefined) delete member[key];
        else member[key] = value;
        this.showJson();
        this.changed();
      });
      return labelled(input, words, "", fault);
    };
    const out = () => {
      const members = get(this.now.draft, MEMBERS).filter((_, place) => place !== at);
      set(this.now.draft, MEMBERS, members.length > 0 ? members : undefined);
      this.showMembers();
      this.showJson();
      this.changed();
      byId("editor-add").focus();
    };
    return h("li", { class: "member" }, cell("cluster", `Cluster ${at + 1}`), cell("weight", "Weight", "number"), cell("tier", "Tier", "number"), button("Remove", out, { "aria-label": `Remove member ${at + 1}` }));
  }

  add() {
    const members = [...(get(this.now.draft, MEMBERS) ?? []), { cluster: "", weight: 1, tier: 1 }];
    set(this.now.draft, MEMBERS, members);
    this.showMembers();
    this.showJson();
    byId(`editor-member-${members.length - 1}-cluster`).focus();
    this.changed();
  }

  typed(pointer, value) {
    set(this.now.draft, pointer, value);
    this.showJson();
  }

  showJson() {
    this.sound = true;
    mark(this.json, byId("editor-json-fault"), "");
    this.json.value = JSON.stringify(this.now.draft, null, 2);
  }

  /** What is typed as JSON is the draft, once it is JSON. */
  readJson() {
    const fault = byId("editor-json-fault");
    try {
      const draft = JSON.parse(this.json.value);
      if (draft === null || typeof draft !== "object" || Array.isArray(draft)) throw new Error("an intent is an object in braces");
      this.now.draft = draft;
      const own = this.json.value;
      this.showFields();
      this.json.value = own;
    } catch (error) {
      this.sound = false;
      mark(this.json, fault, error.message);
    }
    this.changed();
  }
}

/** A control that shows a value. */
function control(field, id, value) {
  if (field.type === "flag") return h("input", { type: "checkbox", id, checked: value === true });
  if (field.type === "choice") return h("select", { id }, field.choices.map((word) => h("option", { value: word, selected: word === (value ?? "") }, word === "" ? "–" : word)));
  return h("input", { id, value: shown(field, value), maxlength: "1024", list: field.list, inputmode: field.type === "number" ? "numeric" : null, ...PLAIN });
}

/** A control with its name, a hint, and room for what is wrong. */
function labelled(input, words, hint, fault, isFlag = false) {
  const about = hint ? h("span", { class: "muted hint-of", id: `${input.id}-hint` }, hint) : null;
  const by = [about?.id, fault?.id].filter(Boolean).join(" ");
  if (by) input.setAttribute("aria-describedby", by);
  const name = h("label", { for: input.id }, words);
  return h("div", { class: isFlag ? "field flag" : "field" }, isFlag ? [input, name] : [name, input], about, fault);
}

function mark(input, fault, words) {
  text(fault, words);
  if (words) input?.setAttribute("aria-invalid", "true");
  else input?.removeAttribute("aria-invalid");
}

const PLAIN = { autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
