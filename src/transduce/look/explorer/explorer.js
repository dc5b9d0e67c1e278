// Every attention head of one translation: a grid of small maps, and what is chosen of it large, as
// lines between words (the paper's Figures 3 to 5) or as a map.

const KINDS = {
  encoder: {
    short: "Encoder",
    title: "Encoder self-attention",
    looking: "word",
    seen: "looks at",
    says: "Each word of the source looks at every word of the source.",
  },
  decoder: {
    short: "Decoder",
    title: "Decoder self-attention",
    looking: "writing",
    writes: true,
    seen: "looks back at",
    says: "Writing each word, the decoder looks back at those it has read, from <s> on.",
  },
  cross: {
    short: "Encoder-decoder",
    title: "Encoder-decoder attention",
    looking: "writing",
    writes: true,
    seen: "looks at",
    says: "Writing each word, the decoder looks at the words of the source.",
  },
};

// base.css has these for both themes; here they stand for pictures that are saved, to be printed.
const LIGHT = {
  ground: "#ffffff",
  ink: "#16191f",
  quiet: "#596170",
  line: "#d5d9e0",
  "map-low": "#ffffff",
  "map-high": "#08306b",
  "series-1": "#0072b2",
  "series-2": "#d55e00",
  "series-3": "#009e73",
  "series-4": "#b5568f",
  "series-5": "#16191f",
  "series-6": "#2f8fc4",
  "series-7": "#b97b00",
  "series-8": "#767676",
};
const COLOURS = 8;
const themed = (name) => `var(--${name}, ${LIGHT[name]})`;
const printed = (name) => LIGHT[name];
const series = (place) => `series-${(place % COLOURS) + 1}`;

const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", Arial, sans-serif';
const HINT = {
  true:
    "Shift-click or Space adds a head; a layer’s name shows all of its heads. " +
    "Point at a word for its lines alone, click to keep them.",
  false:
    "With this on, a tap adds a head; a layer’s name shows all of its heads. " +
    "Tap a word for its lines alone.",
};
const hovering = () => matchMedia("(hover: hover)").matches;
const SVG = "http://www.w3.org/2000/svg";
const LEVELS = 32; // of opacity: what has the same is one path, however long the sentences are
const LEAST = 0.01; // attention that no eye sees is not drawn
const TOLD = 0.0095; // what is 1% when rounded
const SAVED_WIDTH = 640;
const SAVED_SCALE = 3; // of a PNG

// ---- Small tools

function html(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(text, attributes, onclick) {
  const made = html("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onclick);
  return made;
}

// Buttons of which one is pressed; `values` are {value: text}.
function choice(label, values, onchoose) {
  const made = html("div", { class: "choice", role: "group", "aria-label": label });
  for (const [value, text] of Object.entries(values)) {
    made.append(button(text, { "data-value": value }, () => onchoose(value)));
  }
  return made;
}

function press(group, value) {
  for (const each of group.children) {
    each.setAttribute("aria-pressed", String(each.dataset.value === value));
  }
}

function percent(weight) {
  const points = 100 * weight;
  return `${points.toFixed(points >= 0.05 && points < 0.95 ? 1 : 0)}%`;
}

function round(value) {
  return Math.round(value * 100) / 100;
}

const ruler = document.createElement("canvas").getContext("2d");

function measure(text, size) {
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

// As much of a text as fits, with an ellipsis where it does not; never half of an emoji.
function fit(text, width, size) {
  if (measure(text, size) <= width) return text;
  const letters = Array.from(new Intl.Segmenter().segment(text), (each) => each.segment);
  let [fits, fails] = [0, letters.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (measure(`${letters.slice(0, middle).join("")}…`, size) <= width) fits = middle;
    else fails = middle;
  }
  return `${letters.slice(0, fits).join("")}…`;
}

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still be reading
}

// ---- What the inspection holds

function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Uint16Array(bytes.buffer); // little-endian, as every machine with a browser is
}

function meanOf(lists) {
  const mean = new Float32Array(lists[0].length);
  for (const list of lists) {
    for (let i = 0; i < mean.length; i++) mean[i] += list[i] / lists.length;
  }
  return mean;
}

// The attention of one kind. A head is named {layer, head} from 1 on; no head: the mean of the
// layer's; no layer: of all.
class Attention {
  #means = new Map();

  constructor({ shape, data }) {
    [this.layers, this.heads, this.rows, this.columns] = shape;
    this.data = data;
  }

  has({ layer, head }) {
    return (layer ?? 1) <= this.layers && (head ?? 1) <= this.heads;
  }

  weights({ layer, head }) {
    if (head) return this.#head((layer - 1) * this.heads + head - 1);
    if (!this.#means.has(layer)) this.#means.set(layer, this.#mean(layer));
    return this.#means.get(layer);
  }

  #head(place) {
    this.values ??= decode(this.data); // megabytes, of which a third may be all that is looked at
    const size = this.rows * this.columns;
    const weights = new Float32Array(this.values.subarray(place * size, (place + 1) * size));
    for (let i = 0; i < size; i++) weights[i] /= 65535;
    return weights;
  }

  #mean(layer) {
    const parts = layer
      ? Array.from({ length: this.heads }, (_, i) => ({ layer, head: i + 1 }))
      : Array.from({ length: this.layers }, (_, i) => ({ layer: i + 1 }));
    return meanOf(parts.map((name) => this.weights(name)));
  }
}

