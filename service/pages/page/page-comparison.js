// Several scenarios side by side: those that the address names, by their ids.

import { element } from "./dom.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { current } from "./state.js";
import { WORDS, listed, sent, stored } from "./token.js";

export const TITLE = "Comparison";
const OWN = "this-tab";
const MAX_COMPARED = 10;

/** A choice of scenarios, and from two on their comparison. */
export async function content(fragment) {
  const chosen = chosenIn(fragment);
  const known = [{ id: OWN, name: "The scenario of this tab" }, ...(await listed("v1/scenarios", 50))];
  const compared = chosen.length > 1 ? await answer(chosen) : element("p", {}, "Choose two or more.");
  return [
    ...heading(TITLE, "Which inputs differ, which figures follow, and which input made which difference."),
    choice(known, chosen),
    ...[compared].flat(),
  ];
}

function choice(known, chosen) {
  const box = ({ id, name }) => {
    const input = element("input", { type: "checkbox", value: id, checked: chosen.includes(id), onchange: (event) => choose(event.target) });
    return element("li", {}, element("label", {}, input, name));
  };
  return element("ul", { class: "chosen", "aria-label": "Scenarios to compare" }, known.map(box));
}

function chosenIn(fragment) {
  return fragment.split(",").filter(Boolean).slice(0, MAX_COMPARED);
}

/** Change the address, which may name more by now than this list was made with. */
function choose({ value, checked }) {
  const others = chosenIn(location.hash.slice(1)).filter((id) => id !== value);
  location.hash = (checked ? [...others, value] : others).join(",");
}

async function answer(ids) {
  const scenarios = await Promise.all(ids.map(named));
  return presented(await sent("POST", "v1/comparisons", { scenarios: distinct(scenarios) }, WORDS)).slice(2);
}

async function named(id) {
  if (id === OWN) return { name: "this tab", scenario: (await current()).scenario };
  const { name, scenario } = await stored(`v1/scenarios/${id}`);
  return { name, scenario };
}

/** The same with names that are told apart. */
function distinct(scenarios) {
  const names = scenarios.map(({ name }) => name);
  return scenarios.map((each, index) => (names.indexOf(each.name) === index ? each : { ...each, name: `${each.name} (${index + 1})` }));
}
