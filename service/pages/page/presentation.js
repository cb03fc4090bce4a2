// An answer as the service words it: verdict, figures, charts, tables.

import { chart } from "./charts.js";
import { element, sentences, unbroken } from "./dom.js";
import { labelled } from "./fields.js";
import { gpuGrid } from "./gpu-grid.js";
import { cell, heads, table, titled } from "./tables.js";

/** The elements of a presentation. */
export function presented(answer) {
  const [verdicts, ...sections] = answer.sections;
  return [
    element("p", { class: "kind" }, answer.kind),
    element("h2", { class: "title" }, answer.title),
    answer.headline === "" ? "" : element("p", {}, answer.headline),
    verdict(answer),
    cards(answer),
    sentences("These guesses move the answer", answer.guesses, "guesses"),
    sentences("Before you rely on it", answer.warnings.map(labelled), "warnings"),
    verdicts ? figures(verdicts) : "",
    answer.gpus ? gpuGrid(answer.gpus) : "",
    ...answer.charts.map(chart),
    ...sections.map(figures),
    ...answer.tables.map(table),
    ...answer.remarks.map((remark) => element("p", {}, remark)),
    answer.question === "" ? "" : question(answer.question),
    element("p", { class: "made" }, `Answered by checkpoint-sizing ${answer.version}.`),
  ].filter(Boolean);
}

/** What a change of the scenario comes to, in a sentence for those who do not see it: the verdict, or what heads the answer. */
export function spoken(answer) {
  return answer.standing === "none" ? answer.title : answer.verdict;
}

function verdict(answer) {
  if (answer.standing === "none") return "";
  const lines = answer.verdict.split("\n").map((line) => element("p", {}, unbroken(labelled(line))));
  return element("section", { class: `verdict ${answer.standing}`, "aria-label": "Verdict" }, lines, sentences("", answer.remedies.map(labelled)));
}

function cards(answer) {
  if (!answer.figures.length) return "";
  const made = answer.figures.map((row) =>
    element(
      "div",
      {},
      element("dt", {}, row.label),
      element("dd", { class: "figure" }, unbroken(row.figure)),
      element("dd", { class: "meaning" }, unbroken(labelled(row.meaning))),
    ),
  );
  const mark = answer.mark_meaning === "" ? "" : element("p", { class: "mark" }, answer.mark_meaning);
  return element("section", { class: "cards", "aria-label": "Figures" }, element("dl", {}, made), mark);
}

function figures(section) {
  const rows = section.rows.map((row) =>
    element("tr", {}, heads(row.label), cell(row.figure, "figure"), cell(labelled(row.meaning))),
  );
  return titled(section.title, element("table", { class: "figures" }, element("tbody", {}, rows)));
}

function question(text) {
  return element("details", {}, element("summary", {}, "To ask it again"), element("pre", { tabindex: "0" }, text));
}
