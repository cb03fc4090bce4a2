// The token of this tab, and what REST keeps, asked with it.

import { answered } from "./rest.js";

const KEY = "checkpoint-sizing-token";
export const JSON_TYPE = "application/json";
export const WORDS = "application/vnd.checkpoint-sizing.presentation+json";

/** Keep a token until the tab is closed. */
export function keep(token) {
  sessionStorage.setItem(KEY, token);
}

/** Have no token any more. */
export function forget() {
  sessionStorage.removeItem(KEY);
}

/** Whose token this tab has; nothing without one. Raises Problems where it does not hold. */
export async function holder() {
  return sessionStorage.getItem(KEY) ? stored("v1/whoami") : undefined;
}

/** What is stored at a path; `accept` as the words of WORDS or data. */
export async function stored(path, accept = JSON_TYPE) {
  return (await send("GET", path, { accept })).json();
}

/** Every entry of a list in pages, up to `max` of them. */
export async function listed(path, max = 200) {
  return (await stored(`${path}?limit=${max}`)).items;
}

/** Send a document, as text or as an object. Raises Problems. */
export async function sent(method, path, document, accept = JSON_TYPE) {
  const body = typeof document === "string" ? document : JSON.stringify(document);
  return (await send(method, path, { accept, "content-type": JSON_TYPE }, body)).json();
}

/** The answer to a question as a file of a media type. Raises Problems. */
export async function sentFor(path, document, accept) {
  return (await send("POST", path, { accept, "content-type": JSON_TYPE }, JSON.stringify(document))).blob();
}

async function send(method, path, headers, body) {
  const token = sessionStorage.getItem(KEY);
  const authorized = token ? { ...headers, authorization: `Bearer ${token}` } : headers;
  return answered(await fetch(path, { method, headers: authorized, body }));
}
