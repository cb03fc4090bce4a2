// The offers of a purchase: a column for each, a row for each rate and price. Spreadsheets are read and written.

import { byId, download, element } from "./dom.js";
import { described, valueAt, withValue } from "./fields.js";
import { base64, fileDrop } from "./files.js";
import { complete } from "./questions.js";
import { Problems } from "./rest.js";
import { inputOf, row, typedValue } from "./row.js";
import { sent } from "./token.js";

const TABLES = "v1/offer-tables";
const PURCHASE = [
  { path: "currency", label: "Currency", hint: "USD" },
  { path: "horizon_seconds", label: "Period", hint: "3y" },
  { path: "per_lost_gpu_hour", label: "Price of a GPU-hour", hint: "2.5" },
  { path: "author", label: "Author", hint: "who recommends" },
];
const RATES = [
  { path: "storage.preset", label: "Known storage system", list: "v1/storage-profiles" },
  { path: "storage.profile.write_bytes_per_second", label: "Write bandwidth", hint: "100 GB/s" },
  { path: "storage.profile.read_bytes_per_second", label: "Read bandwidth", hint: "200 GB/s" },
  { path: "capacity_bytes", label: "Usable capacity", hint: "1 PB" },
];
const TIER = {
  kind: "",
  interval_seconds: "10min",
  capacity_bytes: "3 TB",
  "storage.profile.write_bytes_per_second": "5 GB/s",
  "storage.profile.read_bytes_per_second": "10 GB/s",
};
const UNIT = { per: "for each", every: "every" };
const NEW_PRICE = { per: "offer", every: "once" };
const NUM_EMPTY = 3;
const MAX_NAME_CHARACTERS = 60;
const MAX_TIMES = 3;
const GROWTHS = { gpus: "of the GPUs", model: "of the model", "gpus yearly": "of the GPUs, each year", "model yearly": "of the model, each year" };

let schema = {};
let latest = {};
let purchase = {};
let numTiers = 0;
let changed = () => {};
let keep = () => {};

/** Learn the schema of decisions; `onChange` gets every new purchase, `keepForBack` keeps the one before it. */
export function build(decisions, onChange, keepForBack) {
  schema = decisions;
  changed = onChange;
  keep = keepForBack;
  document.addEventListener("paste", paste);
}

/** Show a purchase, unless it is the one that is shown. */
export function show(shown) {
  if (shown === latest) return;
  latest = shown;
  purchase = aligned(shown);
  const focused = document.activeElement?.id;
  const about = element("div", { class: "purchase" }, rows(PURCHASE), growth());
  const wide = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Offers" }, table());
  byId("offers").replaceChildren(element("h2", {}, "Offers"), about, wide, actions(), imports(), element("p", { id: "offers-said", role: "status" }));
  for (const input of byId("offers").querySelectorAll("[data-field]")) input.value = valueAt(purchase, input.id) ?? "";
  number();
  if (focused && byId("offers").contains(byId(focused))) byId(focused).focus();
}

/** The purchase with the same prices in each offer, row for row; those that it lacks have no amount. */
function aligned(given) {
  const own = given.offers.map(({ prices = [] }) => priced(prices));
  const units = new Map(own.flatMap((prices) => [...prices].map(([unit, { amount, ...price }]) => [unit, price])));
  return { ...given, offers: given.offers.map((offer, index) => ({ ...offer, prices: [...units].map(([unit, price]) => own[index].get(unit) ?? price) })) };
}

/** Prices by what they are paid for; the second of the same has a number. */
function priced(prices) {
  const units = prices.map(({ amount, ...unit }) => JSON.stringify(Object.entries(unit).sort()));
  return new Map(prices.map((price, index) => [`${units[index]} ${units.slice(0, index).filter((unit) => unit === units[index]).length}`, price]));
}

