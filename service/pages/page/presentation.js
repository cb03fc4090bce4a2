// An answer as the service words it: verdict, figures, charts, tables.

import { chart } from "./charts.js";
import { element, sentences, unbroken } from "./dom.js";
import { labelled } from "./fields.js";
import { gpuGrid } from "./gpu-grid.js";
import { cell, heads, table, titled } from "./tables.js";

const NUM_LEADING = 3;

/** The elements of a presentation, the answer first: verdict, three figures, their chart, its tables. `isFolded` folds the other tables. */
export function presented(answer, isFolded = false) {
  const first = answer.charts.filter((spec) => spec.usermeta?.handle);
  const others = answer.charts.filter((spec) => !first.includes(spec) && spec.usermeta?.topic !== "guesses");
  const further = answer.tables.filter(({ topic, leads }) => topic !== "guesses" && !leads);
  const tables = [...answer.sections.map(figures), ...further.map(table)];
  const lead = leading(answer.figures);
  return [
    element("p", { class: "kind" }, answer.kind),
    element("h2", { class: "title" }, answer.title),
    answer.headline === "" ? "" : element("p", { class: "headline" }, answer.headline),
    verdict(answer),
    cards("The answer in figures", lead, "lead"),
    ...first.map(chart),
    ...answer.tables.filter(({ leads }) => leads).map(table),
    cards("Further figures", answer.figures.filter((row) => !lead.includes(row)), "small"),
    answer.mark_meaning === "" ? "" : element("p", { class: "mark" }, answer.mark_meaning),
    sentences("Before you rely on it", answer.warnings.map(labelled), "warnings"),
    guesses(answer),
    ...others.map(chart),
    answer.gpus ? gpuGrid(answer.gpus) : "",
    ...(isFolded ? [folded("All figures, as tables", tables, "all-figures")] : tables),
    ...answer.remarks.map((remark) => element("p", {}, remark)),
    answer.question === "" ? "" : question(answer.question),
    element("p", { class: "made" }, `Answered by checkpoint-sizing ${answer.version}.`),
  ].filter(Boolean);
}

/** What a change of the scenario comes to, in a sentence for those who do not see it: the verdict, or what heads the answer. */
export function spoken(answer) {
  return answer.standing === "none" ? answer.title : answer.verdict;
}

/** The answer in a slim line: how its verdict begins, and the three figures that stand first. */
export function summary(answer) {
  const figures = leading(answer.figures).map(({ label, figure }) => element("span", {}, element("small", {}, label), " ", unbroken(figure)));
  return [element("strong", {}, labelled(spoken(answer)).split(/[:;\n]/)[0]), " ", ...figures];
}

function verdict(answer) {
  if (answer.standing === "none") return "";
  const lines = answer.verdict.split("\n").map((line) => element("p", {}, unbroken(labelled(line))));
  return element("section", { class: `verdict ${answer.standing}`, "aria-label": "Verdict" }, lines, sentences("", answer.remedies.map(labelled)));
}

/** The three figures that stand first and large: those that answer the question, before the first others. */
export function leading(figures) {
  const first = [...figures.filter((row) => row.is_leading), ...figures.filter((row) => !row.is_leading)].slice(0, NUM_LEADING);
  return figures.filter((row) => first.includes(row));
}

/** What is under one heading to open, which stays open from answer to answer. */
function folded(heading, what, kind) {
  const open = document.querySelector(`#shown .${kind}`)?.open ?? false;
  return element("details", { class: kind, open }, element("summary", {}, heading), what);
}

/** The guesses that move the answer most; all of them, drawn and with their sources, to open. */
function guesses(answer) {
  const about = ({ topic }) => topic === "guesses";
  const all = [...answer.charts.filter(({ usermeta }) => about(usermeta ?? {})).map(chart), ...answer.tables.filter(about).map(table)];
  const shown = sentences("These guesses move the answer", answer.guesses, "guesses");
  if (shown && all.length) shown.append(folded("All of them, how far each moves it, and where its range is from", all, "all-guesses"));
  return shown;
}

function cards(name, rows, kind) {
  if (!rows.length) return "";
  const made = rows.map((row) =>
    element(
      "div",
      {},
      element("dt", {}, row.label),
      element("dd", { class: "figure" }, unbroken(row.figure)),
      element("dd", { class: "meaning" }, unbroken(labelled(row.meaning))),
    ),
  );
  return element("section", { class: `cards ${kind}`, "aria-label": name }, element("dl", {}, made));
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
