// What a view shows where nothing is stored yet: what will stand there, the command that fills it, and demo data on request.

import { element } from "./dom.js";

/** A view without data: what it will show, the command for it and a button that does `demo`, where there are such. */
export function emptyState(text, command, demo) {
  const offered = demo ? element("p", {}, element("button", { type: "button", onclick: demo.load }, demo.label), ` ${demo.says}`) : "";
  const typed = command ? element("pre", { tabindex: "0", "aria-label": "Command" }, command) : "";
  return element("section", { class: "empty" }, element("p", {}, text), typed, offered);
}

/** The mark of what is no data of anybody. */
export function demoMark(text) {
  return element("p", {}, element("span", { class: "pill weak" }, "Demo"), ` ${text}`);
}

/** This service's address, for a command. */
export function here() {
  return new URL(".", document.baseURI).href.replace(/\/$/, "");
}
