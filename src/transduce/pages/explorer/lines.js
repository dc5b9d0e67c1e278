// Two columns of words with lines between them, as in the paper's Figures 3 to 5.

import { meanOf } from "./attention.js";
import { svg } from "./elements.js";
import { fit, groupPaths, makeSheet, makeWord, round, setSize, widest } from "./svg_drawing.js";
import { LEAST_SHOWN, SIDES, labelsOf, otherSide, percent, sliceOf } from "./selection.js";

const LEAST_DRAWN = 0.01; // weaker lines are invisible

// A higher `contrast` makes weak lines fainter.
function strokes(weights, pathOf, stroke, contrast) {
  return groupPaths(weights, LEAST_DRAWN, pathOf).map(([strength, d]) =>
    svg("path", {
      d,
      stroke,
      "stroke-opacity": round(strength ** contrast),
      "stroke-width": round(0.9 + 2.6 * strength),
    }),
  );
}

export class Lines {
  arrowKeys = { row: ["ArrowUp", "ArrowDown"], column: ["ArrowUp", "ArrowDown"] };
  words = {};

  constructor(view, options) {
    this.view = view;
    this.paint = options.paint;
    const longest = Math.max(view.rows.length, view.columns.length);
    const narrow = options.width < 440;
    this.step = longest <= 40 ? 25 : longest <= 72 ? 21 : 18;
    this.size = Math.min(narrow ? 13 : 14.5, 0.64 * this.step);
    this.swatch = Math.max(3, Math.min(8, Math.floor((narrow ? 24 : 48) / view.heads.length)));
    this.#layOut(options.width, narrow);
    const { sheet, top } = makeSheet(view, this.width, options);
    this.top = top + 30;
    this.element = sheet;
    setSize(sheet, this.width, this.top + longest * this.step + (options.saved ? 14 : 4));
    this.lines = svg("g", { class: "lines", fill: "none", "stroke-linecap": "round" });
    this.marks = svg("g", { class: "marks" });
    sheet.append(...this.#captions(), this.marks, this.lines);
    for (const side of SIDES) {
      this.words[side] = labelsOf(view, side).map((label, i) => this.#word(side, i, label));
      sheet.append(...this.words[side]);
    }
    this.all = this.#allLines();
    this.select(null);
  }

  // Words take the width they need; the lines between them take the rest.
  #layOut(width, narrow) {
    const share = narrow ? 31 : 40; // for percentages, outside the words
    this.strip = this.view.heads.length * this.swatch + 6; // for swatches, between words and lines
    const labelWidth = (labels) => Math.max(40, widest(labels, this.size)) + 14;
    let [left, right] = [labelWidth(this.view.rows), labelWidth(this.view.columns)];
    const around = 2 * share + 2 * this.strip;
    this.width = Math.min(Math.max(width, 260), around + left + right + 240);
    const available = this.width - around - Math.max(56, 0.17 * this.width);
    if (left + right > available) {
      left = Math.min(left, Math.max(available / 2, available - right));
      right = Math.min(right, available - left);
    }
    const [end, begin] = [share + left, this.width - share - right];
    this.x = {
      row: { share: share - 6, box: share, width: left, text: end - 7, edge: end },
      column: { share: begin + right + 6, box: begin, width: right, text: begin + 7, edge: begin },
    };
    this.x.row.strip = end + 2;
    this.x.column.strip = begin - this.strip + 4;
  }

  #middle(index) {
    return this.top + (index + 0.5) * this.step;
  }

