// The page of the API: shows /openapi.json, and asks what only reads. Nothing is known here but the document.

import { byId, counted, h, table, text } from "./dom.js";
import { withToken } from "./token.js";

/** Schemas within schemas that are shown at once; deeper ones are only named. */
const DEPTH = 3;
/** Characters of an answer that are shown. */
const SAID_MAX = 100_000;

let api = null;
let operations = [];

async function start() {
  const response = await fetch("/openapi.json");
  api = await response.json();
  text(byId("version"), api.info.version);
  text(byId("about"), api.info.description);
  operations = Object.entries(api.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation, search: `${method} ${path} ${operation.summary}`.toLowerCase() })),
  );
  byId("filter").addEventListener("input", show);
  show();
}

function show() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = operations.filter(({ search }) => words.every((word) => search.includes(word)));
  text(byId("api-count"), wanted.length === operations.length ? counted(wanted.length, "operation") : `${wanted.length} of ${counted(operations.length, "operation")}`);
  const tags = [...new Set(wanted.map(({ operation }) => operation.tags[0]))];
  byId("operations").replaceChildren(
    ...tags.flatMap((tag) => [h("h3", { class: "tag" }, tag), ...wanted.filter(({ operation }) => operation.tags[0] === tag).map(summary)]),
  );
}

/** One operation; what is inside is made when it is opened. */
function summary({ path, method, operation }) {
  const inner = h("div", { class: "inner" });
  const details = h(
    "details",
    { class: "operation", id: operation.operationId },
    h("summary", {}, h("span", { class: "method", "data-method": method }, method.toUpperCase()), h("code", {}, path), h("span", { class: "what muted" }, operation.summary)),
    inner,
  );
  details.addEventListener("toggle", () => {
    if (details.open && inner.childElementCount === 0) inner.append(...inside(path, method, operation));
  });
  return details;
}

function inside(path, method, operation) {
  const parts = operation.description.split("\n\n").map((words) => h("p", {}, words));
  const { parameters } = operation;
  if (parameters.length > 0) {
    const row = ({ name, in: place, required, description, schema }) => [h("code", {}, name), `${place}${required ? ", needed" : ""}`, kind(schema), description];
    parts.push(h("h4", {}, "Parameters"), table("Parameters", ["Name", "In", "Form", "Meaning"], parameters.map(row), { class: "stack" }));
  }
  for (const [media, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
    parts.push(h("h4", {}, `Body, ${media}`), ...shape(schema, 0));
  }
  parts.push(h("h4", {}, "Answers"));
  for (const [status, answer] of Object.entries(operation.responses)) {
    const headers = Object.entries(answer.headers ?? {}).map(([name, { description }]) => h("p", { class: "muted" }, h("code", {}, name), ` ${description}`));
    const bodies = Object.entries(answer.content ?? {}).filter(([media]) => media !== "application/problem+json");
    parts.push(h("p", {}, h("b", {}, status), ` ${answer.description}`), ...headers, ...bodies.flatMap(([media, { schema }]) => [h("p", { class: "muted" }, media), ...(schema ? shape(schema, 0) : [])]));
  }
  if (method === "get") parts.push(...attempt(path, parameters));
  return parts;
}

/** What a schema is, in a few words. */
function kind(schema) {
  if (schema === true) return "anything";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items ?? true)}`;
  const type = [schema.type ?? "anything"].flat().join(" | ");
  const { minimum, maximum, maxLength, examples, format } = schema;
  const range = minimum !== undefined || maximum !== undefined ? ` ${minimum ?? ""}…${maximum ?? ""}` : "";
  const example = examples ? `, like ${JSON.stringify(examples[0])}` : "";
  return `${type}${range}${maxLength ? ` ≤ ${maxLength}` : ""}${format && !examples ? ` (${format})` : ""}${example}`;
}

/** The fields of a schema, as far down as is read at once. */
function shape(schema, depth) {
  const own = schema.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema;
  if (own === undefined || own === true) return [];
  const inner = own.type === "array" ? own.items : own;
  const forms = (own.anyOf ?? []).filter((form) => form.type !== "null");
  if (forms.length > 0 && !own.properties) return forms.flatMap((form) => [depth === 0 ? h("p", { class: "muted" }, kind(form)) : null, ...shape(form, depth)].filter(Boolean));
  if (inner !== own) return depth === 0 ? [h("p", { class: "muted" }, kind(own)), ...shape(inner ?? true, depth)] : shape(inner ?? true, depth);
  if (!own.properties) return depth === 0 ? [h("p", { class: "muted" }, kind(own))] : [];
  const field = ([name, of]) => {
    const needed = own.required?.includes(name) ? "" : "?";
    const words = of.description ? ` ${of.description}` : "";
    return h("li", {}, h("code", {}, `${name}${needed}`), " ", h("span", { class: "kind" }, kind(of)), words, ...(depth + 1 < DEPTH ? shape(of, depth + 1) : []));
  };
  return [h("ul", { class: "schema" }, Object.entries(own.properties).map(field))];
}

/** A form that asks, for what only reads. A stream is ended with its first part. */
function attempt(path, parameters) {
  const own = parameters.filter((parameter) => parameter.in !== "header");
  const inputs = own.map(({ name, in: place, required }) => {
    const id = `try-${path}-${name}`.replaceAll(/[^a-zA-Z0-9-]/g, "-");
    const input = h("input", { id, name, "data-in": place, required, maxlength: "1024", autocomplete: "off", spellcheck: "false" });
    return { input, element: h("p", {}, h("label", { for: id }, name), input) };
  });
  const said = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "try", "aria-label": `Ask ${path}` }, inputs.map(({ element }) => element), h("button", { type: "submit" }, "Ask"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let at = path;
    for (const { input } of inputs) {
      if (input.dataset.in === "path") at = at.replace(`{${input.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(input.name, input.value);
    }
    const asked = query.size > 0 ? `${at}?${query}` : at;
    said.setAttribute("aria-busy", "true");
    said.replaceChildren(...(await ask(asked)));
    said.removeAttribute("aria-busy");
  });
  return [h("h4", {}, "Try it"), form, said];
}

async function ask(asked) {
  try {
    const response = await fetch(asked, withToken({ cache: "no-store", signal: AbortSignal.timeout(30_000) }));
    const type = response.headers.get("content-type") ?? "";
    const body = type.startsWith("text/event-stream") ? await beginning(response) : await response.text();
    return [h("p", {}, h("b", {}, `${response.status}`), ` ${type}`), h("pre", { class: "said", tabindex: "0" }, type.includes("json") ? pretty(body) : body.slice(0, SAID_MAX))];
  } catch (error) {
    return [h("p", { class: "problem" }, error.name === "TimeoutError" ? "No answer in 30 s." : "The server cannot be reached.")];
  }
}

async function beginning(response) {
  const reader = response.body.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return `${new TextDecoder().decode(value)}…`;
}

function pretty(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2).slice(0, SAID_MAX);
  } catch {
    return body.slice(0, SAID_MAX);
  }
}

start().catch(() => byId("operations").replaceChildren(h("p", { class: "problem" }, "/openapi.json cannot be read; load this page again.")));
