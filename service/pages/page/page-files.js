// The files of a checkpoint: those that the scenario of this tab would write, and what an existing one holds.

import { download, element } from "./dom.js";
import { adopted } from "./fields.js";
import { base64, fileDrop } from "./files.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { addressOf, current } from "./state.js";
import { WORDS, sent, sentFor } from "./token.js";

export const TITLE = "Files";
const MAX_FILES = 200;
const LENGTH_BYTES = 8;
const HEADED = ".safetensors";

/** A place for an index, then the files of the scenario. */
export async function content(_, page) {
  const place = element("div", { id: "inspection", "aria-live": "polite" });
  const files = element("div", {});
  await page.attempt(() => list(files, 0, page));
  return [
    ...heading(TITLE, "What a checkpoint holds, and which rank on which node writes each file of one."),
    element("h2", {}, "An existing checkpoint"),
    inspection(place, page),
    place,
    element("h2", {}, "The checkpoint of this tab's scenario"),
    files,
  ];
}

function inspection(place, { said, attempt }) {
  const inspect = async ([file]) => {
    said(`${file.name} is being read.`);
    const answer = await attempt(async () => sent("POST", "v1/inspections", { name: file.name, content: await base64(headOf(file)) }, WORDS));
    said("");
    place.replaceChildren(...(answer ? [...worded(answer), ...adoptable(answer, attempt)] : []));
  };
  const words = "Drop a safetensors file or index, or .metadata of torch DCP here, or ";
  return fileDrop({ id: "index", words, choose: "choose a file", accept: `.json,.metadata,${HEADED}` }, inspect);
}

/** A button that takes what a checkpoint tells into the form, in the place of what the scenario of this tab says. */
function adoptable({ told_fields }, attempt) {
  if (!Object.keys(told_fields).length) return [];
  const adopt = async () => location.assign(await addressOf(adopted((await current()).scenario, told_fields)));
  return [element("p", { class: "actions" }, button("Use it in the form", () => attempt(adopt)))];
}

/** What is read of a file: of one that begins with its header no more than that, however large it is. */
async function headOf(file) {
  if (!file.name.endsWith(HEADED) || file.size < LENGTH_BYTES) return file;
  const length = new DataView(await file.slice(0, LENGTH_BYTES).arrayBuffer()).getBigUint64(0, true);
  return file.slice(0, LENGTH_BYTES + Number(length));
}

async function list(place, first, page) {
  const { scenario } = await current();
  const question = { scenario, first, max_files: MAX_FILES };
  const [answer, { next }] = await Promise.all([sent("POST", "v1/manifests", question, WORDS), sent("POST", "v1/manifests", question)]);
  const turn = (label, to) => button(label, () => page.attempt(() => list(place, to, page)));
  place.replaceChildren(
    ...worded(answer),
    element(
      "p",
      { class: "actions" },
      first > 0 ? turn("First files", 0) : "",
      next === null ? "" : turn("Next files", next),
      button("All files as CSV", () => page.attempt(() => keep({ scenario }))),
    ),
  );
}

async function keep(question) {
  download("manifest.csv", await sentFor("v1/manifests", question, "text/csv"));
}

function worded(answer) {
  return presented(answer).filter((shown) => !shown.matches(".kind, .made"));
}

function button(label, onclick) {
  return element("button", { type: "button", onclick }, label);
}
