// Charts: Vega-Lite as the service sends it, drawn when it comes into view. The libraries are loaded for the first.

import { download, element, unbroken } from "./dom.js";
import { table } from "./tables.js";

const MAX_ROWS = 500;
const FIGURE = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const UNITS = ["bytes_per_second", "bytes", "seconds", "fraction"];
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];
const DURATIONS = { days: 86_400, h: 3600, min: 60, s: 0 };
const OPTIONS = { actions: false, ast: true, defaultStyle: false, renderer: "svg", tooltip: { disableDefaultStyle: true } };
const narrow = matchMedia("(max-width: 48rem)");

let libraries;
const waiting = new WeakMap();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    draw(target, waiting.get(target));
  }
}, { rootMargin: "50% 0px" });

/** A chart under its title, with its description, its data as a table, and the files to keep. */
export function chart(spec) {
  const drawn = element("div", { class: "drawn", role: "img", "aria-label": spec.description });
  const lines = [spec.title.subtitle ?? []].flat();
  waiting.set(drawn, spec);
  seen.observe(drawn);
  const data = element("details", { ontoggle: (event) => fill(event.target, spec) }, element("summary", {}, "As a table"));
  return element(
    "figure",
    { "data-handle": spec.usermeta?.handle !== undefined },
    element("h3", {}, spec.title.text),
    lines.map((line) => element("p", { class: "subtitle" }, unbroken(line))),
    drawn,
    element("figcaption", {}, files(spec), data),
  );
}

async function draw(drawn, spec) {
  try {
    libraries ??= loaded();
    const embed = await libraries;
    const places = viewsOf(spec).map((view) => [element("div"), view]);
    drawn.replaceChildren(...places.map(([place]) => place));
    for (const [place, view] of places) align(drawn, (await embed(place, ...here(view))).view);
    drawn.classList.add("ready");
    drawn.style.minHeight = "";
  } catch (error) {
    libraries = undefined;
    drawn.replaceChildren(element("p", { class: "problem" }, `The chart cannot be drawn. ${error.message}`));
  }
}

/** The views of a chart: those that stand on top of each other are drawn each for itself, as wide as the page has room. */
function viewsOf({ title, vconcat, ...whole }) {
  return vconcat ? vconcat.map((view) => ({ $schema: whole.$schema, config: whole.config, ...view })) : [whole];
}

/** How a view is drawn on the page: as wide as its place. The files to keep have the service's size. */
function here(view) {
  const { axis, legend } = view.config;
  const config = narrow.matches ? { ...view.config, axis: { ...axis, labelLimit: 110 }, legend: { ...legend, columns: 1 } } : view.config;
  return [{ ...view, config }, { ...OPTIONS, patch: asWideAsItsPlace }];
}

/** Vega as it is compiled, for the width that there is; Vega-Lite's own way warns of each chart that has a height per bar. */
function asWideAsItsPlace({ width, signals = [], ...compiled }) {
  if (width === undefined) return { signals, ...compiled };
  const size = "containerSize()[0]";
  const following = { name: "width", init: size, on: [{ events: "window:resize", update: size }] };
  return { ...compiled, autosize: { type: "fit-x", contains: "padding" }, signals: [following, ...signals] };
}

