// What two texts have in common: the longest sequence of parts that both have, in order.

/** Return which parts of one text stand in another in the same order, as many as can. */
export function matches(parts, others) {
  const lengths = [...parts, null].map(() => new Uint16Array(others.length + 1));
  for (let i = parts.length - 1; i >= 0; i -= 1) {
    for (let j = others.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = parts[i] === others[j]
        ? lengths[i + 1][j + 1] + 1
        : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = parts.map(() => false);
  for (let i = 0, j = 0; i < parts.length && j < others.length;) {
    if (parts[i] === others[j]) {
      found[i] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return found;
}