const same = (one, other) => one.layer === other.layer && one.head === other.head;

function nameOf({ layer, head }) {
  if (!layer) return "mean of all heads of all layers";
  return head ? `layer ${layer}, head ${head}` : `layer ${layer}, mean of its heads`;
}

// One side of a map: what stands beside its rows or columns, and which word each piece is part of.
class Side {
  constructor(pieces, words) {
    this.words = words;
    this.pieces = pieces.map((piece, i) => {
      const text = piece.trim() || "␣";
      return i > 0 && words[i] === words[i - 1] ? `·${text}` : text;
    });
    this.whole = [];
    pieces.forEach((piece, i) => {
      this.whole[words[i]] = (this.whole[words[i]] ?? "") + piece;
    });
    this.whole = this.whole.map((word) => word.trim() || "␣");
  }

  labels(whole) {
    return whole ? this.whole : this.pieces;
  }
}

function sidesOf({ source, target, inputs, words }, kind) {
  const read = () => new Side(inputs, [0, ...words.target.slice(0, -1).map((word) => word + 1)]);
  const from = () => new Side(source, words.source);
  const written = () => new Side(target, words.target);
  if (kind === "encoder") return { rows: from(), columns: from() };
  return { rows: written(), columns: kind === "decoder" ? read() : from() };
}

// Attention between whole words: what a word's pieces receive is added up, what they give averaged.
function merge(weights, rows, columns) {
  const [height, width] = [rows.whole.length, columns.whole.length];
  const pieces = new Float32Array(height);
  for (const word of rows.words) pieces[word] += 1;
  const merged = new Float32Array(height * width);
  let i = 0;
  for (const row of rows.words) {
    for (const column of columns.words) merged[row * width + column] += weights[i++] / pieces[row];
  }
  return merged;
}

// What a picture draws: a kind with {rows, columns, heads: [{name, colour, weights}]}.
// What is isolated in it: {side: "row" or "column", index}, and of a cell of a map also {other}.

const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const otherSide = (side) => (side === "row" ? "column" : "row");

function labelsOf(view, side) {
  return side === "row" ? view.rows : view.columns;
}

// The weights of one head between a word and all words of the other side.
function sliceOf(view, { weights }, { side, index }) {
  const width = view.columns.length;
  if (side === "row") return weights.subarray(index * width, (index + 1) * width);
  return view.rows.map((_, row) => weights[row * width + index]);
}

// ---- Pictures

// The sheet that a picture is drawn on. One that is saved has a ground, and tells what it shows.
function sheetOf(view, width, { paint, saved }) {
  const sheet = svg("svg", { xmlns: SVG, "font-family": FONT, fill: paint("ink") });
  if (!saved) return { sheet, top: 0 };
  const ground = { width: "100%", height: "100%", fill: paint("ground") };
  const title = { x: 16, y: 27, "font-size": 15, "font-weight": 600 };
  sheet.append(svg("rect", ground), svg("text", title, view.title));
  let [x, y] = [16, 48];
  for (const { name, colour } of view.heads) {
    const wide = measure(name, 13) + 36;
    if (x > 16 && x + wide > width) [x, y] = [16, y + 19];
    const swatch = { x, y: y - 9.5, width: 10, height: 10, rx: 2, fill: paint(colour) };
    const text = { x: x + 15, y, "font-size": 13, fill: paint("quiet") };
    sheet.append(svg("rect", swatch), svg("text", text, name));
    x += wide;
  }
  return { sheet, top: y + 16 };
}

function trim(sheet, width, height) {
  sheet.setAttribute("width", round(width));
  sheet.setAttribute("height", round(height));
  sheet.setAttribute("viewBox", `0 0 ${round(width)} ${round(height)}`);
}

