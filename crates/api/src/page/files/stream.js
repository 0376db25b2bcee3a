// Server-Sent Events (HTML standard, section 9.2) over fetch: EventSource cannot show a token.

import { withToken } from "./token.js";

/** An answer that is no stream. */
export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

/** Why an answer is not what was asked for, in the server's own words. */
export async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  return new Refused(response.status, body.detail ?? `status ${response.status}`);
}

/** Reads events until the stream ends or `signal` ends it. `hears` has `open()` and `event(kind, id, data)`. */
export async function events(path, token, signal, hears) {
  const response = await fetch(path, withToken({ cache: "no-store", signal }, token));
  if (!response.ok) throw await refusal(response);
  hears.open();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const event = { kind: "message", data: [] };
  let [id, rest] = ["", ""];
  const does = {
    "": () => {
      if (event.data.length > 0) hears.event(event.kind, id, event.data.join("\n"));
      Object.assign(event, { kind: "message", data: [] });
    },
    event: (value) => (event.kind = value),
    data: (value) => event.data.push(value),
    id: (value) => (id = value),
  };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const [, name, said] = /^([^:]*):? ?(.*)$/.exec(line);
      // A comment has no name and is not empty: it says that the server is there.
      if (line === "" || name !== "") does[name]?.(said);
    }
  }
}
