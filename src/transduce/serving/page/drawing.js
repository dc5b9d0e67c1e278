// What charts and lists are drawn with: elements of SVG, the colour and the marker of each run.

const SVG = "http://www.w3.org/2000/svg";

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

/** Make an element of SVG. */
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

/** Return the shape of a run's markers, by their radius. */
export function marker(run) {
  return MARKERS[run.index % MARKERS.length];
}

/** Return what sets the lines of a run apart where colours are used a second time. */
export function dashes(run) {
  return run.index < 8 ? {} : { "stroke-dasharray": "6 3" }; // the colours begin anew
}

// Math.min(...values) has its limits where there are many.
export function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

export function greatest(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

const COMPACT = { notation: "compact", maximumSignificantDigits: 3 };

/** Write a number briefly: 0.001, 3.5, 20k, 1.1M. */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return value.toExponential().replace("e-", "e−");
  const notation = size < 10_000 ? { maximumSignificantDigits: 5 } : COMPACT;
  return new Intl.NumberFormat("en", notation).format(value);
}

/** Return a picture of SVG as PNG. */
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

/** Have the browser save a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
