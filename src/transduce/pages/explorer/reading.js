// In words, what a picture shows.

import { visible } from "./attention.js";
import { themed } from "./colours.js";
import { html } from "./elements.js";
import { TOLD, labelsOf, otherSide, percent, sliceOf } from "./view.js";

export function markOf(colour) {
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

// Of what is isolated: for each head, what it looks at most.
export function readingOf(view, isolated) {
  const { side, index, other } = isolated;
  const others = labelsOf(view, otherSide(side));
  const verb = side === "row" ? "looks at" : "is looked at by";
  const heads = view.heads.map((head) => {
    const slice = sliceOf(view, head, isolated);
    const told = other === undefined ? strongest(slice) : [other];
    const found = told.map((place) => [others[place], slice[place]]);
    return html("p", {}, markOf(head.colour), ...listed(found));
  });
  return [html("h3", {}, quoted(labelsOf(view, side)[index]), ` ${verb}`), ...heads];
}

// How sure the model was of a piece or a word that it wrote, and what else it might have written.
export function chanceOf({ probabilities, alternatives, target, words }, unit, index) {
  if (unit === "words") {
    const own = probabilities.filter((_, piece) => words.target[piece] === index);
    const product = own.reduce((whole, each) => whole * each, 1);
    return html("p", { class: "quiet" }, `written with probability ${percent(product)}`);
  }
  const others = alternatives[index].filter(([piece]) => piece !== target[index]).slice(0, 3);
  const shown = others.map(([piece, probability]) => [visible(piece), probability]);
  const chance = `written with probability ${percent(probabilities[index])}; others: `;
  return html("p", { class: "quiet" }, chance, ...listed(shown));
}
