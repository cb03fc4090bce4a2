// The page: a change asks REST, the latest answer is shown, the address holds both.

import { byId, element } from "./dom.js";
import { visitor } from "./holder.js";
import * as form from "./form.js";
import * as offers from "./offers.js";
import { packed, unpacked } from "./link.js";
import { presented, spoken, summary } from "./presentation.js";
import { QUESTIONS } from "./questions.js";
import { Problems, ask, constant, file } from "./rest.js";
import { explain, showProblems } from "./row.js";
import * as saving from "./saving.js";
import { show, showSliders, slider } from "./sliders.js";
import { current, remember } from "./state.js";

const MILLISECONDS_BETWEEN_KEYS = 30;
const MILLISECONDS_UNTIL_SLOW = 1000;
const NO_SCENARIO = "No saved scenario stands under this link: it was deleted, or the link is damaged. “Scenarios”, under Library, lists all.";
const MEDIA_TYPES = { PDF: "application/pdf", HTML: "text/html", JSON: "application/json" };

let state = {};
let reference = {};
const WITH_HANDLE = "figure[data-handle]";
const handle = slider({}, (step) => form.set(handleOf(charts).field, step));
let charts = [];
let under_way;
let later;
let slow;
let isMaking = false;
/** The state that stands in the place of one that the address does not hold, which stays there to be mended. */
let substitute;

for (const kind of ["error", "unhandledrejection"]) window.addEventListener(kind, ({ error, reason }) => (error ?? reason) && showProblem(error ?? reason)); // no old answer stands as if it were of now
remember();
start().catch(showProblem);
visitor((action) => action().catch(showProblem)).catch(() => undefined); // a token that does not hold is named where it is entered

async function start() {
  const [scenarios, decisions] = await Promise.all(["scenario", "decision"].map((name) => constant(`v1/schemas/${name}`)));
  const { workloads, ...purchase } = decisions.examples[0];
  reference = { question: "answer", scenario: scenarios.examples[0], purchase };
  form.build(scenarios, (scenario) => edit({ scenario }, MILLISECONDS_BETWEEN_KEYS), outdate);
  offers.build(decisions, (changed) => edit({ purchase: changed }, MILLISECONDS_BETWEEN_KEYS), keepForBack);
  byId("start-again").addEventListener("click", startAgain);
  byId("copy-link").addEventListener("click", copyLink);
  for (const link of document.querySelectorAll(".skip, #summary")) link.addEventListener("click", (event) => goTo(event, "answer"));
  saving.offer(() => state.scenario);
  window.addEventListener("hashchange", fromAddress);
  for (const button of document.querySelectorAll("[data-kind]")) button.addEventListener("click", () => keepAs(button.dataset.kind));
  await fromAddress();
}

async function fromAddress() {
  const { state: given, said } = await named(location.hash);
  byId("said").textContent = said;
  change(given ?? reference);
  substitute = given ? undefined : state;
}

/** The state that an address holds, that of the saved scenario or of the question which it names; and what is said of it. */
async function named(hash) {
  const question = hash.slice(1);
  if (Object.hasOwn(QUESTIONS, question)) return { state: { ...("scenario" in state ? state : await current()), question }, said: "" };
  try {
    const scenario = await saving.savedAt(hash);
    if (scenario) return { state: { ...reference, scenario }, said: "" };
  } catch (error) {
    return { said: `${[404, 422].includes(error.status) ? NO_SCENARIO : error.message} This is the first example.` };
  }
  if (hash.length < 2) return { state: reference, said: "" };
  const given = await unpacked(hash.slice(1));
  if (isState(given)) return { state: given, said: "" };
  return { said: "The link in the address is not whole: mend it there, or go on from here. This is the first example." };
}

/** Whether what a link holds has the blocks and lists that are shown; REST judges what stands in them. */
function isState(given) {
  const areBlocks = (list) => Array.isArray(list) && list.every(isBlock);
  const { question, scenario, purchase } = given ?? {};
  if (!Object.hasOwn(QUESTIONS, question) || !isBlock(scenario) || !isBlock(purchase)) return false;
  const { offers, growth } = purchase;
  return areBlocks(offers) && offers.every(({ prices = [] }) => areBlocks(prices)) && isBlock(growth ?? {}) && Array.isArray(growth?.times ?? []);
}

/** Let the browser's Back bring again what stands now, before something takes its place at one click. */
function keepForBack() {
  history.pushState(null, "", location.href);
}

function startAgain() {
  keepForBack();
  edit({ ...reference, question: state.question });
  byId("said").textContent = "This is the first example. Back in the browser brings again what stood here.";
}

/** Go to a part of the page. The address stays the link. */
function goTo(event, place) {
  event.preventDefault();
  byId(place).focus({ preventScroll: true });
  byId(place).scrollIntoView();
}

