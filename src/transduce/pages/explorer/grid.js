// The grid of small maps, one for each head.

import { headLabel } from "./attention.js";
import { rgbOf, seriesColour, themed } from "./colours.js";
import { html } from "./elements.js";
import { sameValue } from "./selection.js";

// Paint a small map, one pixel for each cell. If there are fewer pixels than cells, a pixel shows
// the largest of its weights, so that thin lines stay visible.
function paintSmall(canvas, weights, [rows, columns], pixels, [red, green, blue]) {
  const [height, width] = [Math.min(rows, pixels), Math.min(columns, pixels)];
  const shown = new Float32Array(width * height);
  const toPixel = (_, i) => Math.floor((i * width) / columns);
  const pixelOf = Uint16Array.from({ length: columns }, toPixel);
  for (let row = 0, i = 0; row < rows; row++) {
    const start = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++, i++) {
      const pixel = start + pixelOf[column];
      if (weights[i] > shown[pixel]) shown[pixel] = weights[i];
    }
  }
  const image = new ImageData(width, height);
  for (let pixel = 0, i = 0; pixel < shown.length; pixel++) {
    image.data[i++] = red;
    image.data[i++] = green;
    image.data[i++] = blue;
    image.data[i++] = 255 * Math.sqrt(shown[pixel]);
  }
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const isAdding = (event) => event.shiftKey || event.ctrlKey || event.metaKey;

export class Grid {
  constructor(onchoose) {
    this.onchoose = onchoose;
    this.element = html("div", { class: "grid", role: "grid" });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("keyup", (event) => {
      // Otherwise Space would click the button.
      if (event.key === " " && this.#headAt(event)) event.preventDefault();
    });
    this.element.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.#resize()).observe(this.element);
  }

  show(attention, unit, title) {
    const previous = this.attention;
    Object.assign(this, { attention, unit });
    this.element.setAttribute("aria-label", `${title}: layers and heads`);
    if (previous?.layers !== attention.layers || previous.heads !== attention.heads) this.#build();
    this.paint();
  }

  #build() {
    const { layers, heads } = this.attention;
    this.cells = [];
    this.element.style.setProperty("--columns", heads + 1);
    const rows = Array.from({ length: layers }, (_, i) => this.#layer(i + 1));
    const header = html("span", { role: "rowheader" }, "all layers");
    rows.push(html("div", { role: "row", class: "all" }, header, this.#cell({})));
    this.element.replaceChildren(this.#header(heads), ...rows);
    this.buttonRows = rows.map((row) => [...row.querySelectorAll("button")]);
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
    const wholeLayer = html("button", attributes, `layer ${layer}`);
    const header = html("span", { role: "rowheader" }, wholeLayer);
    const heads = [...this.attention.headsOf(layer), { layer }];
    return html("div", { role: "row" }, header, ...heads.map((head) => this.#cell(head)));
  }

  #cell(head) {
    const canvas = html("canvas", { "aria-hidden": "true" });
    const title = headLabel(head);
    const attributes = { type: "button", tabindex: -1, class: "small", "aria-label": title, title };
    const button = html("button", attributes, canvas);
    this.cells.push({ head, button, canvas });
    return html("span", { role: "gridcell" }, button);
  }

  #resize() {
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
    for (const { head, canvas } of this.cells) {
      paintSmall(canvas, attention.weights(head, unit), shape, this.painted || 64, colour);
    }
  }

  markChosen(chosen) {
    for (const { head, button } of this.cells) {
      const index = chosen.findIndex((each) => sameValue(each, head));
      button.setAttribute("aria-pressed", String(index >= 0));
      button.style.setProperty("--own", index >= 0 ? themed(seriesColour(index)) : "");
    }
    if (this.element.contains(document.activeElement)) return;
    this.#moveTabStop(this.cells.find(({ head }) => sameValue(head, chosen[0])).button);
  }

  // Tab reaches one button of the grid; arrow keys reach the others from it.
  #moveTabStop(to) {
    for (const button of this.buttonRows.flat()) button.tabIndex = button === to ? 0 : -1;
  }

  #headAt(event) {
    const target = event.target.closest("button");
    return this.cells.find(({ button }) => button === target)?.head;
  }

  #click(event) {
    const layer = Number(event.target.closest(".layer")?.dataset.layer);
    const head = this.#headAt(event);
    if (layer) this.onchoose(this.attention.headsOf(layer), false);
    else if (head) this.onchoose([head], isAdding(event));
  }

  #key(event) {
    const head = this.#headAt(event);
    if (head && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      this.onchoose([head], event.key === " " || isAdding(event));
      return;
    }
    const to = this.#neighbour(event);
    if (!to) return;
    event.preventDefault();
    this.#moveTabStop(to);
    to.focus();
  }

  #neighbour({ key, target }) {
    const last = this.buttonRows.length - 1; // the last row has one button, the mean of all layers
    const width = this.buttonRows[0].length;
    const y = this.buttonRows.findIndex((row) => row.includes(target));
    if (y < 0) return null;
    const x = y === last ? width - 1 : this.buttonRows[y].indexOf(target);
    const moves = {
      ArrowLeft: [y, x - 1],
      ArrowRight: [y, x + 1],
      ArrowUp: [y - 1, x],
      ArrowDown: [y + 1, x],
      Home: [y, 0],
      End: [y, width - 1],
    };
    const [row, column] = moves[key] ?? [];
    return row === last ? this.buttonRows[last][0] : this.buttonRows[row]?.[column];
  }
}
