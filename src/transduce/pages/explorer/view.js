// What a picture draws, a view: a kind with {rows, columns, heads: [{name, colour, weights}]}.
// What is isolated in it: {side: "row" or "column", index}, and of a cell of a map also {other}.

export const SIDES = ["row", "column"];
export const TOLD = 0.0095; // what is 1% when rounded

export const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export const otherSide = (side) => (side === "row" ? "column" : "row");

export function labelsOf(view, side) {
  return side === "row" ? view.rows : view.columns;
}

// The weights of one head between a word and all words of the other side.
export function sliceOf(view, { weights }, { side, index }) {
  const width = view.columns.length;
  if (side === "row") return weights.subarray(index * width, (index + 1) * width);
  return view.rows.map((_, row) => weights[row * width + index]);
}

export function percent(weight) {
  const points = 100 * weight;
  return `${points.toFixed(points >= 0.05 && points < 0.95 ? 1 : 0)}%`;
}
