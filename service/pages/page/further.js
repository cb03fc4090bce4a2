// The further pages: which one the address names, and whose token this tab has.

import { byId, element } from "./dom.js";
import { told, visitor } from "./holder.js";
import { Problems } from "./rest.js";
import { forget, keep } from "./token.js";

const PAGES = [
  ...["storage-systems", "scenarios", "comparison", "clusters"],
  ...["trade-offs", "files", "techniques", "catalogs", "validation"],
  ...["audit", "shared", "login"],
];
const WITHIN = { shared: "scenarios", login: "./#answer" };

const name = PAGES.find((each) => location.pathname.endsWith(`/${each}`));
const page = await import(`./page-${name}.js`);
let shown = 0;
let visiting;

document.title = `${page.TITLE} - checkpoint-sizing`;
document.querySelector(`.pages :is(ul, #audit) a[href="${WITHIN[name] ?? name}"]`).setAttribute("aria-current", "page");
byId("answer").classList.toggle("short", Boolean(page.IS_SHORT));
window.addEventListener("hashchange", () => show());
byId("token").addEventListener("submit", take);
byId("bearer").value = "";
await tellHolder();
await show();

/** Show the page again, as the address and what is stored have it now. The latest call wins. What is typed meanwhile stays where a form did not ask for it. */
async function show({ keepsTyped = false } = {}) {
  const turn = ++shown;
  byId("answer").setAttribute("aria-busy", "true");
  byId("problems").replaceChildren();
  try {
    const content = await page.content(decodeURIComponent(location.hash.slice(1)), { again: () => show(), said, attempt, visiting });
    if (turn !== shown) return;
    const typed = keepsTyped ? typedIn(byId("answer")) : [];
    byId("answer").replaceChildren(...content.filter(Boolean));
    typed.forEach(typeAgain);
  } catch (error) {
    if (turn === shown) tell(error);
  }
  if (turn === shown) byId("answer").setAttribute("aria-busy", "false");
}

/** What somebody has typed into fields of a place, by the names of these, and which of them has the focus. */
function typedIn(place) {
  const inputs = [...place.querySelectorAll("input[aria-label]")].filter((each) => each.value !== each.defaultValue);
  return inputs.map((each) => ({ name: each.getAttribute("aria-label"), value: each.value, hasFocus: each === document.activeElement }));
}

function typeAgain({ name, value, hasFocus }) {
  const input = [...byId("answer").querySelectorAll("input[aria-label]")].find((each) => each.getAttribute("aria-label") === name);
  if (!input) return;
  input.value = value;
  if (hasFocus) input.focus();
}

/** Do something that may be refused, and say why where it is. */
async function attempt(action) {
  byId("problems").replaceChildren();
  try {
    return await action();
  } catch (error) {
    tell(error);
    return undefined;
  }
}

function said(text) {
  byId("said").textContent = text;
}

function tell(error) {
  const texts = error instanceof Problems ? error.errors.map((each) => each.sentence) : [`No answer: ${error.message}`];
  byId("problems").replaceChildren(...texts.map((text) => element("p", { class: "problem" }, text)));
  if (error.status === 401) byId("bearer").focus();
}

async function take(event) {
  event.preventDefault();
  keep(byId("bearer").value.trim());
  byId("bearer").value = "";
  await tellHolder();
  await show({ keepsTyped: true });
}

async function tellHolder() {
  try {
    visiting = await visitor(attempt);
    byId("holder").textContent = told(visiting);
  } catch (error) {
    forget();
    byId("holder").textContent = error.message;
  }
}
