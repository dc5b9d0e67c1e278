// The sheet that a picture is drawn on, and what pictures share.

import { SVG, svg } from "./elements.js";

const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", Arial, sans-serif';
const LEVELS = 32; // of strength; one path for each, however long the sentences are

export function round(value) {
  return Math.round(value * 100) / 100;
}

const ruler = document.createElement("canvas").getContext("2d");

function measure(text, size) {
  ruler.font = `${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

export function widest(labels, size) {
  return Math.max(...labels.map((label) => measure(label, size)));
}

// As much of a text as fits, with an ellipsis where it does not; never half of an emoji.
export function fit(text, width, size) {
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

// An empty sheet. One that is saved has a ground, and tells what it shows.
export function sheetOf(view, width, { paint, saved }) {
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

export function trim(sheet, width, height) {
  sheet.setAttribute("width", round(width));
  sheet.setAttribute("height", round(height));
  sheet.setAttribute("viewBox", `0 0 ${round(width)} ${round(height)}`);
}

export function wordOf(side, index, label, shown) {
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

// The paths of all that is strong enough, as [strength, path data]: one for those of about the same
// strength. `pathOf` draws the one at a place.
export function pooled(strengths, least, pathOf) {
  const levels = Array.from({ length: LEVELS + 1 }, () => []);
  strengths.forEach((strength, place) => {
    if (strength < least) return;
    levels[Math.ceil(Math.min(strength, 1) * LEVELS)].push(pathOf(place));
  });
  return levels.flatMap((paths, level) =>
    paths.length === 0 ? [] : [[level / LEVELS, paths.join("")]],
  );
}
