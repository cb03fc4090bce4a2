// Saving the scenario under a name, for a short link that everyone can follow.

import { byId, element } from "./dom.js";
import { Problems } from "./rest.js";
import { forget, keep, sent, session, stored } from "./token.js";

const MAX_LINK_CHARACTERS = 8192;
const SAVED = /^#saved-([0-9a-f-]+)$/;

/** Offer to save; `scenario` returns what is saved. */
export function offer(scenario) {
  byId("saving").addEventListener("toggle", askForToken);
  byId("saving").addEventListener("submit", (event) => {
    event.preventDefault();
    save(scenario());
  });
}

/** Offer to save where a link is longer than some programs send. */
export function weigh(link) {
  const isLong = link.length > MAX_LINK_CHARACTERS;
  if (isLong && byId("too-long").hidden) byId("saving").open = true;
  byId("too-long").hidden = !isLong;
}

/** The saved scenario that an address names; nothing where it names none. Raises Problems. */
export async function savedAt(hash) {
  const id = SAVED.exec(hash)?.[1];
  return id && (await stored(`v1/scenarios/${id}`)).scenario;
}

async function askForToken() {
  try {
    byId("needs-token").hidden = (await session()).holder !== null;
  } catch (error) {
    forget();
    tell([error.message]);
  }
}

async function save(scenario) {
  if (byId("bearer").value !== "") keep(byId("bearer").value.trim());
  byId("bearer").value = "";
  try {
    const { id, name } = await sent("POST", "v1/scenarios", { name: byId("save-name").value, scenario });
    const link = new URL(`./#saved-${id}`, location.href).href;
    const read = element("a", { href: `v1/scenarios/${id}/report` }, "its report");
    const without = byId("offers").hidden ? "" : " It holds the scenario without the offers, which As CSV and As xlsx keep; the address of this page holds both.";
    tell([`Saved as ${name}: `, element("a", { href: link }, link), ", ", read, `.${without}`]);
    byId("needs-token").hidden = true;
  } catch (error) {
    refused(error);
  }
}

function refused(error) {
  tell(error instanceof Problems ? error.errors.map((each) => `${each.sentence} `) : [`Not saved: ${error.message}`]);
  if (error.status !== 401) return;
  forget();
  byId("needs-token").hidden = false;
  byId("bearer").focus();
}

function tell(said) {
  byId("saved").replaceChildren(...said);
}
