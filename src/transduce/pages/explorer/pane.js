// The pane of the large picture, and the selected word in it: the one under the pointer, the one
// with the focus, or the pinned one.

import { html } from "./elements.js";
import { otherSide, sameValue } from "./selection.js";

export class Pane {
  pinned = null;
  #selected = null;
  #picture;

  constructor(onselect) {
    this.onselect = onselect;
    this.element = html("div", { class: "large" });
    const on = (type, listener) => this.element.addEventListener(type, listener);
    on("pointermove", (event) => {
      if (this.pinned === null && event.pointerType === "mouse") this.#select(this.#under(event));
    });
    on("pointerleave", () => this.#select(this.pinned));
    on("click", (event) => this.#togglePin(this.#under(event)));
    on("focusin", (event) => {
      if (this.pinned === null) this.#select(this.#under(event));
    });
    on("focusout", () => this.#select(this.pinned));
    on("keydown", (event) => this.#key(event));
  }

  show(picture) {
    const { element, words, view } = picture;
    const heads = view.heads.map(({ name }) => name).join("; ");
    element.setAttribute("role", "group");
    element.setAttribute("aria-label", `${view.title}, ${heads}`);
    words.row[0].setAttribute("tabindex", 0);
    words.column[0].setAttribute("tabindex", 0);
    this.#picture = picture;
    this.element.replaceChildren(element);
    this.#selected = null;
    this.onselect(view, null);
    this.pin(this.pinned);
  }

  pin(selection) {
    this.pinned = selection;
    this.#select(selection);
    for (const word of Object.values(this.#picture.words).flat()) {
      word.setAttribute("aria-pressed", String(sameValue(selection, this.#selectionOf(word))));
    }
  }

  #togglePin(selection) {
    this.pin(sameValue(selection, this.pinned) ? null : selection);
  }

  #select(selection) {
    if (sameValue(selection, this.#selected)) return;
    this.#selected = selection;
    this.#picture.select(selection);
    this.onselect(this.#picture.view, selection);
  }

  #selectionOf(word) {
    return { side: word.dataset.side, index: Number(word.dataset.index) };
  }

  #under(event) {
    const word = event.target.closest(".word");
    if (word) return this.#selectionOf(word);
    if (!event.target.matches(".cells") || !("clientX" in event)) return null;
    const box = this.#picture.element.getBoundingClientRect();
    return this.#picture.cellAt(event.clientX - box.left, event.clientY - box.top);
  }

  #key(event) {
    const word = event.target.closest(".word");
    if (event.key === "Escape") this.pin(null);
    if (!word) return;
    const selection = this.#selectionOf(word);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#togglePin(selection);
      return;
    }
    const next = this.#neighbour(selection, event.key);
    if (!next) return;
    event.preventDefault();
    for (const each of this.#picture.words[next.dataset.side]) each.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  // Two arrow keys move along the words on one side, the other two move to the other side.
  #neighbour({ side, index }, key) {
    const { words, arrowKeys } = this.#picture;
    const [same, others] = [words[side], words[otherSide(side)]];
    if (key === arrowKeys[side][0]) return same[index - 1];
    if (key === arrowKeys[side][1]) return same[index + 1];
    if (key === "Home") return same[0];
    if (key === "End") return same.at(-1);
    return key.startsWith("Arrow") ? others[Math.min(index, others.length - 1)] : null;
  }
}
