// The selected sentence: its source, tinted by attention, and the candidates of the search.

import { bar, percent } from "/card.js";
import { matches } from "/common.js";
import { doubtList } from "/doubts.js";
import { button, html } from "/elements.js";
import { attended, units } from "/inspections.js";

/** Describe how probable a candidate is compared with the best one. */
export function compared(candidate, best) {
  const ratio = Math.exp(candidate.log_probability - best.log_probability);
  const times = (number) => `${Number(number.toPrecision(2))} times`;
  if (candidate === best) return "the model's first choice";
  if (ratio > 1.05) return `${times(ratio)} as likely, but lower after the length penalty`;
  if (ratio > 0.95) return "just as likely";
  if (ratio > 0.5) return `${Math.round(100 * ratio)}% as likely`;
  if (ratio > 0.001) return `${times(1 / ratio)} less likely`;
  return "over 1,000 times less likely";
}

function textOf(candidate, best) {
  if (!candidate.text.trim()) return [html("i", {}, "no words")];
  const parts = candidate.text.split(/(\s+)/);
  const common = matches(parts, best.text.split(/(\s+)/));
  return parts.map((part, i) => {
    return common[i] || part.trim() === "" ? part : html("mark", {}, part);
  });
}

export class SentencePanel {
  #elements;
  #onChoose;
  #shown = null; // the content of the list, which is redrawn only after a change

  /** `onChoose` is called with the rank of the chosen candidate. */
  constructor(elements, onChoose) {
    this.#elements = elements; // {echo, note, remarks, candidates}
    this.#onChoose = onChoose;
  }

  /** Show a sentence and the attention of its chosen word, if any. */
  show(sentence, word = null) {
    this.#echo(sentence, word);
    this.#remarks(sentence);
    this.#list(sentence);
  }

  /** List the reasons to doubt the sentence, and the terms that it has. */
  #remarks({ segment, doubts }) {
    const parts = doubts.length ? [html("h3", {}, "Doubtful translation"), doubtList(doubts)] : [];
    const terms = (segment.terms ?? []).filter(({ found }) => found);
    const names = terms.map(({ source, target }) => `“${source}” → “${target}”`);
    if (names.length) parts.push(html("p", { class: "quiet" }, `Terms: ${names.join(", ")}`));
    this.#elements.remarks.replaceChildren(...parts);
  }

  #echo({ segment, inspection }, word) {
    const { echo, note } = this.#elements;
    echo.replaceChildren(segment.source);
    note.textContent = "Choose a word of the translation to see its attention.";
    if (!inspection || inspection.problem) {
      if (inspection?.problem) note.textContent = inspection.problem;
      return;
    }
    if (!word?.pieces) return;
    const weights = attended(inspection, word.pieces);
    const parts = units(segment.source, inspection, "source");
    const words = parts.filter(({ pieces }) => pieces);
    const weightOf = ({ pieces }) => pieces.reduce((sum, piece) => sum + weights[piece], 0);
    const ranked = words.toSorted((a, b) => weightOf(b) - weightOf(a));
    const marks = parts.map((part) => {
      if (!part.pieces) return part.text;
      const kind = part === ranked[0] ? "attended most" : "attended";
      const mark = html("span", { class: kind }, part.text);
      mark.style.setProperty("--weight", `${(100 * weightOf(part)).toFixed(1)}%`);
      return mark;
    });
    echo.replaceChildren(...marks);
    const most = ranked.slice(0, 3).map((part) => `“${part.text}” ${percent(weightOf(part))}`);
    note.textContent =
      `Attention of “${word.text}”: ${most.join(", ")} ` +
      "(mean of the last layer's heads).";
  }

  #list({ segment, text }) {
    const { candidates } = this.#elements;
    const [best] = segment.candidates;
    const now = JSON.stringify([segment.candidates.map((candidate) => [candidate.text, candidate.score]), text]);
    if (now === this.#shown) return;
    this.#shown = now;
    const focused = document.activeElement?.dataset.rank;
    const taken = segment.candidates.findIndex((candidate) => candidate.text === text);
    const rows = segment.candidates.map((candidate, rank) => {
      const chance = bar(Math.min(1, Math.exp(candidate.log_probability - best.log_probability)));
      const score = ` · score ${candidate.score.toFixed(2).replace("-", "−")}`;
      const choose = button("", { "data-rank": rank, "aria-pressed": rank === taken }, () =>
        this.#onChoose(rank));
      choose.append(
        html("span", { class: "words", dir: "auto" }, ...textOf(candidate, best)),
        html("span", { class: "about" }, chance, compared(candidate, best), score),
      );
      return html("li", {}, choose);
    });
    candidates.replaceChildren(...rows);
    if (focused !== undefined) rows[focused]?.firstChild.focus();
  }
}
