// Who visits, by token or login, and what of the navigation is for them.

import { byId } from "./dom.js";
import { deleted, forget, sent, session } from "./token.js";

const KEY = "checkpoint-sizing-return";

/** Who visits, nobody without a token or login. The navigation has what is for them. Raises Problems for a bad token. */
export async function visitor(attempt) {
  const { offers_login, holder } = await session();
  byId("audit").hidden = holder?.scope !== "admin";
  const isPerson = Boolean(holder?.has_logged_in);
  const button = byId("login").firstElementChild;
  button.textContent = isPerson ? `Log out ${holder.name}` : "Log in";
  button.onclick = () => attempt(isPerson ? logOut : logIn);
  byId("login").hidden = !offers_login || (holder !== null && !isPerson);
  return holder ?? undefined;
}

/** Who visits, in a sentence. */
export function told(holder) {
  if (holder === undefined) return "";
  const { name, scope, has_logged_in } = holder;
  return has_logged_in ? `You are logged in as ${name}, scope ${scope}.` : `This tab has the token ${name}, scope ${scope}.`;
}

/** Come back from the provider with what it put into the address, and go on where the login began. */
export async function comeBack(search) {
  const given = Object.fromEntries(new URLSearchParams(search));
  history.replaceState(null, "", location.pathname);
  await sent("POST", "session", given);
  forget();
  const left = sessionStorage.getItem(KEY) ?? "./";
  sessionStorage.removeItem(KEY);
  location.replace(left);
}

async function logIn() {
  const { url } = await sent("POST", "session/login", {});
  if (!location.pathname.endsWith("/login")) sessionStorage.setItem(KEY, location.href);
  location.assign(url);
}

async function logOut() {
  await deleted("session");
  location.reload();
}
