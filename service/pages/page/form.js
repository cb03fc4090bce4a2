// The form: a scenario in, the changed scenario out.

import { block, offerSearch, showGiven } from "./blocks.js";
import { configFiles } from "./config-files.js";
import { byId, element } from "./dom.js";
import { DEGREES, FIRST, GROUPS, defaultAt, hasField, isCutAs, ofFormerModel, valueAt, withValue } from "./fields.js";
import { QUESTIONS, takes } from "./questions.js";
import { Problems, constant } from "./rest.js";
import { row, showAssumed } from "./row.js";
import { listed, sent } from "./token.js";

const COUNT = /^[\d.,]+\s*[kKMBT]?$/;
const CALIBRATION = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;
const BROKEN_JSON = "This is no JSON document: check quotes, commas and brackets. Until it is one, the fields above hold; empty it to see them.";
const FIELDS = GROUPS.flatMap((group) => group.fields);
const RATES = ["write", "read"];
/** Fields whose change clears others without a word of theirs, and how that is said. */
const CLEARING = { model: "Cleared, as of the former model", "cluster.num_gpus": "Cleared, as the number of GPUs decides it" };

let schema = {};
let scenario = {};
let changed = () => {};
/** By field what was typed into it in the place of others: clearing it brings those back. */
let replaced = {};
/** What the latest answer uses in the fields that are open. */
let assumptions = [];

/** Build the form from the schema of scenarios; `onChange` gets every new scenario, `onLack` hears of files that make none yet. */
export function build(scenarios, onChange, onLack) {
  schema = scenarios;
  changed = onChange;
  const imports = configFiles(() => scenario, takeWhole, onLack);
  const [model, ...others] = FIRST.map((path) => rowOf(FIELDS.find((field) => field.path === path)));
  byId("first").replaceChildren(element("legend", {}, "Your run"), model, imports.place, ...others, element("p", { id: "cleared", role: "status" }));
  const further = ({ path }) => !FIRST.includes(path);
  byId("blocks").replaceChildren(...GROUPS.map(({ title, fields }) => block(title, fields.filter(further).map(rowOf))));
  byId("parallelism.data").closest(".block").append(layouts());
  byId("json").addEventListener("input", (event) => takeJson(event.target.value));
  byId("json").addEventListener("blur", () => show(scenario));
  byId("scenario").addEventListener("submit", (event) => event.preventDefault());
  byId("scenario").addEventListener("dragover", (event) => event.preventDefault());
  byId("scenario").addEventListener("drop", (event) => takeDropped(event, imports.add));
  offerSearch();
  fillLists();
}

function rowOf(field) {
  return row(field, schema, (value) => put(asTyped(field, value), value), (value) => put(field, value));
}

/** Show a scenario in the form. What is being typed stays as it is, unless the scenario comes from elsewhere. */
export function show(shown) {
  const isOther = shown !== scenario;
  if (isOther) {
    replaced = {};
    tellJson("");
  }
  scenario = shown;
  const write = (id, value) => {
    if (isOther || byId(id) !== document.activeElement) byId(id).value = value;
  };
  for (const { path } of FIELDS) write(path, text(path));
  if (byId("json-problem").textContent === "") write("json", JSON.stringify(scenario, null, 2)); // else it is still typed
  showCleared();
  count();
}

/** Show what an answer uses in the fields that are open. */
export function showAssumptions(told) {
  assumptions = told;
  for (const field of FIELDS) showAssumed(field, schema, assumptions.find((each) => each.field === field.path));
  count();
}

/** Say how many fields are given, and of how many the value was chosen. */
function count() {
  const isGiven = (path) => valueAt(scenario, path) !== undefined;
  const chosen = assumptions.filter((each) => each.is_chosen && !isGiven(each.field)).map(({ field }) => field);
  const placed = ["model", "schema_version", ...FIELDS.map(({ path }) => path).filter((path) => path !== "storage")];
  showGiven(isGiven, (path) => chosen.includes(path), leaves(scenario).filter((path) => !placed.some((each) => `${path}.`.startsWith(`${each}.`))).length);
}

/** The paths of all values of a document. */
function leaves(value, path = "") {
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([name, inner]) => leaves(inner, path ? `${path}.${name}` : name));
}

/** Show the fields that a question takes. Others would be typed into without effect. */
export function showFor(question) {
  for (const input of document.querySelectorAll("#fields [data-field]")) input.closest(".field").hidden = !takes(question, input.id);
  for (const group of byId("blocks").children) group.hidden = !group.querySelector(".field:not([hidden])");
  byId("layouts").parentElement.hidden = !takes(question, "parallelism");
}

function put(field, value) {
  const others = field.path === "model" ? ofFormerModel(scenario) : (field.instead ?? []);
  const given = field.path in WHOLE && value !== undefined ? WHOLE[field.path](String(value)) : value;
  const base = value === undefined && field.path !== "model" ? withReplaced(field) : without(field, others);
  take(withValue(base, field.path, given));
}

