// The GPUs of a cluster, a cell each, coloured by what they write: drawn here, as a chart would take a mark for each.

import { download, element } from "./dom.js";
import { table } from "./tables.js";

const MAX_HEIGHT = 360;
const MAX_CELL = 14;
const LEAST_WITH_GAP = 4;
const LEAST_SHADE = 0.35;

let latest;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => latest?.draw());

/** The picture with its sentence, the place under the pointer or the keys, and the same as a table. */
export function gpuGrid(grid) {
  const canvas = element("canvas", { class: "gpus", tabindex: "0", role: "img", "aria-label": `${grid.title}: ${grid.sentence}` });
  const said = element("p", { class: "place", role: "status" });
  const picture = new Picture(canvas, grid, (text) => (said.textContent = text));
  const keep = element("button", { type: "button", onclick: () => canvas.toBlob((image) => download(`${grid.title}.png`, image)) }, "PNG");
  const rows = table({ title: "", columns: grid.columns, rows: grid.rows, stressed: [], is_figures: false });
  const data = element("details", {}, element("summary", {}, "As a table"), rows);
  picture.follow();
  return element(
    "figure",
    { class: "grid" },
    element("h3", {}, grid.title),
    element("p", {}, grid.sentence),
    element("p", { class: "about-grid" }, grid.reading),
    canvas,
    said,
    element("figcaption", {}, keep, data),
  );
}

class Picture {
  constructor(canvas, grid, say) {
    Object.assign(this, { canvas, grid, say, kinds: kindsOf(grid), chosen: undefined });
    this.across = grid.stage.size;
    this.down = grid.tensor.size;
    this.replicas = grid.context.size * grid.data.size;
  }