function wordOf(side, index, label, shown) {
  const made = svg("g", {
    class: "word",
    role: "button",
    tabindex: -1,
    "aria-label": label,
    "aria-pressed": "false",
    "data-side": side,
    "data-index": index,
  });
  if (shown !== label) made.append(svg("title", {}, label));
  return made;
}

// Lines of about the same weight are one path; `segments` are [weight, path data]. The higher
// `contrast`, the more the weak ones step back.
function strokes(segments, colour, contrast) {
  const levels = Array.from({ length: LEVELS + 1 }, () => []);
  for (const [weight, path] of segments) {
    if (weight >= LEAST) levels[Math.ceil(Math.min(weight, 1) * LEVELS)].push(path);
  }
  return levels.flatMap((paths, level) =>
    paths.length === 0
      ? []
      : svg("path", {
          d: paths.join(""),
          stroke: colour,
          "stroke-opacity": round((level / LEVELS) ** contrast),
          "stroke-width": round(0.9 + (2.6 * level) / LEVELS),
        }),
  );
}

// Two columns of words with lines between them.
class Lines {
  along = { row: ["ArrowUp", "ArrowDown"], column: ["ArrowUp", "ArrowDown"] };
  words = { row: [], column: [] };

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
    for (const side of ["row", "column"]) {
      labelsOf(view, side).forEach((label, index) => this.#word(side, index, label));
      sheet.append(...this.words[side]);
    }
    this.all = this.#allLines();
    this.isolate(null);
  }

