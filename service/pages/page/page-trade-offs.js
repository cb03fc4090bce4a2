// What one field buys in another: fields varied over ranges, and the Pareto front. The address holds the question.

import { asking } from "./asking.js";
import { element } from "./dom.js";
import { GROUPS, valueAt, withValue } from "./fields.js";
import { unpacked } from "./link.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { row } from "./row.js";
import { current } from "./state.js";
import { stored } from "./token.js";

export const TITLE = "Trade-offs";
const FIELDS = GROUPS.flatMap((group) => group.fields);
/** Fields that a range makes sense of, with the range of a first visit or none. */
const VARIED = {
  "checkpoint.interval_seconds": { from: "15min", to: "4h" },
  "storage.profile.write_bytes_per_second": { from: "20 GB/s", to: "1 TB/s" },
  "storage.profile.read_bytes_per_second": undefined,
  "reliability.failures_per_node_day": undefined,
};
const ENDS = [
  { name: "from", label: "From" },
  { name: "to", label: "To" },
  { name: "num", label: "Values", hint: "12" },
];
const NUM_VALUES = 12;
const OBJECTIVES = [
  { path: "objectives.0", label: "Judged by" },
  { path: "objectives.1", label: "and by" },
];

let question = {};
let own = {};

/** A form with the ranges of the address, or of the first visit on the scenario of this tab, and the answer beside it. */
export async function content(fragment, page) {
  const [schema, { scenario }] = await Promise.all([stored("v1/schemas/sweep"), current()]);
  const given = fragment ? await unpacked(fragment) : undefined;
  own = given?.scenario ? given.scenario : scenario;
  question = given?.scenario ? given : { scenario: atFirst(scenario), objectives: schema.examples[0].objectives };
  page.said(fragment && question !== given ? "The link is not whole: this is the scenario of this tab." : "");
  const answer = element("section", { id: "sweep-answer", "aria-label": "The answer", "aria-busy": "true" });
  const asks = asking("v1/sweeps", answer, (told) => presented(told).slice(1));
  const form = element(
    "form",
    { novalidate: true, "aria-label": "What is varied", onsubmit: (event) => event.preventDefault() },
    element("fieldset", {}, element("legend", {}, "Pareto front"), OBJECTIVES.map((field) => line(field, schema, asks))),
    Object.keys(VARIED).map((path) => range(path, asks)),
  );
  for (const input of form.querySelectorAll("[data-field]")) input.value = shownAt(input.id) ?? "";
  asks.now(question);
  return [
    ...heading(TITLE, "Fields of the scenario of this tab varied together, and the combinations that no other beats."),
    element("div", { class: "beside" }, form, answer),
  ];
}

function atFirst(scenario) {
  return Object.entries(VARIED).reduce((next, [path, ends]) => (ends ? varied(next, path, { ...ends, num: NUM_VALUES }) : next), scenario);
}

/** The scenario with a range in a field, without what cannot stand beside it. */
function varied(scenario, path, ends) {
  const { instead = [] } = FIELDS.find((field) => field.path === path);
  const alone = instead.reduce((next, other) => withValue(next, other, undefined), scenario);
  return withValue(alone, path, { ...ends, scale: "log" });
}

function range(path, asks) {
  const { label } = FIELDS.find((field) => field.path === path);
  const rows = ENDS.map((end) => line({ ...end, path: `${path}.${end.name}` }, {}, asks));
  return element("fieldset", {}, element("legend", {}, label), rows);
}

function line(field, schema, asks) {
  return row(field, schema, (value) => {
    take(field.path, value);
    asks.soon(question);
  });
}

/** Take a value into the question; a field without ends is as the scenario has it. */
function take(path, value) {
  const [field, name] = [path.slice(0, path.lastIndexOf(".")), path.slice(path.lastIndexOf(".") + 1)];
  if (field === "objectives") {
    const objectives = Object.assign([...(question.objectives ?? [])], { [name]: value });
    question = { ...question, objectives: objectives.filter(Boolean) };
    return;
  }
  const { scale, ...ends } = { num: NUM_VALUES, ...endsAt(field), [name]: value };
  const isVaried = ends.from !== undefined || ends.to !== undefined;
  const scenario = isVaried ? varied(question.scenario, field, ends) : withValue(question.scenario, field, valueAt(own, field));
  question = { ...question, scenario };
}

function endsAt(path) {
  const found = valueAt(question.scenario, path);
  return typeof found === "object" ? found : {};
}

function shownAt(id) {
  return valueAt(id.startsWith("objectives.") ? question : question.scenario, id);
}
