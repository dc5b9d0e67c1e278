// A chart of some lines over a common axis, drawn as SVG: read with the mouse or the arrow keys,
// zoomed by dragging, and saved as it stands. Colours are written into the picture, not left to a
// style sheet, so that what is saved looks the same elsewhere.

import { Scale, nearest } from "/scale.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 10, right: 14, bottom: 26, left: 54 };
const SAVED = { width: 960, height: 540, scale: 2 };
const FEW = 60; // points up to which each has a large marker
const MANY = 250; // and from which none has one
const A_DRAG = 8; // points of the screen; less is a click

// One shape a run, so that they are told apart without colour. Around 0, of radius r.
const MARKERS = [
  (r) => `M${r} 0A${r} ${r} 0 1 1 ${-r} 0A${r} ${r} 0 1 1 ${r} 0Z`,
  (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  (r) => `M0 ${-r * 1.2}L${r * 1.1} ${r * 0.8}H${-r * 1.1}Z`,
  (r) => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`,
  (r) => `M0 ${r * 1.2}L${r * 1.1} ${-r * 0.8}H${-r * 1.1}Z`,
];

/** Return the colour that a variable of the style sheet stands for now. */
export function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function element(name, attributes = {}, parent = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

/** Draw what stands for a run in a legend: its line and its marker. */
export function swatch(run, parent = null, at = { x: 0, y: 8 }) {
  const shape = element("g", { transform: `translate(${at.x} ${at.y})` }, parent);
  const ink = colour(run.colour);
  element("path", { d: "M0 0H22", stroke: ink, "stroke-width": 2, ...dashes(run) }, shape);
  element("path", { d: marker(run)(4), transform: "translate(11 0)", fill: ink }, shape);
  return shape;
}

function marker(run) {
  return MARKERS[run.index % MARKERS.length];
}

function dashes(run) {
  return run.index < 8 ? {} : { "stroke-dasharray": "6 3" }; // the colours begin anew
}

/** One value over steps or time.

`series` to draw: {run: {name, colour, index}, kind: "training" | "smooth" | "validation", x, y},
where x ascends. The element gets everything else: title, buttons, picture, and what is read off.
*/
export class Chart {
  #series = [];
  #view = { label: "", format: String, range: null };
  #scales = null;
  #cross = null; // where the value is read, on the axis
  #drag = null;
  #note = ""; // what the axis hides
  #caution = "";

  /** `best` of the validations is the "lowest" or the "highest"; a `log` that is null stays linear. */
  constructor(parent, { title, format, log = null, from0 = false, crop = false, best = null }) {
    this.options = { title, format, from0, crop, best };
    this.log = log ?? false;
    this.onCross = () => {};
    this.onZoom = () => {};
    this.figure = document.createElement("figure");
    this.figure.className = "chart";
    const bar = document.createElement("figcaption");
    this.heading = document.createElement("h3");
    this.heading.textContent = title;
    this.remark = document.createElement("span");
    this.remark.className = "quiet";
    bar.append(this.heading, this.remark);
    if (log !== null) this.#button(bar, "log", "Logarithmic axis", (button) => this.#toggle(button));
    this.#button(bar, "SVG", "Save as SVG", () => this.#saveSvg());
    this.#button(bar, "PNG", "Save as PNG", () => this.#savePng());
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-roledescription", "chart");
    this.plot.setAttribute("aria-label", `${title}. Left and right arrow keys read its values.`);
    this.readout = document.createElement("div");
    this.readout.className = "readout";
    this.readout.hidden = true;
    this.spoken = document.createElement("p");
    this.spoken.className = "unseen";
    this.spoken.setAttribute("aria-live", "polite");
    this.figure.append(bar, this.plot, this.spoken);
    parent.append(this.figure);
    this.#listen();
    new ResizeObserver(() => this.#render()).observe(this.plot);
  }

  /** Draw these lines; the view says what runs along the axis, and which part of it is seen. */
  draw(series, view) {
    this.#series = series.filter(({ x }) => x.length > 0);
    this.#view = view;
    this.figure.hidden = this.#series.length === 0;
    this.#render();
  }

  /** Say something about the values beside the title. */
  caution(text) {
    this.#caution = text;
    this.#remark();
  }

  #remark() {
    this.remark.textContent = [this.#note, this.#caution].filter(Boolean).join("; ");
  }

  /** Read the values at a place on the axis, with a list of them beside it if asked; null: none. */
  cross(x, { list = false } = {}) {
    this.#cross = x;
    this.#renderCross(list);
  }

  #button(bar, text, title, act) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = text;
    button.title = title;
    button.setAttribute("aria-label", `${title}: ${this.options.title}`);
    if (text === "log") button.setAttribute("aria-pressed", String(this.log));
    button.addEventListener("click", () => act(button));
    bar.append(button);
  }

  #toggle(button) {
    this.log = !this.log;
    button.setAttribute("aria-pressed", String(this.log));
    this.#render();
  }

  // The picture

  #render() {
    const width = this.plot.clientWidth;
    const height = this.plot.clientHeight;
    if (this.#series.length === 0 || width < 100) return;
    const root = element("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    root.setAttribute("aria-hidden", "true"); // the values are spoken
    this.#scales = this.#paint(root, { x: 0, y: 0, width, height });
    this.overlay = element("g", {}, root);
    this.plot.replaceChildren(root, this.readout);
    this.#remark();
    this.#renderCross(!this.readout.hidden);
  }

  /** Paint axes and lines into a box, and return the scales. */
  #paint(root, box) {
    const left = box.x + MARGIN.left;
    const right = box.x + box.width - MARGIN.right;
    const top = box.y + MARGIN.top;
    const bottom = box.y + box.height - MARGIN.bottom;
    const [first, last] = this.#view.range ?? this.#extent();
    const x = new Scale(first, last, left, right);
    const [low, high] = this.#heights(first, last);
    const y = new Scale(low, high, bottom, top, { log: this.log });
    const words = { fill: colour("--quiet"), "font-size": 12, "font-family": "system-ui, sans-serif" };
    const line = { stroke: colour("--line"), "stroke-width": 1 };
    for (const value of y.ticks(Math.max(2, (bottom - top) / 45))) {
      const place = y.at(value);
      element("path", { d: `M${left} ${place}H${right}`, ...line }, root);
      const text = element("text", { x: left - 6, y: place + 4, "text-anchor": "end", ...words }, root);
      text.textContent = short(value);
    }
    const ticks = x.ticks(Math.max(2, (right - left) / 90));
    for (const value of ticks) {
      const place = x.at(value);
      element("path", { d: `M${place} ${bottom}v4`, ...line, stroke: words.fill }, root);
      if (place > right - 44) continue; // room for what the axis is
      const text = element("text", { x: place, y: bottom + 18, "text-anchor": "middle", ...words }, root);
      text.textContent = this.#view.tick(value);
    }
    const label = element("text", { x: right, y: bottom + 18, "text-anchor": "end", ...words }, root);
    label.textContent = this.#view.label;
    element("path", { d: `M${left} ${bottom}H${right}`, ...line, stroke: words.fill }, root);
    const clip = `clip-${crypto.randomUUID?.() ?? Math.random()}`;
    const cut = element("clipPath", { id: clip }, root);
    element("rect", {
      x: left, y: top - 8, width: right - left + 9, height: bottom - top + 9, // whole markers
    }, cut);
    const lines = element("g", { "clip-path": `url(#${clip})` }, root);
    const order = { training: 0, smooth: 1, validation: 2 };
    for (const one of [...this.#series].sort((a, b) => order[a.kind] - order[b.kind])) {
      this.#paintLine(lines, one, x, y);
    }
    return { x, y, left, right, top, bottom };
  }

  #paintLine(parent, { run, kind, faint, x: xs, y: ys }, x, y) {
    const places = [];
    for (let i = 0; i < xs.length; i += 1) {
      if (ys[i] === null || (y.log && ys[i] <= 0)) continue;
      places.push([x.at(xs[i]), y.at(ys[i]), i]);
    }
    if (places.length === 0) return;
    const ink = colour(run.colour);
    const thick = { training: 1.2, smooth: 2, validation: 2.2 }[kind];
    const d = places.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    element("path", {
      d, fill: "none", stroke: ink, "stroke-width": thick, "stroke-linejoin": "round",
      "stroke-opacity": faint ? 0.25 : kind === "training" ? 0.75 : 1, ...dashes(run),
    }, parent);
    const marked = kind === "validation" ? places.length < MANY : places.length === 1;
    if (!marked) return;
    const shape = marker(run)(places.length > FEW ? 2 : 3.5);
    for (const [px, py] of places) {
      element("path", { d: shape, transform: `translate(${px.toFixed(1)} ${py.toFixed(1)})`, fill: ink }, parent);
    }
    const { best } = this.options;
    if (kind === "validation" && best !== null) {
      const value = (best === "lowest" ? least : greatest)(places.map(([, , i]) => ys[i]));
      const [px, py] = places.find(([, , i]) => ys[i] === value);
      element("circle", { cx: px, cy: py, r: 7.5, fill: "none", stroke: ink, "stroke-width": 1.8 }, parent);
    }
  }

  #extent() {
    const last = Math.max(...this.#series.map(({ x }) => x[x.length - 1]));
    return [0, last || 1];
  }

  /** Return the lowest and highest value to show between two places of the axis. */
  #heights(first, last) {
    this.#note = "";
    const usable = (value) => value !== null && (!this.log || value > 0);
    const seen = this.#series.flatMap(({ x, y }) =>
      y.filter((value, i) => usable(value) && x[i] >= first && x[i] <= last));
    let low = least(seen);
    let high = greatest(seen);
    if (seen.length === 0) return this.log ? [1, 10] : [0, 1];
    if (this.log) {
      const room = low === high ? 2 : (high / low) ** 0.06;
      return [low / room, high * room];
    }
    if (this.options.from0) return [0, high * 1.1 || 1];
    if (this.options.crop && this.#view.range === null) {
      const top = this.#topAfterTheBeginning();
      if (top > low && high - low >= 2 * (top - low)) {
        this.#note = `begins above the axis, at ${this.options.format(high)}`;
        high = top;
      }
    }
    const margin = 0.06 * (high - low) || 0.5;
    return [low - margin, high + margin];
  }

  /** A loss falls from 10 to 4 within a few steps, and then it is the tenths that count. */
  #topAfterTheBeginning() {
    return greatest(this.#series.flatMap(({ x, y }) => {
      const begun = x[x.length - 1] / 20;
      return [...y.filter((value, i) => value !== null && x[i] > begun), least(y)];
    }));
  }

  // Reading values

  #listen() {
    const { plot } = this;
    plot.addEventListener("pointermove", (event) => this.#move(event));
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) this.#drag = this.#placeOf(event);
      else this.#move(event);
    });
    plot.addEventListener("pointerup", (event) => this.#release(event));
    plot.addEventListener("pointerleave", () => {
      this.#drag = null;
      this.onCross(null, this);
    });
    plot.addEventListener("dblclick", () => this.onZoom(null));
    plot.addEventListener("keydown", (event) => this.#key(event));
    plot.addEventListener("blur", () => this.onCross(null, this));
  }

  #placeOf(event) {
    return event.clientX - this.plot.getBoundingClientRect().left;
  }

  #move(event) {
    if (this.#scales === null) return;
    const place = this.#placeOf(event);
    this.onCross(this.#snap(this.#scales.x.value(place)), this);
    if (this.#drag !== null && event.buttons === 1) this.#showDrag(place);
  }

  #showDrag(place) {
    const { left, right, top, bottom } = this.#scales;
    const [from, to] = [this.#drag, place].map((x) => Math.min(right, Math.max(left, x)));
    element("rect", {
      x: Math.min(from, to), y: top, width: Math.abs(to - from), height: bottom - top,
      fill: colour("--accent"), "fill-opacity": 0.15,
    }, this.overlay);
  }

  #release(event) {
    const from = this.#drag;
    this.#drag = null;
    const to = this.#placeOf(event);
    if (from === null || this.#scales === null || Math.abs(to - from) < A_DRAG) return;
    const { x } = this.#scales;
    const ends = [from, to].map((place) => Math.min(x.high, Math.max(x.low, x.value(place))));
    this.onZoom(ends.sort((a, b) => a - b));
  }

  #key(event) {
    if (this.#scales === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { low, high } = this.#scales.x;
    const xs = this.#places().filter((x) => x >= low && x <= high);
    if (xs.length === 0) return;
    const now = this.#cross === null ? xs.length - 1 : nearest(xs, this.#cross);
    const moved = {
      ArrowLeft: this.#cross === null ? now : now - 1,
      ArrowRight: this.#cross === null ? now : now + 1,
      PageUp: now - 10,
      PageDown: now + 10,
      Home: 0,
      End: xs.length - 1,
    }[event.key];
    if (moved !== undefined) {
      const x = xs[Math.min(xs.length - 1, Math.max(0, moved))];
      this.onCross(x, this);
      this.spoken.textContent = this.#inWords(x);
    } else if (event.key === "+" || event.key === "-") {
      this.#zoomAround(this.#cross ?? (low + high) / 2, event.key === "+" ? 0.5 : 2);
    } else if (event.key === "Escape") {
      this.onZoom(null);
      this.onCross(null, this);
    } else return;
    event.preventDefault();
  }

  #zoomAround(middle, factor) {
    const { low, high } = this.#scales.x;
    const [first, last] = this.#extent();
    const half = ((high - low) * factor) / 2;
    const range = [Math.max(first, middle - half), Math.min(last, middle + half)];
    this.onZoom(range[0] === first && range[1] === last ? null : range);
  }

  /** Return every place on the axis that has a value. */
  #places() {
    return [...new Set(this.#series.flatMap(({ x }) => x))].sort((a, b) => a - b);
  }

  #snap(x) {
    const near = this.#series.map(({ x: xs }) => xs[nearest(xs, x)]);
    return near.reduce((best, one) => (Math.abs(one - x) < Math.abs(best - x) ? one : best));
  }

  /** Return what each line has at the place nearest to one on the axis. */
  #readings(x) {
    return this.#series
      .filter(({ faint }) => !faint)
      .map(({ run, kind, x: xs, y }) => {
        const place = nearest(xs, x);
        return { run, kind, x: xs[place], value: y[place] };
      })
      .filter(({ value }) => value !== null);
  }

  /** Say where a value stands that was not logged just where it is read. */
  #where(at, x) {
    return at === x ? "" : ` at ${this.#view.tick(at)}`;
  }

  #inWords(x) {
    const several = new Set(this.#series.map(({ run }) => run)).size > 1;
    const values = this.#readings(x).map(({ run, kind, x: at, value }) =>
      `${several ? `${run.name} ` : ""}${KINDS[kind]} ${this.options.format(value)}${this.#where(at, x)}`);
    return `${this.#view.format(x)}: ${values.join(", ")}`;
  }

  #renderCross(list) {
    if (this.#scales === null || this.overlay === undefined) return;
    this.overlay.replaceChildren();
    this.readout.hidden = true;
    const x = this.#cross;
    const { x: across, y, left, right, top, bottom } = this.#scales;
    if (x === null || x < across.low || x > across.high) return;
    const place = across.at(x);
    element("path", { d: `M${place} ${top}V${bottom}`, stroke: colour("--quiet"), "stroke-dasharray": "3 3" }, this.overlay);
    const readings = this.#readings(x);
    for (const one of readings) {
      const [cx, cy] = [across.at(one.x), y.at(one.value)];
      if (cx < left || cx > right || !(cy > top - 8) || cy > bottom + 1) continue;
      element("circle", { cx, cy, r: 4, fill: colour("--ground"), stroke: colour(one.run.colour), "stroke-width": 2 }, this.overlay);
    }
    if (!list) return;
    this.#fillReadout(x, readings);
    this.readout.hidden = false;
    const room = this.plot.clientWidth - this.readout.offsetWidth;
    const beside = place > (left + right) / 2 ? place - this.readout.offsetWidth - 12 : place + 12;
    this.readout.style.left = `${Math.max(0, Math.min(room, beside))}px`;
  }

  #fillReadout(x, readings) {
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = this.#view.format(x);
    const kinds = ["training", "smooth", "validation"].filter((kind) => readings.some((one) => one.kind === kind));
    const head = table.createTHead().insertRow();
    head.append(document.createElement("td"), ...kinds.map((kind) => cell("th", KINDS[kind])));
    const body = table.createTBody();
    for (const run of new Set(readings.map((one) => one.run))) {
      const row = body.insertRow();
      const name = cell("th", "");
      const mark = element("svg", { width: 22, height: 16 });
      swatch(run, mark);
      name.append(mark, ` ${run.name}`);
      row.append(name);
      for (const kind of kinds) {
        const one = readings.find((reading) => reading.run === run && reading.kind === kind);
        const told = cell("td", one ? this.options.format(one.value) : "");
        const where = document.createElement("small");
        where.textContent = one ? this.#where(one.x, x) : "";
        told.append(where);
        row.append(told);
      }
    }
    this.readout.replaceChildren(table);
  }

  // Saving

  /** Return the picture by itself, with its title and a legend, in the colours of the page. */
  picture() {
    const { width, height } = SAVED;
    const root = element("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    element("rect", { width, height, fill: colour("--ground") }, root);
    const words = { fill: colour("--ink"), "font-family": "system-ui, sans-serif" };
    const title = element("text", { x: 20, y: 34, "font-size": 20, "font-weight": 600, ...words }, root);
    title.textContent = this.options.title + (this.#note ? ` (${this.#note})` : "");
    let x = 20;
    for (const run of new Set(this.#series.map((one) => one.run))) {
      swatch(run, root, { x, y: 58 });
      const name = element("text", { x: x + 30, y: 63, "font-size": 14, ...words }, root);
      name.textContent = run.name;
      x += 60 + 8 * run.name.length;
    }
    this.#paint(root, { x: 10, y: 76, width: width - 20, height: height - 86 });
    return new XMLSerializer().serializeToString(root);
  }

  #saveSvg() {
    save(new Blob([this.picture()], { type: "image/svg+xml" }), `${this.#fileName()}.svg`);
  }

  async #savePng() {
    const { width, height, scale } = SAVED;
    const address = URL.createObjectURL(new Blob([this.picture()], { type: "image/svg+xml" }));
    const image = new Image(width, height);
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    canvas.toBlob((blob) => save(blob, `${this.#fileName()}.png`));
  }

  #fileName() {
    return this.options.title.split(",")[0].toLowerCase().replace(/\W+/g, "-");
  }
}

const KINDS = { training: "training", smooth: "smoothed", validation: "validation" };

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

// Math.min(...values) has its limits where there are many.
function least(values) {
  return values.reduce((a, b) => (b !== null && b < a ? b : a), Infinity);
}

function greatest(values) {
  return values.reduce((a, b) => (b !== null && b > a ? b : a), -Infinity);
}

/** Write a value of an axis: 0.001, 3.5, 20k, 1.1M. */
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return value.toExponential().replace("e-", "e−");
  if (size < 10_000) return new Intl.NumberFormat("en", { maximumSignificantDigits: 5 }).format(value);
  return new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
