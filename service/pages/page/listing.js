// Lists of what is stored: tables whose cells are texts or elements.

import { element } from "./dom.js";
import { titled } from "./tables.js";

const DAY = new Intl.DateTimeFormat("en-CA", { dateStyle: "short", timeStyle: "short", hourCycle: "h23", timeZone: "UTC" });
const NUMBER = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });

/** A table under a title: `columns` are `{label, kind}`, each row its cells; the first cell heads its row. */
export function listing(title, columns, rows) {
  const head = columns.map(({ label, kind }) =>
    label === "" ? element("td", {}) : element("th", { scope: "col", class: kind }, label),
  );
  const body = rows.map(([first, ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", class: columns[0].kind }, first),
      cells.map((cell, index) => element("td", { class: columns[index + 1].kind }, cell)),
    ),
  );
  return titled(title, element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, body)));
}

/** A moment of REST, in UTC; nothing where there is none. */
export function moment(text) {
  return text ? element("time", { datetime: text }, `${DAY.format(new Date(text)).replace(",", "")} UTC`) : "";
}

/** A number as people write it. */
export function number(value) {
  return value === null || value === undefined ? "-" : NUMBER.format(value);
}

/** Where something was read: a link only where it is one. */
export function source(text) {
  return /^https?:\/\/\S+$/.test(text) ? element("a", { href: text, rel: "noreferrer" }, text) : text;
}

/** A title, and what the page is for. */
export function heading(title, lead) {
  return [element("h2", { class: "title" }, title), lead ? element("p", { class: "lead" }, lead) : ""];
}
