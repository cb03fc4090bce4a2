// Saved scenarios with the figures of today; each opens in the main page.

import { element } from "./dom.js";
import { heading, listing, moment } from "./listing.js";
import { sharing } from "./sharing.js";
import { addressOf } from "./state.js";
import { WORDS, listed, stored } from "./token.js";

export const TITLE = "Scenarios";
const MAX_FIGURES = 4;
const MAX_LISTED = 50;

/** The saved scenarios; their figures follow one after the other. */
export async function content(_, page) {
  const { attempt } = page;
  const links = element("div", { id: "links" });
  const saved = await listed("v1/scenarios", MAX_LISTED);
  const columns = [{ label: "Name", kind: "words" }, { label: "Figures of today" }, { label: "Saved" }, { label: "", kind: "actions" }];
  const places = saved.map(() => element("div", {}, "…"));
  const rows = saved.map((scenario, index) => [
    scenario.name,
    places[index],
    moment(scenario.created_at),
    [
      button("Open", scenario, () => attempt(() => open(scenario.id))),
      button("Share", scenario, () => attempt(() => sharing(scenario, links, page))),
    ],
  ]);
  fill(saved, places);
  const ids = saved.slice(0, 2).map(({ id }) => id).join(",");
  return [
    ...heading(TITLE, "Saved under a name, and answered anew at every visit. A sharing link shows one of them to who has no token."),
    saved.length ? listing("", columns, rows) : element("p", {}, "None is saved yet."),
    links,
    saved.length > 1 ? element("p", {}, element("a", { href: `comparison#${ids}` }, "Compare scenarios")) : "",
  ];
}

function button(label, { name }, onclick) {
  return element("button", { type: "button", "aria-label": `${label} ${name}`, onclick }, label);
}

async function open(id) {
  location.assign(await addressOf((await stored(`v1/scenarios/${id}`)).scenario));
}

async function fill(saved, places) {
  for (const [index, { id }] of saved.entries()) {
    try {
      places[index].replaceChildren(brief(await stored(`v1/scenarios/${id}/report`, WORDS)));
    } catch (error) {
      places[index].replaceChildren(element("p", { class: "problem" }, error.message));
    }
  }
}

function brief({ figures }) {
  const shown = figures.slice(0, MAX_FIGURES).map(({ label, figure }) => element("div", {}, element("dt", {}, label), element("dd", {}, figure)));
  return element("dl", { class: "brief" }, shown);
}
