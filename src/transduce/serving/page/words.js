// The displayed translation: paragraphs, their sentences and words. Only changes are redrawn, and
// only visible sentences have elements for their words, so that long texts stay fast.

import { doubtsOf, remarkList, tagged } from "/doubts.js";
import { html } from "/elements.js";
import { probability, units } from "/inspections.js";

const SHADES = [0.7, 0.4, 0.15]; // a word with a probability below the n-th has shade n

function shadeOf(chance) {
  return SHADES.filter((bound) => chance < bound).length;
}

/** One sentence: its segment, the candidate that is shown, and its elements. */
class Sentence {
  constructor(model, segment, text) {
    this.model = model; // its name
    this.segment = segment; // {gap, source, candidates, flags, terms}
    this.text = text; // the candidate that is shown
    this.gap = segment.gap;
    this.inspection = null;
    this.words = null; // elements, once it has been visible
    this.element = html("span", { class: "sentence" }, text);
    this.mark = null; // the element that marks it as doubtful
  }

  get key() {
    return JSON.stringify([this.model, this.segment.source, this.text]);
  }

  /** The reasons to doubt it; those of the service are about the best candidate. */
  get doubts() {
    return this.text === this.segment.candidates[0].text ? doubtsOf(this.segment) : [];
  }
}

/** Return for each part of a text whether it belongs to the translation of a term. */
function inTerms(parts, terms = []) {
  const text = parts.join("").toLowerCase();
  const ranges = terms.flatMap(({ target }) => occurrences(text, target.toLowerCase()));
  let end = 0;
  return parts.map((part) => {
    const begin = end;
    end += part.length;
    return ranges.some(([first, last]) => first < end && begin < last);
  });
}

/** Return the begin and end of each occurrence. */
function occurrences(text, term) {
  const ranges = [];
  for (let at = -1; (at = text.indexOf(term, at + 1)) >= 0; ) ranges.push([at, at + term.length]);
  return ranges;
}

export class TranslationView {
  #paragraphs = []; // {line, result, sentences, element}
  #places = new WeakMap(); // element of a word, mark or sentence -> {sentence, pieces}
  #visible = new Set();
  #observer;
  #current = null; // the word that Tab focuses
  #selected = null; // the sentence

