// The form: a scenario in, the changed scenario out.

import { byId, element } from "./dom.js";
import { GROUPS, valueAt, withValue } from "./fields.js";
import { constant } from "./rest.js";
import { row } from "./row.js";

const COUNT = /^[\d.,]+\s*[kKMBT]?$/;

let scenario = {};
let changed = () => {};

/** Build the form from the schema of scenarios; `onChange` gets every new scenario. */
export function build(schema, onChange) {
  changed = onChange;
  byId("fields").replaceChildren(
    ...GROUPS.map(({ title, fields }) =>
      element("fieldset", {}, element("legend", {}, title), fields.map((field) => row(field, schema, (value) => put(field, value)))),
    ),
  );
  byId("json").addEventListener("change", (event) => takeJson(event.target.value));
  byId("scenario").addEventListener("submit", (event) => event.preventDefault());
  byId("scenario").addEventListener("dragover", (event) => event.preventDefault());
  byId("scenario").addEventListener("drop", takeDropped);
  fillLists();
}

/** Show a scenario in the form; what is being typed stays as it is. */
export function show(shown) {
  scenario = shown;
  for (const { path } of GROUPS.flatMap((group) => group.fields)) write(path, text(path));
  write("json", JSON.stringify(scenario, null, 2));
}

function write(id, value) {
  const input = byId(id);
  if (input !== document.activeElement) input.value = value;
}

function put(field, value) {
  const others = value === undefined ? [] : (field.instead ?? []);
  const cleared = others.reduce((next, path) => withValue(next, path, undefined), scenario);
  const given = field.path === "model" && value !== undefined ? model(String(value)) : value;
  take(withValue(cleared, field.path, given));
}

function take(next) {
  show(next);
  changed(next);
}

/** The model that a text names: a count, a config.json, a list of tensors, or a name of the catalog. */
function model(text) {
  if (COUNT.test(text)) return { num_parameters: text };
  const given = parsed(text);
  if (Array.isArray(given)) return { tensors: given };
  return typeof given === "object" ? { huggingface_config: given } : { preset: text };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function text(path) {
  const value = valueAt(scenario, path);
  if (path !== "model") return value === undefined ? "" : String(value);
  if (value?.huggingface_config) return `config.json: ${value.huggingface_config.model_type}`;
  return String(value?.preset ?? value?.num_parameters ?? (value ? "see the JSON below" : ""));
}

function takeJson(typed) {
  const next = parsed(typed);
  const isDocument = typeof next === "object" && next !== null && !Array.isArray(next);
  byId("json-problem").textContent = isDocument ? "" : "This is no JSON document: check quotes, commas and brackets.";
  if (isDocument) take(next);
}

async function takeDropped(event) {
  event.preventDefault();
  const [dropped] = event.dataTransfer.files;
  const given = dropped ? await dropped.text() : event.dataTransfer.getData("text");
  if (given) put({ path: "model" }, given.trim());
}

async function fillLists() {
  const paths = new Set(GROUPS.flatMap((group) => group.fields).map((field) => field.list).filter(Boolean));
  for (const path of paths) {
    const options = (await constant(path)).map((entry) => element("option", { value: entry.name }));
    byId("scenario").append(element("datalist", { id: `list-${path}` }, options));
  }
}
