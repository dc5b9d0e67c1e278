// SVG elements, and the colour and marker of each run.

const SVG = "http://www.w3.org/2000/svg";

// One shape per run, so that runs differ without colour. Centred at 0, of radius r.
const MARKERS = [
  (r) => `M${r} 0A${r} ${r} 0 1 1 ${-r} 0A${r} ${r} 0 1 1 ${r} 0Z`,
  (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  (r) => `M0 ${-r * 1.2}L${r * 1.1} ${r * 0.8}H${-r * 1.1}Z`,
  (r) => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`,
  (r) => `M0 ${r * 1.2}L${r * 1.1} ${-r * 0.8}H${-r * 1.1}Z`,
];

/** Return the current value of a CSS variable. */
export function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

/** Create an SVG element. */
export function element(name, attributes = {}, parent = null) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  parent?.append(created);
  return created;
}

/** Draw the legend symbol of a run: its line and its marker. */
export function swatch(run, parent = null, at = { x: 0, y: 8 }) {
  const shape = element("g", { transform: `translate(${at.x} ${at.y})` }, parent);
  const ink = colour(run.colour);
  element("path", { d: "M0 0H22", stroke: ink, "stroke-width": 2, ...dashes(run) }, shape);
  element("path", { d: marker(run)(4), transform: "translate(11 0)", fill: ink }, shape);
  return shape;
}

/** Return the function from a radius to the path of a run's marker. */
export function marker(run) {
  return MARKERS[run.index % MARKERS.length];
}

/** Return dashes for runs whose colour is already used. */
export function dashes(run) {
  return run.index < 8 ? {} : { "stroke-dasharray": "6 3" }; // the colours repeat
}

// Math.min(...values) fails for many values.
export function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

export function greatest(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

const COMPACT = { notation: "compact", maximumSignificantDigits: 3 };

/** Format a number: 0.001, 3.5, 20k, 1.1M. */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return value.toExponential().replace("e-", "e−");
  const notation = size < 10_000 ? { maximumSignificantDigits: 5 } : COMPACT;
  return new Intl.NumberFormat("en", notation).format(value);
}

/** Convert an SVG to PNG. */
export async function asPng(picture, { width, height, scale }) {
  const address = URL.createObjectURL(picture);
  const image = new Image(width, height);
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done));
}

/** Save a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
