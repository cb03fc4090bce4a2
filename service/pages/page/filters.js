// A search and filters over the rows of a table that is shown.

import { element } from "./dom.js";

const MAX_FILTERS = 3;
const MAX_SHARE = 0.4;

/** What leaves those rows of a table in sight that hold the words and the choices; its columns with few values are choices. */
function filtersOf(table) {
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, texts: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const columns = [...table.tHead.rows[0].cells].map((cell, index) => ({ label: cell.textContent, index, values: [...new Set(rows.map(({ texts }) => texts[index]))].sort() }));
  const few = columns.filter(({ values }) => values.length > 1 && values.length <= MAX_SHARE * rows.length && values.every((text) => text.length < 60));
  const choices = few.slice(0, MAX_FILTERS).map(({ label, index, values }) => {
    const options = [element("option", { value: "" }, "any"), ...values.filter(Boolean).map((value) => element("option", { value }, value))];
    return { index, label, select: element("select", { onchange: apply }, options) };
  });
  const search = element("input", { type: "search", oninput: apply, autocomplete: "off", spellcheck: "false" });
  const count = element("p", { role: "status", class: "found" });

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { row, texts } of rows) {
      const whole = texts.join(" ").toLowerCase();
      row.hidden = !words.every((word) => whole.includes(word)) || choices.some(({ index, select }) => select.value && texts[index] !== select.value);
    }
    const left = rows.filter(({ row }) => !row.hidden).length;
    count.textContent = left === rows.length ? `${left} entries.` : `${left} of ${rows.length} entries.`;
  }

  apply();
  const labels = [{ label: "Search", select: search }, ...choices].map(({ label, select }) => element("label", {}, label, select));
  return element("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, labels, count);
}

/** What is shown, with filters before the first table that it has. */
export function withFilters(shown) {
  const place = shown.findIndex((each) => each.querySelector("table"));
  return place < 0 ? shown : shown.toSpliced(place, 0, filtersOf(shown[place].querySelector("table")));
}
