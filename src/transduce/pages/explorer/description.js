// The selected word of a picture, described in words.

import { visible } from "./attention.js";
import { themed } from "./colours.js";
import { html } from "./elements.js";
import { LEAST_SHOWN, labelsOf, otherSide, percent, sliceOf } from "./selection.js";

export function colourMark(colour) {
  const mark = html("span", { class: "mark" });
  mark.style.background = themed(colour);
  return mark;
}

function quoted(text) {
  return html("bdi", {}, `“${text}”`);
}

// [word, weight] pairs, separated by commas.
function listed(pairs) {
  return pairs.flatMap(([word, weight], i) => {
    return [i > 0 ? ", " : "", quoted(word), ` ${percent(weight)}`];
  });
}

// The indices of the largest weights that do not round to 0.
function strongest(weights) {
  const indices = Array.from(weights.keys()).filter((i) => weights[i] >= LEAST_SHOWN);
  return indices.sort((a, b) => weights[b] - weights[a]).slice(0, 4);
}

// The words that the selected word attends to most, for each head.
export function describeSelection(view, selection) {
  const { side, index, other } = selection;
  const labels = labelsOf(view, otherSide(side));
  const verb = side === "row" ? "looks at" : "is looked at by";
  const heads = view.heads.map((head) => {
    const slice = sliceOf(view, head, selection);
    const indices = other === undefined ? strongest(slice) : [other];
    const pairs = indices.map((i) => [labels[i], slice[i]]);
    return html("p", {}, colourMark(head.colour), ...listed(pairs));
  });
  return [html("h3", {}, quoted(labelsOf(view, side)[index]), ` ${verb}`), ...heads];
}

// The probability of a written piece or word, and the alternatives to a piece.
export function describeProbability({ probabilities, alternatives, target, words }, unit, index) {
  if (unit === "words") {
    const pieces = probabilities.filter((_, piece) => words.target[piece] === index);
    const product = pieces.reduce((total, each) => total * each, 1);
    return html("p", { class: "quiet" }, `written with probability ${percent(product)}`);
  }
  const others = alternatives[index].filter(([piece]) => piece !== target[index]).slice(0, 3);
  const pairs = others.map(([piece, probability]) => [visible(piece), probability]);
  const text = `written with probability ${percent(probabilities[index])}; others: `;
  return html("p", { class: "quiet" }, text, ...listed(pairs));
}
