// The attention of every layer and head of an inspection, between pieces or between whole words.

export const KINDS = {
  encoder: {
    short: "Encoder",
    title: "Encoder self-attention",
    queryCaption: "word",
    keyCaption: "looks at",
    description: "Each word of the source looks at every word of the source.",
  },
  decoder: {
    short: "Decoder",
    title: "Decoder self-attention",
    queryCaption: "writing",
    keyCaption: "looks back at",
    writes: true,
    description: "Writing each word, the decoder looks back at the words before it, from <s> on.",
  },
  cross: {
    short: "Encoder-decoder",
    title: "Encoder-decoder attention",
    queryCaption: "writing",
    keyCaption: "looks at",
    writes: true,
    description: "Writing each word, the decoder looks at the words of the source.",
  },
};

// A head is {layer, head}, from 1; without `head` it is the mean of the layer, without `layer` the
// mean of all layers.
export function headLabel({ layer, head }) {
  if (!layer) return "mean of all heads of all layers";
  return head ? `layer ${layer}, head ${head}` : `layer ${layer}, mean of its heads`;
}

export function meanOf(lists) {
  const mean = new Float32Array(lists[0].length);
  for (const list of lists) {
    for (let i = 0; i < mean.length; i++) mean[i] += list[i] / lists.length;
  }
  return mean;
}

function decode(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Uint16Array(bytes.buffer); // little-endian, as in every browser
}

// The label of a piece or a word, which may be white space only.
export function visible(text) {
  return text.trim() || "␣";
}

// The labels on one side of a map, and the word of each piece. The spelling of words is stored
// separately, because a piece may be part of a letter.
class Side {
  constructor(pieces, words, spelled) {
    this.words = words;
    this.whole = spelled.map(visible);
    this.pieces = pieces.map((piece, i) => {
      return i > 0 && words[i] === words[i - 1] ? `·${visible(piece)}` : visible(piece);
    });
  }

  labels(unit) {
    return unit === "words" ? this.whole : this.pieces;
  }
}

// Attention between whole words: weights to the pieces of a word are summed, weights from them are
// averaged.
function mergePieces(weights, rows, columns) {
  const [height, width] = [rows.whole.length, columns.whole.length];
  const pieces = new Float32Array(height);
  for (const word of rows.words) pieces[word] += 1;
  const merged = new Float32Array(height * width);
  let i = 0;
  for (const row of rows.words) {
    for (const column of columns.words) merged[row * width + column] += weights[i++] / pieces[row];
  }
  return merged;
}

// Attention of one kind, from queries (`rows`) to keys (`columns`).
class Attention {
  #data;
  #values;
  #means = new Map();

  constructor({ shape, data }, rows, columns) {
    [this.layers, this.heads] = shape;
    this.rows = rows;
    this.columns = columns;
    this.#data = data;
  }

  has({ layer, head }) {
    return (layer ?? 1) <= this.layers && (head ?? 1) <= this.heads;
  }

  headsOf(layer) {
    return Array.from({ length: this.heads }, (_, i) => ({ layer, head: i + 1 }));
  }

  weights(head, unit) {
    const weights = this.#pieceWeights(head);
    return unit === "words" ? mergePieces(weights, this.rows, this.columns) : weights;
  }

  #pieceWeights({ layer, head }) {
    if (head) return this.#headWeights((layer - 1) * this.heads + head - 1);
    if (!this.#means.has(layer)) this.#means.set(layer, this.#mean(layer));
    return this.#means.get(layer);
  }

  #headWeights(index) {
    this.#values ??= decode(this.#data); // on first use: it may take megabytes
    const size = this.rows.pieces.length * this.columns.pieces.length;
    const weights = new Float32Array(this.#values.subarray(index * size, (index + 1) * size));
    for (let i = 0; i < size; i++) weights[i] /= 65535;
    return weights;
  }

  #mean(layer) {
    const parts = layer
      ? this.headsOf(layer)
      : Array.from({ length: this.layers }, (_, i) => ({ layer: i + 1 }));
    return meanOf(parts.map((part) => this.#pieceWeights(part)));
  }
}

// The attention of each kind, from the JSON of an inspection.
export function attentionOf({ source, target, inputs, words, spelled, attention }) {
  const sourceSide = new Side(source, words.source, spelled.source);
  const targetSide = new Side(target, words.target, spelled.target);
  const shifted = words.target.slice(0, -1).map((word) => word + 1);
  const inputSpelled = [inputs[0], ...spelled.target.slice(0, -1)];
  const inputSide = new Side(inputs, [0, ...shifted], inputSpelled);
  return {
    encoder: new Attention(attention.encoder, sourceSide, sourceSide),
    decoder: new Attention(attention.decoder, targetSide, inputSide),
    cross: new Attention(attention.cross, targetSide, sourceSide),
  };
}
