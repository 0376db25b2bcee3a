// Who asks: a token for a server that wants to know, kept for this tab alone.

import { byId, text } from "./dom.js";
import { keepToken, token } from "./token.js";

/** Takes tokens and tells `give` of each; and of the one that the tab has already. */
export function who(give) {
  const form = byId("who");
  const input = byId("token");
  const forget = byId("forget");

  function show(value) {
    forget.hidden = !value;
    give(value);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    input.value = "";
    show(token());
  });
  forget.addEventListener("click", () => {
    keepToken(null);
    // What was shown goes with it.
    location.reload();
  });
  show(token());

  return {
    /** Asks for a token, and says why; or does not any more. */
    ask(why) {
      const isNew = form.hidden && why !== null;
      form.hidden = why === null;
      if (why !== null) text(byId("who-why"), why);
      if (isNew) input.focus();
    },
  };
}
