// Sliders beside fields and below charts. Their steps, and where they stand, come with the answer.

import { element } from "./dom.js";

/** By slider the steps that it goes through, and where it was put. */
const served = new WeakMap();
/** By slider that was moved since it got the focus: where an answer since then has it. */
const moved = new WeakMap();

/** A slider for the field at a path, or for one that the answer names; `take` gets the step that it is dragged to. */
export function slider({ path, label }, take) {
  return element("input", {
    type: "range",
    class: "slider",
    "data-slider": path,
    "aria-label": label && `${label}, slider`,
    disabled: true,
    min: 0,
    oninput: ({ target }) => {
      const step = served.get(target).steps[target.valueAsNumber];
      target.setAttribute("aria-valuetext", step);
      moved.set(target, undefined);
      take(step);
    },
    onblur: ({ target }) => {
      const known = moved.get(target);
      moved.delete(target);
      if (known) place(target, known);
    },
  });
}

/** Put every slider of a form where the answer has it. */
export function showSliders(form, given) {
  for (const input of form.querySelectorAll("[data-slider]")) show(input, given.find(({ field }) => field === input.dataset.slider));
}

/** Put a slider where it is known to stand; one that is being moved stays until it loses the focus. */
export function show(input, known) {
  input.disabled = known === undefined;
  if (known === undefined) moved.delete(input); // a disabled one loses the focus without a word
  else if (moved.has(input)) moved.set(input, known);
  else place(input, known);
}

function place(input, known) {
  served.set(input, known);
  input.max = known.steps.length - 1;
  input.value = known.position ?? 0;
  input.setAttribute("aria-valuetext", known.steps[known.position] ?? "not given");
}
