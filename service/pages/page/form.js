// The form: a scenario in, the changed scenario out.

import { configFiles } from "./config-files.js";
import { byId, element } from "./dom.js";
import { GROUPS, defaultAt, hasField, ofFormerModel, valueAt, withValue } from "./fields.js";
import { QUESTIONS, takes } from "./questions.js";
import { Problems, constant } from "./rest.js";
import { row } from "./row.js";
import { listed, sent } from "./token.js";

const COUNT = /^[\d.,]+\s*[kKMBT]?$/;

let schema = {};
let scenario = {};
let changed = () => {};
/** By field what was typed into it in the place of others: clearing it brings those back. */
let replaced = {};

/** Build the form from the schema of scenarios; `onChange` gets every new scenario. */
export function build(scenarios, onChange) {
  schema = scenarios;
  changed = onChange;
  byId("fields").replaceChildren(
    ...GROUPS.map(({ title, fields }) =>
      element("fieldset", {}, element("legend", {}, title), fields.map((field) => row(field, schema, (value) => put(field, value), (value) => slide(field, value)))),
    ),
  );
  const imports = configFiles(() => scenario, take);
  byId("files").replaceChildren(imports.place);
  byId("parallelism.data").closest("fieldset").append(layouts());
  byId("json").addEventListener("change", (event) => takeJson(event.target.value));
  byId("scenario").addEventListener("submit", (event) => event.preventDefault());
  byId("scenario").addEventListener("dragover", (event) => event.preventDefault());
  byId("scenario").addEventListener("drop", (event) => takeDropped(event, imports.add));
  fillLists();
}

/** Show a scenario in the form; what is being typed stays as it is. */
export function show(shown) {
  if (shown !== scenario) replaced = {};
  scenario = shown;
  for (const { path } of GROUPS.flatMap((group) => group.fields)) write(path, text(path));
  write("json", JSON.stringify(scenario, null, 2));
}

/** Show the fields that a question takes. Others would be typed into without effect. */
export function showFor(question) {
  byId("files").hidden = !takes(question, "model");
  for (const input of document.querySelectorAll("#fields [data-field]")) input.closest(".field").hidden = !takes(question, input.id);
  for (const group of byId("fields").children) group.hidden = !group.querySelector(".field:not([hidden])");
  byId("layouts").parentElement.hidden = !takes(question, "parallelism");
}

function write(id, value) {
  const input = byId(id);
  if (input !== document.activeElement) input.value = value;
}

function put(field, value) {
  const others = field.path === "model" ? ofFormerModel(scenario) : (field.instead ?? []);
  const given = field.path === "model" && value !== undefined ? model(String(value)) : value;
  const base = value === undefined ? withReplaced(field) : without(field, others);
  take(withValue(base, field.path, given));
}

/** The scenario without the fields that cannot stand beside one, which are remembered. */
function without(field, others) {
  const former = others.filter((path) => valueAt(scenario, path) !== undefined).map((path) => [path, valueAt(scenario, path)]);
  if (former.length) replaced[field.path] = former;
  return others.reduce((next, path) => withValue(next, path, undefined), scenario);
}

/** The scenario with the fields again that stood there before one was typed; not those of another model. */
function withReplaced({ path, instead = [] }) {
  const former = path === "model" || instead.some((other) => valueAt(scenario, other) !== undefined) ? [] : (replaced[path] ?? []);
  delete replaced[path];
  return former.reduce((next, [other, value]) => withValue(next, other, value), scenario);
}

function slide(field, value) {
  put({ ...field, instead: [...(field.instead ?? []), ...(field.insteadWhenSlid ?? [])] }, value);
}

/** Put a value, as typed, into the field at a path. */
export function set(path, value) {
  put({ path }, value);
}

function take(next) {
  scenario = next;
  show(next);
  changed(next);
}

/** The model that a text names: a count, a config.json, an index with its count, a list of tensors, or a name. */
function model(text) {
  if (COUNT.test(text)) return { num_parameters: text };
  const given = parsed(text);
  if (Array.isArray(given)) return { tensors: given };
  if (given?.weight_map && given.metadata?.total_parameters) return { num_parameters: given.metadata.total_parameters };
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
  if (isDocument) {
    replaced = {};
    take(next);
  }
}

/** Take what is dropped beside the place for files: text is a model, and so is a list or an index of tensors. */
async function takeDropped(event, add) {
  if (event.defaultPrevented && event.target.closest(".drop")) return;
  event.preventDefault();
  const { files } = event.dataTransfer;
  const given = files.length === 1 ? (await files[0].text()).trim() : event.dataTransfer.getData("text");
  const tensors = parsed(given);
  if (files.length === 0 ? given : Array.isArray(tensors) || tensors?.weight_map) put({ path: "model" }, given);
  else if (files.length) await add(files);
}

async function fillLists() {
  const paths = new Set(GROUPS.flatMap((group) => group.fields).map((field) => field.list).filter(Boolean));
  for (const path of paths) {
    const options = (await constant(path)).map((entry) => element("option", { value: entry.name }));
    byId("scenario").append(element("datalist", { id: `list-${path}` }, options));
  }
  byId("storage.calibration").addEventListener("focus", fillCalibrations);
}

/** The latest calibration of each storage system, as it is now; none for who may not read them. */
async function fillCalibrations() {
  const path = byId("storage.calibration").getAttribute("list");
  const systems = await listed("v1/storage-systems").catch(() => []);
  const options = systems.filter((system) => system.latest_calibration).map(({ name, latest_calibration: { id } }) => element("option", { value: id }, name));
  byId(path)?.remove();
  byId("scenario").append(element("datalist", { id: path }, options));
}

/** A search for layouts, each of which can be adopted. */
function layouts() {
  const found = element("div", { id: "layouts", role: "status" });
  const { path, of } = QUESTIONS.layouts;
  const search = async () => {
    try {
      const fitting = (await sent("POST", path, of(scenario))).layouts;
      found.replaceChildren(...(fitting.length ? fitting.map(adoptable) : ["No layout fits these GPUs."]));
    } catch (error) {
      found.replaceChildren(error instanceof Problems ? error.errors.map((each) => each.sentence).join(" ") : error.message);
    }
  };
  return element("div", {}, element("button", { type: "button", onclick: search }, "Find layouts that fit"), found);
}

function adoptable(layout) {
  const given = Object.entries(layout.parallelism).filter(([name, value]) => !isDefault(`parallelism.${name}`, value));
  const label = given.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");
  return element("button", { type: "button", onclick: () => adopt(layout, Object.fromEntries(given)) }, label);
}

/** Take a layout: its degrees, and what of the training it rests on; its schedule is the scenario's. */
function adopt({ schedule, ...layout }, parallelism) {
  const training = Object.entries(layout).filter(([name, value]) => value !== null && hasField(schema, `training.${name}`));
  const trained = training.reduce((next, [name, value]) => withValue(next, `training.${name}`, value), scenario);
  take({ ...trained, parallelism });
}

function isDefault(path, value) {
  return JSON.stringify(value ?? null) === JSON.stringify(defaultAt(schema, path) ?? null);
}
