// One request to the API, for what the page does beside looking: with the tab's token, and the server's own words where it is refused.

import { withToken } from "./token.js";

/** Asks; `{ status, ok, body, tag }`. The body of a refusal is a problem with `detail` and `errors`. Status 0: no answer. */
export async function request(method, path, { body, headers = {}, signal } = {}) {
  const init = { method, headers, cache: "no-store", signal: AbortSignal.any([AbortSignal.timeout(ASK_MAX), ...(signal ? [signal] : [])]) };
  // Every write says that no form has made it.
  if (method !== "GET") init.headers = { ...headers, "Content-Type": "application/json" };
  if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
  try {
    const response = await fetch(path, withToken(init));
    const text = await response.text();
    const told = text === "" ? {} : JSON.parse(text);
    return { status: response.status, ok: response.ok, body: told, tag: response.headers.get("etag") };
  } catch (error) {
    const detail = error.name === "TimeoutError" ? "The server takes too long; what was asked for may have been done." : "The server does not answer; ask again when it does.";
    return { status: 0, ok: false, body: { detail }, tag: null };
  }
}

/** Why something was refused, in the server's words. */
export const why = ({ status, body }) => body.detail ?? `status ${status}`;

/** Milliseconds. */
const ASK_MAX = 60_000;