/** The scenario without the fields that cannot stand beside one, which are remembered. */
function without(field, others) {
  const former = others.filter((path) => valueAt(scenario, path) !== undefined).map((path) => [path, valueAt(scenario, path)]);
  if (former.length) replaced[field.path] = [[field.path, valueAt(scenario, field.path)], ...former];
  return others.reduce((next, path) => withValue(next, path, undefined), scenario);
}

/** The scenario with the fields again that stood there before one was typed. */
function withReplaced({ path, instead = [] }) {
  const isHeld = instead.some((other) => valueAt(scenario, other) !== undefined);
  return isHeld ? withFormer(path, () => false) : withFormer(path, (other) => other !== path);
}

/** The scenario with those of the fields again that stood there before a change, which is forgotten. */
function withFormer(path, isWanted) {
  const former = (replaced[path] ?? []).filter(([other]) => isWanted(other));
  delete replaced[path];
  return former.reduce((next, [other, value]) => withValue(next, other, value), scenario);
}

/** Say what the change of a field cleared and is still open, with a way back. */
function showCleared() {
  const told = Object.keys(CLEARING).map((path) => [path, clearedBy(path)]).filter(([, sentence]) => sentence);
  const place = byId("cleared");
  if (place.dataset.told === String(told)) return;
  place.dataset.told = String(told);
  place.replaceChildren(...told.flatMap(([path, sentence]) => [sentence, element("button", { type: "button", onclick: () => undo(path) }, "Undo"), " "]));
}

function clearedBy(path) {
  const open = (replaced[path] ?? []).filter(([other]) => other !== path && valueAt(scenario, other) === undefined);
  const names = open.map(([other, value]) => `${FIELDS.find((field) => field.path === other).label} ${value}`);
  return names.length ? `${CLEARING[path]}: ${names.join(", ")}. ` : "";
}

function undo(path) {
  take(withFormer(path, () => true));
  byId(path).focus();
}

/** A field with what a value typed into it takes the place of: of another number of GPUs each degree that nobody typed. */
function asTyped(field, value) {
  const isCount = field.path === "cluster.num_gpus" && value !== undefined;
  const isAnother = isCount && plain(value) !== plain(valueAt(scenario, field.path));
  return isAnother && isCutAs(schema.examples[0], scenario) ? { ...field, instead: DEGREES } : field;
}

/** A number as a text without what separates its thousands. */
function plain(value) {
  return String(value).replaceAll(/[,'’\s]/g, "");
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

/** The storage that a text names: a calibration, bandwidths to write and to read, or a known system. */
function storage(text) {
  if (CALIBRATION.test(text)) return { calibration: text };
  if (!/^[\d.]/.test(text)) return { preset: text };
  const rates = text.split(/[,;]|\band\b/).map((part) => part.trim()).filter(Boolean);
  const named = rates.slice(0, RATES.length).map((part, place) => [RATES.find((rate) => part.endsWith(rate)) ?? RATES[place], part.replace(/\s*(write|read)$/, "")]);
  const given = named.map(([rate, typed]) => [`${rate}_bytes_per_second`, typed]);
  const { write_bytes_per_second, read_bytes_per_second, ...kept } = scenario.storage?.profile ?? {};
  return { profile: { ...kept, ...Object.fromEntries(given) } };
}

/** The blocks that one input stands for, and how each is read. */
const WHOLE = { model, storage };

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function text(path) {
  const value = valueAt(scenario, path);
  if (path === "storage") return value?.preset ?? value?.calibration ?? ratesOf(value?.profile ?? {});
  if (path !== "model") return value === undefined ? "" : String(value);
  if (value?.huggingface_config) return `config.json: ${value.huggingface_config.model_type}`;
  return String(value?.preset ?? value?.num_parameters ?? (value ? "see the JSON below" : ""));
}

/** The bandwidths of a profile as they are typed. */
function ratesOf(profile) {
  return RATES.filter((rate) => profile[`${rate}_bytes_per_second`] !== undefined).map((rate) => `${profile[`${rate}_bytes_per_second`]} ${rate}`).join(", ");
}

function takeJson(typed) {
  const next = parsed(typed);
  const isDocument = typeof next === "object" && next !== null && !Array.isArray(next);
  tellJson(isDocument || typed === "" ? "" : BROKEN_JSON);
  if (isDocument) takeWhole(next);
}

/** Say what is wrong with the JSON, once. */
function tellJson(problem) {
  if (byId("json-problem").textContent !== problem) byId("json-problem").textContent = problem;
}

/** Take a scenario that stands in the place of all that was typed. */
function takeWhole(next) {
  replaced = {};
  take(next);
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
  const paths = new Set(FIELDS.map((field) => field.list).filter(Boolean));
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