  /** `textOf` returns the shown candidate of a segment. */
  constructor(element, { textOf, onWord, onDoubt, onVisible }) {
    this.element = element;
    this.textOf = textOf;
    this.onWord = onWord;
    this.onDoubt = onDoubt;
    this.onVisible = onVisible;
    this.#observer = new IntersectionObserver((seen) => this.#onIntersect(seen), {
      root: element,
      rootMargin: "100px",
    });
    element.addEventListener("click", (event) => {
      const word = event.target.closest(".word, .doubt");
      if (word && getSelection().isCollapsed) this.#choose(word);
    });
    element.addEventListener("keydown", (event) => this.#move(event));
    element.addEventListener("focusin", (event) => this.#rove(event.target));
  }

  get text() {
    const text = ({ result, sentences }) => result?.html ?? textOf(sentences);
    return this.#paragraphs.map(text).join("\n");
  }

  get count() {
    return this.#segments.length;
  }

  /** The number of doubtful sentences. */
  get doubtful() {
    return this.#segments.filter((segment) => doubtsOf(segment).length > 0).length;
  }

  get #segments() {
    return this.#paragraphs.flatMap(({ result }) => segmentsOf(result));
  }

  get selected() {
    return this.#selected;
  }

  /** Return the visible sentences without an inspection. */
  get uninspected() {
    return [...this.#visible].filter((sentence) => sentence.inspection === null);
  }

  /** Return {sentence, pieces} of the element of a word or mark. */
  place(word) {
    return this.#places.get(word);
  }

  /** Show the translation of these lines; `resultOf` returns undefined for pending ones. */
  update(lines, resultOf) {
    const old = this.#paragraphs;
    const shared = Math.min(old.length, lines.length);
    let head = 0;
    while (head < shared && old[head].line === lines[head]) head++;
    let tail = 0;
    while (tail < shared - head && old.at(-1 - tail).line === lines.at(-1 - tail)) tail++;
    // Between the unchanged ends, the n-th old paragraph is reused for the n-th new one.
    const middle = old.slice(head, old.length - tail);
    const wanted = lines.length - head - tail;
    for (const { sentences, element } of middle.splice(wanted)) {
      sentences.forEach((sentence) => this.#forget(sentence));
      element.remove();
    }
    const next = old[old.length - tail]?.element ?? null;
    while (middle.length < wanted) middle.push(this.#paragraph(tail > 0 ? next : null));
    this.#paragraphs = [...old.slice(0, head), ...middle, ...old.slice(old.length - tail)];
    this.#paragraphs.forEach((paragraph, i) => {
      paragraph.line = lines[i];
      const result = lines[i].trim() === "" ? { segments: [] } : resultOf(lines[i]);
      paragraph.element.classList.toggle("stale", result === undefined);
      if (result !== undefined && result !== paragraph.result) this.#draw(paragraph, result);
    });
    this.#ensureFocusable();
  }

  /** Redraw the paragraph of a sentence after a different candidate was chosen. */
  redraw(sentence) {
    const paragraph = this.#paragraphs.find(({ sentences }) => sentences.includes(sentence));
    if (paragraph) this.#draw(paragraph, paragraph.result);
    this.#ensureFocusable();
  }

  /** Shade the words of a sentence by their probabilities in an inspection. */
  shade(sentence, inspection) {
    sentence.inspection = inspection;
    if (!inspection.problem && sentence.words) this.#createWords(sentence);
  }

  /** Select a sentence. */
  select(sentence) {
    this.#selected?.element.classList.remove("selected");
    this.#selected = sentence;
    sentence?.element.classList.add("selected");
  }

  /** Return the sentence at a position in the text, unless its translation is pending. */
  at(row, column) {
    const { line, result, sentences, element } = this.#paragraphs[row] ?? {};
    if (result === undefined || element.classList.contains("stale")) return null;
    let end = 0;
    for (const sentence of sentences) {
      const begin = line.indexOf(sentence.segment.source, end);
      end = Math.max(begin, end) + sentence.segment.source.length;
      if (column <= end) return sentence;
    }
    return sentences.at(-1) ?? null;
  }

  #paragraph(before) {
    const element = html("div", { class: "paragraph", dir: "auto" });
    this.element.insertBefore(element, before);
    return { line: null, result: undefined, sentences: [], element };
  }

  #draw(paragraph, result) {
    if (result.html !== undefined) return this.#drawTagged(paragraph, result);
    const before = paragraph.sentences;
    const spare = new Map(before.map((sentence) => [sentence.key, sentence]));
    paragraph.result = result;
    paragraph.sentences = result.segments.map((segment, i) => {
      const fresh = new Sentence(result.model, segment, this.textOf(segment));
      const same = spare.get(fresh.key);
      if (same && same.gap === fresh.gap) {
        spare.delete(fresh.key);
        same.segment = segment; // other settings give other candidates
        if (same.words) this.#createWords(same);
        return same;
      }
      this.#places.set(fresh.element, { sentence: fresh });
      this.#observer.observe(fresh.element);
      if (before[i]?.words) this.#createWords(fresh, before[i]);
      return fresh;
    });
    const { sentences, element } = paragraph;
    const nodes = sentences.flatMap((sentence) => [
      sentence.gap, sentence.element, ...this.#doubtMark(sentence),
    ]);
    element.replaceChildren(...(nodes.length ? nodes : [html("br")]));
    this.#forgetAll(before, sentences);
  }

  /** Draw a paragraph with tags. Its sentences cannot be chosen: tags may be inside them. */
  #drawTagged(paragraph, result) {
    const doubtful = segmentsOf(result).filter((segment) => doubtsOf(segment).length > 0);
    const remarks = doubtful.map((segment) => ({ ...segment, text: segment.candidates[0].text }));
    const before = paragraph.sentences;
    Object.assign(paragraph, { result, sentences: [] });
    paragraph.element.replaceChildren(...tagged(result.html));
    if (remarks.length) paragraph.element.append(remarkList(remarks));
    this.#forgetAll(before, []);
  }

  #forgetAll(before, sentences) {
    before.forEach((sentence, i) => {
      if (sentences.includes(sentence)) return;
      if (sentence === this.#selected) this.select(sentences[i] ?? sentences.at(-1) ?? null);
      this.#forget(sentence);
    });
  }

  /** Mark a doubtful sentence; return the mark's element, if it has one. */
  #doubtMark(sentence) {
    const isDoubtful = sentence.doubts.length > 0;
    sentence.element.classList.toggle("doubtful", isDoubtful);
    if (!isDoubtful) sentence.mark = null;
    else if (sentence.mark === null) {
      const name = { "aria-label": "Doubtful translation" };
      sentence.mark = html("span", { class: "doubt", role: "button", tabindex: -1, ...name });
      this.#places.set(sentence.mark, { sentence });
    }
    return sentence.mark === null ? [] : [sentence.mark];
  }

  #forget(sentence) {
    this.#observer.unobserve(sentence.element);
    this.#visible.delete(sentence);
    if (sentence === this.#selected) this.select(null);
  }

  #onIntersect(seen) {
    for (const { target, isIntersecting } of seen) {
      const { sentence } = this.#places.get(target);
      if (!isIntersecting) this.#visible.delete(sentence);
      else if (target.isConnected) {
        this.#visible.add(sentence);
        if (!sentence.words) this.#createWords(sentence);
      }
    }
    this.#ensureFocusable();
    this.onVisible();
  }

  /**
   * Create an element for each word. Until a sentence is inspected, equal words at the same index
   * keep their shade, so that nothing flickers while a sentence grows.
   */
  #createWords(sentence, before = sentence) {
    const parts = units(sentence.text, sentence.inspection, "target");
    const words = parts.filter(({ text }) => text.trim() !== "");
    const old = before.words ?? [];
    const isSame = ({ text }, i) => old[i]?.textContent === text;
    const stays = before === sentence && old.length === words.length && words.every(isSame);
    if (!stays) this.#build(sentence, parts, old);
    words.forEach(({ pieces }, i) => this.#setWord(sentence, sentence.words[i], pieces));
    const areTerms = inTerms(parts.map(({ text }) => text), sentence.segment.terms);
    const wordsOnly = areTerms.filter((_, i) => parts[i].text.trim() !== "");
    wordsOnly.forEach((isTerm, i) => sentence.words[i].classList.toggle("term", isTerm));
  }

  #build(sentence, parts, old) {
    sentence.words = [];
    const nodes = parts.map(({ text }) => {
      if (text.trim() === "") return text;
      const word = html("span", { class: "word", role: "button", tabindex: -1 }, text);
      const same = old[sentence.words.length];
      if (same?.textContent === text) word.dataset.shade = same.dataset.shade ?? 0;
      sentence.words.push(word);
      return word;
    });
    sentence.element.replaceChildren(...nodes);
  }

  #setWord(sentence, word, pieces) {
    this.#places.set(word, { sentence, pieces });
    if (pieces) word.dataset.shade = shadeOf(probability(sentence.inspection, pieces));
  }

  #choose(word) {
    this.#rove(word);
    if (word.matches(".doubt")) this.onDoubt(this.place(word).sentence);
    else this.onWord(word);
  }

  /** Roving tabindex: Tab focuses the word that had the focus last, or the first. */
  #rove(word) {
    if (!word.matches(".word, .doubt")) return;
    if (this.#current) this.#current.tabIndex = -1;
    this.#current = word;
    word.tabIndex = 0;
  }

  #ensureFocusable() {
    if (this.#current?.isConnected) return;
    const first = this.element.querySelector(".word");
    if (first) this.#rove(first);
  }

  #move(event) {
    const word = event.target.closest(".word, .doubt");
    if (!word || event.ctrlKey || event.metaKey || event.altKey) return;
    const leftwards = getComputedStyle(word.closest(".paragraph")).direction === "rtl" ? 1 : -1;
    const goals = {
      ArrowLeft: () => this.#beside(word, leftwards),
      ArrowRight: () => this.#beside(word, -leftwards),
      ArrowUp: () => this.#above(word, -1),
      ArrowDown: () => this.#above(word, 1),
      Home: () => this.#edge(0),
      End: () => this.#edge(-1),
    };
    if (event.key === "Enter" || event.key === " ") this.#choose(word);
    else if (event.key in goals) goals[event.key]()?.focus();
    else return;
    event.preventDefault();
  }

  #beside(word, step) {
    const { sentence } = this.place(word);
    const stops = this.#stopsOf(sentence);
    const near = stops[stops.indexOf(word) + step];
    if (near) return near;
    const all = this.#paragraphs.flatMap(({ sentences }) => sentences);
    const next = all[all.indexOf(sentence) + step];
    return next && this.#stopsOf(next).at(step > 0 ? 0 : -1);
  }

  /** Return the nearest word on the line above (-1) or below (1). */
  #above(word, step) {
    const from = word.getBoundingClientRect();
    const half = from.height / 2;
    let best = null;
    let nearest = Infinity;
    let line = null;
    for (let other = word; (other = this.#beside(other, step)); ) {
      const { top, left, right } = other.getBoundingClientRect();
      if (Math.abs(top - from.top) < half) continue;
      line ??= top;
      if (Math.abs(top - line) > half) break;
      const distance = Math.abs(left + right - from.left - from.right);
      if (distance < nearest) [best, nearest] = [other, distance];
    }
    return best;
  }

  #edge(place) {
    const all = this.#paragraphs.flatMap(({ sentences }) => sentences);
    const sentence = all.at(place);
    return sentence && this.#stopsOf(sentence).at(place);
  }

  /** Return the elements of a sentence that can have the focus: its words, and its mark. */
  #stopsOf(sentence) {
    if (!sentence.words) this.#createWords(sentence);
    return [...sentence.words, ...(sentence.mark ? [sentence.mark] : [])];
  }
}

function segmentsOf(result) {
  if (result?.paragraphs === undefined) return result?.segments ?? [];
  return result.paragraphs.flatMap(({ segments }) => segments);
}

function textOf(sentences) {
  return sentences.map(({ gap, text }) => gap + text).join("");
}
