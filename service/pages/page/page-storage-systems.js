// Storage systems: what was measured over time, and what a calibration makes of it.

import { NAME, storeDemo } from "./demo.js";
import { element } from "./dom.js";
import { demoMark, emptyState, here } from "./empty.js";
import { fileDrop } from "./files.js";
import { heading, listing, moment, number } from "./listing.js";
import { presented } from "./presentation.js";
import { addressOf, current } from "./state.js";
import { table } from "./tables.js";
import { WORDS, listed, sent, stored } from "./token.js";

export const TITLE = "Storage systems";
const ROOT = "v1/storage-systems";

/** All of them, or the one that the address names. */
export function content(name, page) {
  return name === "" ? all(page) : one(name, page);
}

async function all({ again, attempt }) {
  const systems = await listed(ROOT);
  const columns = [
    { label: "Name" }, { label: "What it is", kind: "words" }, { label: "Runs", kind: "figure" },
    { label: "Latest run" }, { label: "Calibrations", kind: "figure" }, { label: "Latest calibration" },
  ];
  const rows = systems.map((system) => [
    element("a", { href: `#${encodeURIComponent(system.name)}` }, system.name),
    system.description,
    number(system.num_runs),
    moment(system.latest_run_at),
    number(system.num_calibrations),
    latest(system.latest_calibration),
  ]);
  return [
    ...heading(TITLE, "Measured by ckpt-bench, watched for losses, and calibrated: what a scenario can rest on instead of a data sheet."),
    systems.length ? listing("", columns, rows) : emptyState(NONE, published("scratch"), demo(attempt)),
    addition(again, attempt),
  ];
}

const NONE =
  "No storage system has been measured yet. Add one below, then publish results of ckpt-bench: its rates over time, what it lost, " +
  "and its calibration will stand here.";

/** The command that publishes a benchmark of a storage system here. */
function published(name) {
  return `ckpt-bench run --target /mnt/${name} --publish ${here()}/${ROOT}/${name}`;
}

function demo(attempt) {
  const load = () => attempt(async () => {
    location.hash = await storeDemo();
  });
  return { label: "Load demo data", says: "It stores a storage system named demo, with runs that nobody measured and a loss in the last; runs stay for good.", load };
}

function latest(calibration) {
  if (!calibration) return "-";
  return [`grade ${graded(calibration)}, ${calibration.engine}, `, moment(calibration.created_at)];
}

function graded({ grade, inside_grade, beyond_grade }) {
  return inside_grade ? `${inside_grade} inside what was measured, ${beyond_grade} at 4 times the nodes` : grade;
}

function addition(again, attempt) {
  const [name, description] = ["Name", "What it is"].map((label) => element("input", { "aria-label": label, placeholder: label }));
  const onsubmit = (event) => {
    event.preventDefault();
    attempt(async () => {
      await sent("POST", ROOT, { name: name.value.trim(), description: description.value.trim() });
      await again();
    });
  };
  const line = element("div", { class: "line" }, name, description, element("button", { type: "submit" }, "Add"));
  return element("form", { onsubmit, novalidate: true }, element("h3", {}, "Add a storage system"), line);
}

async function one(name, page) {
  const root = `${ROOT}/${encodeURIComponent(name)}`;
  const [system, trend, runs, calibrations] = await Promise.all([
    stored(root),
    stored(`${root}/trend`, WORDS),
    listed(`${root}/runs`, 50),
    listed(`${root}/calibrations`, 50),
  ]);
  const place = element("div", { id: "calibration", "aria-live": "polite" });
  return [
    element("p", { class: "back" }, element("a", { href: "#" }, "All storage systems")),
    ...heading(system.name, system.description),
    name === NAME ? demoMark("Runs that nobody measured, made of the example of the API pages.") : "",
    upload(root, page),
    runs.length ? "" : emptyState("No run is published yet. The command measures and publishes one:", published(name)),
    ...worded({ ...trend, tables: [] }),
    calibrated(root, calibrations, runs, place, page),
    place,
    ...trend.tables.map(table),
    runs.length ? listing("Runs, the newest first", RUN_COLUMNS, runs.map((run) => row(root, run))) : "",
  ];
}

/** A presentation below a heading of the page's own. */
function worded(answer) {
  return presented(answer).filter((shown) => !shown.matches(".kind, .title, .made"));
}

function upload(root, { again, said, attempt }) {
  const publish = async (files) => {
    for (const file of files) {
      const published = await attempt(async () => sent("POST", `${root}/runs`, await file.text()));
      if (!published) return;
      said(`Run ${published.run_id} is published.`);
    }
    await again();
  };
  const words = "Drop results of ckpt-bench here, or ";
  return fileDrop({ id: "results", words, choose: "choose files", accept: ".json", multiple: true }, publish);
}

const RUN_COLUMNS = [
  { label: "Run", kind: "id" }, { label: "Published" }, { label: "By" }, { label: "Measured" }, { label: "Measurements", kind: "figure" }, { label: "Standing", kind: "words" },
];

function row(root, run) {
  return [
    element("a", { href: `${root}/runs/${encodeURIComponent(run.run_id)}` }, run.run_id),
    moment(run.published_at),
    run.publisher ?? "",
    [...new Set(run.measurements.map(measured))].join("\n"),
    number(run.measurements.length),
    run.withdrawal ? `Withdrawn by ${run.withdrawal.by}: ${run.withdrawal.reason}` : "counts",
  ];
}

function measured({ operation, engine }) {
  return `${operation} by ${engine}`;
}

function calibrated(root, calibrations, runs, place, { again, said, attempt }) {
  const make = async () => {
    said("The runs are being fitted.");
    const made = await attempt(async () => sent("POST", `${root}/calibrations`, {}));
    said(made ? `Calibrated: grade ${graded(made)}.` : "");
    if (made) await again();
  };
  const columns = [
    { label: "Fitted" }, { label: "Grade" }, { label: "Engine" }, { label: "Runs", kind: "figure" }, { label: "Left out", kind: "figure" }, { label: "", kind: "actions" },
  ];
  const rows = calibrations.map((calibration) => [
    moment(calibration.created_at),
    graded(calibration),
    calibration.engine,
    number(calibration.run_ids.length),
    number(calibration.num_left_out),
    [
      button("Show", () => attempt(async () => place.replaceChildren(...worded(await stored(`${root}/calibrations/${calibration.id}`, WORDS))))),
      button("Use it", () => attempt(() => use(calibration))),
    ],
  ]);
  const fit = runs.length ? element("p", {}, button("Calibrate from all runs", make)) : "";
  return element("div", {}, rows.length ? listing("Calibrations", columns, rows) : element("h3", {}, "Calibrations"), fit);
}

/** Open the main page with the calibration in the place of its scenario's storage. */
async function use(calibration) {
  const { scenario } = await current();
  location.assign(await addressOf({ ...scenario, storage: { calibration: calibration.id } }));
}

function button(label, onclick) {
  return element("button", { type: "button", onclick }, label);
}
