// Many jobs on one storage system: what they do to each other, and the bandwidth to buy. The address holds the question.

import { asking } from "./asking.js";
import { download, element } from "./dom.js";
import { valueAt, withValue } from "./fields.js";
import { unpacked } from "./link.js";
import { heading } from "./listing.js";
import { presented } from "./presentation.js";
import { row } from "./row.js";
import { current } from "./state.js";
import { sentFor, stored } from "./token.js";

export const TITLE = "Clusters";
const PATH = "v1/clusters";
const KINDS = { PDF: "application/pdf", HTML: "text/html", JSON: "application/json" };
const CATALOGS = ["v1/models", "v1/nodes", "v1/storage-profiles"];

const SHARED = [
  { path: "storage.preset", label: "Known storage system", list: "v1/storage-profiles" },
  { path: "storage.profile.write_bytes_per_second", label: "Write bandwidth", hint: "273 GB/s" },
  { path: "storage.profile.read_bytes_per_second", label: "Read bandwidth", hint: "1 TB/s" },
  { path: "sharing", label: "Shared by" },
  { path: "nodes_per_rack", label: "Nodes per rack", hint: "4" },
  { path: "horizon_seconds", label: "Time simulated", hint: "10d" },
  { path: "targets.p99_stall_seconds", label: "Max stall, p99", hint: "1min" },
  { path: "targets.recovery_seconds", label: "Max recovery", hint: "30min" },
];
const JOB = [
  { path: "name", label: "Name" },
  { path: "count", label: "Jobs like it" },
  { path: "scenario.model.preset", label: "Model", list: "v1/models" },
  { path: "scenario.training.framework", label: "Framework" },
  { path: "scenario.cluster.node", label: "Node", list: "v1/nodes" },
  { path: "scenario.parallelism.tensor", label: "Tensor parallel" },
  { path: "scenario.parallelism.pipeline", label: "Pipeline stages" },
  { path: "scenario.parallelism.data", label: "Data parallel" },
  { path: "scenario.checkpoint.interval_seconds", label: "Interval", hint: "30min" },
  { path: "scenario.reliability.failures_per_node_day", label: "Failures per node and day", hint: "0.0065" },
  { path: "start", label: "First save" },
];

let cluster = {};

/** A form with the question of the address, or the example, and its answer beside it. */
export async function content(fragment, page) {
  const schema = await stored("v1/schemas/cluster");
  const given = fragment ? await unpacked(fragment) : undefined;
  cluster = Array.isArray(given?.jobs) ? given : schema.examples[0];
  page.said(fragment && cluster !== given ? "The link is not whole: this is the example." : "");
  const form = element("form", { novalidate: true, "aria-label": "The cluster", onsubmit: (event) => event.preventDefault() });
  const answer = element("section", { id: "cluster-answer", "aria-label": "The answer", "aria-busy": "true" });
  const asks = asking(PATH, answer, (told) => [keep(page), ...presented(told)]);
  const view = { schema, form, asks, page };
  const lists = await Promise.all(CATALOGS.map(choices));
  fill(view);
  view.asks.now(cluster);
  return [
    ...heading(TITLE, "Many jobs save to one storage system: how long they wait for each other, and what bandwidth they need."),
    element("div", { class: "beside" }, element("div", {}, form, lists), answer),
  ];
}

async function choices(path) {
  const entries = await stored(path);
  return element("datalist", { id: `list-${path}` }, entries.map(({ name }) => element("option", { value: name })));
}

function fill(view) {
  const groups = cluster.jobs.map((job, index) => group(view, job, index));
  view.form.replaceChildren(
    element("fieldset", {}, element("legend", {}, "Shared storage"), rows(view, SHARED, "")),
    ...groups,
    element(
      "p",
      { class: "actions" },
      button("Add a job", () => add(view, view.schema.examples[0].jobs[0].scenario)),
      button("Add this tab's scenario", () => view.page.attempt(() => addCurrent(view))),
    ),
  );
  for (const input of view.form.querySelectorAll("[data-field]")) input.value = valueAt(cluster, input.id) ?? "";
}

function group(view, { name }, index) {
  const remove = button("Remove", () => rebuilt(view, cluster.jobs.filter((_, each) => each !== index)));
  remove.setAttribute("aria-label", `Remove ${name}`);
  const title = element("legend", {}, name || `Job ${index + 1}`);
  return element("fieldset", {}, title, rows(view, JOB, `jobs.${index}.`), cluster.jobs.length > 1 ? remove : "");
}

function rows(view, fields, prefix) {
  return fields.map((field) => {
    const path = prefix + field.path;
    return row({ ...field, path }, view.schema, (value) => {
      cluster = withValue(cluster, path, value);
      view.asks.soon(cluster);
    });
  });
}

async function addCurrent(view) {
  const { storage, costs, ...scenario } = (await current()).scenario;
  add(view, scenario);
}

function add(view, scenario) {
  const names = cluster.jobs.map(({ name }) => name);
  const number = names.findIndex((_, index) => !names.includes(`Job ${index + 1}`));
  const name = `Job ${(number < 0 ? names.length : number) + 1}`;
  rebuilt(view, [...cluster.jobs, { name, count: 1, scenario }]);
  document.getElementById(`jobs.${cluster.jobs.length - 1}.name`).focus();
}

function rebuilt(view, jobs) {
  cluster = { ...cluster, jobs };
  fill(view);
  view.asks.now(cluster);
}

function keep({ attempt }) {
  const files = Object.entries(KINDS).map(([kind, type]) =>
    button(kind, () => attempt(async () => download(`cluster.${kind.toLowerCase()}`, await sentFor(PATH, cluster, type)))),
  );
  return element("p", { class: "keep" }, "Keep it as ", files);
}

function button(label, onclick) {
  return element("button", { type: "button", onclick }, label);
}
