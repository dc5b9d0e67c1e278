// The longest common subsequence of two texts.

/** Return for each part whether it belongs to the longest common subsequence. */
export function matches(parts, others) {
  const lengths = [...parts, null].map(() => new Uint16Array(others.length + 1));
  for (let i = parts.length - 1; i >= 0; i -= 1) {
    for (let j = others.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = parts[i] === others[j]
        ? lengths[i + 1][j + 1] + 1
        : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const common = parts.map(() => false);
  for (let i = 0, j = 0; i < parts.length && j < others.length;) {
    if (parts[i] === others[j]) {
      common[i] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return common;
}
