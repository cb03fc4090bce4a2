// Tables of text.

import { element, unbroken } from "./dom.js";
import { labelled } from "./fields.js";

/** A table of text under its title, in which fields have their labels. */
export function table({ title, columns, rows, stressed, is_figures }) {
  const head = columns.map((column) => (column === "" ? element("td", {}) : element("th", { scope: "col" }, column)));
  const body = rows.map((cells, index) =>
    element(
      "tr",
      { class: stressed.includes(index) ? "stressed" : undefined },
      cells.map((text, place) => (place === 0 && !is_figures ? heads(labelled(text)) : cell(labelled(text), is_figures ? "figure" : undefined))),
    ),
  );
  const made = element("table", {}, head.length ? element("thead", {}, element("tr", {}, head)) : "", element("tbody", {}, body));
  return titled(title, made);
}

/** What is shown under its title; what is wider than the page scrolls by itself. */
export function titled(title, shown) {
  shown.setAttribute("aria-label", title || "Table");
  const scrolled = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title || "Table" }, shown);
  return element("section", {}, title ? element("h3", {}, title) : "", scrolled);
}

/** A cell of a table. */
export function cell(text, kind) {
  return element("td", { class: kind }, unbroken(text));
}

/** The cell that heads its row. */
export function heads(text) {
  return element("th", { scope: "row" }, unbroken(text));
}