  /** Draws itself whenever its width changes, and as the latest one the theme; says what is pointed at. */
  follow() {
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    latest = this;
    this.canvas.addEventListener("pointermove", (event) => this.choose(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("pointerleave", () => this.choose(undefined));
    this.canvas.addEventListener("focus", () => this.choose(this.chosen ?? { stage: 0, tensor: 0, replica: 0 }));
    this.canvas.addEventListener("blur", () => this.choose(undefined));
    this.canvas.addEventListener("keydown", (event) => this.step(event));
  }

  /** Draws all cells aside, at the width that there is, and shows them. */
  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    Object.assign(this, sizes(width, this), { sharp: devicePixelRatio || 1 });
    const height = this.rows * this.blockHeight;
    this.canvas.style.height = `${height}px`;
    this.side = this.cell >= LEAST_WITH_GAP ? this.cell - 1 : this.cell;
    this.drawn = element("canvas", { width: Math.round(width * this.sharp), height: Math.round(height * this.sharp) });
    const context = this.drawn.getContext("2d");
    context.scale(this.sharp, this.sharp);
    const shades = this.shades();
    for (let replica = 0; replica < this.replicas; replica++) {
      for (let stage = 0; stage < this.across; stage++) {
        for (let tensor = 0; tensor < this.down; tensor++) {
          context.fillStyle = shades[this.kindAt({ stage, tensor, replica })];
          context.fillRect(...this.corner({ stage, tensor, replica }), this.side, this.side);
        }
      }
    }
    Object.assign(this.canvas, { width: this.drawn.width, height: this.drawn.height });
    this.show();
  }

  /** The cells, and a frame around the one that is pointed at. */
  show() {
    if (!this.drawn) return;
    const context = this.canvas.getContext("2d");
    context.resetTransform();
    context.clearRect(0, 0, this.drawn.width, this.drawn.height);
    context.drawImage(this.drawn, 0, 0);
    if (!this.chosen) return;
    const [left, top] = this.corner(this.chosen);
    context.scale(this.sharp, this.sharp);
    context.strokeStyle = getComputedStyle(this.canvas.parentElement).color;
    context.lineWidth = 2;
    context.strokeRect(left - 1, top - 1, this.side + 2, this.side + 2);
  }

  /** A colour for each kind: nearer the ground for little, the strongest for the most, a grey of its own for nothing. */
  shades() {
    const { color, backgroundColor, borderTopColor } = getComputedStyle(this.canvas);
    const most = this.grid.kinds[0].num_bytes;
    return this.grid.kinds.map(({ num_bytes: bytes }) =>
      bytes === 0 ? borderTopColor : mixed(backgroundColor, color, LEAST_SHADE + ((1 - LEAST_SHADE) * bytes) / most),
    );
  }

  kindAt({ stage, tensor, replica }) {
    return this.kinds[stage][tensor + this.down * replica];
  }

  corner({ stage, tensor, replica }) {
    const column = replica % this.columns;
    const row = Math.floor(replica / this.columns);
    return [column * this.blockWidth + stage * this.cell, row * this.blockHeight + tensor * this.cell];
  }

  at(x, y) {
    const column = Math.floor(x / this.blockWidth);
    const row = Math.floor(y / this.blockHeight);
    const stage = Math.floor((x - column * this.blockWidth) / this.cell);
    const tensor = Math.floor((y - row * this.blockHeight) / this.cell);
    const replica = row * this.columns + column;
    const isInside = stage < this.across && tensor < this.down && column < this.columns && replica < this.replicas;
    return isInside && x >= 0 && y >= 0 ? { stage, tensor, replica } : undefined;
  }

  choose(place) {
    this.chosen = place;
    this.say(place ? this.words(place) : "");
    this.show();
  }

  words(place) {
    const { grid } = this;
    const data = Math.floor(place.replica / grid.context.size);
    const numbers = [
      [grid.tensor, place.tensor],
      [grid.stage, place.stage],
      [grid.context, place.replica % grid.context.size],
      [grid.data, data],
    ];
    const rank = numbers.reduce((sum, [axis, number]) => sum + axis.stride * number, 0);
    const where = grid.place.replace("{rank}", rank).replace("{node}", Math.floor(rank / grid.gpus_per_node));
    const axes = numbers.filter(([axis]) => axis.size > 1).map(([axis, number]) => `${axis.label} ${number}`);
    return `${[where, ...axes].join(", ")}: ${grid.kinds[this.kindAt(place)].text}`;
  }

  step(event) {
    const steps = { ArrowLeft: ["stage", -1], ArrowRight: ["stage", 1], ArrowUp: ["tensor", -1], ArrowDown: ["tensor", 1], PageDown: ["replica", 1], PageUp: ["replica", -1] };
    if (!(event.key in steps) || !this.chosen) return;
    event.preventDefault();
    const [axis, by] = steps[event.key];
    const size = { stage: this.across, tensor: this.down, replica: this.replicas }[axis];
    this.choose({ ...this.chosen, [axis]: (this.chosen[axis] + by + size) % size });
  }
}

/** The largest cells with which all replicas fit the height; of too many, the smallest. */
function sizes(width, { across, down, replicas }) {
  for (let cell = Math.min(MAX_CELL, Math.max(1, Math.floor(width / across))); ; cell--) {
    const gap = Math.max(1, Math.round(cell / 2));
    const blockWidth = across * cell + gap;
    const blockHeight = down * cell + gap;
    const columns = Math.max(1, Math.min(replicas, Math.floor((width + gap) / blockWidth)));
    const rows = Math.ceil(replicas / columns);
    if (rows * blockHeight <= MAX_HEIGHT || cell === 1) return { cell, blockWidth, blockHeight, columns, rows };
  }
}

/** A colour between two, as far from the first as the fraction says. */
function mixed(first, second, fraction) {
  const [from, to] = [first, second].map((text) => text.match(/[\d.]+/g).map(Number));
  return `rgb(${[0, 1, 2].map((part) => Math.round(from[part] + (to[part] - from[part]) * fraction)).join(" ")})`;
}

/** For each stage the kind of each of its GPUs. Stages alike share one list. */
function kindsOf(grid) {
  return grid.stages.flatMap(({ num_stages: count, runs }) => {
    const kinds = runs.flatMap(([length, kind]) => Array(length).fill(kind));
    return Array(count).fill(kinds);
  });
}
