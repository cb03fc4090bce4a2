// Which fields of a scenario the form shows, in the order in which people know them. What each is, its default and
// its choices come from the schema of scenarios.

/** The fields that the form begins with, by their paths; the others are behind them, by group. */
export const FIRST = ["model", "cluster.num_gpus", "storage", "checkpoint.interval_seconds"];

/** Groups of fields. `list` names a catalog to choose from; `instead` are fields that cannot stand beside it,
 * or that it decides. A field that `slides` has a slider. */
export const GROUPS = [
  {
    title: "Model",
    fields: [
      { path: "model", label: "Model", list: "v1/models", hint: "a name, 400B, or a config.json pasted or dropped" },
      { path: "training.framework", label: "Framework" },
      { path: "training.precision", label: "Precision" },
      { path: "training.optimizer", label: "Optimizer" },
    ],
  },
  {
    title: "Cluster and layout",
    fields: [
      { path: "cluster.node", label: "Node", list: "v1/nodes" },
      { path: "cluster.num_gpus", label: "GPUs", slides: true, instead: ["parallelism.data"] },
      { path: "parallelism.tensor", label: "Tensor parallel" },
      { path: "parallelism.pipeline", label: "Pipeline stages" },
      { path: "parallelism.context", label: "Context parallel" },
      { path: "parallelism.expert", label: "Expert parallel" },
      { path: "parallelism.data", label: "Data parallel", hint: "open: the best that fits" },
    ],
  },
  {
    title: "Checkpoint",
    fields: [
      { path: "checkpoint.format", label: "Format" },
      { path: "checkpoint.mode", label: "Mode" },
      { path: "checkpoint.interval_seconds", label: "Interval", hint: "4h", slides: true },
      { path: "checkpoint.restore", label: "Restore" },
      { path: "checkpoint.observed_bytes", label: "Observed size", hint: "13.8 TB" },
      { path: "retention.keep_last", label: "Checkpoints kept" },
    ],
  },
  {
    title: "Storage",
    fields: [
      { path: "storage", label: "Storage", list: "v1/storage-profiles", hint: "a name, or 273 GB/s write, 1 TB/s read" },
      {
        path: "storage.preset",
        label: "Known storage system",
        list: "v1/storage-profiles",
        instead: ["storage.profile", "storage.calibration"],
      },
      {
        path: "storage.calibration",
        label: "or a calibration",
        options: "calibrations",
        instead: ["storage.profile", "storage.preset"],
      },
      {
        path: "storage.profile.write_bytes_per_second",
        label: "Write bandwidth",
        hint: "273 GB/s",
        slides: true,
        instead: ["storage.preset", "storage.calibration"],
      },
      {
        path: "storage.profile.read_bytes_per_second",
        label: "Read bandwidth",
        hint: "1 TB/s",
        instead: ["storage.preset", "storage.calibration"],
      },
    ],
  },
  {
    title: "Failures",
    fields: [
      {
        path: "reliability.failures_per_node_day",
        label: "Failures per node and day",
        instead: ["reliability.preset", "reliability.mtbf_seconds", "reliability.failures_per_gpu_hour"],
      },
      {
        path: "reliability.mtbf_seconds",
        label: "or MTBF of the job",
        hint: "3h",
        instead: ["reliability.preset", "reliability.failures_per_node_day", "reliability.failures_per_gpu_hour"],
      },
      {
        path: "reliability.preset",
        label: "or a published rate",
        list: "v1/failure-rates",
        instead: [
          "reliability.mtbf_seconds",
          "reliability.failures_per_node_day",
          "reliability.failures_per_gpu_hour",
        ],
      },
      { path: "reliability.detection_seconds", label: "Detection", hint: "5min" },
      { path: "reliability.relaunch_seconds", label: "Relaunch", instead: ["reliability.restart_seconds"] },
      { path: "reliability.strategy", label: "Recovery" },
      { path: "reliability.spares.num", label: "Spare nodes" },
      { path: "reliability.shrink.regroup_seconds", label: "To regroup", hint: "3min" },
      { path: "reliability.step_seconds", label: "One step", hint: "10s" },
      { path: "reliability.repair_seconds", label: "Repair of a node", hint: "6h" },
    ],
  },
  {
    title: "Targets",
    fields: [
      { path: "targets.max_overhead_fraction", label: "Max overhead", hint: "5 %" },
      { path: "targets.max_stall_seconds", label: "Max stall", hint: "10s" },
      { path: "targets.recovery_seconds", label: "Max recovery", hint: "10min" },
      { path: "targets.min_goodput_fraction", label: "Min goodput", hint: "90 %" },
    ],
  },
  {
    title: "Prices",
    fields: [
      { path: "costs.per_terabyte", label: "A terabyte" },
      { path: "costs.per_gigabyte_per_second", label: "A GB/s" },
      { path: "costs.per_lost_gpu_hour", label: "Price of a GPU-hour" },
      { path: "costs.run_seconds", label: "Length of the run", hint: "90d" },
    ],
  },
];