function table() {
  const head = purchase.offers.map((_, index) => element("th", { scope: "col" }, cell({ path: `offers.${index}.name`, label: "Name" }, index)));
  const body = [...RATES, ...others()].map((field) => line(field.label, field, (index) => `offers.${index}.${field.path}`));
  const prices = (purchase.offers[0]?.prices ?? []).map((_, each) => line(unit(each), { label: `Price ${each + 1}`, isPrice: true }, (index) => `offers.${index}.prices.${each}.amount`));
  const last = purchase.offers.map(({ name }, index) =>
    element("td", {}, button("Copy", () => copy(index), `Copy ${name}`), button("Remove", () => remove(index), `Remove ${name}`)),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, element("td", {}), head)),
    element("tbody", {}, body, prices, ranges(), element("tr", {}, element("td", {}), last)),
  );
}

/** Further figures that an offer has, and those of tiers. */
function others() {
  const known = new Set(["name", ...RATES.map(({ path }) => path)]);
  const tiers = Math.max(numTiers, ...purchase.offers.map((offer) => offer.tiers?.length ?? 0));
  const ofTiers = Array.from({ length: tiers }, (_, tier) => Object.entries(TIER).map(([name, hint]) => ({ path: `tiers.${tier}.${name}`, hint }))).flat();
  const found = purchase.offers.flatMap(({ prices, ranges, ...offer }) => leaves(offer, "").map((path) => ({ path })));
  return [...ofTiers, ...found].flatMap((field) => {
    if (known.has(field.path)) return [];
    known.add(field.path);
    return { ...field, label: labelOf(field.path) };
  });
}

/** The ranges of inputs that a table or a link gave, which are changed there. */
function ranges() {
  const paths = new Set(purchase.offers.flatMap((offer) => Object.keys(offer.ranges ?? {})));
  return [...paths].map((path) => {
    const cells = purchase.offers.map((offer) => element("td", {}, Object.entries(offer.ranges?.[path] ?? {}).map(([end, value]) => `${end} ${value}`).join(", ")));
    return element("tr", {}, element("th", { scope: "row", title: path }, `Range: ${labelOf(path).toLowerCase()}`), cells);
  });
}

function leaves(value, path) {
  if (typeof value !== "object" || value === null) return value === null ? [] : [path];
  return Object.entries(value).flatMap(([name, inner]) => leaves(inner, path ? `${path}.${name}` : name));
}

function labelOf(path) {
  const [, tier] = /^tiers\.(\d+)\./.exec(path) ?? [];
  const name = path.split(".").pop().replace(/_bytes_per_second$/, " bandwidth").replace(/_(bytes|seconds)$/, "").replaceAll("_", " ");
  return tier === undefined ? name[0].toUpperCase() + name.slice(1) : `Tier ${Number(tier) + 1}: ${name}`;
}

function line(head, field, pathOf) {
  const { description } = described(schema, pathOf(0));
  const cells = purchase.offers.map((_, index) => element("td", {}, cell({ ...field, path: pathOf(index) }, index)));
  return element("tr", {}, element("th", { scope: "row", title: description || undefined }, head), cells);
}

function cell(field, index) {
  const about = {
    id: field.path,
    "data-field": true,
    "data-price": field.isPrice,
    "aria-label": `${field.label}, ${purchase.offers[index].name || `offer ${index + 1}`}`,
    "aria-describedby": `${field.path}-problem`,
    oninput: ({ target }) => put(field.path, typedValue(field.path, target.value)),
  };
  return [inputOf(about, field, described(schema, field.path)), element("p", { id: `${field.path}-problem`, class: "problem", "aria-live": "polite" })];
}

/** What the prices of a row are for, in every offer. */
function unit(each) {
  const choices = Object.entries(UNIT).map(([name, label]) => {
    const { choices: given } = described(schema, `offers.0.prices.0.${name}`);
    const options = [...(name === "every" ? [""] : []), ...given].map((value) =>
      element("option", { value, selected: value === (purchase.offers[0].prices[each][name] ?? "") }, value ? value.replaceAll("-", " ") : "by use"),
    );
    const take = ({ target }) => rebuilt(purchase.offers.map((offer) => withValue(offer, `prices.${each}.${name}`, target.value || undefined)));
    return element("select", { id: `price-${each}-${name}`, "aria-label": `Price ${each + 1} ${label}`, onchange: take }, options);
  });
  const left = () => purchase.offers.map((offer) => ({ ...offer, prices: without(offer.prices, each) }));
  const neighbour = `price-${Math.min(each, purchase.offers[0].prices.length - 2)}-per`;
  return element("div", { class: "unit" }, "Price per ", choices, button("\u00d7", () => replaced(left(), neighbour), `Remove price ${each + 1}`));
}

