// Sliders beside fields and below charts. Their steps, and where they stand, come with the answer.

import { element } from "./dom.js";

const served = new WeakMap();

/** A slider for the field at a path; `take` gets the step that it is dragged to, as text. */
export function slider({ path, label }, take) {
  return element("input", {
    type: "range",
    class: "slider",
    "data-slider": path,
    "aria-label": `${label}, slider`,
    disabled: true,
    min: 0,
    oninput: ({ target }) => {
      const step = served.get(target).steps[target.valueAsNumber];
      target.setAttribute("aria-valuetext", step);
      take(step);
    },
  });
}

/** Put every slider where the answer has it; one that is being dragged stays. */
export function showSliders(given) {
  for (const input of document.querySelectorAll("[data-slider]")) {
    const known = given.find(({ field }) => field === input.dataset.slider);
    input.disabled = known === undefined;
    if (known && input !== document.activeElement) place(input, known);
  }
}

function place(input, known) {
  served.set(input, known);
  input.max = known.steps.length - 1;
  input.value = known.position ?? 0;
  input.setAttribute("aria-valuetext", known.steps[known.position] ?? "not given");
}
