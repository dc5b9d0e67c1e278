// The grid of small maps, one for every head.

import { nameOf } from "./attention.js";
import { rgbOf, series, themed } from "./colours.js";
import { html } from "./elements.js";
import { alike } from "./view.js";

// A map in as many points as it has cells, or as the screen has where those are fewer; then the
// strongest of the cells that share a point is shown, for a thin bright line must not vanish.
function paintSmall(canvas, weights, [rows, columns], pixels, [red, green, blue]) {
  const [height, width] = [Math.min(rows, pixels), Math.min(columns, pixels)];
  const shown = new Float32Array(width * height);
  const across = Uint16Array.from({ length: columns }, (_, i) => Math.floor((i * width) / columns));
  for (let row = 0, i = 0; row < rows; row++) {
    const start = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++, i++) {
      const point = start + across[column];
      if (weights[i] > shown[point]) shown[point] = weights[i];
    }
  }
  const image = new ImageData(width, height);
  for (let point = 0, i = 0; point < shown.length; point++) {
    image.data[i++] = red;
    image.data[i++] = green;
    image.data[i++] = blue;
    image.data[i++] = 255 * Math.sqrt(shown[point]);
  }
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const adding = (event) => event.shiftKey || event.ctrlKey || event.metaKey;

export class Grid {
  constructor(onchoose) {
    this.onchoose = onchoose;
    this.element = html("div", { class: "grid", role: "grid" });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("keyup", (event) => {
      if (event.key === " " && this.#find(event)) event.preventDefault(); // it would click
    });
    this.element.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.#resized()).observe(this.element);
  }

  show(attention, unit, title) {
    const before = this.attention;
    Object.assign(this, { attention, unit });
    this.element.setAttribute("aria-label", `${title}: layers and heads`);
    if (before?.layers !== attention.layers || before.heads !== attention.heads) this.#build();
    this.paint();
  }

  #build() {
    const { layers, heads } = this.attention;
    this.cells = [];
    this.element.style.setProperty("--columns", heads + 1);
    const rows = Array.from({ length: layers }, (_, i) => this.#layer(i + 1));
    const last = html("span", { role: "rowheader" }, "all layers");
    rows.push(html("div", { role: "row", class: "all" }, last, this.#cell({})));
    this.element.replaceChildren(this.#header(heads), ...rows);
    this.lines = rows.map((row) => [...row.querySelectorAll("button")]);
  }

  #header(heads) {
    const corner = html("span", { class: "corner", role: "columnheader" }, "head");
    const numbers = Array.from({ length: heads }, (_, i) => String(i + 1));
    const names = [...numbers, "mean"].map((text) => html("span", { role: "columnheader" }, text));
    return html("div", { role: "row" }, corner, ...names);
  }

  #layer(layer) {
    const attributes = {
      type: "button",
      class: "layer",
      tabindex: -1,
      "data-layer": layer,
      "aria-label": `layer ${layer}, all heads`,
      title: `All heads of layer ${layer}, each in its colour`,
    };
    const whole = html("button", attributes, `layer ${layer}`);
    const names = [...this.attention.headsOf(layer), { layer }];
    const cells = names.map((name) => this.#cell(name));
    return html("div", { role: "row" }, html("span", { role: "rowheader" }, whole), ...cells);
  }

  #cell(name) {
    const canvas = html("canvas", { "aria-hidden": "true" });
    const made = html("button", { type: "button", tabindex: -1, class: "small" }, canvas);
    made.setAttribute("aria-label", nameOf(name));
    made.title = nameOf(name);
    this.cells.push({ name, button: made, canvas });
    return html("span", { role: "gridcell" }, made);
  }

  #resized() {
    const pixels = this.#pixels();
    if (this.attention && pixels > 0 && pixels !== this.painted) this.paint();
  }

  #pixels() {
    return Math.round((this.cells?.[0].canvas.clientWidth ?? 0) * devicePixelRatio);
  }

  paint() {
    this.painted = this.#pixels();
    const { attention, unit } = this;
    const shape = [attention.rows, attention.columns].map((side) => side.labels(unit).length);
    const colour = rgbOf("map-high", this.element);
    for (const { name, canvas } of this.cells) {
      paintSmall(canvas, attention.weights(name, unit), shape, this.painted || 64, colour);
    }
  }

  mark(chosen) {
    for (const { name, button: each } of this.cells) {
      const place = chosen.findIndex((one) => alike(one, name));
      each.setAttribute("aria-pressed", String(place >= 0));
      each.style.setProperty("--own", place >= 0 ? themed(series(place)) : "");
    }
    if (this.element.contains(document.activeElement)) return;
    this.#rove(this.cells.find(({ name }) => alike(name, chosen[0])).button);
  }

  // One button of the grid is reached by Tab, the others from it by the arrow keys.
  #rove(to) {
    for (const each of this.lines.flat()) each.tabIndex = each === to ? 0 : -1;
  }

  #find(event) {
    const own = event.target.closest("button");
    return this.cells.find(({ button: each }) => each === own)?.name;
  }

  #click(event) {
    const layer = Number(event.target.closest(".layer")?.dataset.layer);
    const name = this.#find(event);
    if (layer) this.onchoose(this.attention.headsOf(layer), false);
    else if (name) this.onchoose([name], adding(event));
  }

  #key(event) {
    const name = this.#find(event);
    if (name && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      this.onchoose([name], event.key === " " || adding(event));
      return;
    }
    const to = this.#neighbour(event);
    if (!to) return;
    event.preventDefault();
    this.#rove(to);
    to.focus();
  }

  #neighbour({ key, target }) {
    const last = this.lines.length - 1; // below the layers: the mean of all, alone in its line
    const width = this.lines[0].length;
    const y = this.lines.findIndex((line) => line.includes(target));
    if (y < 0) return null;
    const x = y === last ? width - 1 : this.lines[y].indexOf(target);
    const moves = {
      ArrowLeft: [y, x - 1],
      ArrowRight: [y, x + 1],
      ArrowUp: [y - 1, x],
      ArrowDown: [y + 1, x],
      Home: [y, 0],
      End: [y, width - 1],
    };
    const [row, column] = moves[key] ?? [];
    return row === last ? this.lines[last][0] : this.lines[row]?.[column];
  }
}
