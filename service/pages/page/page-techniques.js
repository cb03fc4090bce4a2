// Training techniques: what each would change in the scenario of this tab, and where each was read.

import { element } from "./dom.js";
import { demoMark, emptyState } from "./empty.js";
import { withFilters } from "./filters.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { constant } from "./rest.js";
import { current } from "./state.js";
import { WORDS, sent, stored } from "./token.js";

export const TITLE = "Techniques";
const NONE = "The scenario of this tab has no answer: mend it under Size, and what each technique changes will stand here. At the terminal, the catalog is listed:";

/** The effect of each on the scenario, then the catalog. */
export async function content(_, page) {
  const { scenario } = await current();
  const [effects, catalog] = await Promise.all([effectsOn(scenario).catch((error) => refused(error, page)), stored("v1/techniques", WORDS)]);
  const listed = presented(catalog).slice(1);
  return [...heading(TITLE, "What each would change in the scenario of this tab."), ...effects, ...withFilters(listed)];
}

async function effectsOn(scenario) {
  return presented(await sent("POST", "v1/techniques", { scenario }, WORDS)).slice(1);
}

/** Why there is no answer, and what it would be like. */
function refused(error, { attempt }) {
  const place = element("div", {});
  const load = () => attempt(async () => {
    const { examples } = await constant("v1/schemas/scenario");
    place.replaceChildren(demoMark("The first example of the service."), ...(await effectsOn(examples[0])));
  });
  const says = "It answers for the first example of the service.";
  return [element("p", { class: "problem" }, error.message), emptyState(NONE, "ckpt-size techniques", { label: "Show a demo", says, load }), place];
}
