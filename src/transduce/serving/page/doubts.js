// Doubts about translations in plain words: what the guard flagged, and missing terms.

import { html } from "/elements.js";

const REASONS = {
  repetition: (detail) => `Repetition: ${detail}`,
  copy: (detail) => `Not translated: ${detail}`,
  numbers: (detail) => `Numbers ${detail}`,
  confidence: (detail) => `The model is unsure: ${detail}`,
}; // the details of other kinds are sentences

const SPANS = {
  repeated: "is repeated",
  joined: "touches a letter or digit",
  reordered: "is in another order",
};

function capitalised(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Return the reasons to doubt a translation; mostly there are none. */
export function doubtsOf({ flags = [], terms = [], spans = [] }) {
  const reasons = flags.map(({ kind, detail }) => capitalised(REASONS[kind]?.(detail) ?? detail));
  const missing = terms.filter(({ found }) => !found);
  const doubtful = spans.filter(({ placed }) => placed in SPANS);
  return [
    ...reasons,
    ...missing.map(({ source, target }) => `Missing term: “${target}” for “${source}”`),
    ...doubtful.map(({ text, placed }) => `“${text}” ${SPANS[placed]}`),
  ];
}

export function doubtList(reasons) {
  return html("ul", { class: "doubts" }, ...reasons.map((reason) => html("li", {}, reason)));
}

/** Return a list of doubtful texts, each {where, source, text} with its flags and terms. */
export function remarkList(remarks) {
  const items = remarks.map((remark) => {
    const place = remark.where ? [html("span", { class: "quiet" }, capitalised(remark.where))] : [];
    const source = html("q", { dir: "auto" }, remark.source);
    const text = html("q", { dir: "auto" }, remark.text);
    return html("li", {}, ...place, source, text, doubtList(doubtsOf(remark)));
  });
  return html("ul", { class: "remarks" }, ...items);
}

/** Return nodes for a text with tags; the tags are less prominent. */
export function tagged(text) {
  return text.split(/(<[^<>]*>)/).map((part, i) => {
    return i % 2 ? html("span", { class: "tag" }, part) : part;
  });
}
