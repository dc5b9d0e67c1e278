// The card for a word: its probability, and the alternatives at that step.

import { doubtList } from "/doubts.js";
import { html } from "/elements.js";
import { probability } from "/inspections.js";

const WAIT = 120; // ms of hovering before the card opens
const WORDS = ".word, .doubt"; // words, and marks of doubtful sentences
const LEAVE = 200; // ms to move the pointer from the word to the card

export function percent(chance) {
  if (chance > 0.995) return "over 99%";
  if (chance < 0.005) return "under 1%";
  return `${Math.round(chance * 100)}%`;
}

/** Return a bar; its length is between 0 and 1. */
export function bar(length) {
  const fill = html("span", { class: "fill" });
  fill.style.width = `${100 * length}%`; // style attributes are forbidden by the CSP
  return html("span", { class: "meter", "aria-hidden": "true" }, fill);
}

/** Format a piece: a dot precedes a piece that continues a word. */
function formatPiece(text, inspection, step) {
  const hasSpaces = inspection.target.some((piece) => piece.startsWith(" "));
  const goesOn = hasSpaces && step > 0 && !text.startsWith(" ") && text !== "</s>";
  return goesOn ? `·${text}` : text.trim() || "␣";
}

function alternatives(inspection, step, most) {
  const rows = inspection.alternatives[step].slice(0, most).map(([text, chance]) => {
    const kind = text === inspection.target[step] ? "written" : "";
    const piece = html("span", { class: "piece" }, formatPiece(text, inspection, step));
    const number = html("span", { class: "number" }, percent(chance));
    return html("li", { class: kind }, piece, bar(chance), number);
  });
  return html("ol", {}, ...rows);
}

const quiet = (text) => html("p", { class: "quiet" }, text);

function contents(word, { sentence, pieces }) {
  const { inspection, doubts } = sentence;
  if (word.matches(".doubt")) {
    return [html("p", {}, html("strong", {}, "Doubtful translation")), doubtList(doubts)];
  }
  if (inspection === null) return [quiet("Loading …")];
  if (inspection.problem) return [quiet(inspection.problem)];
  if (!pieces) return [quiet("This is part of a piece with its neighbours.")];
  const likely = ` ${percent(probability(inspection, pieces))} likely`;
  const title = html("p", { class: "title" }, html("strong", {}, word.textContent), likely);
  const about =
    pieces.length === 1
      ? "Alternatives at this step:"
      : `${pieces.length} pieces; alternatives at each step:`;
  const most = pieces.length === 1 ? 5 : pieces.length < 4 ? 3 : 2; // keep the card small
  const lists = pieces.map((step) => alternatives(inspection, step, most));
  const steps = html("div", { class: "steps" }, ...lists);
  const notes = steps.textContent.includes("·") ? [quiet("“·” continues a word.")] : [];
  return [title, quiet(about), steps, ...notes];
}

export class Card {
  #word = null;
  #timer = null;

  /** `place` returns the sentence and pieces of a word; `fetchInspection` fetches a missing one. */
  constructor(element, words, { place, fetchInspection }) {
    this.element = element;
    this.words = words;
    this.place = place;
    this.fetchInspection = fetchInspection;
    words.addEventListener("pointerover", (event) => {
      const word = event.target.closest(WORDS);
      if (word && event.pointerType === "mouse") this.#later(() => this.show(word), WAIT);
    });
    words.addEventListener("pointerout", () => this.#later(() => this.hide(), LEAVE));
    element.addEventListener("pointerover", () => clearTimeout(this.#timer));
    element.addEventListener("pointerout", () => this.#later(() => this.hide(), LEAVE));
    words.addEventListener("focusin", (event) => {
      if (event.target.matches(WORDS)) this.show(event.target);
    });
    words.addEventListener("focusout", () => this.hide());
    const follow = ({ target }) => {
      if (this.#word && target !== element) this.#place(this.#word);
    };
    addEventListener("scroll", follow, { capture: true, passive: true });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.hide();
    });
  }

  show(word) {
    clearTimeout(this.#timer);
    const place = this.place(word);
    if (!word.isConnected || !place) return;
    this.hide();
    this.#word = word;
    this.element.replaceChildren(...contents(word, place));
    word.setAttribute("aria-describedby", this.element.id);
    this.element.showPopover();
    this.#place(word);
    if (word.matches(".word") && place.sentence.inspection === null) this.fetchInspection(place.sentence);
  }

  /** Redraw the card after the inspection of its sentence. */
  refresh(sentence) {
    if (this.#word && this.place(this.#word)?.sentence === sentence) this.show(this.#word);
  }

  hide() {
    clearTimeout(this.#timer);
    if (this.#word === null) return;
    this.#word.removeAttribute("aria-describedby");
    this.#word = null;
    this.element.hidePopover();
  }

  #later(work, delay) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(work, delay);
  }

  /** Place the card below the word, or above if there is more space; hide it if scrolled away. */
  #place(word) {
    const { left, top, bottom } = word.getClientRects()[0];
    const frame = this.words.getBoundingClientRect();
    if (bottom < frame.top || top > frame.bottom) return this.hide();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const { clientWidth, clientHeight } = document.documentElement;
    const isBelow = bottom + height + 8 < clientHeight || bottom + top < clientHeight;
    this.element.style.left = `${Math.max(8, Math.min(left, clientWidth - width - 8))}px`;
    this.element.style.top = `${isBelow ? bottom + 6 : Math.max(8, top - height - 6)}px`;
  }
}
