// The SVG element of a picture, and helpers that pictures share.

import { SVG, svg } from "./elements.js";

const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", Arial, sans-serif';
const LEVELS = 32; // levels of strength: one path each, however long the sentences are

export function round(value) {
  return Math.round(value * 100) / 100;
}

const textContext = document.createElement("canvas").getContext("2d");

function textWidth(text, size) {
  textContext.font = `${size}px ${FONT}`;
  return textContext.measureText(text).width;
}

export function widest(labels, size) {
  return Math.max(...labels.map((label) => textWidth(label, size)));
}

// A text shortened with an ellipsis to fit a width; an emoji is never cut.
export function fit(text, width, size) {
  if (textWidth(text, size) <= width) return text;
  const letters = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  let [fits, fails] = [0, letters.length];
  while (fails - fits > 1) {
    const middle = (fits + fails) >> 1;
    if (textWidth(`${letters.slice(0, middle).join("")}…`, size) <= width) fits = middle;
    else fails = middle;
  }
  return `${letters.slice(0, fits).join("")}…`;
}

// An empty SVG element. A saved picture also has a background, a title and a legend.
export function makeSheet(view, width, { paint, saved }) {
  const sheet = svg("svg", { xmlns: SVG, "font-family": FONT, fill: paint("ink") });
  if (!saved) return { sheet, top: 0 };
  const background = { width: "100%", height: "100%", fill: paint("ground") };
  const title = { x: 16, y: 27, "font-size": 15, "font-weight": 600 };
  sheet.append(svg("rect", background), svg("text", title, view.title));
  let [x, y] = [16, 48];
  for (const { name, colour } of view.heads) {
    const entryWidth = textWidth(name, 13) + 36;
    if (x > 16 && x + entryWidth > width) [x, y] = [16, y + 19];
    const swatch = { x, y: y - 9.5, width: 10, height: 10, rx: 2, fill: paint(colour) };
    const text = { x: x + 15, y, "font-size": 13, fill: paint("quiet") };
    sheet.append(svg("rect", swatch), svg("text", text, name));
    x += entryWidth;
  }
  return { sheet, top: y + 16 };
}

export function setSize(sheet, width, height) {
  sheet.setAttribute("width", round(width));
  sheet.setAttribute("height", round(height));
  sheet.setAttribute("viewBox", `0 0 ${round(width)} ${round(height)}`);
}

export function makeWord(side, index, label, shown) {
  const word = svg("g", {
    class: "word",
    role: "button",
    tabindex: -1,
    "aria-label": label,
    "aria-pressed": "false",
    "data-side": side,
    "data-index": index,
  });
  if (shown !== label) word.append(svg("title", {}, label));
  return word;
}

// Paths grouped by strength, as [strength, path data]; those weaker than `least` are left out.
// `pathOf(index)` returns the path data of one.
export function groupPaths(strengths, least, pathOf) {
  const levels = Array.from({ length: LEVELS + 1 }, () => []);
  strengths.forEach((strength, index) => {
    if (strength < least) return;
    levels[Math.ceil(Math.min(strength, 1) * LEVELS)].push(pathOf(index));
  });
  return levels.flatMap((paths, level) =>
    paths.length === 0 ? [] : [[level / LEVELS, paths.join("")]],
  );
}
