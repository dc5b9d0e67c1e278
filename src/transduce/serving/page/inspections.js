// Inspections: probabilities and attention weights of a sentence, fetched once and grouped by word.

import { ServiceError, inspect } from "/api.js";
import { attentionOf, meanOf } from "/attention.js";

const CACHED = 100; // sentences; the weights of a long one take a megabyte
const WITHOUT_SPACES = ["zh", "yue", "ja", "th", "lo", "km", "my", "bo"]; // languages
const WORD = /^([\p{P}\p{S}\u200d\ufe0f]*)(.*?)([\p{P}\p{S}\u200d\ufe0f]*)$/su;
const LONE_BYTE = /<0x[0-9A-F]{2}>/g; // a piece that is only part of a character

const encoder = new TextEncoder();

function bytes(text) {
  return encoder.encode(text).length;
}

function isSpace(text) {
  return text.trim() === "";
}

/**
 * Split a sentence into units: words and punctuation marks, or pieces if the language has no
 * spaces. Return a list of {text, pieces}; white space has no pieces, and without an inspection
 * no unit has.
 */
export function units(text, inspection, side) {
  const parts = splitWords(text);
  if (!inspection || inspection.problem) return parts.map((part) => ({ text: part, pieces: null }));
  const pieces = inspection[side].slice(0, -1); // without </s>
  const language = inspection.languages[side === "source" ? 0 : 1].split(/[-_]/)[0];
  if (WITHOUT_SPACES.includes(language) && pieces.join("") === text) {
    return pieces.map((piece, i) => ({ text: piece, pieces: [i] }));
  }
  return assign(parts, pieces, bytes(text));
}

function splitWords(text) {
  const words = (part) => (isSpace(part) ? [part] : WORD.exec(part).slice(1));
  return text.split(/(\s+)/).flatMap(words).filter(Boolean);
}

/** Assign each piece to the unit of its first letter; a lone space goes to the next unit. */
function assign(parts, pieces, total) {
  const sizes = pieces.map((piece) => bytes(piece.replace(LONE_BYTE, "?")));
  let begin = total - sizes.reduce((sum, size) => sum + size, 0); // -1: a space was added in front
  const isSame = begin === 0 || begin === -1;
  const assigned = parts.map((text) => ({ text, pieces: isSame && !isSpace(text) ? [] : null }));
  if (!isSame) return assigned;
  let unit = 0;
  let end = bytes(parts[0] ?? "");
  pieces.forEach((piece, i) => {
    const letter = begin + piece.length - piece.trimStart().length;
    while (unit < parts.length - 1 && (letter >= end || isSpace(parts[unit]))) {
      end += bytes(parts[++unit]);
    }
    assigned[unit].pieces?.push(i);
    begin += sizes[i];
  });
  return assigned.map(({ text, pieces: list }) => ({ text, pieces: list?.length ? list : null }));
}

/** Return the probability of a unit: the product over its pieces. */
export function probability(inspection, pieces) {
  return pieces.reduce((product, piece) => product * inspection.probabilities[piece], 1);
}

/**
 * Return the attention of some pieces to each piece of the source: the mean over the heads of
 * the last layer, which aligns words best.
 */
export function attended(inspection, pieces) {
  const { cross } = attentionOf(inspection);
  const weights = cross.weights({ layer: cross.layers }, "pieces");
  const keys = cross.columns.pieces.length;
  return meanOf(pieces.map((step) => weights.subarray(step * keys, (step + 1) * keys)));
}

export class Inspections {
  #cache = new Map(); // key -> promise of an inspection, the most recent last

  /**
   * Return the promise of a sentence's inspection. After an error it has a {problem}, and
   * `temporary` if a retry may help.
   */
  get(model, source, target) {
    const key = JSON.stringify([model, source, target]);
    const inspection = this.#cache.get(key) ?? this.#fetch(key, { model, source, target });
    this.#cache.delete(key);
    this.#cache.set(key, inspection);
    if (this.#cache.size > CACHED) this.#cache.delete(this.#cache.keys().next().value);
    return inspection;
  }

  async #fetch(key, body) {
    try {
      return await inspect(body);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const temporary = error.status < 400 || error.status >= 500 || error.status === 429;
      if (temporary) this.#cache.delete(key);
      return { problem: error.message, temporary };
    }
  }
}