/** Number the amounts as the question does, which leaves out those that are not given. */
function number() {
  purchase.offers.forEach(({ prices }, index) => {
    const cells = [...byId("offers").querySelectorAll(`td:nth-child(${index + 2}) [data-price]`)];
    const given = cells.filter((_, each) => "amount" in prices[each]);
    const order = [...given, ...cells.filter((each) => !given.includes(each))];
    const problems = order.map((input) => input.nextElementSibling);
    order.forEach((input, each) => {
      input.id = `offers.${index}.prices.${each}.amount`;
      problems[each].id = `${input.id}-problem`;
      input.setAttribute("aria-describedby", problems[each].id);
    });
  });
}

function growth() {
  const { of = "gpus", times, per_year } = purchase.growth ?? {};
  const position = per_year ?? Math.max(1, ...(times ?? []));
  const grows = element(
    "select",
    { id: "growth-of", onchange: () => grow() },
    Object.entries(GROWTHS).map(([value, label]) => element("option", { value, selected: value === `${of}${per_year ? " yearly" : ""}` }, label)),
  );
  const output = element("output", { for: "growth" });
  const tell = () => {
    output.textContent = slider.value === "1" ? "none" : `\u00d7${slider.value}`;
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  const grow = () => {
    tell();
    const [what, isYearly] = grows.value.split(" ");
    const size = slider.valueAsNumber;
    put("growth", size === 1 ? undefined : { of: what, ...(isYearly ? { per_year: size } : { times: [...[2].filter((less) => less < size), size] }) });
  };
  const slider = element("input", { type: "range", id: "growth", class: "slider", "aria-label": "Growth, slider", min: 1, max: Math.max(MAX_TIMES, position), step: 0.5, value: position, oninput: grow });
  tell();
  return element("div", { class: "field" }, element("label", { for: "growth-of" }, "Growth"), grows, element("div", { class: "slid" }, slider, output));
}

function actions() {
  const added = () => rebuilt([...purchase.offers, { name: free("Offer"), storage: {}, prices: [NEW_PRICE] }], `offers.${purchase.offers.length}.name`);
  const price = () => rebuilt(purchase.offers.map((offer) => ({ ...offer, prices: [...offer.prices, NEW_PRICE] })), `price-${purchase.offers[0]?.prices.length}-per`);
  const tier = () => {
    numTiers = 1 + Math.max(numTiers, ...purchase.offers.map((offer) => offer.tiers?.length ?? 0));
    rebuilt(purchase.offers, `offers.0.tiers.${numTiers - 1}.kind`);
  };
  const empty = () => replaced(Array.from({ length: NUM_EMPTY }, (_, index) => ({ name: `Offer ${index + 1}`, storage: {}, prices: [NEW_PRICE] })), "offers.0.name");
  const made = { "Add an offer": added, "Add a price": price, "Add a tier": tier, "Empty table": empty, "As CSV": () => write("csv"), "As xlsx": () => write("xlsx") };
  return element("p", { class: "actions" }, Object.entries(made).map(([label, act]) => button(label, act)));
}

function imports() {
  const words = "Paste cells of a spreadsheet, drop a table of offers (CSV or xlsx) here, or ";
  return fileDrop({ id: "offer-table", words, choose: "choose a file", accept: ".csv,.tsv,.txt,.xlsx" }, async ([file]) => {
    if (file) await read(file.name.toLowerCase().endsWith(".xlsx") ? { xlsx: await base64(file) } : { text: await file.text() });
  });
}

/** Take several cells for a table, wherever they are pasted beside the fields of others; one is text for its field. */
function paste(event) {
  const isElsewhere = event.target.closest("input, textarea") && !byId("offers").contains(event.target);
  const text = event.clipboardData.getData("text");
  if (byId("offers").hidden || isElsewhere || !/[\t\n]/.test(text.trim())) return;
  event.preventDefault();
  read({ text });
}

/** Read a table: its offers take the place of all. */
async function read(given) {
  const found = await attempt("The table is being read.", () => sent("POST", TABLES, given));
  if (!found) return;
  const names = found.offers.map(({ name }) => name).join(", ");
  numTiers = 0;
  keep();
  rebuilt(found.offers);
  say(found.offers.length === 1 ? `1 offer is read; it replaces those before: ${names}.` : `${found.offers.length} offers are read; they replace those before: ${names}.`);
}

async function write(kind) {
  const made = await attempt("The table is being written.", () => sent("POST", TABLES, { offers: complete(purchase.offers) }));
  if (!made) return;
  if (!made[kind]) return say(`This service writes no ${kind}.`);
  const content = kind === "csv" ? made.csv : Uint8Array.from(atob(made.xlsx), (each) => each.charCodeAt(0));
  download(`offers.${kind}`, new Blob([content]));
  say(`offers.${kind} holds the offers. The link of this page holds the rest too: currency, period, growth and the run.`);
}

async function attempt(doing, action) {
  say(doing);
  try {
    const done = await action();
    say("");
    return done;
  } catch (error) {
    return say(error instanceof Problems ? error.errors.map(({ sentence }) => sentence).join(" ") : `No answer: ${error.message}`);
  }
}

function say(text) {
  byId("offers-said").textContent = text;
}

function copy(index) {
  const { name } = purchase.offers[index];
  const copied = structuredClone({ ...purchase.offers[index], name: free(name.replace(/ \d+$/, "").slice(0, MAX_NAME_CHARACTERS - 4)) });
  rebuilt([...purchase.offers.slice(0, index + 1), copied, ...purchase.offers.slice(index + 1)], `offers.${index + 1}.name`);
}

function remove(index) {
  replaced(without(purchase.offers, index), `offers.${Math.min(index, purchase.offers.length - 2)}.name`);
}

/** A name that no offer has, with the first number from 2 on that is free. */
function free(base) {
  const names = purchase.offers.map(({ name }) => name);
  const numbers = Array.from({ length: names.length + 1 }, (_, index) => `${base} ${index + 2}`);
  return numbers.find((name) => !names.includes(name));
}

function rows(fields) {
  return fields.map((field) => row(field, schema, (value) => put(field.path, value)));
}

/** Put a value where it was typed. The place of an amount is that of its row, whatever number its field has. */
function put(path, value) {
  const [, offer, inner] = /^offers\.(\d+)\.(tiers\..+)$/.exec(path) ?? [];
  if (inner) {
    const former = purchase.offers[offer];
    const next = withValue({ ...former, tiers: former.tiers ?? [] }, inner, value);
    const tiers = (next.tiers ?? []).filter(Boolean);
    latest = { ...purchase, offers: purchase.offers.with(Number(offer), tiers.length ? { ...next, tiers } : (({ tiers: none, ...rest }) => rest)(next)) };
  } else latest = withValue(purchase, path, value);
  purchase = latest;
  if (path.endsWith(".amount")) number();
  changed(latest);
}

/** Put offers in the place of others, which Back brings again. */
function replaced(offers, place) {
  keep();
  rebuilt(offers, place);
  say("Back in the browser brings the former offers again.");
}

/** Show other offers, and ask of them. The field whose id is `place` gets the focus; where there is none, the first button below. */
function rebuilt(offers, place) {
  const next = { ...purchase, offers };
  show(next);
  if (place) (byId(place) ?? byId("offers").querySelector(".actions button")).focus();
  changed(next);
}

function without(list, index) {
  return list.filter((_, each) => each !== index);
}

function button(label, onclick, named) {
  return element("button", { type: "button", onclick, "aria-label": named }, label);
}
