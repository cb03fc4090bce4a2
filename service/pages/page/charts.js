// Charts: Vega-Lite as the service sends it, drawn when it comes into view. The libraries are loaded for the first.

import { download, element } from "./dom.js";
import { table } from "./tables.js";

const MAX_ROWS = 500;

let libraries;
const waiting = new WeakMap();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    draw(target, waiting.get(target));
  }
});

/** A chart with its description, its data as a table, and the files to keep. */
export function chart(spec) {
  const drawn = element("div", { class: "drawn", tabindex: "0", role: "img", "aria-label": spec.description });
  waiting.set(drawn, spec);
  seen.observe(drawn);
  const data = element("details", { ontoggle: (event) => fill(event.target, spec) }, element("summary", {}, "As a table"));
  return element("figure", { "data-x": spec.encoding?.x?.field }, drawn, element("figcaption", {}, files(drawn, spec), data));
}

async function draw(drawn, spec) {
  try {
    libraries ??= loaded();
    const view = await (await libraries)(drawn, spec, {
      actions: false,
      ast: true,
      defaultStyle: false,
      renderer: "svg",
      tooltip: { disableDefaultStyle: true },
    });
    drawn.view = view.view;
    drawn.classList.add("ready");
    drawn.style.minHeight = "";
  } catch (error) {
    libraries = undefined;
    drawn.replaceChildren(element("p", { class: "problem" }, `The chart cannot be drawn. ${error.message}`));
  }
}

function loaded() {
  return new Promise((resolve, reject) => {
    const script = element("script", {
      src: "page/vega.js",
      onload: () => resolve(window.vegaEmbed),
      onerror: () => reject(new Error("Its libraries did not load: try again.")),
    });
    document.head.append(script);
  });
}

function files(drawn, spec) {
  const name = spec.title.text;
  const kept = {
    SVG: async () => new Blob([await drawn.view.toSVG()], { type: "image/svg+xml" }),
    PNG: async () => imageOf(await drawn.view.toCanvas(2)),
    CSV: async () => new Blob([csv(spec.data.values)], { type: "text/csv" }),
  };
  return Object.entries(kept).map(([kind, make]) =>
    element("button", { type: "button", onclick: async () => download(`${name}.${kind.toLowerCase()}`, await make()) }, kind),
  );
}

function imageOf(canvas) {
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function fill(details, spec) {
  if (!details.open || details.querySelector("table")) return;
  const { values } = spec.data;
  const columns = columnsOf(values);
  const rows = values.slice(0, MAX_ROWS).map((row) => columns.map((name) => shown(row[name])));
  details.append(table({ title: "", columns, rows, stressed: [], is_figures: false }));
  if (values.length > MAX_ROWS) details.append(element("p", {}, `The first ${MAX_ROWS} of ${values.length} rows; the CSV has all.`));
}

function columnsOf(values) {
  return [...new Set(values.flatMap(Object.keys))];
}

function shown(value) {
  return value === undefined || value === null ? "" : String(value);
}

function csv(values) {
  const columns = columnsOf(values);
  const lines = [columns, ...values.map((row) => columns.map((name) => shown(row[name])))];
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
}

/** A cell of CSV: a text that a spreadsheet would run gets an apostrophe before it. */
function quoted(text) {
  const guarded = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
