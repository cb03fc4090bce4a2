// The catalogs, each entry with where it was read.

import { element } from "./dom.js";
import { withFilters } from "./filters.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { WORDS, stored } from "./token.js";

export const TITLE = "Catalogs";
const CATALOGS = { models: "Models", formats: "Checkpoint formats", nodes: "Nodes", "storage-profiles": "Published storage", "failure-rates": "Failure rates" };

/** The catalog that the address names, the models first. */
export async function content(fragment) {
  const name = fragment in CATALOGS ? fragment : "models";
  const links = Object.entries(CATALOGS).map(([path, label]) =>
    element("li", {}, element("a", { href: `#${path}`, "aria-current": path === name ? "true" : undefined }, label)),
  );
  const catalog = await stored(`v1/${name}`, WORDS);
  return [
    ...heading(TITLE, "What names in a scenario stand for, and where each figure was read."),
    element("nav", { "aria-label": "Catalogs" }, element("ul", { class: "pages" }, links)),
    ...withFilters(presented(catalog).slice(2)),
  ];
}
