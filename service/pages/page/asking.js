// A question that a form asks as it changes, with its answer beside it. The address holds the question.

import { element } from "./dom.js";
import { packed } from "./link.js";
import { explain, showProblems } from "./row.js";
import { WORDS, sent } from "./token.js";

const MILLISECONDS_BETWEEN_KEYS = 250;

/** What asks a route, and puts what `shown` makes of the answer to the latest question into a section. */
export function asking(path, section, shown) {
  let later;
  let turn = 0;

  /** Put the latest question into the address, whatever becomes of its answer. */
  async function keep(question, mine) {
    const fragment = await packed(question);
    if (mine === turn) history.replaceState(null, "", `#${fragment}`);
  }

  async function now(question) {
    later = undefined;
    const mine = ++turn;
    section.setAttribute("aria-busy", "true");
    try {
      const [told] = await Promise.all([sent("POST", path, question, WORDS), keep(question, mine)]);
      if (mine !== turn) return;
      showProblems([]);
      section.replaceChildren(...shown(told));
    } catch (error) {
      if (mine === turn && error.secondsToRetry) later = setTimeout(() => now(question), 1000 * error.secondsToRetry);
      if (mine === turn) tell(section, error);
    }
    if (mine === turn) section.setAttribute("aria-busy", String(later !== undefined));
  }

  function soon(question) {
    section.setAttribute("aria-busy", "true");
    clearTimeout(later);
    later = setTimeout(() => now(question), MILLISECONDS_BETWEEN_KEYS);
  }

  return { now, soon };
}

function tell(section, error) {
  const texts = explain(error);
  section.querySelector(".refused")?.remove();
  section.prepend(element("div", { class: "refused", role: "alert" }, texts.map((text) => element("p", { class: "problem" }, text))));
}
