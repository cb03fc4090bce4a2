// Config files of a training: dropped or chosen, they become the scenario. What became of each setting is shown.

import { element } from "./dom.js";
import { labelled, valueAt, withValue } from "./fields.js";
import { fileDrop } from "./files.js";
import { Problems } from "./rest.js";
import { cell, heads, titled } from "./tables.js";
import { sent } from "./token.js";

/** Fields of the form that no config file has, and that stay as they are. */
const KEPT = ["storage", "reliability", "costs", "cluster.node", "targets"];
const NUM_GPUS = "cluster.num_gpus";
const GPUS_LABEL = "GPUs of this training";
const MILLISECONDS_BETWEEN_KEYS = 250;
const REMEDY = "drop a config file in TOML, YAML or JSON, or a launch script.";
const COLUMNS = ["setting", "value", "field", "became"];

/** A place for config files; `take` gets the scenario that they describe, `current` gives the one in the form, `lack` hears of files that need more. */
export function configFiles(current, take, lack) {
  const told = element("div", { id: "imported", role: "status" });
  let files = [];
  let isLacking = false;
  let turn = 0;
  let later;
  const tellProblems = (sentences) => told.replaceChildren(element("ul", { class: "problem" }, sentences.map((text) => element("li", {}, text))));
  const read = async (replaced = []) => {
    const mine = ++turn;
    const numGpus = input.value.trim();
    try {
      const report = await sent("POST", "v1/imports", { files, ...(numGpus ? { num_gpus: numGpus } : {}), given: ["storage"] });
      if (mine !== turn) return;
      told.replaceChildren(...shown(report, replaced));
      const required = report.needed.filter((each) => each.is_required);
      if (required.some((each) => each.field === NUM_GPUS)) gpus.hidden = false;
      isLacking = required.length > 0;
      if (isLacking) lack();
      else take(withKept(report.scenario, current()));
    } catch (error) {
      isLacking = false;
      if (mine === turn) tellProblems(error instanceof Problems ? error.errors.map(worded) : [error.message]);
    }
  };
  const soon = () => {
    clearTimeout(later);
    later = setTimeout(read, MILLISECONDS_BETWEEN_KEYS);
  };
  const input = element("input", { id: "imported-gpus", inputmode: "numeric", autocomplete: "off", oninput: soon });
  const gpus = element("p", { hidden: true }, element("label", { for: "imported-gpus" }, GPUS_LABEL), " ", input);
  /** Take files beside those that lack something, else in the place of those before. */
  const add = async (chosen) => {
    const added = await Promise.all([...chosen].map(async (file) => ({ name: file.name, content: await file.text() })));
    const binary = added.filter(({ content }) => content.includes("\0"));
    if (binary.length) return tellProblems(binary.map(({ name }) => `${name} is no text: ${REMEDY}`));
    if (!added.length) return undefined;
    const former = files.filter(({ name }) => !added.some((each) => each.name === name));
    files = isLacking ? [...former, ...added] : added;
    if (!isLacking) forgetGpus();
    return read(isLacking ? [] : former.map(({ name }) => name));
  };
  const forgetGpus = () => {
    gpus.hidden = true;
    input.value = "";
  };
  const drop = fileDrop(
    { id: "config-files", words: "Drop your training's config files or its launch script here, or ", choose: "choose them", multiple: true },
    add,
  );
  return { place: element("div", {}, drop, told, gpus), add };
}

/** A sentence of a refusal, in which fields have the names that they have on the page. */
function worded({ field, sentence }) {
  return labelled(field === "num_gpus" ? sentence.replace(field, `“${GPUS_LABEL}”`) : sentence);
}

/** The scenario of files with what the form has and files never say. */
function withKept(scenario, current) {
  return KEPT.reduce((next, path) => (valueAt(next, path) === undefined && valueAt(current, path) !== undefined ? withValue(next, path, valueAt(current, path)) : next), scenario);
}

function shown(report, replaced) {
  const rows = [...report.understood, ...report.defaults.map((each) => ({ ...each, setting: `${each.setting} (default)` }))];
  const body = rows.map((each) => element("tr", {}, heads(each.setting), cell(text(each.value)), cell(each.field ?? ""), cell(each.field ? text(each.became) : each.note)));
  const head = element("thead", {}, element("tr", {}, COLUMNS.map((name) => element("th", { scope: "col" }, name))));
  const instead = replaced.length ? ` In the place of ${replaced.join(", ")}: files of one training are dropped together.` : "";
  const names = report.files.map((each) => `${each.name}: ${each.read_as}`).join(", ");
  const required = report.needed.filter((each) => each.is_required);
  return [
    element("p", {}, `Read as ${names}.${instead}`),
    notes("Still needed before there is an answer", required.map(need), "problem"),
    notes("Not understood, and left out", report.not_understood.map((each) => `${each.setting} ${each.note}`), "problem"),
    notes("To be given here", report.needed.filter((each) => !each.is_required && each.field !== "storage.preset").map(need)),
    element("details", {}, element("summary", {}, `What became of ${rows.length} settings`), titled("", element("table", {}, head, element("tbody", {}, body)))),
  ].filter((each) => each !== "");
}

function need({ field, why }) {
  return labelled(`${field}: ${why}`);
}

function notes(title, texts, kind) {
  return texts.length ? element("section", {}, element("h3", {}, title), element("ul", { class: kind }, texts.map((each) => element("li", {}, each)))) : "";
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
