// The offers of a purchase: who offers what at which prices.

import { byId, element } from "./dom.js";
import { valueAt, withValue } from "./fields.js";
import { row } from "./row.js";

const PURCHASE = [
  { path: "currency", label: "Currency", hint: "USD" },
  { path: "horizon_seconds", label: "Time that counts", hint: "1y" },
  { path: "per_lost_gpu_hour", label: "A lost GPU hour", hint: "2.5" },
];
const OFFER = [
  { path: "name", label: "Name" },
  { path: "storage.preset", label: "Published system", list: "v1/storage-profiles" },
  { path: "storage.profile.write_bytes_per_second", label: "Write bandwidth", hint: "100 GB/s" },
  { path: "storage.profile.read_bytes_per_second", label: "Read bandwidth", hint: "200 GB/s" },
  { path: "capacity_bytes", label: "Usable capacity", hint: "1 PB" },
];
const PRICE = [
  { path: "amount", label: "Price" },
  { path: "per", label: "for each" },
  { path: "every", label: "every" },
];
const NEW_PRICE = { per: "offer", every: "once" };

let schema = {};
let purchase = {};
let changed = () => {};

/** Learn the schema of decisions; `onChange` gets every new purchase. */
export function build(decisions, onChange) {
  schema = decisions;
  changed = onChange;
}

/** Show a purchase, unless it is the one that is shown. */
export function show(shown) {
  if (shown === purchase) return;
  purchase = shown;
  const title = element("legend", {}, "Offers");
  const add = button("Add an offer", () => rebuilt("offers", [...purchase.offers, { name: "", storage: {}, prices: [NEW_PRICE] }]));
  byId("offers").replaceChildren(element("fieldset", {}, title, rows(PURCHASE, ""), purchase.offers.map(offer), add));
  for (const input of byId("offers").querySelectorAll("[data-field]")) input.value = valueAt(purchase, input.id) ?? "";
}

function offer({ prices: shown = [], name }, index) {
  const path = `offers.${index}.`;
  const prices = () => purchase.offers[index].prices ?? []; // as they are when a button is pressed, edits included
  const remove = button("Remove this offer", () => rebuilt("offers", without(purchase.offers, index)));
  const more = button("Add a price", () => rebuilt(`${path}prices`, [...prices(), NEW_PRICE]));
  const priced = shown.map((_, each) => [
    rows(PRICE, `${path}prices.${each}.`),
    button("Remove this price", () => rebuilt(`${path}prices`, without(prices(), each))),
  ]);
  return element("fieldset", {}, element("legend", {}, name || `Offer ${index + 1}`), rows(OFFER, path), priced, more, " ", remove);
}

function rows(fields, prefix) {
  return fields.map((field) => {
    const path = prefix + field.path;
    return row({ ...field, path }, schema, (value) => {
      purchase = withValue(purchase, path, value);
      changed(purchase);
    });
  });
}

function rebuilt(path, list) {
  const next = withValue(purchase, path, list);
  show(next);
  changed(next);
}

function without(list, index) {
  return list.filter((_, each) => each !== index);
}

function button(label, onclick) {
  return element("button", { type: "button", onclick }, label);
}
