// The colour and marker of each run, and number formats for charts.

import { svg } from "/elements.js";

// One shape per run, so that runs can be distinguished without colour. Centred at 0, with radius r.
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

/** Return the legend symbol of a run: its line and its marker. */
export function swatch(run, { x, y } = { x: 0, y: 8 }) {
  const ink = colour(run.colour);
  return svg("g", { transform: `translate(${x} ${y})` },
    svg("path", { d: "M0 0H22", stroke: ink, "stroke-width": 2, ...dashes(run) }),
    svg("path", { d: marker(run)(4), transform: "translate(11 0)", fill: ink }));
}

/** Return the legend symbol of a run as a separate picture. */
export function swatchPicture(run) {
  return svg("svg", { width: 22, height: 16, "aria-hidden": "true" }, swatch(run));
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
export function formatNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001) return value.toExponential().replace("e-", "e−");
  const notation = size < 10_000 ? { maximumSignificantDigits: 5 } : COMPACT;
  return new Intl.NumberFormat("en", notation).format(value);
}
