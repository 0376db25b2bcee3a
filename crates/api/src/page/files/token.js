// The token that this tab shows to the server, if one was given. It is kept for the tab alone, and goes with it.

const PLACE = "fairway-token";

/** The token; none where none was given. */
export const token = () => sessionStorage.getItem(PLACE);

/** Keeps a token for this tab, or forgets it. */
export function keepToken(value) {
  if (value) sessionStorage.setItem(PLACE, value);
  else sessionStorage.removeItem(PLACE);
}

/** What a request is made with, and the token. */
export function withToken(init = {}, shown = token()) {
  return shown ? { ...init, headers: { ...init.headers, Authorization: `Bearer ${shown}` } } : init;
}