/** Tell the style where the horizontal axis of a chart lies, for a handle in line with it. */
function align(drawn, view) {
  const tell = () => {
    drawn.parentElement?.style.setProperty("--axis-left", `calc(${view.padding().left}px + ${view.origin()[0]}px)`);
    drawn.parentElement?.style.setProperty("--axis-width", `${view.width()}px`);
  };
  view.addSignalListener("width", tell);
  tell();
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

function files(spec) {
  const name = spec.title.text;
  const kept = {
    SVG: async () => new Blob([await (await whole(spec)).toSVG()], { type: "image/svg+xml" }),
    PNG: async () => imageOf(await (await whole(spec)).toCanvas(2)),
    CSV: async () => new Blob([csv(spec)], { type: "text/csv" }),
  };
  return Object.entries(kept).map(([kind, make]) =>
    element("button", { type: "button", onclick: async () => download(`${name}.${kind.toLowerCase()}`, await make()) }, kind),
  );
}

/** The chart as the service sent it, title and all, drawn aside. */
async function whole(spec) {
  libraries ??= loaded();
  return (await (await libraries)(element("div"), spec, OPTIONS)).view;
}

function imageOf(canvas) {
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function fill(details, spec) {
  if (!details.open || details.querySelector("table")) return;
  const values = rowsOf(spec);
  const fields = columnsOf(spec);
  const titles = titlesOf(spec);
  const columns = fields.map((name) => titles.get(name) ?? nameAndUnit(name)[0]);
  const rows = values.slice(0, MAX_ROWS).map((row) => fields.map((name) => figure(row[name], name)));
  details.append(table({ title: "", columns, rows, stressed: [], is_figures: false }));
  if (values.length > MAX_ROWS) details.append(element("p", {}, `The first ${MAX_ROWS} of ${values.length} rows; the CSV has all.`));
}

/** The rows that a chart draws: its own, or where it has none those of its views and layers, each once. */
function rowsOf({ data, vconcat = [], layer = [] }) {
  const own = data?.values ?? [];
  if (own.length) return own;
  const parts = [...vconcat, ...layer].flatMap(rowsOf);
  return [...new Map(parts.map((row) => [JSON.stringify(row), row])).values()];
}

/** What the axes and legends of a chart call each field; of two fields under one title the first has it. */
function titlesOf({ encoding = {}, vconcat = [], layer = [] }) {
  const own = Object.values(encoding).flat().filter(({ field, title }) => field && title).map(({ field, title }) => [title, field]);
  const inner = [...vconcat, ...layer].flatMap((part) => [...titlesOf(part)].map(([field, title]) => [title, field]));
  return new Map([...new Map([...own, ...inner].reverse())].map(([title, field]) => [field, title]));
}

/** The words of a field's name, and the unit that ends it. */
function nameAndUnit(name) {
  const unit = UNITS.find((each) => name === each || name.endsWith(`_${each}`));
  return [(unit && name.slice(0, -unit.length - 1) || name).replaceAll("_", " "), unit];
}

/** A value as people read it, in the unit that ends the name of its field. The files to keep have it whole. */
function figure(value, name) {
  if (typeof value !== "number") return shown(value);
  const [, unit] = nameAndUnit(name);
  if (unit === "fraction") return `${FIGURE.format(100 * value)} %`;
  if (unit === "seconds") {
    const [longest, seconds] = Object.entries(DURATIONS).find(([, least]) => Math.abs(value) >= least);
    return `${FIGURE.format(value / (seconds || 1))} ${longest}`;
  }
  if (unit === undefined) return Number.isInteger(value) ? value.toLocaleString("en") : FIGURE.format(value);
  const step = Math.min(Math.max(Math.floor(Math.log10(Math.abs(value)) / 3), 0), PREFIXES.length - 1);
  return `${FIGURE.format(value / 1000 ** step)} ${PREFIXES[step]}${unit === "bytes" ? "B" : "B/s"}`;
}

/** The fields of the rows of a chart, but those by which it only orders what it draws. */
function columnsOf(spec) {
  const orders = [spec, ...(spec.vconcat ?? []), ...(spec.layer ?? [])].map(({ encoding }) => encoding?.order?.field);
  return [...new Set(rowsOf(spec).flatMap(Object.keys))].filter((name) => !orders.includes(name));
}

function shown(value) {
  return value === undefined || value === null ? "" : String(value);
}

function csv(spec) {
  const columns = columnsOf(spec);
  const lines = [columns, ...rowsOf(spec).map((row) => columns.map((name) => shown(row[name])))];
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n");
}

/** A cell of CSV: a text that a spreadsheet would run gets an apostrophe before it. */
function quoted(text) {
  const guarded = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
