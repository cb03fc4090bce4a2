// Saved scenarios with the figures that they had when they were saved; each opens in the main page.

import { element, unbroken } from "./dom.js";
import { emptyState, here } from "./empty.js";
import { heading, listing, moment } from "./listing.js";
import { sharing } from "./sharing.js";
import { constant } from "./rest.js";
import { addressOf } from "./state.js";
import { WORDS, deleted, listed, sent, stored } from "./token.js";

export const TITLE = "Scenarios";
const MAX_FIGURES = 5;
const MAX_LISTED = 50;
const COLUMNS = [{ label: "Name", kind: "words" }, { label: "Figures when saved" }, { label: "Saved" }, { label: "", kind: "actions" }];

/** The saved scenarios. */
export async function content(_, page) {
  const { attempt } = page;
  const links = element("div", { id: "links" });
  const saved = await listed("v1/scenarios", MAX_LISTED);
  const rows = saved.map((scenario) => [
    scenario.name,
    figures(scenario),
    [moment(scenario.created_at), element("p", { class: "about" }, scenario.code_version ? `by ${scenario.code_version}` : "")],
    [
      button("Open", scenario, () => attempt(() => open(scenario.id))),
      button("Share", scenario, () => attempt(() => sharing(scenario, links, page))),
      button("Delete", scenario, () => attempt(() => remove(scenario, page))),
    ],
  ]);
  const ids = saved.slice(0, 2).map(({ id }) => id).join(",");
  return [
    ...heading(TITLE, "To open one answers it anew. A sharing link shows one of them to who has no token."),
    saved.length ? listing("", COLUMNS, rows) : emptyState(NONE, command(), demo(page)),
    links,
    saved.length > 1 ? element("p", {}, element("a", { href: `comparison#${ids}` }, "Compare scenarios")) : "",
  ];
}

const NONE = "No scenario is saved yet. Save the one that you size under “Save under a name”, or by REST; its figures and a link to share will stand here.";

function command() {
  const scenario = { model: { preset: "gpt2" }, checkpoint: { interval_seconds: "4h" } };
  return [
    `curl ${here()}/v1/scenarios -H "authorization: Bearer $TOKEN" \\`,
    `  -H "content-type: application/json" -d '${JSON.stringify({ name: "GPT-2 on a laptop", scenario })}'`,
  ].join("\n");
}

/** The first example on its own storage and on two published systems. */
export async function demoScenarios() {
  const [{ examples }, profiles] = await Promise.all(["v1/schemas/scenario", "v1/storage-profiles"].map(constant));
  const published = profiles.slice(0, 2).map(({ name }) => ({ name: `Demo: on ${name}`, scenario: { ...examples[0], storage: { preset: name } } }));
  return [{ name: "Demo: the first example", scenario: examples[0] }, ...published];
}

function demo({ attempt, again }) {
  const load = () => attempt(async () => {
    for (const scenario of await demoScenarios()) await sent("POST", "v1/scenarios", scenario);
    await again();
  });
  return { label: "Load demo data", says: "It saves three scenarios whose names begin with “Demo”.", load };
}

function button(label, { name }, onclick) {
  return element("button", { type: "button", "aria-label": `${label} ${name}`, onclick }, label);
}

async function remove({ id, name }, { again, said }) {
  if (!confirm(`Delete ${name}? Its sharing links end with it, and nothing brings it back.`)) return;
  await deleted(`v1/scenarios/${id}`);
  said(`${name} is deleted.`);
  await again();
}

async function open(id) {
  location.assign(await addressOf((await stored(`v1/scenarios/${id}`)).scenario));
}

/** Those that were kept; of a scenario saved before any were, those of today, which take a moment. */
function figures({ id, figures: kept }) {
  if (kept.length) return brief(kept);
  const place = element("div", {}, "…");
  ofToday(id).then((found) => place.replaceChildren(found));
  return place;
}

async function ofToday(id) {
  try {
    return brief((await stored(`v1/scenarios/${id}/report`, WORDS)).figures);
  } catch (error) {
    return element("p", { class: "problem" }, error.message);
  }
}

function brief(found) {
  const shown = found.slice(0, MAX_FIGURES).map(({ label, figure }) => element("div", {}, element("dt", {}, label), element("dd", {}, unbroken(figure))));
  return element("dl", { class: "brief" }, shown);
}
