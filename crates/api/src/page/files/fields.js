// The fields of an intent that the editor has, and values by JSON pointers (RFC 6901). No elements here.

const INBOUND = ["inbound", "compound-inbound"];
const EXPOSED = [...INBOUND, "compound"];
const ALL = [...EXPOSED, "outbound"];

/** Every field: where it is in the body, what it is called, how it is typed, and of which kinds. */
export const FIELDS = [
  { at: "/spec/externalName", words: "External name", hint: "the name that clients ask for: shop.gslb.example", kinds: EXPOSED },
  { at: "/spec/externalSupport", words: "Answer this name to clients", type: "flag", kinds: INBOUND, initial: true },
  { at: "/spec/serviceName", words: "Service", hint: "where it is exposed, the clusters whose services have it are members", kinds: [...INBOUND, "outbound"] },
  { at: "/spec/app", words: "Application", kinds: [...INBOUND, "outbound"] },
  { at: "/spec/publicDomain", words: "Public domain", hint: "completes an external name that is a prefix", kinds: INBOUND },
  { at: "/spec/protocol", words: "Protocol", type: "choice", choices: ["", "HTTP", "HTTP2", "HTTPS", "GRPC", "TCP", "UDP"], kinds: INBOUND },
  { at: "/spec/port", words: "Port", type: "number", kinds: INBOUND },
  { at: "/spec/trafficWeight", words: "Share of the compound, 0 to 100", type: "number", kinds: ["compound-inbound"] },
  { at: "/spec/gslb/policy", other: "/spec/policy", words: "Policy", type: "words", hint: "weighted, failover, sticky; or several: tier, load, weighted", list: "policies", kinds: EXPOSED },
  { at: "/spec/gslb/ttl", other: "/spec/ttl", words: "TTL, seconds", type: "number", kinds: EXPOSED },
  { at: "/spec/gslb/probe/path", other: "/spec/probe/path", words: "Path of probes", hint: "/healthz", kinds: EXPOSED },
  { at: "/spec/gslb/probe/port", other: "/spec/probe/port", words: "Port of probes", type: "number", kinds: EXPOSED },
  { at: "/metadata/description", words: "Description", kinds: ALL },
];

/** Where members with their weights are. */
export const MEMBERS = "/spec/gslb/members";

/** Whether intents of a kind list members. */
export const listsMembers = (kind) => INBOUND.includes(kind);

/** Where a field is in a kind, null where it has none; a compound has its own in `spec` itself. */
const place = ({ at, other, kinds }, kind) => (kinds.includes(kind) ? (kind === "compound" && other) || at : null);

/** The fields of a kind. */
export const fieldsOf = (kind) => FIELDS.filter(({ kinds }) => kinds.includes(kind)).map((field) => ({ ...field, at: place(field, kind) }));

/** A draft of one kind as one of another, or a first one: what both have goes along, and what the other has not goes. */
export function turned(draft, from, to) {
  const result = structuredClone(draft);
  for (const field of FIELDS) {
    const [was, is] = [place(field, from), place(field, to)];
    if (was === is) continue;
    const value = was ? get(result, was) : field.initial;
    if (was) set(result, was, undefined);
    if (is) set(result, is, value);
  }
  if (!listsMembers(to)) set(result, MEMBERS, undefined);
  return result;
}

/** The names that a key of a kind has, from the outermost to its own. */
export const namesOf = (kind) => [
  ["project", "Project"],
  ["app", "Composite app"],
  ["version", "Version"],
  ["group", "Deployment intent group"],
  ["trafficGroup", "Traffic group"],
  ...(kind === "compound-inbound" ? [["compound", "Compound intent"]] : []),
  ["name", "Name"],
];

const steps = (pointer) => pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
const step = (key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** What is at a place; undefined where nothing is. */
export const get = (value, pointer) => steps(pointer).reduce((at, key) => at?.[key], value);

/** Puts a value at a place; `undefined` takes out what is there, and groups that are left empty by it. */
export function set(value, pointer, to) {
  const path = steps(pointer);
  const own = path.pop();
  const above = [];
  let at = value;
  for (const key of path) {
    above.push([at, key]);
    if (at[key] === null || typeof at[key] !== "object") {
      if (to === undefined) return;
      at[key] = {};
    }
    at = at[key];
  }
  if (to !== undefined) {
    at[own] = to;
    return;
  }
  delete at[own];
  for (const [parent, key] of above.reverse()) if (Object.keys(parent[key]).length === 0) delete parent[key];
}

/** What is typed, of what stands in a body. */
export function shown(field, value) {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** What stands in a body, of what is typed; what is no number stays a text, for the server to say so. */
export function typed(field, words) {
  const said = words.trim();
  if (said === "") return undefined;
  if (field.type === "number" && /^\d+$/.test(said)) return Number(said);
  if (field.type === "words" && said.includes(",")) return said.split(",").map((word) => word.trim()).filter(Boolean);
  return said;
}

/** Every value of a body by its place: values of lists and groups each by itself. */
export function leaves(value, at = "", found = new Map()) {
  if (value === null || typeof value !== "object") {
    if (value !== undefined && value !== null && value !== "") found.set(at, value);
    return found;
  }
  for (const [key, of] of Object.entries(value)) leaves(of, at + step(key), found);
  return found;
}

/** What differs between two bodies: `[pointer, before, after]` each, undefined where nothing is. */
export function differences(before, after) {
  const [was, is] = [leaves(before), leaves(after)];
  return [...new Set([...was.keys(), ...is.keys()])]
    .filter((at) => JSON.stringify(was.get(at)) !== JSON.stringify(is.get(at)))
    .map((at) => [at, was.get(at), is.get(at)]);
}

/** The changes from `base` to `own` made to `other`: lists go whole, as their places mean nothing in another list. */
export function rebased(base, own, other) {
  const result = structuredClone(other);
  const walk = (was, is, at) => {
    const isGroup = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
    if (isGroup(is) && (isGroup(was) || was === undefined)) {
      for (const key of new Set([...Object.keys(was ?? {}), ...Object.keys(is)])) walk(was?.[key], is[key], at + step(key));
    } else if (JSON.stringify(was) !== JSON.stringify(is)) set(result, at, structuredClone(is));
  };
  walk(base, own, "");
  return result;
}

/** A body as it is sent: what the server adds is left out. */
export function bare(body) {
  const { status: _status, name: _name, Message: _message, warnings: _warnings, ...own } = structuredClone(body);
  return own;
}
