// Sliders beside fields and below charts. Their steps, and where they stand, come with the answer.

import { element } from "./dom.js";

const served = new WeakMap();

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
      take(step);
    },
  });
}

/** Put every slider of a form where the answer has it. */
export function showSliders(form, given) {
  for (const input of form.querySelectorAll("[data-slider]")) show(input, given.find(({ field }) => field === input.dataset.slider));
}

/** Put a slider where it is known to stand; one that is being dragged stays. */
export function show(input, known) {
  input.disabled = known === undefined;
  if (known && input !== document.activeElement) place(input, known);
}

function place(input, known) {
  served.set(input, known);
  input.max = known.steps.length - 1;
  input.value = known.position ?? 0;
  input.setAttribute("aria-valuetext", known.steps[known.position] ?? "not given");
}
