// Where the provider of logins sends the browser back to.

import { comeBack } from "./holder.js";
import { heading } from "./listing.js";

export const TITLE = "Log in";
export const IS_SHORT = true;

/** Ends the login that the address tells of; without one, says how to begin. */
export async function content(_, { visiting }) {
  if (location.search !== "") {
    await comeBack(location.search);
    return heading(TITLE, "You are logged in.");
  }
  return heading(TITLE, visiting ? "" : "Log in above, where that is offered, or enter a token below.").filter(Boolean);
}
