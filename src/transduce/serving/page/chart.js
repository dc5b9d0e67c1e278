// A line chart in SVG: values are read with the mouse or the arrow keys, dragging zooms, and it can
// be saved. Colours are attributes and not CSS, so that a saved picture looks the same elsewhere.

import { colour, dashes, formatNumber, greatest, least, marker, swatch } from "/drawing.js";
import { button, html, svg } from "/elements.js";
import { Readout } from "/readout.js";
import { pngOf, save } from "/save.js";
import { Scale, nearest } from "/scale.js";

const MARGIN = { top: 10, right: 14, bottom: 26, left: 54 };
const SAVED = { width: 960, height: 540, scale: 2 };
const FEW = 60; // points up to which markers are large
const MANY = 250; // points from which there are no markers
const MIN_DRAG = 8; // pixels; less is a click
const FONT = "system-ui, sans-serif";
// In drawing order: the topmost last.
const KINDS = { training: "training", smooth: "smoothed", validation: "validation" };
const MEANINGS = {
  training: "thin: training",
  smooth: "thicker: smoothed",
  validation: "thick, with markers: validation",
};

/** A chart of one value over steps or time.

`series` to draw: {run: {name, colour, index}, kind: "training" | "smooth" | "validation", x, y},
where x ascends. The chart adds title, buttons and readout.
*/
export class Chart {
  #series = [];
  #view = { label: "", tick: String, format: String, range: null };
  #scales = null;
  #cross = null; // position of the crosshair on the axis
  #drag = null;
  #note = ""; // about values outside the axis
  #caution = "";

  /** `best` is the "lowest" or "highest" validation; if `log` is null, the axis is always linear. */
  constructor(parent, { title, format, log = null, from0 = false, crop = false, best = null }) {
    this.options = { title, format, from0, crop, best };
    this.log = log ?? false;
    this.onCross = () => {};
    this.onZoom = () => {};
    this.remark = html("span", { class: "quiet" });
    const bar = html("figcaption", {}, html("h3", {}, title), this.remark);
    if (log !== null) bar.append(this.#logButton());
    bar.append(this.#button("SVG", "Save as SVG", () => this.#save("svg")));
    bar.append(this.#button("PNG", "Save as PNG", () => this.#save("png")));
    this.plot = html("div", {
      class: "plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${title}. Left and right arrow keys read its values.`,
    });
    this.readout = new Readout(KINDS);
    this.spoken = html("p", { class: "unseen", "aria-live": "polite" });
    this.figure = html("figure", { class: "chart" }, bar, this.plot, this.spoken);
    parent.append(this.figure);
    this.#listen();
    new ResizeObserver(() => this.#render()).observe(this.plot);
  }

  /** Draw these series; the view has the label, format and range of the axis. */
  draw(series, view) {
    this.#series = series.filter(({ x }) => x.length > 0);
    this.#view = view;
    this.figure.hidden = this.#series.length === 0;
    this.#render();
  }

  /** Show a warning next to the title. */
  caution(text) {
    this.#caution = text;
    this.#remark();
  }

  #remark() {
    this.remark.textContent = [this.#note, this.#caution].filter(Boolean).join("; ");
  }

  /** Set the crosshair, with a list of values if `list`; null removes it. */
  cross(x, { list = false } = {}) {
    this.#cross = x;
    this.#renderCross(list);
  }

  #button(text, title, onclick) {
    const label = `${title}: ${this.options.title}`;
    return button(text, { class: "small", title, "aria-label": label }, onclick);
  }

  #logButton() {
    const toggle = this.#button("log", "Logarithmic axis", () => {
      this.log = !this.log;
      toggle.setAttribute("aria-pressed", String(this.log));
      this.#render();
    });
    toggle.setAttribute("aria-pressed", String(this.log));
    return toggle;
  }

  // The picture

  #render() {
    const width = this.plot.clientWidth;
    const height = this.plot.clientHeight;
    if (this.#series.length === 0 || width < 100) return;
    const root = sheet(width, height);
    root.setAttribute("aria-hidden", "true"); // values are announced by `spoken`
    this.#scales = this.#paint(root, { x: 0, y: 0, width, height });
    this.overlay = svg("g");
    root.append(this.overlay);
    this.plot.replaceChildren(root, this.readout.element);
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
    const words = { fill: colour("--quiet"), "font-size": 12, "font-family": FONT };
    const write = (text, x, y, anchor) =>
      root.append(svg("text", { x, y, "text-anchor": anchor, ...words }, text));
    const line = { stroke: colour("--line"), "stroke-width": 1 };
    for (const value of y.ticks(Math.max(2, (bottom - top) / 45))) {
      const place = y.at(value);
      root.append(svg("path", { d: `M${left} ${place}H${right}`, ...line }));
      write(formatNumber(value), left - 6, place + 4, "end");
    }
    const { label, tick } = this.#view;
    write(label, right, bottom + 18, "end");
    for (const value of x.ticks(Math.max(2, (right - left) / 90))) {
      const place = x.at(value);
      root.append(svg("path", { d: `M${place} ${bottom}v4`, ...line, stroke: words.fill }));
      const free = place < right - 8 * label.length - 16; // does not overlap the label
      if (free) write(tick(value), place, bottom + 18, "middle");
    }
    const axis = svg("path", { d: `M${left} ${bottom}H${right}`, ...line, stroke: words.fill });
    const clip = `clip-${Math.random()}`;
    const size = { width: right - left + 9, height: bottom - top + 9 }; // whole markers
    const inside = svg("rect", { x: left, y: top - 8, ...size });
    const lines = svg("g", { "clip-path": `url(#${clip})` });
    root.append(axis, svg("clipPath", { id: clip }, inside), lines);
    for (const kind of Object.keys(KINDS)) {
      for (const series of this.#series.filter((other) => other.kind === kind)) {
        this.#paintLine(lines, series, x, y);
      }
    }
    return { x, y, left, right, top, bottom };
  }

