// The colours of heads and maps: as the theme has them, or as they are printed.

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

export const themed = (name) => `var(--${name}, ${LIGHT[name]})`;
export const printed = (name) => LIGHT[name];
export const series = (place) => `series-${(place % COLOURS) + 1}`;

const brush = document.createElement("canvas").getContext("2d");

// Red, green and blue of what a colour is now, where the element stands.
export function rgbOf(name, element) {
  brush.fillStyle = getComputedStyle(element).getPropertyValue(`--${name}`).trim() || LIGHT[name];
  return [1, 3, 5].map((start) => parseInt(brush.fillStyle.slice(start, start + 2), 16));
}
