// The scenario that the main page of this tab shows, for the further pages.

import { packed, unpacked } from "./link.js";
import { constant } from "./rest.js";

const KEY = "checkpoint-sizing-state";

/** Remember the main page's address when it is left. */
export function remember() {
  window.addEventListener("pagehide", () => sessionStorage.setItem(KEY, location.hash.slice(1)));
}

/** The state of the main page: the one that was left, or the first example. */
export async function current() {
  const left = sessionStorage.getItem(KEY);
  const given = left ? await unpacked(left) : undefined;
  if (given?.scenario) return given;
  const [scenarios, decisions] = await Promise.all(["scenario", "decision"].map((name) => constant(`v1/schemas/${name}`)));
  const { workloads, ...purchase } = decisions.examples[0];
  return { question: "answer", scenario: scenarios.examples[0], purchase };
}

/** The address of the main page that shows a scenario in the place of its own. */
export async function addressOf(scenario) {
  return `./#${await packed({ ...(await current()), question: "answer", scenario })}`;
}