  #paintLine(parent, { run, kind, faint, x: xs, y: ys }, x, y) {
    const drawn = [...xs.keys()].filter((i) => !y.log || ys[i] > 0);
    const places = drawn.map((i) => [x.at(xs[i]), y.at(ys[i]), i]);
    if (places.length === 0) return;
    const ink = colour(run.colour);
    const thick = { training: 1.2, smooth: 1.6, validation: 2.2 }[kind];
    const points = places.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`);
    parent.append(svg("path", {
      d: `M${points.join("L")}`,
      fill: "none",
      stroke: ink,
      "stroke-width": thick,
      "stroke-linejoin": "round",
      "stroke-opacity": faint ? 0.25 : kind === "training" ? 0.75 : 1,
      ...dashes(run),
    }));
    const marked = kind === "validation" ? places.length < MANY : places.length === 1;
    if (!marked) return;
    const shape = marker(run)(places.length > FEW ? 2 : 3.5);
    for (const point of points) {
      parent.append(svg("path", { d: shape, transform: `translate(${point})`, fill: ink }));
    }
    const { best } = this.options;
    if (kind === "validation" && best !== null) {
      const value = (best === "lowest" ? least : greatest)(places.map(([, , i]) => ys[i]));
      const [px, py] = places.find(([, , i]) => ys[i] === value);
      const ring = { r: 7.5, fill: "none", stroke: ink, "stroke-width": 1.8 };
      parent.append(svg("circle", { cx: px, cy: py, ...ring }));
    }
  }

  #extent() {
    const last = Math.max(...this.#series.map(({ x }) => x[x.length - 1]));
    return [0, last || 1];
  }

  /** Return the lowest and highest value to show in a range of the axis. */
  #heights(first, last) {
    this.#note = "";
    const visible = this.#series.flatMap(({ x, y }) =>
      y.filter((value, i) => (!this.log || value > 0) && x[i] >= first && x[i] <= last));
    let low = least(visible);
    let high = greatest(visible);
    if (visible.length === 0) return this.log ? [1, 10] : [0, 1];
    if (this.log) {
      const factor = low === high ? 2 : (high / low) ** 0.06;
      return [low / factor, high * factor];
    }
    if (this.options.from0) return [0, high * 1.1 || 1];
    if (this.options.crop && this.#view.range === null) {
      const top = this.#topAfterStart();
      if (top > low && high - low >= 2 * (top - low)) {
        this.#note = `starts above the axis, at ${this.options.format(high)}`;
        high = top;
      }
    }
    const margin = 0.06 * (high - low) || 0.5;
    return [low - margin, high + margin];
  }

  /** Return the maximum after the first 5%: the loss falls fast at first, then slowly. */
  #topAfterStart() {
    return greatest(this.#series.flatMap(({ x, y }) => {
      const start = x[x.length - 1] / 20;
      return [...y.filter((_, i) => x[i] > start), least(y)]; // the best may be the first
    }));
  }

  // Reading values

  #listen() {
    const { plot } = this;
    plot.addEventListener("pointermove", (event) => this.#move(event));
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") this.#move(event);
      else if (event.button === 0) {
        plot.setPointerCapture(event.pointerId); // the drag may end outside
        this.#drag = this.#placeOf(event);
      }
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
    this.overlay.append(svg("rect", {
      x: Math.min(from, to), y: top, width: Math.abs(to - from), height: bottom - top,
      fill: colour("--accent"), "fill-opacity": 0.15,
    }));
  }

  #release(event) {
    const from = this.#drag;
    this.#drag = null;
    const to = this.#placeOf(event);
    if (from === null || this.#scales === null || Math.abs(to - from) < MIN_DRAG) return;
    const { x } = this.#scales;
    const ends = [from, to].map((place) => Math.min(x.high, Math.max(x.low, x.value(place))));
    this.onZoom(ends.sort((a, b) => a - b));
  }

  #key(event) {
    if (this.#scales === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { low, high } = this.#scales.x;
    const xs = this.#places().filter((x) => x >= low && x <= high);
    if (xs.length === 0) return;
    const current = this.#cross === null ? xs.length - 1 : nearest(xs, this.#cross);
    const moved = {
      ArrowLeft: this.#cross === null ? current : current - 1,
      ArrowRight: this.#cross === null ? current : current + 1,
      PageUp: current - 10,
      PageDown: current + 10,
      Home: 0,
      End: xs.length - 1,
    }[event.key];
    if (moved !== undefined) {
      const x = xs[Math.min(xs.length - 1, Math.max(0, moved))];
      this.onCross(x, this);
      this.spoken.textContent = this.#describe(x);
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

  /** Return all positions that have a value. */
  #places() {
    return [...new Set(this.#series.flatMap(({ x }) => x))].sort((a, b) => a - b);
  }

  #snap(x) {
    const nearby = this.#series.map(({ x: xs }) => xs[nearest(xs, x)]);
    const distance = (other) => Math.abs(other - x);
    return nearby.reduce((best, other) => (distance(other) < distance(best) ? other : best));
  }

  /** Return the value of each series that is nearest to a position. */
  #readings(x) {
    return this.#series
      .filter(({ faint }) => !faint)
      .map(({ run, kind, x: xs, y }) => {
        const place = nearest(xs, x);
        return { run, kind, x: xs[place], value: y[place] };
      });
  }

  /** Return the readings as text, with the position if it differs. */
  #formatReadings(x) {
    return this.#readings(x).map(({ run, kind, x: at, value }) => {
      const where = at === x ? "" : ` at ${this.#view.tick(at)}`;
      return { run, kind, value: this.options.format(value), where };
    });
  }

  #describe(x) {
    const several = new Set(this.#series.map(({ run }) => run)).size > 1;
    const values = this.#formatReadings(x).map(({ run, kind, value, where }) =>
      `${several ? `${run.name} ` : ""}${KINDS[kind]} ${value}${where}`);
    return `${this.#view.format(x)}: ${values.join(", ")}`;
  }

  #renderCross(list) {
    if (this.#scales === null || this.overlay === undefined) return;
    this.overlay.replaceChildren();
    this.readout.hide();
    const x = this.#cross;
    const { x: across, y, left, right, top, bottom } = this.#scales;
    if (x === null || x < across.low || x > across.high) return;
    const place = across.at(x);
    const hair = { stroke: colour("--quiet"), "stroke-dasharray": "3 3" };
    this.overlay.append(svg("path", { d: `M${place} ${top}V${bottom}`, ...hair }));
    for (const reading of this.#readings(x)) {
      const [cx, cy] = [across.at(reading.x), y.at(reading.value)];
      if (cx < left || cx > right || !(cy > top - 8) || cy > bottom + 1) continue;
      const ink = { fill: colour("--ground"), stroke: colour(reading.run.colour), "stroke-width": 2 };
      this.overlay.append(svg("circle", { cx, cy, r: 4, ...ink }));
    }
    if (list) this.readout.show(this.#view.format(x), this.#formatReadings(x), place, this.plot.clientWidth);
  }

  // Saving

  /** Return the picture as SVG, with title and legend, in the colours of the page. */
  picture() {
    const { width, height } = SAVED;
    const root = sheet(width, height);
    const words = { fill: colour("--ink"), "font-family": FONT };
    const large = { "font-size": 20, "font-weight": 600 };
    const title = this.options.title + (this.#note ? ` (${this.#note})` : "");
    root.append(svg("rect", { width, height, fill: colour("--ground") }));
    root.append(svg("text", { x: 20, y: 34, ...large, ...words }, title));
    const bottom = this.#paintLegend(root, words, width);
    this.#paint(root, { x: 10, y: bottom, width: width - 20, height: height - bottom - 10 });
    return new XMLSerializer().serializeToString(root);
  }

  /** Paint the legend in as many rows as needed; return its bottom. */
  #paintLegend(root, words, width) {
    const small = { "font-size": 14, ...words };
    const kinds = new Set(this.#series.map(({ kind }) => kind));
    const meanings = [...kinds].map((kind) => MEANINGS[kind]).join("; ");
    root.append(svg("text", { x: width - 20, y: 34, "text-anchor": "end", ...small }, meanings));
    let [x, y] = [20, 58];
    for (const run of new Set(this.#series.map(({ run }) => run))) {
      const entryWidth = 60 + 8 * run.name.length; // estimated
      if (x > 20 && x + entryWidth > width) [x, y] = [20, y + 22];
      root.append(swatch(run, { x, y }), svg("text", { x: x + 30, y: y + 5, ...small }, run.name));
      x += entryWidth;
    }
    return y + 18;
  }

  async #save(ending) {
    const file = new Blob([this.picture()], { type: "image/svg+xml" });
    const name = this.options.title.toLowerCase().replace(/\W+/g, "-");
    save(ending === "svg" ? file : await pngOf(file, SAVED), `${name}.${ending}`);
  }
}

/** Return an empty SVG picture. */
function sheet(width, height) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
}
