// Predicted beside published, as `ckpt-size validate` prints it.

import { element } from "./dom.js";
import { heading, listing, number, source } from "./listing.js";
import { stored } from "./token.js";

export const TITLE = "Validation";
const COLUMNS = [
  { label: "What was published", kind: "words" }, { label: "Predicted", kind: "figure" }, { label: "Published", kind: "figure" },
  { label: "Ratio", kind: "figure" }, { label: "Standing" }, { label: "Why", kind: "words" },
];

/** How the parts stand, then every comparison under its source. */
export async function content() {
  const { parts } = await stored("v1/validation");
  const columns = ["Part", "Rows", "Agree", "Explained miss", "Unexplained", "No prediction"].map((label, index) => ({ label, kind: index ? "figure" : undefined }));
  const counts = parts.map(({ title, comparisons, counts: found }) => [
    title, number(comparisons.length), ...[found.agrees, found.explained_misses, found.unexplained, found.no_prediction].map(number),
  ]);
  return [
    ...heading(TITLE, "How far the calculation can be believed: every figure beside one that others published. A miss has its reason."),
    element("div", { class: "counts" }, listing("", columns, counts)),
    ...parts.flatMap(part),
  ];
}

function part({ title, comparisons }) {
  const sources = [...new Set(comparisons.map((row) => row.source))];
  const tables = sources.map((name) => {
    const rows = comparisons.filter((row) => row.source === name).map(cells);
    return element("details", {}, element("summary", {}, name), element("p", {}, source(name)), listing("", COLUMNS, rows));
  });
  return [element("h2", {}, title), ...tables];
}

function cells({ fact, predicted, published, is_lower_bound, ratio, verdict, note }) {
  return [fact, number(predicted), `${is_lower_bound ? "> " : ""}${number(published)}`, number(ratio), verdict.replaceAll("-", " "), note ?? ""];
}