/** Without "model" and "storage", which are words of their own. */
const LABELS = new Map(
  GROUPS.flatMap(({ fields }) => fields.filter(({ path }) => path.includes(".")).map(({ path, label }) => [path, label.replace(/^or /, "")])),
);
const MARKS = new Set(".,;:()`");

/** A text of an answer, in which a field that the form shows has its label in place of its path. */
export function labelled(text) {
  return text.split(" ").map(labelledWord).join(" ");
}

/** A word with its label, where it is the path of a field between marks. */
function labelledWord(word) {
  const isMark = (place) => MARKS.has(word.at(place));
  let start = 0;
  let end = word.length;
  while (start < end && isMark(start)) start += 1;
  while (end > start && isMark(end - 1)) end -= 1;
  const label = LABELS.get(word.slice(start, end));
  return label === undefined ? word : `${word.slice(0, start)}“${label}”${word.slice(end)}`;
}

/** What was seen of one model, and is wrong of another. */
const OF_ONE_MODEL = ["checkpoint.observed_bytes"];
/** The degrees that a model is cut by. Where the GPUs are counted, those of another model are found. */
export const DEGREES = ["tensor", "pipeline", "context", "expert", "data"].map((name) => `parallelism.${name}`);

/** Whether the run is still cut as that of an example, whose degrees nobody typed. */
export function isCutAs(example, scenario) {
  return DEGREES.every((path) => path === "parallelism.data" || valueAt(scenario, path) === valueAt(example, path));
}

/** The paths of a scenario that another model leaves open. */
export function ofFormerModel(scenario) {
  return valueAt(scenario, "cluster.num_gpus") === undefined ? OF_ONE_MODEL : [...OF_ONE_MODEL, ...DEGREES];
}

/** A scenario with the fields that a checkpoint tells, by path, in the place of those that they leave open. */
export function adopted(scenario, told) {
  const isModelTold = "model.num_parameters" in told;
  const open = [...(isModelTold ? ["model"] : []), ...ofFormerModel(scenario), ...("training.framework" in told ? ["checkpoint.format"] : [])];
  const cleared = open.reduce((next, path) => withValue(next, path, undefined), scenario);
  return Object.entries(told).reduce((next, [path, value]) => withValue(next, path, value), cleared);
}

/** The value at a dotted path; nothing where a step is missing. */
export function valueAt(document, path) {
  return path.split(".").reduce((inner, name) => inner?.[name], document);
}

/** The document with a value at a path, or without it; blocks that become empty go too. */
export function withValue(document, path, value) {
  const [name, ...rest] = path.split(".");
  const copy = Array.isArray(document) ? [...document] : { ...document };
  const inner = rest.length ? withValue(copy[name] ?? {}, rest.join("."), value) : value;
  const isEmpty = inner === undefined || (rest.length > 0 && !Object.keys(inner).length);
  if (isEmpty) delete copy[name];
  else copy[name] = inner;
  return copy;
}

/** The default of the field at a path. */
export function defaultAt(schema, path) {
  return fieldAt(schema, path).default;
}

/** Whether a schema has a field at a path. */
export function hasField(schema, path) {
  return "title" in fieldAt(schema, path);
}

function fieldAt(schema, path) {
  return path.split(".").reduce((block, name) => step(schema, block, name), schema);
}

/** What a schema says of the field at a path: description, choices, default. */
export function described(schema, path) {
  const said = fieldAt(schema, path);
  const options = [said, ...(said.anyOf ?? [])];
  return {
    description: said.description ?? "",
    choices: options.flatMap((option) => option.enum ?? []),
    placeholder: [null, undefined].includes(said.default) ? "" : (said["x-default-in-words"] ?? String(said.default)),
  };
}

/** A field of a block, or an element of a list, whatever else may stand in its place. */
function step(schema, block, name) {
  for (const option of [block, ...(block.anyOf ?? [])]) {
    const whole = option.$ref ? schema.$defs[option.$ref.split("/").pop()] : option;
    const found = whole.properties?.[name] ?? whole.items;
    if (found) return found;
  }
  return {};
}