  // Words take what they need, the lines between them what is left.
  #place(width, narrow) {
    const share = narrow ? 31 : 40; // where percentages stand, outside of the words
    this.strip = this.view.heads.length * this.swatch + 6; // of swatches, inside of the words
    const widest = (labels) =>
      Math.max(40, ...labels.map((label) => measure(label, this.size))) + 14;
    let [left, right] = [widest(this.view.rows), widest(this.view.columns)];
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
    this.words[side].push(made);
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
    const columns = this.view.columns.length;
    return this.view.heads.flatMap(({ weights, colour }, place) => {
      const segments = [];
      weights.forEach((weight, i) => {
        if (weight < LEAST) return;
        segments.push([weight, this.#line(Math.floor(i / columns), i % columns, place, 0)]);
      });
      return strokes(segments, this.paint(colour), 1.2);
    });
  }

  // Show the lines of one word alone, and how much goes to each word of the other side.
  isolate(isolated) {
    this.marks.replaceChildren();
    for (const side of ["row", "column"]) {
      this.words[side].forEach((word, index) => this.#mark(word, { side, index }, isolated));
    }
    if (isolated === null) {
      this.lines.replaceChildren(...this.all);
      return;
    }
    const { side, index } = isolated;
    const slices = this.view.heads.map((head) => sliceOf(this.view, head, isolated));
    const strokesOf = ({ colour }, place) => {
      const segments = Array.from(slices[place], (weight, other) => [
        weight,
        this.#line(...(side === "row" ? [index, other] : [other, index]), place, this.strip),
      ]);
      return strokes(segments, this.paint(colour), 0.8);
    };
    this.lines.replaceChildren(...this.view.heads.flatMap(strokesOf));
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

// Rows look at columns; the darker, the more. Of several heads it is the mean.
class HeatMap {
  along = { row: ["ArrowUp", "ArrowDown"], column: ["ArrowLeft", "ArrowRight"] };
  words = { row: [], column: [] };

  constructor(view, options) {
    this.view = view;
    this.paint = options.paint;
    this.weights = meanOf(view.heads.map(({ weights }) => weights));
    const widest = (labels, most) =>
      Math.min(most, Math.max(36, ...labels.map((label) => measure(label, 13)))) + 12;
    this.left = widest(view.rows, Math.min(150, 0.3 * options.width)) + 18;
    const room = (options.width - this.left - 8) / view.columns.length;
    this.cell = Math.max(13, Math.min(30, Math.floor(room)));
    this.size = Math.min(13, this.cell - 1.5);
    const width = Math.max(this.left + view.columns.length * this.cell + 8, this.left + 240);
    const { sheet, top } = sheetOf(view, width, options);
    this.top = top + widest(view.columns, 130) + 22;
    const bottom = this.top + view.rows.length * this.cell;
    this.element = sheet;
    trim(sheet, width, bottom + (options.saved ? 50 : 36));
    const stroke = { stroke: this.paint("series-2"), "stroke-width": 1.5 };
    this.frame = svg("g", { fill: "none", "pointer-events": "none", ...stroke });
    sheet.append(...this.#captions(top), ...this.#cells(), ...this.#scale(bottom + 28));
    for (const side of ["row", "column"]) {
      labelsOf(view, side).forEach((label, index) => this.#word(side, index, label));
      sheet.append(...this.words[side]);
    }
    sheet.append(this.frame);
  }

  #captions(top) {
    const quiet = { "font-size": 12, fill: this.paint("quiet") };
    const side = `rotate(-90 12 ${this.top})`;
    return [
      svg("text", { x: this.left, y: top + 12, ...quiet }, this.view.seen),
      svg(
        "text",
        { x: 12, y: this.top, transform: side, "text-anchor": "end", ...quiet },
        this.view.looking,
      ),
    ];
  }

  #cells() {
    const { columns } = this.view;
    const [cell, fill] = [this.cell, this.paint("map-high")];
    const levels = Array.from({ length: LEVELS + 1 }, () => []);
    this.weights.forEach((weight, i) => {
      if (weight < LEAST / 4) return;
      const x = this.left + (i % columns.length) * cell;
      const y = this.top + Math.floor(i / columns.length) * cell;
      const path = `M${round(x)} ${round(y)}h${cell}v${cell}h${-cell}z`;
      levels[Math.ceil(Math.sqrt(Math.min(weight, 1)) * LEVELS)].push(path);
    });
    const size = {
      width: columns.length * cell,
      height: this.view.rows.length * cell,
      x: this.left,
      y: this.top,
    };
    const ground = svg("rect", { class: "cells", ...size, fill: this.paint("map-low") });
    const stroke = this.paint("line");
    const frame = svg("rect", { ...size, fill: "none", stroke, "pointer-events": "none" });
    const paths = levels.flatMap((list, level) =>
      list.length === 0
        ? []
        : svg("path", { d: list.join(""), fill, "fill-opacity": round(level / LEVELS) }),
    );
    const group = svg("g", { "shape-rendering": "crispEdges", "pointer-events": "none" }, ...paths);
    return [ground, group, frame];
  }

  #scale(y) {
    const marks = [0.01, 0.05, 0.2, 0.5, 1];
    return marks.flatMap((weight, i) => {
      const x = this.left + 46 * i;
      const box = { x, y: y - 11, width: 12, height: 12 };
      const [fill, stroke] = [this.paint("map-high"), this.paint("line")];
      const opacity = round(Math.sqrt(weight));
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
    const room = isRow ? this.left - 26 : 130;
    const shown = fit(label, room, this.size);
    const [x, y] = isRow
      ? [this.left - 6, this.top + middle + 0.35 * this.size]
      : [this.left + middle + 0.35 * this.size, this.top - 6];
    const text = { x, y, "font-size": this.size, "text-anchor": isRow ? "end" : "start" };
    if (!isRow) text.transform = `rotate(-90 ${round(x)} ${round(y)})`;
    const [thick, long] = [this.cell, room + 8];
    const box = isRow
      ? { x: this.left - long, y: this.top + middle - thick / 2, width: long, height: thick }
      : { x: this.left + middle - thick / 2, y: this.top - long, width: thick, height: long };
    const made = wordOf(side, index, label, shown);
    const fill = this.paint("series-2");
    made.append(svg("rect", { class: "tint", ...box, fill, "fill-opacity": 0 }));
    made.append(svg("text", text, shown));
    this.words[side].push(made);
  }

  // The cell under the pointer.
  at(x, y) {
    const { rows, columns } = this.view;
    const index = Math.floor((y - this.top) / this.cell);
    const other = Math.floor((x - this.left) / this.cell);
    if (index < 0 || index >= rows.length || other < 0 || other >= columns.length) return null;
    return { side: "row", index, other };
  }

  isolate(isolated) {
    for (const side of ["row", "column"]) {
      this.words[side].forEach((word, index) => {
        const own = isolated?.side === side ? isolated.index : isolated?.other;
        word.querySelector("rect").setAttribute("fill-opacity", index === own ? 0.2 : 0);
        word.querySelector("text").setAttribute("font-weight", index === own ? 700 : 400);
      });
    }
    this.frame.replaceChildren();
    if (isolated === null) return;
    const { side, index, other } = isolated;
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

const PICTURES = { lines: Lines, map: HeatMap };

// ---- The grid of small maps

// A map in as many points as it has cells, or as the screen has where those are fewer; then the
// strongest of the cells that share a point is shown, for a thin bright line must not vanish.
function paintSmall(canvas, weights, [rows, columns], pixels, [red, green, blue]) {
  const [height, width] = [Math.min(rows, pixels), Math.min(columns, pixels)];
  const strongest = new Float32Array(width * height);
  const across = Uint16Array.from({ length: columns }, (_, i) => Math.floor((i * width) / columns));
  for (let row = 0, i = 0; row < rows; row++) {
    const start = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++, i++) {
      const point = start + across[column];
      if (weights[i] > strongest[point]) strongest[point] = weights[i];
    }
  }
  const image = new ImageData(width, height);
  for (let point = 0, i = 0; point < strongest.length; point++) {
    image.data[i++] = red;
    image.data[i++] = green;
    image.data[i++] = blue;
    image.data[i++] = 255 * Math.sqrt(strongest[point]);
  }
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const adding = (event) => event.shiftKey || event.ctrlKey || event.metaKey;

function rgbOf(colour) {
  ruler.fillStyle = colour;
  return [1, 3, 5].map((start) => parseInt(ruler.fillStyle.slice(start, start + 2), 16));
}

class Grid {
  constructor(onchoose) {
    this.onchoose = onchoose;
    this.element = html("div", { class: "grid", role: "grid" });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("keyup", (event) => {
      if (event.key === " ") event.preventDefault(); // it would click
    });
    this.element.addEventListener("click", (event) => this.#click(event));
    new ResizeObserver(() => this.#resized()).observe(this.element);
  }

  show(attention, weightsOf, shape, title) {
    Object.assign(this, { attention, weightsOf, shape });
    this.element.setAttribute("aria-label", `${title}: layers and heads`);
    const heads = attention.heads;
    if (this.layers !== attention.layers || this.heads !== heads) {
      this.layers = attention.layers;
      this.heads = heads;
      this.#build();
    }
    this.paint();
  }

  #build() {
    this.cells = [];
    this.element.style.setProperty("--columns", this.heads + 1);
    const numbers = Array.from({ length: this.heads }, (_, i) => String(i + 1));
    const header = html("div", { role: "row" });
    header.append(html("span", { class: "corner", role: "columnheader" }, "head"));
    for (const text of [...numbers, "mean"]) {
      header.append(html("span", { role: "columnheader" }, text));
    }
    const rows = [header];
    for (let layer = 1; layer <= this.layers; layer++) {
      const row = html("div", { role: "row" });
      const whole = html("button", {
        type: "button",
        class: "layer",
        tabindex: -1,
        "data-layer": layer,
        "aria-label": `layer ${layer}, all heads`,
        title: `All heads of layer ${layer}, each in its colour`,
      });
      whole.append(`layer ${layer}`);
      row.append(html("span", { role: "rowheader" }, whole));
      for (let head = 1; head <= this.heads; head++) row.append(this.#cell({ layer, head }));
      row.append(this.#cell({ layer }));
      rows.push(row);
    }
    const last = html("div", { role: "row", class: "all" });
    last.append(html("span", { role: "rowheader" }, "all layers"), this.#cell({}));
    rows.push(last);
    this.element.replaceChildren(...rows);
    this.lines = rows.slice(1).map((row) => [...row.querySelectorAll("button")]);
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
    const style = getComputedStyle(this.element);
    const colour = rgbOf(style.getPropertyValue("--map-high").trim() || LIGHT["map-high"]);
    for (const { name, canvas } of this.cells) {
      paintSmall(canvas, this.weightsOf(name), this.shape, this.painted || 64, colour);
    }
  }

  mark(chosen) {
    for (const { name, button: each } of this.cells) {
      const place = chosen.findIndex((one) => same(one, name));
      each.setAttribute("aria-pressed", String(place >= 0));
      each.style.setProperty("--own", place >= 0 ? themed(series(place)) : "");
    }
    if (this.element.contains(document.activeElement)) return;
    this.#rove(this.cells.find(({ name }) => same(name, chosen[0])).button);
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
    if (layer) {
      const heads = Array.from({ length: this.heads }, (_, i) => ({ layer, head: i + 1 }));
      this.onchoose(heads, false);
    } else if (name) this.onchoose([name], adding(event));
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

// ---- The whole

// The heads with one more, or without it where it is there already; one always stays.
function toggled(heads, head) {
  const rest = heads.filter((one) => !same(one, head));
  if (rest.length === heads.length) return [...heads, head];
  return rest.length > 0 ? rest : heads;
}

function markOf(colour) {
  const mark = html("span", { class: "mark" });
  mark.style.background = themed(colour);
  return mark;
}

function quoted(text) {
  return html("bdi", {}, `“${text}”`);
}

// [word, weight] with commas between them.
function listed(pairs) {
  return pairs.flatMap(([word, weight], i) => {
    return [i > 0 ? ", " : "", quoted(word), ` ${percent(weight)}`];
  });
}

// Where the largest weights are, but for those that round to nothing.
function strongest(weights) {
  const places = Array.from(weights.keys()).filter((place) => weights[place] >= TOLD);
  return places.sort((one, other) => weights[other] - weights[one]).slice(0, 4);
}

export class Explorer {
  #state = { kind: "cross", picture: "lines", unit: "pieces", several: false };
  #chosen = {}; // for each kind, the heads that are shown large
  #isolated = null;
  #pinned = null;
  #grid;
  #parts;
  #picture;

  // `options.document` is where a page that holds all of this by itself can be had.
  constructor(element, options = {}) {
    this.element = element;
    this.options = options;
    element.classList.add("explorer");
    this.#build();
    addEventListener("themechange", () => this.#grid.attention && this.#grid.paint());
  }

  #build() {
    const set = (name) => (value) => this.#set({ [name]: value });
    const kinds = Object.entries(KINDS).map(([kind, { short }]) => [kind, short]);
    this.#grid = new Grid((heads, adds) => this.#choose(heads, adds || this.#state.several));
    const several = button("Several", { class: "several", "aria-pressed": "false" }, () =>
      this.#set({ several: !this.#state.several }),
    );
    several.title = "Choose several heads, each in its colour";
    const part = {
      kinds: choice("Attention", Object.fromEntries(kinds), set("kind")),
      pictures: choice("Picture", { lines: "Lines", map: "Map" }, set("picture")),
      units: choice("Unit", { pieces: "Pieces", words: "Words" }, set("unit")),
      several,
      says: html("p", { class: "says" }),
      legend: html("ul", { class: "legend", "aria-label": "Heads shown" }),
      large: html("div", { class: "large" }),
      readout: html("div", { class: "readout", "aria-live": "polite" }),
      saving: html("div", { class: "saving", role: "group", "aria-label": "Save the picture" }),
    };
    this.#parts = part;
    part.saving.append(
      button("SVG", { title: "Save the picture as SVG" }, () => this.#saveSvg()),
      button("PNG", { title: "Save the picture as PNG" }, () => this.#savePng()),
    );
    if (this.options.document) {
      const title = "Save a page that shows every head, to open anywhere";
      part.saving.append(button("HTML", { title }, () => this.#saveHtml()));
    }
    const scroller = html("div", { class: "scroller" }, this.#grid.element);
    const hint = html("p", { class: "hint" }, several, html("span", {}, HINT[hovering()]));
    this.element.replaceChildren(
      html("div", { class: "top" }, part.kinds, part.says),
      html(
        "div",
        { class: "panes" },
        html(
          "div",
          { class: "side" },
          html("section", { class: "heads", "aria-label": "Heads" }, scroller, hint),
          part.readout,
        ),
        html(
          "section",
          { class: "picture", "aria-label": "Picture" },
          html("div", { class: "tools" }, part.pictures, part.units, part.saving),
          part.legend,
          part.large,
        ),
      ),
    );
    this.#listen();
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width === width) return;
      width = entry.contentRect.width;
      if (this.inspection) this.#draw();
    }).observe(part.large);
  }

  // Show an inspection; `asked` is the request it answers: {source, target, model}.
  show(inspection, asked = null) {
    const text = (pieces) => pieces.slice(0, -1).join("").trim();
    const { source, target, model } = inspection;
    this.inspection = inspection;
    this.asked = asked ?? { source: text(source), target: text(target), model };
    this.attention = {};
    this.sides = {};
    for (const kind of Object.keys(KINDS)) {
      this.attention[kind] = new Attention(inspection.attention[kind]);
      this.sides[kind] = sidesOf(inspection, kind);
      const kept = this.#chosen[kind]?.filter((one) => this.attention[kind].has(one)) ?? [];
      // The last layer's mean tells best which words translate which.
      this.#chosen[kind] = kept.length > 0 ? kept : [{ layer: this.attention[kind].layers }];
    }
    this.#set({ kind: this.#state.kind });
  }

  // Show one head; without `head` the mean of the layer, without `layer` that of all.
  select({ kind, layer, head }) {
    const name = layer ? (head ? { layer, head } : { layer }) : {};
    if (!this.attention?.[kind]?.has(name)) return;
    this.#chosen[kind] = [name];
    this.#set({ kind });
  }

  // Show what one piece has to do with the other side: of the "target" what it looks at in the
  // source, of the "source" what looks at it. An index of null shows all again.
  highlight(side, index) {
    if (!this.inspection) return;
    const own = side === "target" ? "row" : "column";
    const word = this.sides.cross[`${own}s`].words[index];
    if (this.#state.kind !== "cross") this.#set({ kind: "cross" });
    const place = this.#state.unit === "words" ? word : index;
    this.#pin(word === undefined ? null : { side: own, index: place });
  }

  #set(changes) {
    Object.assign(this.#state, changes);
    const { kind, picture, unit, several } = this.#state;
    press(this.#parts.kinds, kind);
    press(this.#parts.pictures, picture);
    press(this.#parts.units, unit);
    this.#parts.several.setAttribute("aria-pressed", String(several));
    if (!this.inspection) return;
    this.#parts.says.textContent = KINDS[kind].says;
    if ("kind" in changes || "unit" in changes) {
      this.#pinned = null;
      const shape = [this.#labels("rows").length, this.#labels("columns").length];
      const weightsOf = (name) => this.#weights(name);
      this.#grid.show(this.attention[kind], weightsOf, shape, KINDS[kind].title);
      this.#grid.mark(this.#chosen[kind]);
    }
    this.#draw();
  }

  #labels(side) {
    return this.sides[this.#state.kind][side].labels(this.#state.unit === "words");
  }

  #weights(name) {
    const { kind, unit } = this.#state;
    const { rows, columns } = this.sides[kind];
    const weights = this.attention[kind].weights(name);
    return unit === "words" ? merge(weights, rows, columns) : weights;
  }

  #choose(heads, adds) {
    const { kind } = this.#state;
    this.#chosen[kind] = adds ? toggled(this.#chosen[kind], heads[0]) : heads;
    this.#grid.mark(this.#chosen[kind]);
    this.#draw();
  }

  #view() {
    const { kind } = this.#state;
    const heads = this.#chosen[kind].map((name, place) => ({
      name: nameOf(name),
      colour: series(place),
      weights: this.#weights(name),
    }));
    return { ...KINDS[kind], heads, rows: this.#labels("rows"), columns: this.#labels("columns") };
  }

  #draw() {
    const view = this.#view();
    this.#legend(view);
    const width = this.#parts.large.clientWidth || SAVED_WIDTH;
    const Picture = PICTURES[this.#state.picture];
    this.#picture = new Picture(view, { width, paint: themed, saved: false });
    const { element, words } = this.#picture;
    const heads = view.heads.map(({ name }) => name).join("; ");
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", `${view.title}, ${heads}`);
    words.row[0].setAttribute("tabindex", 0);
    words.column[0].setAttribute("tabindex", 0);
    this.#parts.large.replaceChildren(element);
    this.#isolated = null;
    this.#readout(null);
    this.#pin(this.#pinned);
  }

  #legend({ heads }) {
    const { legend } = this.#parts;
    const chosen = this.#chosen[this.#state.kind];
    const entries = heads.map(({ name, colour }, place) => {
      const entry = html("li", {}, markOf(colour), name);
      if (heads.length > 1) {
        const label = { class: "remove", "aria-label": `Remove ${name}`, title: `Remove ${name}` };
        const remove = () => {
          this.#choose([chosen[place]], true);
          legend.querySelector("button")?.focus();
        };
        entry.append(button("×", label, remove));
      }
      return entry;
    });
    if (heads.length > 1 && this.#state.picture === "map") {
      entries.unshift(html("li", {}, "The mean of"));
    }
    legend.replaceChildren(...entries);
  }

  // ---- Isolating words

  #listen() {
    const { large } = this.#parts;
    large.addEventListener("pointermove", (event) => {
      if (this.#pinned === null && event.pointerType === "mouse") this.#isolate(this.#under(event));
    });
    large.addEventListener("pointerleave", () => this.#isolate(this.#pinned));
    large.addEventListener("click", (event) => this.#toggle(this.#under(event)));
    large.addEventListener("focusin", (event) => {
      if (this.#pinned === null) this.#isolate(this.#under(event));
    });
    large.addEventListener("focusout", () => this.#isolate(this.#pinned));
    large.addEventListener("keydown", (event) => this.#key(event));
  }

  #under(event) {
    const word = event.target.closest(".word");
    if (word) return { side: word.dataset.side, index: Number(word.dataset.index) };
    if (!event.target.matches(".cells") || !("clientX" in event)) return null;
    const box = this.#picture.element.getBoundingClientRect();
    return this.#picture.at(event.clientX - box.left, event.clientY - box.top);
  }

  #key(event) {
    const word = event.target.closest(".word");
    if (event.key === "Escape") this.#pin(null);
    if (!word) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#toggle(this.#under(event));
      return;
    }
    const next = this.#neighbour(word.dataset.side, Number(word.dataset.index), event.key);
    if (!next) return;
    event.preventDefault();
    for (const each of this.#picture.words[next.dataset.side]) each.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  // Two of the arrow keys go along the words of a side, the other two to the other side.
  #neighbour(side, index, key) {
    const { words, along } = this.#picture;
    const [own, others] = [words[side], words[otherSide(side)]];
    if (key === along[side][0]) return own[index - 1];
    if (key === along[side][1]) return own[index + 1];
    if (key === "Home") return own[0];
    if (key === "End") return own.at(-1);
    return key.startsWith("Arrow") ? others[Math.min(index, others.length - 1)] : null;
  }

  #toggle(isolated) {
    this.#pin(alike(isolated, this.#pinned) ? null : isolated);
  }

  #pin(isolated) {
    this.#pinned = isolated;
    this.#isolate(isolated);
    for (const word of Object.values(this.#picture.words).flat()) {
      const { side, index } = word.dataset;
      const pressed = alike(isolated, { side, index: Number(index) });
      word.setAttribute("aria-pressed", String(pressed));
    }
  }

  #isolate(isolated) {
    if (alike(isolated, this.#isolated)) return;
    this.#isolated = isolated;
    this.#picture.isolate(isolated);
    this.#readout(isolated);
  }

  // In words, what the picture shows of one word: for each head, what it looks at most.
  #readout(isolated) {
    const { readout } = this.#parts;
    readout.replaceChildren();
    if (isolated === null) return;
    const { view } = this.#picture;
    const { side, index, other } = isolated;
    const others = labelsOf(view, otherSide(side));
    const verb = side === "row" ? "looks at" : "is looked at by";
    readout.append(html("h3", {}, quoted(labelsOf(view, side)[index]), ` ${verb}`));
    for (const head of view.heads) {
      const slice = sliceOf(view, head, isolated);
      const told = other === undefined ? strongest(slice) : [other];
      const found = told.map((place) => [others[place], slice[place]]);
      readout.append(html("p", {}, markOf(head.colour), ...listed(found)));
    }
    if (side === "row" && view.writes) readout.append(...this.#written(index));
  }

  // How sure the model was of what it wrote, and what else it might have written.
  #written(index) {
    const { probabilities, alternatives, target, words } = this.inspection;
    if (this.#state.unit === "words") {
      const own = probabilities.filter((_, piece) => words.target[piece] === index);
      const product = own.reduce((whole, each) => whole * each, 1);
      return [html("p", { class: "quiet" }, `written with probability ${percent(product)}`)];
    }
    const others = alternatives[index].filter(([piece]) => piece !== target[index]).slice(0, 3);
    const shown = others.map(([piece, probability]) => [piece.trim() || "␣", probability]);
    const chance = `written with probability ${percent(probabilities[index])}; others: `;
    return [html("p", { class: "quiet" }, chance, ...listed(shown))];
  }

  // ---- Saving

  #file(ending) {
    const { kind } = this.#state;
    const [first, ...rest] = this.#chosen[kind];
    const more = rest.length > 0 ? ` and ${rest.length} more` : "";
    const name = `${this.options.name ?? "attention"} ${kind} ${nameOf(first)}${more}`;
    return `${name.replace(/[^\p{L}\p{N}.]+/gu, "-")}.${ending}`;
  }

  // The picture as it stands, in colours that need no style sheet, on white.
  #standalone() {
    const Picture = PICTURES[this.#state.picture];
    const options = { width: SAVED_WIDTH, paint: printed, saved: true };
    const picture = new Picture(this.#view(), options);
    picture.isolate(this.#pinned);
    for (const word of Object.values(picture.words).flat()) {
      for (const { name } of [...word.attributes]) word.removeAttribute(name);
    }
    const { width, height } = picture.element.viewBox.baseVal;
    const text = new XMLSerializer().serializeToString(picture.element);
    return { width, height, blob: new Blob([text], { type: "image/svg+xml" }) };
  }

  #saveSvg() {
    save(this.#standalone().blob, this.#file("svg"));
  }

  async #savePng() {
    const { width, height, blob } = this.#standalone();
    const image = new Image();
    image.src = URL.createObjectURL(blob);
    await image.decode();
    const canvas = html("canvas");
    canvas.width = Math.round(width * SAVED_SCALE);
    canvas.height = Math.round(height * SAVED_SCALE);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    canvas.toBlob((png) => save(png, this.#file("png")), "image/png");
  }

  async #saveHtml() {
    try {
      const answer = await fetch(this.options.document, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(this.asked),
      });
      if (!answer.ok) throw new Error((await answer.json()).error);
      save(await answer.blob(), `${this.options.name ?? "attention"}.html`);
    } catch (error) {
      const text = `The page could not be saved: ${error.message}`;
      this.#parts.readout.replaceChildren(html("p", { class: "error", role: "alert" }, text));
    }
  }
}
