// What the model did at each step of a sentence: asked for once, and read by words.

import { Refusal, inspect } from "/api.js";

const KEPT = 100; // sentences; an attention map of a long one takes a megabyte
const WITHOUT_SPACES = ["zh", "yue", "ja", "th", "lo", "km", "my", "bo"]; // between words

/** Return the indices of the pieces that make each word; </s> is no word of the text. */
export function piecesOfWords(inspection, side) {
  const words = [];
  inspection.words[side].slice(0, -1).forEach((word, piece) => {
    if (word >= 0) (words[word] ??= []).push(piece);
  });
  return words;
}

/**
 * Cut a translation into what is shaded, pointed at and chosen: a list of {text, pieces}, in
 * which white space has no pieces. Until it is inspected, nor has anything else.
 */
export function units(text, inspection) {
  if (inspection && WITHOUT_SPACES.includes(inspection.languages[1])) {
    const pieces = inspection.target.slice(0, -1);
    if (pieces.join("") === text) return pieces.map((piece, i) => ({ text: piece, pieces: [i] }));
  }
  const words = inspection ? piecesOfWords(inspection, "target") : [];
  let word = 0;
  return text
    .split(/(\s+)/)
    .filter((part) => part !== "")
    .map((part) => ({ text: part, pieces: part.trim() === "" ? null : (words[word++] ?? null) }));
}

/** Return the probability of a word: that of all of its pieces. */
export function probability(inspection, pieces) {
  return pieces.reduce((product, piece) => product * inspection.probabilities[piece], 1);
}

/**
 * Return how much a word attended to each source word when it was written: the mean of the last
 * layer's heads, which finds translations best; what a word's pieces receive adds up.
 */
export function attended(inspection, pieces) {
  const { shape, data } = inspection.attention.cross;
  const [layers, heads, steps, keys] = shape;
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const weights = new DataView(bytes.buffer);
  const of = (head, step, key) =>
    weights.getUint16(2 * ((((layers - 1) * heads + head) * steps + step) * keys + key), true);
  const total = heads * pieces.length * 65535;
  return piecesOfWords(inspection, "source").map((own) => {
    let sum = 0;
    for (const key of own) {
      for (const step of pieces) for (let head = 0; head < heads; head++) sum += of(head, step, key);
    }
    return sum / total;
  });
}

export class Inspections {
  #known = new Map(); // key -> promise of an inspection, the latest used last

  /** Return the promise of a sentence's inspection; what cannot be inspected has {problem}. */
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
      const final = error.status >= 400 && error.status < 500;
      if (!final) this.#known.delete(key); // it may go well the next time
      return { problem: error.message };
    }
  }
}
