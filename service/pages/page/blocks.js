// What the form has beside its first fields: blocks that say how much they hold, and a search that opens the one meant.

import { byId, element } from "./dom.js";

/** A block of fields, closed until somebody opens it or the search leads there. */
export function block(title, rows) {
  const given = element("span", { class: "given" });
  return element("details", { class: "block", "aria-label": title, "data-title": title }, element("summary", {}, title, " ", given), rows);
}

/** Say beside each block how many of its fields are given and how many chosen, and beside all together; `others` have no field. */
export function showGiven(isGiven, isChosen, others) {
  const sum = [others, 0];
  for (const each of document.querySelectorAll(".block")) {
    const fields = [...each.querySelectorAll("[data-field]")];
    const counts = [isGiven, isChosen].map((holds) => fields.filter(({ id }) => holds(id)).length);
    mark(each, counts);
    counts.forEach((count, place) => (sum[place] += count));
  }
  mark(byId("whole"), [others, 0]);
  mark(byId("more"), sum);
}

function mark(details, [given, chosen]) {
  const words = [given ? `${given} given` : "", chosen ? `${chosen} chosen` : ""];
  details.querySelector(".given").textContent = words.filter(Boolean).join(", ");
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
      const label = input.labels[0].textContent.replace(/^or /, "");
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
