// What an inspection holds: the attention of every layer and head, between pieces or whole words.

export const KINDS = {
  encoder: {
    short: "Encoder",
    title: "Encoder self-attention",
    looking: "word",
    seen: "looks at",
    says: "Each word of the source looks at every word of the source.",
  },
  decoder: {
    short: "Decoder",
    title: "Decoder self-attention",
    looking: "writing",
    writes: true,
    seen: "looks back at",
    says: "Writing each word, the decoder looks back at those it has read, from <s> on.",
  },
  cross: {
    short: "Encoder-decoder",
    title: "Encoder-decoder attention",
    looking: "writing",
    writes: true,
    seen: "looks at",
    says: "Writing each word, the decoder looks at the words of the source.",
  },
};

// A head is named {layer, head} from 1 on; no head: the mean of the layer's; no layer: of all.
export function nameOf({ layer, head }) {
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
  return new Uint16Array(bytes.buffer); // little-endian, as every machine with a browser is
}

// What is shown of a piece or a word that may be nothing but a space.
export function visible(text) {
  return text.trim() || "␣";
}

// One side of a map: what stands beside its rows or columns, and which word each piece is part of.
// Words are spelled apart: a piece may be part of a letter.
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

// Attention between whole words: what a word's pieces receive is added up, what they give averaged.
function merge(weights, rows, columns) {
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

// The attention of one kind, from what looks, `rows`, to what is looked at, `columns`.
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

  weights(name, unit) {
    const weights = this.#between(name);
    return unit === "words" ? merge(weights, this.rows, this.columns) : weights;
  }

  #between({ layer, head }) {
    if (head) return this.#head((layer - 1) * this.heads + head - 1);
    if (!this.#means.has(layer)) this.#means.set(layer, this.#mean(layer));
    return this.#means.get(layer);
  }

  #head(place) {
    this.#values ??= decode(this.#data); // megabytes, of which a third may be all that is seen
    const size = this.rows.pieces.length * this.columns.pieces.length;
    const weights = new Float32Array(this.#values.subarray(place * size, (place + 1) * size));
    for (let i = 0; i < size; i++) weights[i] /= 65535;
    return weights;
  }

  #mean(layer) {
    const parts = layer
      ? this.headsOf(layer)
      : Array.from({ length: this.layers }, (_, i) => ({ layer: i + 1 }));
    return meanOf(parts.map((name) => this.#between(name)));
  }
}

// The attention of each kind.
export function attentionOf({ source, target, inputs, words, spelled, attention }) {
  const from = new Side(source, words.source, spelled.source);
  const written = new Side(target, words.target, spelled.target);
  const before = words.target.slice(0, -1).map((word) => word + 1);
  const read = new Side(inputs, [0, ...before], [inputs[0], ...spelled.target.slice(0, -1)]);
  return {
    encoder: new Attention(attention.encoder, from, from),
    decoder: new Attention(attention.decoder, written, read),
    cross: new Attention(attention.cross, written, from),
  };
}
