// Two columns of words with lines between them, as in the paper's Figures 3 to 5.

import { meanOf } from "./attention.js";
import { svg } from "./elements.js";
import { fit, pooled, round, sheetOf, trim, widest, wordOf } from "./sheet.js";
import { SIDES, TOLD, labelsOf, otherSide, percent, sliceOf } from "./view.js";

const THINNEST = 0.01; // what no eye sees is not drawn

// The higher `contrast`, the more weak lines step back.
function strokes(weights, pathOf, stroke, contrast) {
  return pooled(weights, THINNEST, pathOf).map(([strength, d]) =>
    svg("path", {
      d,
      stroke,
      "stroke-opacity": round(strength ** contrast),
      "stroke-width": round(0.9 + 2.6 * strength),
    }),
  );
}

export class Lines {
  along = { row: ["ArrowUp", "ArrowDown"], column: ["ArrowUp", "ArrowDown"] };
  words = {};

  constructor(view, options) {
    this.view = view;
    this.paint = options.paint;
    const most = Math.max(view.rows.length, view.columns.length);
    const narrow = options.width < 440;
    this.step = most <= 40 ? 25 : most <= 72 ? 21 : 18;
    this.size = Math.min(narrow ? 13 : 14.5, 0.64 * this.step);
    this.swatch = Math.max(3, Math.min(8, Math.floor((narrow ? 24 : 48) / view.heads.length)));
    this.#place(options.width, narrow);
    const { sheet, top } = sheetOf(view, this.width, options);
    this.top = top + 30;
    this.element = sheet;
    trim(sheet, this.width, this.top + most * this.step + (options.saved ? 14 : 4));
    this.lines = svg("g", { class: "lines", fill: "none", "stroke-linecap": "round" });
    this.marks = svg("g", { class: "marks" });
    sheet.append(...this.#captions(), this.marks, this.lines);
    for (const side of SIDES) {
      this.words[side] = labelsOf(view, side).map((label, i) => this.#word(side, i, label));
      sheet.append(...this.words[side]);
    }
    this.all = this.#allLines();
    this.isolate(null);
  }

  // Words take what they need, the lines between them what is left.
  #place(width, narrow) {
    const share = narrow ? 31 : 40; // where percentages stand, outside of the words
    this.strip = this.view.heads.length * this.swatch + 6; // of swatches, inside of the words
    const wanted = (labels) => Math.max(40, widest(labels, this.size)) + 14;
    let [left, right] = [wanted(this.view.rows), wanted(this.view.columns)];
    const around = 2 * share + 2 * this.strip;
    this.width = Math.min(Math.max(width, 260), around + left + right + 240);
    const room = this.width - around - Math.max(56, 0.17 * this.width);
    if (left + right > room) {
      left = Math.min(left, Math.max(room / 2, room - right));
      right = Math.min(right, room - left);
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
    const { looking, seen } = this.view;
    const quiet = { y: this.top - 12, "font-size": 12, fill: this.paint("quiet") };
    return [
      svg("text", { x: this.x.row.text, "text-anchor": "end", ...quiet }, looking),
      svg("text", { x: this.x.column.text, ...quiet }, seen),
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
    const made = wordOf(side, index, label, shown);
    made.append(
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
    return made;
  }

  // Heads that join the same words run side by side.
  #offset(place) {
    const count = this.view.heads.length;
    return (place - (count - 1) / 2) * Math.min(3, (0.6 * this.step) / count);
  }

  // A line from word to word, or between the swatches that stand beside them.
  #line(row, column, place, aside) {
    const shift = this.#offset(place);
    const [left, right] = [this.#middle(row) + shift, this.#middle(column) + shift];
    const [from, to] = [this.x.row.edge + aside, this.x.column.edge - aside];
    return `M${round(from)} ${round(left)}L${round(to)} ${round(right)}`;
  }

  #allLines() {
    const width = this.view.columns.length;
    return this.view.heads.flatMap(({ weights, colour }, place) => {
      const pathOf = (i) => this.#line(Math.floor(i / width), i % width, place, 0);
      return strokes(weights, pathOf, this.paint(colour), 1.2);
    });
  }

  // Show the lines of one word alone, and how much goes to each word of the other side.
  isolate(isolated) {
    this.marks.replaceChildren();
    for (const side of SIDES) {
      this.words[side].forEach((word, index) => this.#mark(word, { side, index }, isolated));
    }
    if (isolated === null) {
      this.lines.replaceChildren(...this.all);
      return;
    }
    const { side, index } = isolated;
    const slices = this.view.heads.map((head) => sliceOf(this.view, head, isolated));
    const ends = (other) => (side === "row" ? [index, other] : [other, index]);
    const own = this.view.heads.flatMap(({ colour }, place) => {
      const pathOf = (other) => this.#line(...ends(other), place, this.strip);
      return strokes(slices[place], pathOf, this.paint(colour), 0.8);
    });
    this.lines.replaceChildren(...own);
    const shares = meanOf(slices);
    this.words[otherSide(side)].forEach((word, other) => this.#share(word, shares[other]));
    this.#swatches(side, index, () => 1);
    shares.forEach((_, other) => {
      this.#swatches(otherSide(side), other, (place) => slices[place][other]);
    });
  }

  #mark(word, { side, index }, isolated) {
    const chosen = isolated?.side === side && isolated.index === index;
    const [tint, text, share] = word.querySelectorAll("rect, text");
    tint.setAttribute("fill-opacity", chosen ? 0.16 : 0);
    text.setAttribute("font-weight", chosen ? 700 : 400);
    text.setAttribute("fill-opacity", isolated === null || chosen ? 1 : 0.65);
    share.textContent = "";
  }

  #share(word, weight) {
    const [tint, text, share] = word.querySelectorAll("rect, text");
    tint.setAttribute("fill-opacity", round(0.3 * weight));
    if (weight < TOLD) return;
    text.setAttribute("fill-opacity", 1);
    share.textContent = percent(weight);
  }

  #swatches(side, index, weightOf) {
    const y = this.#middle(index) - this.step / 2 + 3;
    this.view.heads.forEach(({ colour }, place) => {
      const weight = weightOf(place);
      if (weight < 0.0005) return;
      const x = this.x[side].strip + place * this.swatch;
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
