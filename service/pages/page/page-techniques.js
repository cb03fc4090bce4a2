// Training techniques: what each would change in the scenario of this tab, and where each was read.

import { element } from "./dom.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { current } from "./state.js";
import { WORDS, sent, stored } from "./token.js";

export const TITLE = "Techniques";

/** The effect of each on the scenario, then the catalog. */
export async function content() {
  const { scenario } = await current();
  const [effects, catalog] = await Promise.all([
    sent("POST", "v1/techniques", { scenario }, WORDS).then((answer) => presented(answer).slice(1), (error) => [refusal(error)]),
    stored("v1/techniques", WORDS),
  ]);
  return [...heading(TITLE, "What each would change in the scenario of this tab."), ...effects, ...presented(catalog).slice(1)];
}

function refusal(error) {
  return element("p", { class: "problem" }, error.message);
}
