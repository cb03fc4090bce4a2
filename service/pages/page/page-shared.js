// One scenario, read by a sharing link: its key stands behind the #, which no server sees.

import { download, element } from "./dom.js";
import { heading, moment } from "./listing.js";
import { presented } from "./presentation.js";
import { WORDS, sharedBy } from "./token.js";

export const TITLE = "Shared scenario";
const KINDS = { PDF: "pdf", HTML: "html", CSV: "csv", JSON: "json" };

/** The scenario of the key in the address, with its answer of today. */
export async function content(key, page) {
  if (key === "") return [...heading(TITLE, ""), element("p", {}, "A sharing link opens here; this address has none.")];
  const [saved, answer] = await Promise.all([
    sharedBy(key, "v1/shared").then((response) => response.json()),
    sharedBy(key, "v1/shared/report", WORDS).then((response) => response.json()),
  ]);
  return [
    element("p", { class: "kind" }, "Shared with you, to read: saved ", moment(saved.created_at), "."),
    element("h2", { class: "title" }, saved.name),
    keep(key, page),
    ...presented(answer).filter((shown) => !shown.matches(".kind, .title")),
  ];
}

function keep(key, { said, attempt }) {
  const fetched = (kind, form) => attempt(async () => {
    said(`The ${kind} is being made.`);
    download(`checkpoint-sizing.${form}`, await (await sharedBy(key, `v1/shared/report?form=${form}`)).blob());
    said(`The ${kind} is saved.`);
  });
  const buttons = Object.entries(KINDS).map(([kind, form]) => element("button", { type: "button", onclick: () => fetched(kind, form) }, kind));
  return element("p", { class: "keep" }, "Keep it as ", buttons);
}
