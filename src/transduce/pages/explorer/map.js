// A map of weights: rows are queries, columns are keys. For several heads it shows the mean.

import { meanOf } from "./attention.js";
import { svg } from "./elements.js";
import { fit, groupPaths, makeSheet, makeWord, round, setSize, widest } from "./svg_drawing.js";
import { SIDES, labelsOf, percent } from "./selection.js";

const MIN_SHADE = 0.05; // fainter cells are invisible

// The opacity of a weight; the square root makes weak ones visible.
const shade = (weight) => Math.sqrt(weight);

export class HeatMap {
  arrowKeys = { row: ["ArrowUp", "ArrowDown"], column: ["ArrowLeft", "ArrowRight"] };
  words = {};

  constructor(view, options) {
    this.view = view;
    this.paint = options.paint;
    this.weights = meanOf(view.heads.map(({ weights }) => weights));
    const labelWidth = (labels, most) => Math.min(most, Math.max(36, widest(labels, 13))) + 12;
    this.left = labelWidth(view.rows, Math.min(150, 0.3 * options.width)) + 18;
    const cellWidth = (options.width - this.left - 8) / view.columns.length;
    this.cell = Math.max(13, Math.min(30, Math.floor(cellWidth)));
    this.size = Math.min(13, this.cell - 1.5);
    const width = Math.max(this.left + view.columns.length * this.cell + 8, this.left + 240);
    const title = view.heads.length > 1 ? `${view.title}: the mean of` : view.title;
    const { sheet, top } = makeSheet({ ...view, title }, width, options);
    this.labelHeight = labelWidth(view.columns, 130); // above the columns
    this.top = top + this.labelHeight + 22;
    const bottom = this.top + view.rows.length * this.cell;
    this.element = sheet;
    setSize(sheet, width, bottom + (options.saved ? 50 : 36));
    const stroke = { stroke: this.paint("series-2"), "stroke-width": 1.5 };
    this.frame = svg("g", { fill: "none", "pointer-events": "none", ...stroke });
    sheet.append(...this.#captions(top), ...this.#cells(), ...this.#scale(bottom + 28));
    for (const side of SIDES) {
      this.words[side] = labelsOf(view, side).map((label, i) => this.#word(side, i, label));
      sheet.append(...this.words[side]);
    }
    sheet.append(this.frame);
  }

  #captions(top) {
    const quiet = { "font-size": 12, fill: this.paint("quiet") };
    const sideways = `rotate(-90 12 ${this.top})`;
    return [
      svg("text", { x: this.left, y: top + 12, ...quiet }, this.view.keyCaption),
      svg(
        "text",
        { x: 12, y: this.top, transform: sideways, "text-anchor": "end", ...quiet },
        this.view.queryCaption,
      ),
    ];
  }

  #cells() {
    const { rows, columns } = this.view;
    const { cell, left: x, top: y } = this;
    const size = { width: columns.length * cell, height: rows.length * cell, x, y };
    const background = svg("rect", { class: "cells", ...size, fill: this.paint("map-low") });
    const stroke = this.paint("line");
    const frame = svg("rect", { ...size, fill: "none", stroke, "pointer-events": "none" });
    const pathOf = (i) => {
      const column = i % columns.length;
      const row = Math.floor(i / columns.length);
      return `M${round(x + column * cell)} ${round(y + row * cell)}h${cell}v${cell}h${-cell}z`;
    };
    const fill = this.paint("map-high");
    const paths = groupPaths(this.weights.map(shade), MIN_SHADE, pathOf).map(([strength, d]) =>
      svg("path", { d, fill, "fill-opacity": round(strength) }),
    );
    const group = svg("g", { "shape-rendering": "crispEdges", "pointer-events": "none" }, ...paths);
    return [background, group, frame];
  }

  #scale(y) {
    const marks = [0.01, 0.05, 0.2, 0.5, 1];
    return marks.flatMap((weight, i) => {
      const x = this.left + 46 * i;
      const box = { x, y: y - 11, width: 12, height: 12 };
      const [fill, stroke] = [this.paint("map-high"), this.paint("line")];
      const opacity = round(shade(weight));
      return [
        svg("rect", { ...box, fill: this.paint("map-low") }),
        svg("rect", { ...box, fill, "fill-opacity": opacity, stroke }),
        svg("text", { x: x + 16, y, "font-size": 11, fill: this.paint("quiet") }, percent(weight)),
      ];
    });
  }

  #word(side, index, label) {
    const middle = (index + 0.5) * this.cell;
    const isRow = side === "row";
    const room = isRow ? this.left - 26 : this.labelHeight - 8;
    const shown = fit(label, room, this.size);
    const [x, y] = isRow
      ? [this.left - 6, this.top + middle + 0.35 * this.size]
      : [this.left + middle + 0.35 * this.size, this.top - 6];
    const text = { x, y, "font-size": this.size, "text-anchor": isRow ? "end" : "start" };
    if (!isRow) text.transform = `rotate(-90 ${round(x)} ${round(y)})`;
    const [depth, length] = [this.cell, room + 8];
    const box = isRow
      ? { x: this.left - length, y: this.top + middle - depth / 2, width: length, height: depth }
      : { x: this.left + middle - depth / 2, y: this.top - length, width: depth, height: length };
    const word = makeWord(side, index, label, shown);
    const fill = this.paint("series-2");
    word.append(svg("rect", { class: "tint", ...box, fill, "fill-opacity": 0 }));
    word.append(svg("text", text, shown));
    return word;
  }

  // The cell at a position.
  cellAt(x, y) {
    const { rows, columns } = this.view;
    const index = Math.floor((y - this.top) / this.cell);
    const other = Math.floor((x - this.left) / this.cell);
    if (index < 0 || index >= rows.length || other < 0 || other >= columns.length) return null;
    return { side: "row", index, other };
  }

  select(selection) {
    for (const side of SIDES) {
      this.words[side].forEach((word, index) => {
        const selected = selection?.side === side ? selection.index : selection?.other;
        word.querySelector("rect").setAttribute("fill-opacity", index === selected ? 0.2 : 0);
        word.querySelector("text").setAttribute("font-weight", index === selected ? 700 : 400);
      });
    }
    this.frame.replaceChildren();
    if (selection === null) return;
    const { side, index, other } = selection;
    const bands = side === "row" ? [[index, null]] : [[null, index]];
    if (other !== undefined) bands.push([index, other]);
    for (const [row, column] of bands) this.frame.append(this.#band(row, column));
  }

  // The outline of a row, a column or a cell.
  #band(row, column) {
    const { rows, columns } = this.view;
    return svg("rect", {
      x: this.left + (column ?? 0) * this.cell,
      y: this.top + (row ?? 0) * this.cell,
      width: (column === null ? columns.length : 1) * this.cell,
      height: (row === null ? rows.length : 1) * this.cell,
    });
  }
}
