// The token of this tab, and what REST keeps, asked with it.

import { Problems, answered, settled } from "./rest.js";

const KEY = "checkpoint-sizing-token";
export const JSON_TYPE = "application/json";
const UNAUTHORIZED = 401;
const NO_TOKEN = "This needs a token that is not expired or revoked: type one into the field Token. Who runs the service makes them.";
const NO_LOGIN = "This needs that you log in, or a token that is not expired or revoked in the field Token. Who runs the service makes them.";
export const WORDS = "application/vnd.checkpoint-sizing.presentation+json";

/** Keep a token until the tab is closed. */
export function keep(token) {
  sessionStorage.setItem(KEY, token);
}

/** Have no token any more. */
export function forget() {
  sessionStorage.removeItem(KEY);
}

/** Who visits (null for nobody known), and whether a login is offered. Raises Problems for a bad token. */
export async function session() {
  return stored("session");
}

/** What is stored at a path; `accept` as the words of WORDS or data. */
export async function stored(path, accept = JSON_TYPE) {
  return (await send("GET", path, { accept })).json();
}

/** What the key of a sharing link reads at a path, as a response. Raises Problems. */
export async function sharedBy(key, path, accept = JSON_TYPE) {
  return answered(await fetch(path, { headers: { accept, authorization: `Bearer ${key}` } }));
}

/** Delete what is at a path. Raises Problems. */
export async function deleted(path) {
  await send("DELETE", path, {});
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
  const response = await fetch(path, { method, headers: authorized, body });
  if (response.status === UNAUTHORIZED) throw await unauthorized();
  return settled(response, { headers: authorized });
}

async function unauthorized() {
  const { offers_login } = await (await fetch("session")).json();
  const sentence = offers_login ? NO_LOGIN : NO_TOKEN;
  return new Problems({ status: UNAUTHORIZED, detail: sentence, errors: [{ field: "authorization", sentence }] });
}
