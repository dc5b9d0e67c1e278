// A view is what a picture draws: a kind with {rows, columns, heads: [{name, colour, weights}]}.
// A selection is one word, {side: "row" or "column", index}; for a cell of a map also {other}.

export const SIDES = ["row", "column"];
export const LEAST_SHOWN = 0.0095; // rounds to 1%

export const sameValue = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export const otherSide = (side) => (side === "row" ? "column" : "row");

export function labelsOf(view, side) {
  return side === "row" ? view.rows : view.columns;
}

// The weights of one head between a selected word and all words on the other side.
export function sliceOf(view, { weights }, { side, index }) {
  const width = view.columns.length;
  if (side === "row") return weights.subarray(index * width, (index + 1) * width);
  return view.rows.map((_, row) => weights[row * width + index]);
}

export function percent(weight) {
  const points = 100 * weight;
  return `${points.toFixed(points >= 0.05 && points < 0.95 ? 1 : 0)}%`;
}