  #captions() {
    const { queryCaption, keyCaption } = this.view;
    const quiet = { y: this.top - 12, "font-size": 12, fill: this.paint("quiet") };
    return [
      svg("text", { x: this.x.row.text, "text-anchor": "end", ...quiet }, queryCaption),
      svg("text", { x: this.x.column.text, ...quiet }, keyCaption),
    ];
  }

  #word(side, index, label) {
    const { box: x, width, text, share } = this.x[side];
    const y = this.#middle(index);
    const shown = fit(label, width - 12, this.size);
    const box = { x, y: y - this.step / 2 + 1, width, height: this.step - 2, rx: 4 };
    const anchor = side === "row" ? "end" : "start";
    const baseline = y + 0.35 * this.size;
    const [head, ...others] = this.view.heads;
    const fill = this.paint(others.length > 0 ? "quiet" : head.colour);
    const word = makeWord(side, index, label, shown);
    word.append(
      svg("rect", { class: "tint", ...box, fill }),
      svg("text", { x: text, y: baseline, "font-size": this.size, "text-anchor": anchor }, shown),
      svg("text", {
        class: "share",
        x: share,
        y: baseline,
        "font-size": this.size - 2.5,
        "text-anchor": anchor,
        fill: this.paint("quiet"),
      }),
    );
    return word;
  }

  // Lines of several heads between the same words are drawn side by side.
  #offset(index) {
    const count = this.view.heads.length;
    return (index - (count - 1) / 2) * Math.min(3, (0.6 * this.step) / count);
  }

  // A line from word to word, `gap` away from both.
  #line(row, column, headIndex, gap) {
    const shift = this.#offset(headIndex);
    const [left, right] = [this.#middle(row) + shift, this.#middle(column) + shift];
    const [from, to] = [this.x.row.edge + gap, this.x.column.edge - gap];
    return `M${round(from)} ${round(left)}L${round(to)} ${round(right)}`;
  }

  #allLines() {
    const width = this.view.columns.length;
    return this.view.heads.flatMap(({ weights, colour }, headIndex) => {
      const pathOf = (i) => this.#line(Math.floor(i / width), i % width, headIndex, 0);
      return strokes(weights, pathOf, this.paint(colour), 1.2);
    });
  }

  // Show only the lines of one word, and the weight of each word on the other side.
  select(selection) {
    this.marks.replaceChildren();
    for (const side of SIDES) {
      this.words[side].forEach((word, index) => this.#emphasize(word, { side, index }, selection));
    }
    if (selection === null) {
      this.lines.replaceChildren(...this.all);
      return;
    }
    const { side, index } = selection;
    const slices = this.view.heads.map((head) => sliceOf(this.view, head, selection));
    const ends = (other) => (side === "row" ? [index, other] : [other, index]);
    const selectedLines = this.view.heads.flatMap(({ colour }, i) => {
      const pathOf = (other) => this.#line(...ends(other), i, this.strip);
      return strokes(slices[i], pathOf, this.paint(colour), 0.8);
    });
    this.lines.replaceChildren(...selectedLines);
    const shares = meanOf(slices);
    this.words[otherSide(side)].forEach((word, other) => this.#showShare(word, shares[other]));
    this.#swatches(side, index, () => 1);
    shares.forEach((_, other) => {
      this.#swatches(otherSide(side), other, (i) => slices[i][other]);
    });
  }

  #emphasize(word, { side, index }, selection) {
    const selected = selection?.side === side && selection.index === index;
    const [tint, text, share] = word.querySelectorAll("rect, text");
    tint.setAttribute("fill-opacity", selected ? 0.16 : 0);
    text.setAttribute("font-weight", selected ? 700 : 400);
    text.setAttribute("fill-opacity", selection === null || selected ? 1 : 0.65);
    share.textContent = "";
  }

  #showShare(word, weight) {
    const [tint, text, share] = word.querySelectorAll("rect, text");
    tint.setAttribute("fill-opacity", round(0.3 * weight));
    if (weight < LEAST_SHOWN) return;
    text.setAttribute("fill-opacity", 1);
    share.textContent = percent(weight);
  }

  #swatches(side, index, weightOf) {
    const y = this.#middle(index) - this.step / 2 + 3;
    this.view.heads.forEach(({ colour }, headIndex) => {
      const weight = weightOf(headIndex);
      if (weight < 0.0005) return;
      const x = this.x[side].strip + headIndex * this.swatch;
      this.marks.append(
        svg("rect", {
          class: "swatch",
          "data-side": side,
          x,
          y,
          width: this.swatch - 1,
          height: this.step - 6,
          rx: 1.5,
          fill: this.paint(colour),
          "fill-opacity": weight.toFixed(4),
        }),
      );
    });
  }
}
