// The colours of heads and maps: from the theme, or fixed ones for saved pictures.

// The light theme of base.css, for saved pictures.
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
export const fixed = (name) => LIGHT[name];
export const seriesColour = (index) => `series-${(index % COLOURS) + 1}`;

const canvasContext = document.createElement("canvas").getContext("2d");

// The red, green and blue of a colour in the current theme.
export function rgbOf(name, element) {
  const value = getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  canvasContext.fillStyle = value || LIGHT[name];
  return [1, 3, 5].map((start) => parseInt(canvasContext.fillStyle.slice(start, start + 2), 16));
}
