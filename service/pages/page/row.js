// One field of a form: its label, its input, what it is, and what is wrong with it.

import { reveal } from "./blocks.js";
import { byId, element } from "./dom.js";
import { described, labelled } from "./fields.js";
import { Problems } from "./rest.js";
import { slider } from "./sliders.js";

/** Inputs that stand for a whole block. */
const WHOLE = ["model", "storage"];
const NUMBER = /^-?\d+(\.\d+)?(e-?\d+)?$/i;

/** The row of a field `{path, label, list, hint}` of a schema; `take` gets what is typed or slid to, as a value. Escape hides what the field is, until it is left. */
export function row(field, schema, take, slid) {
  const { choices, placeholder } = described(schema, field.path);
  const about = {
    id: field.path,
    "data-field": true,
    "aria-describedby": `${field.path}-about ${field.path}-problem`,
    oninput: (event) => take(typedValue(field.path, event.target.value)),
  };
  return element(
    "div",
    {
      class: "field",
      onkeydown: ({ key, currentTarget }) => key === "Escape" && currentTarget.classList.add("read"),
      onfocusout: ({ currentTarget }) => currentTarget.classList.remove("read"),
    },
    element("label", { for: field.path }, field.label),
    inputOf(about, field, { choices, placeholder }),
    field.slides ? slider(field, (step) => slid(valueOf(step))) : "",
    element("p", { id: `${field.path}-about`, class: "about" }, aboutOf(field, schema)),
    element("p", { id: `${field.path}-problem`, class: "problem", "aria-live": "polite" }),
  );
}

/** What a field is; where the answer chose a value for it, why that one. */
function aboutOf({ path, hint }, schema, assumed) {
  const { description, placeholder } = described(schema, path);
  const example = hint && !placeholder ? `For example: ${hint}.` : "";
  const why = assumed?.is_chosen ? `${assumed.reason[0].toUpperCase()}${assumed.reason.slice(1)}.` : "";
  return [description, example, why].filter(Boolean).join(" ");
}

/** Show in a field that is open what the answer uses there, marked where it was chosen; without that its default. */
export function showAssumed(field, schema, assumed) {
  const input = byId(field.path);
  const standing = assumed?.value_text ?? described(schema, field.path).placeholder;
  input.toggleAttribute("data-chosen", Boolean(assumed?.is_chosen));
  byId(`${field.path}-about`).textContent = aboutOf(field, schema, assumed);
  if (input.tagName === "SELECT") input.options[0].textContent = openChoice(standing);
  else input.placeholder = assumed?.is_chosen ? `${standing}, ${assumed.reason.split(":")[0]}` : standing || field.hint || "";
}

/** Show what is wrong beside the fields it is about, which are opened to be seen; returns what belongs to none of them. */
export function showProblems(errors) {
  const inputs = [...document.querySelectorAll("[data-field]")];
  const placed = errors.map((error) => [placeOf(error.field, inputs), error]);
  for (const input of inputs) {
    const own = placed.filter(([place]) => place === input).map(([, error]) => named(error, input));
    if (own.length) {
      input.setAttribute("aria-invalid", "true");
      reveal(input);
    } else input.removeAttribute("aria-invalid");
    byId(`${input.id}-problem`).textContent = own.join(" ");
  }
  return placed.filter(([place]) => !place).map(([, error]) => error);
}

/** Show why there is no answer: what is wrong with a field beside it. Returns the sentences that have no such place. */
export function explain(error) {
  const isRefusal = error instanceof Problems;
  const left = showProblems(isRefusal ? error.errors : []).map(({ sentence }) => labelled(sentence));
  if (!isRefusal) return [`No answer: ${error.message}`];
  return error.secondsToRetry ? [...left, `It is asked again in ${error.secondsToRetry} s.`] : left;
}

/** What is wrong, by the name that the input has on the page, and of other fields by theirs: their paths stand nowhere there. */
function named({ field, sentence }, input) {
  const cell = input.getAttribute("aria-label");
  const path = field.replace(/^(offers\.\d+|(workloads\.0\.)?scenario)\./, "");
  const at = sentence.indexOf(`${path} `);
  if (at < 0 || !(cell || path === input.id)) return labelled(sentence.replace(field, path));
  return `${cell ?? input.labels[0].textContent.replace(/^or /, "")}: ${labelled(sentence.slice(at + path.length + 1))}`;
}

/** The input that a problem's field belongs to: its own, or the first of its entry or of the storage of an offer, where in sight, else that of its block. */
function placeOf(field, inputs) {
  const path = field.replace(/^(workloads\.0\.)?scenario\./, "");
  const own = inputs.find(({ id }) => id === path) ?? (/\.(\d+|storage)$/.test(path) ? inputs.find(({ id }) => id.startsWith(`${path}.`)) : undefined);
  const whole = inputs.find(({ id }) => WHOLE.includes(id) && path.startsWith(id));
  return own?.checkVisibility() ? own : (whole ?? own);
}

/** The input of a field, of which a schema says `described`: a choice, or a line of text. */
export function inputOf(about, field, { choices, placeholder }) {
  return choices.length ? choice(about, choices, placeholder) : line(about, field, placeholder);
}

/** What is typed into a field. A rate or duration stays text, which says its unit or is refused; a number would be B/s or s. */
export function typedValue(path, typed) {
  return /_(bytes_per_second|seconds)$/.test(path) && typed.trim() !== "" ? typed.trim() : valueOf(typed);
}

function valueOf(typed) {
  const text = typed.trim();
  if (text === "") return undefined;
  return NUMBER.test(text) ? Number(text) : text;
}

function choice(about, choices, placeholder) {
  const open = element("option", { value: "" }, openChoice(placeholder));
  return element("select", about, open, choices.map((each) => element("option", { value: each }, each)));
}

function openChoice(standing) {
  return standing === "" ? "not given" : `${standing} (default)`;
}

function line(about, field, placeholder) {
  return element("input", {
    ...about,
    list: field.list || field.options ? `list-${field.list ?? field.options}` : undefined,
    placeholder: placeholder || field.hint || "",
    autocomplete: "off",
    spellcheck: "false",
  });
}
