// What the model did at each step of a sentence: asked for once, and read by words.

import { Refusal, inspect } from "/api.js";

const KEPT = 100; // sentences; an attention map of a long one takes a megabyte
const WITHOUT_SPACES = ["zh", "yue", "ja", "th", "lo", "km", "my", "bo"]; // between words
const WORD = /^([\p{P}\p{S}\u200d\ufe0f]*)(.*?)([\p{P}\p{S}\u200d\ufe0f]*)$/su;
const LONE_BYTE = /<0x[0-9A-F]{2}>/g; // how a piece writes what is only part of a letter

const encoder = new TextEncoder();

function bytes(text) {
  return encoder.encode(text).length;
}

function isSpace(text) {
  return text.trim() === "";
}

/**
 * Cut a sentence into what is shaded, pointed at and tinted: words, with the marks before and
 * after them apart, or pieces where the language has no spaces. Return a list of {text, pieces};
 * white space has no pieces and, until the sentence is inspected, nor has anything else.
 */
export function units(text, inspection, side) {
  const parts = cut(text);
  if (!inspection || inspection.problem) return parts.map((part) => ({ text: part, pieces: null }));
  const pieces = inspection[side].slice(0, -1); // </s> is not of the text
  const language = inspection.languages[side === "source" ? 0 : 1].split(/[-_]/)[0];
  if (WITHOUT_SPACES.includes(language) && pieces.join("") === text) {
    return pieces.map((piece, i) => ({ text: piece, pieces: [i] }));
  }
  return assign(parts, pieces, bytes(text));
}

function cut(text) {
  const words = (part) => (isSpace(part) ? [part] : WORD.exec(part).slice(1));
  return text.split(/(\s+)/).flatMap(words).filter(Boolean);
}

/** Give each piece to the unit that its first letter is in; a lone space goes with what follows. */
function assign(parts, pieces, total) {
  const sizes = pieces.map((piece) => bytes(piece.replace(LONE_BYTE, "?")));
  let begin = total - sizes.reduce((sum, size) => sum + size, 0); // -1: after a space put in front
  const isSame = begin === 0 || begin === -1;
  const found = parts.map((text) => ({ text, pieces: isSame && !isSpace(text) ? [] : null }));
  if (!isSame) return found;
  let unit = 0;
  let end = bytes(parts[0] ?? "");
  pieces.forEach((piece, i) => {
    const letter = begin + piece.length - piece.trimStart().length;
    while (unit < parts.length - 1 && (letter >= end || isSpace(parts[unit]))) {
      end += bytes(parts[++unit]);
    }
    found[unit].pieces?.push(i);
    begin += sizes[i];
  });
  return found.map(({ text, pieces: own }) => ({ text, pieces: own?.length ? own : null }));
}

/** Return the probability of a unit: that of all of its pieces. */
export function probability(inspection, pieces) {
  return pieces.reduce((product, piece) => product * inspection.probabilities[piece], 1);
}

/**
 * Return how much some pieces attended to each piece of the source when they were written: the
 * mean of the last layer's heads, which finds what translates what best.
 */
export function attended(inspection, pieces) {
  const { shape, data } = inspection.attention.cross;
  const [layers, heads, steps, keys] = shape;
  const raw = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const weights = new DataView(raw.buffer);
  const sums = new Array(keys).fill(0);
  for (const step of pieces) {
    for (let head = 0; head < heads; head++) {
      const row = (((layers - 1) * heads + head) * steps + step) * keys;
      for (let key = 0; key < keys; key++) sums[key] += weights.getUint16(2 * (row + key), true);
    }
  }
  return sums.map((sum) => sum / (65535 * heads * pieces.length));
}

export class Inspections {
  #known = new Map(); // key -> promise of an inspection, the latest used last

  /**
   * Return the promise of a sentence's inspection. Where there is none, it has a {problem}, which
   * `passes` or is final.
   */
  get(model, source, target) {
    const key = JSON.stringify([model, source, target]);
    const found = this.#known.get(key) ?? this.#ask(key, { model, source, target });
    this.#known.delete(key);
    this.#known.set(key, found);
    if (this.#known.size > KEPT) this.#known.delete(this.#known.keys().next().value);
    return found;
  }

  async #ask(key, body) {
    try {
      return await inspect(body);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const passes = error.status < 400 || error.status >= 500 || error.status === 429;
      if (passes) this.#known.delete(key);
      return { problem: error.message, passes };
    }
  }
}
