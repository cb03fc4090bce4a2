// Several scenarios side by side: those that the address names, by their ids.

import { element } from "./dom.js";
import { demoMark, emptyState } from "./empty.js";
import { heading, moment } from "./listing.js";
import { demoScenarios } from "./page-scenarios.js";
import { presented } from "./presentation.js";
import { current } from "./state.js";
import { WORDS, listed, sent, stored } from "./token.js";

export const TITLE = "Comparison";
const OWN = "this-tab";
const MAX_COMPARED = 10;
const DEMO = "demo";
const DEMO_OFFERED = {
  label: "Show a demo",
  says: "It compares the first example with the same run on two published systems; nothing is stored.",
  load: () => {
    location.hash = DEMO;
  },
};
const NONE = "Check two or more boxes above; “Save under a name”, under Size, adds one. Which inputs differ, what each difference costs, and every figure will stand here, side by side.";

/** A choice of scenarios, and from two on their comparison. */
export async function content(fragment) {
  const chosen = chosenIn(fragment);
  const known = [{ id: OWN, name: "The scenario of this tab" }, ...distinct(await listed("v1/scenarios", 50))];
  const isDemo = chosen.join() === DEMO;
  const compared = isDemo ? await demo() : chosen.length > 1 ? await answer(chosen, known) : emptyState(NONE, "", DEMO_OFFERED);
  return [
    ...heading(TITLE, "Which inputs differ, which figures follow, and which input made which difference."),
    choice(known, chosen),
    ...[compared].flat(),
  ];
}

function choice(known, chosen) {
  const box = ({ id, name, created_at }) => {
    const input = element("input", { type: "checkbox", value: id, checked: chosen.includes(id), onchange: (event) => choose(event.target) });
    return element("li", {}, element("label", {}, input, name, " ", moment(created_at)));
  };
  return element("ul", { class: "chosen", "aria-label": "Scenarios to compare" }, known.map(box));
}

function chosenIn(fragment) {
  return fragment.split(",").filter(Boolean).slice(0, MAX_COMPARED);
}

/** Change the address, which may name more by now than this list was made with. */
function choose({ value, checked }) {
  const others = chosenIn(location.hash.slice(1)).filter((id) => id !== value && id !== DEMO);
  location.hash = (checked ? [...others, value] : others).join(",");
}

async function answer(ids, known) {
  const scenarios = await Promise.all(ids.map((id) => named(id, known)));
  return compare(distinct(scenarios));
}

async function demo() {
  const shown = await compare(await demoScenarios());
  return [demoMark("The first example of the service, and the same run on two published systems."), ...shown];
}

async function compare(scenarios) {
  return presented(await sent("POST", "v1/comparisons", { scenarios }, WORDS)).slice(2);
}

/** A scenario by the name that its box has. */
async function named(id, known) {
  if (id === OWN) return { name: "this tab", scenario: (await current()).scenario };
  const { name, scenario } = await stored(`v1/scenarios/${id}`);
  return { name: known.find((each) => each.id === id)?.name ?? name, scenario };
}

/** The same with names that are told apart: the second of one name has a number. */
function distinct(scenarios) {
  return scenarios.map((each, index) => {
    const place = scenarios.slice(0, index + 1).filter(({ name }) => name === each.name).length;
    return place === 1 ? each : { ...each, name: `${each.name} (${place})` };
  });
}
