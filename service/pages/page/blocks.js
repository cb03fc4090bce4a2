// What the form has beside its first fields: blocks that say how much they hold, and a search that opens the one meant.

import { byId, element } from "./dom.js";

/** A block of fields, closed until somebody opens it or the search leads there. */
export function block(title, rows) {
  const given = element("span", { class: "given" });
  return element("details", { class: "block", "aria-label": title, "data-title": title }, element("summary", {}, title, " ", given), rows);
}

/** Say beside each block how many of its fields a document gives, and beside all of them together; `others` have no field. */
export function showGiven(isGiven, others) {
  let sum = others;
  for (const each of document.querySelectorAll(".block")) {
    const count = [...each.querySelectorAll("[data-field]")].filter(({ id }) => isGiven(id)).length;
    mark(each, count);
    sum += count;
  }
  mark(byId("whole"), others);
  mark(byId("more"), sum);
}

function mark(details, count) {
  details.querySelector(".given").textContent = count ? `${count} given` : "";
}

/** Open what an element stands in. */
export function reveal(element) {
  for (let each = element.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
}

/** Lead from the search to the field that is chosen or, at Enter, to the first that fits what is typed. */
export function offerSearch() {
  const find = byId("find");
  const list = element("datalist", { id: "list-find" });
  find.after(list);
  find.addEventListener("focus", () => list.replaceChildren(...places().map(({ name }) => element("option", { value: name }))));
  find.addEventListener("input", () => {
    byId("find-problem").textContent = "";
    go(places().find(({ name }) => name === find.value));
  });
  find.addEventListener("keydown", ({ key }) => {
    if (key !== "Enter" || find.value.trim() === "") return;
    const place = bestPlace(find.value.trim().toLowerCase());
    byId("find-problem").textContent = place ? "" : "No field is called that. The whole scenario as JSON, under More, takes every field.";
    go(place);
  });
}

/** The fields that the question takes, each with its label and its block. */
function places() {
  return [...document.querySelectorAll("#fields [data-field]")]
    .filter((input) => !input.closest("[hidden]"))
    .map((input) => {
      const title = input.closest(".block")?.dataset.title;
      const label = input.labels[0].textContent.replace("or ", "");
      return { input, name: title ? `${label} (${title})` : label, about: byId(`${input.id}-about`).textContent };
    });
}

/** The first place whose name has a text or, where none has, whose path or description does. */
function bestPlace(text) {
  const all = places();
  return [({ name }) => name, ({ input }) => input.id, ({ about }) => about]
    .map((words) => all.find((place) => words(place).toLowerCase().includes(text)))
    .find(Boolean);
}

function go(place) {
  if (!place) return;
  byId("find").value = "";
  reveal(place.input);
  place.input.focus();
}