function isBlock(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Change the state by hand: what was said of the one before goes. */
function edit(part, milliseconds) {
  byId("said").textContent = "";
  change(part, milliseconds);
}

/** Let the answer stand as the one before, as what was given since makes no question yet. */
function outdate() {
  clearTimeout(later);
  later = undefined;
  under_way?.abort();
  ended("stale");
}

function change(part, milliseconds = 0) {
  if (part.question !== undefined && part.question !== state.question) forgetAnswer();
  state = { ...state, ...part };
  form.show(state.scenario);
  offers.show(state.purchase);
  form.showFor(QUESTIONS[state.question]);
  byId("offers").hidden = state.question !== "offers";
  for (const link of document.querySelectorAll("[data-question]")) {
    if (link.dataset.question === state.question) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("answer").setAttribute("aria-busy", "true");
  clearTimeout(later);
  later = setTimeout(asked, milliseconds);
}

/** Show nothing of another question's answer. */
function forgetAnswer() {
  for (const id of ["shown", "summary", "problems"]) byId(id).replaceChildren();
}

async function asked() {
  later = undefined;
  slow ??= setTimeout(() => mark("waiting"), MILLISECONDS_UNTIL_SLOW);
  under_way?.abort();
  under_way = new AbortController();
  const { signal } = under_way;
  const { path, of, lacks } = QUESTIONS[state.question];
  const lack = lacks?.(state.purchase);
  const asking = lack ? undefined : ask(path, of(state.scenario, state.purchase), signal);
  const kept = keepInAddress(signal);
  try {
    const answer = await asking;
    await kept;
    if (signal.aborted) return;
    if (lack) {
      showLack(lack);
      return;
    }
    const typed = answer.problems.filter(({ field }) => byId(field)?.value); // what is not typed yet may be missing
    if (typed.length) throw new Problems({ errors: typed });
    showAnswer(answer);
  } catch (error) {
    if (signal.aborted) return;
    form.showAssumptions([]);
    if (error.secondsToRetry) later = setTimeout(asked, 1000 * error.secondsToRetry);
    showProblem(error);
  }
}

/** Put the state into the address, beside the question: packing takes its turn behind what the browser loads. */
async function keepInAddress(signal) {
  if (state === substitute) return;
  const text = await packed(state);
  if (signal.aborted) return;
  history.replaceState(null, "", `#${text}`);
  saving.weigh(location.href);
}

function showAnswer(answer) {
  showProblems([]);
  byId("problems").replaceChildren();
  charts = answer.charts;
  exchange(byId("shown"), presented(answer, QUESTIONS[state.question].isFolded));
  byId("summary").replaceChildren(...summary(answer));
  byId("summary").dataset.standing = answer.standing;
  showSliders(byId("scenario"), answer.sliders);
  form.showAssumptions(answer.assumptions);
  show(handle, handleOf(charts));
  speak(spoken(answer));
  ended("");
}

/** What the one chart has that an input is dragged below. */
function handleOf(charts) {
  return charts.map((spec) => spec.usermeta?.handle).find(Boolean);
}

/** Show an answer in the place of the former. The handle stays where it is while it is held. */
function exchange(shown, fresh) {
  const figure = fresh.find((each) => each.matches(WITH_HANDLE));
  const held = shown.querySelector(WITH_HANDLE);
  keepHeights(shown, fresh);
  if (figure && held && document.activeElement === handle) {
    const at = fresh.indexOf(figure);
    const before = handle.getBoundingClientRect().top;
    while (held.previousSibling) held.previousSibling.remove();
    while (held.nextSibling) held.nextSibling.remove();
    held.before(...fresh.slice(0, at));
    held.after(...fresh.slice(at + 1));
    for (const part of [".drawn", "figcaption"]) held.querySelector(part).replaceWith(figure.querySelector(part));
    window.scrollBy(0, handle.getBoundingClientRect().top - before);
  } else {
    figure?.querySelector(".drawn").after(element("label", { class: "handle" }, handleOf(charts).label, handle));
    shown.replaceChildren(...fresh);
  }
}

/** Leave each chart the height of the one before it, until it is drawn. */
function keepHeights(shown, fresh) {
  const title = (drawn) => drawn.closest("figure").querySelector("h3").textContent;
  const former = new Map([...shown.querySelectorAll(".drawn.ready")].map((drawn) => [title(drawn), drawn.offsetHeight]));
  for (const drawn of fresh.flatMap((each) => [...each.querySelectorAll(".drawn")])) {
    if (former.get(title(drawn))) drawn.style.minHeight = `${former.get(title(drawn))}px`;
  }
}

/** Say something to those who do not see it change, once. */
function speak(text) {
  if (byId("spoken").textContent !== text) byId("spoken").textContent = text;
}

function showProblem(error) {
  speak("");
  byId("problems").replaceChildren(...explain(error).map((text) => element("p", { class: "problem" }, text)));
  ended("stale");
}

/** Say what makes no question yet; the answer before it stays. */
function showLack(text) {
  speak("");
  showProblems([]);
  byId("problems").replaceChildren(element("p", {}, text));
  ended("stale");
}

function mark(kind) {
  for (const id of ["shown", "summary"]) byId(id).className = kind;
}

function ended(kind) {
  clearTimeout(slow);
  slow = undefined;
  mark(kind);
  byId("answer").setAttribute("aria-busy", String(later !== undefined));
}

async function keepAs(kind) {
  if (isMaking) return;
  tellMaking(true);
  const { path, of } = QUESTIONS[state.question];
  byId("said").textContent = `The ${kind} is being made.`;
  try {
    const content = await file(path, of(state.scenario, state.purchase), MEDIA_TYPES[kind]);
    element("a", { href: URL.createObjectURL(content), download: `checkpoint-sizing.${kind.toLowerCase()}` }).click();
    byId("said").textContent = `The ${kind} is saved.`;
  } catch (error) {
    byId("said").textContent = `No ${kind}: ${error.message}`;
  }
  tellMaking(false);
}

/** One file is made at a time; its button keeps the focus. */
function tellMaking(is) {
  isMaking = is;
  for (const button of document.querySelectorAll("[data-kind]")) button.setAttribute("aria-disabled", String(is));
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    byId("said").textContent = "The link is copied.";
  } catch {
    byId("said").textContent = "The address of this page is the link.";
  }
}
