// Config files of a training: dropped or chosen, they become the scenario. What became of each setting is shown.

import { element } from "./dom.js";
import { valueAt, withValue } from "./fields.js";
import { fileDrop } from "./files.js";
import { Problems } from "./rest.js";
import { cell, heads, titled } from "./tables.js";
import { sent } from "./token.js";

/** Fields of the form that no config file has, and that stay as they are. */
const KEPT = ["storage", "reliability", "costs", "cluster.node", "targets"];
const COLUMNS = ["setting", "value", "field", "became"];

/** A place for config files; `take` gets the scenario that they describe, `current` gives the one in the form. */
export function configFiles(current, take) {
  const told = element("div", { id: "imported", role: "status" });
  let files = [];
  const read = async (numGpus) => {
    try {
      const report = await sent("POST", "v1/imports", { files, ...(numGpus ? { num_gpus: numGpus } : {}), given: ["storage"] });
      told.replaceChildren(...shown(report, read));
      if (!report.needed.some((each) => each.is_required)) take(withKept(report.scenario, current()));
    } catch (error) {
      const sentences = error instanceof Problems ? error.errors.map((each) => each.sentence) : [error.message];
      told.replaceChildren(element("ul", { class: "problem" }, sentences.map((text) => element("li", {}, text))));
    }
  };
  const add = async (chosen) => {
    files = await Promise.all([...chosen].map(async (file) => ({ name: file.name, content: await file.text() })));
    if (files.length) await read();
  };
  const drop = fileDrop(
    { id: "config-files", words: "Drop your training's config files or its launch script here, or ", choose: "choose them", multiple: true },
    add,
  );
  return { place: element("div", {}, drop, told), add };
}

/** The scenario of files with what the form has and files never say. */
function withKept(scenario, current) {
  return KEPT.reduce((next, path) => (valueAt(next, path) === undefined && valueAt(current, path) !== undefined ? withValue(next, path, valueAt(current, path)) : next), scenario);
}

function shown(report, read) {
  const rows = [...report.understood, ...report.defaults.map((each) => ({ ...each, setting: `${each.setting} (default)` }))];
  const body = rows.map((each) => element("tr", {}, heads(each.setting), cell(text(each.value)), cell(each.field ?? ""), cell(each.field ? text(each.became) : each.note)));
  const head = element("thead", {}, element("tr", {}, COLUMNS.map((name) => element("th", { scope: "col" }, name))));
  const names = report.files.map((each) => `${each.name}: ${each.read_as}`).join(", ");
  const required = report.needed.filter((each) => each.is_required);
  return [
    element("p", {}, `Read as ${names}.`),
    notes("Still needed before there is an answer", required.map((each) => `${each.field}: ${each.why}`), "problem"),
    required.some((each) => each.field === "cluster.num_gpus") ? gpusAsked(read) : "",
    notes("Not understood, and left out", report.not_understood.map((each) => `${each.setting} ${each.note}`), "problem"),
    notes("To be given here", report.needed.filter((each) => !each.is_required && each.field !== "storage.preset").map((each) => `${each.field}: ${each.why}`)),
    element("details", {}, element("summary", {}, `What became of ${rows.length} settings`), titled("", element("table", {}, head, element("tbody", {}, body)))),
  ].filter((each) => each !== "");
}

function notes(title, texts, kind) {
  return texts.length ? element("section", {}, element("h3", {}, title), element("ul", { class: kind }, texts.map((each) => element("li", {}, each)))) : "";
}

function gpusAsked(read) {
  const input = element("input", { id: "imported-gpus", type: "number", min: "1", onchange: (event) => event.target.value && read(event.target.valueAsNumber) });
  return element("p", {}, element("label", { for: "imported-gpus" }, "GPUs of this training"), " ", input);
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
