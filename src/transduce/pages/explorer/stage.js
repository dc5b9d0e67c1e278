// Where the large picture stands, and the word of it that is isolated: the one under the pointer,
// the one that has the focus, or the one that is pinned.

import { html } from "./elements.js";
import { alike, otherSide } from "./view.js";

export class Stage {
  pinned = null;
  #isolated = null;
  #picture;

  constructor(onisolate) {
    this.onisolate = onisolate;
    this.element = html("div", { class: "large" });
    const on = (type, listener) => this.element.addEventListener(type, listener);
    on("pointermove", (event) => {
      if (this.pinned === null && event.pointerType === "mouse") this.#isolate(this.#under(event));
    });
    on("pointerleave", () => this.#isolate(this.pinned));
    on("click", (event) => this.#toggle(this.#under(event)));
    on("focusin", (event) => {
      if (this.pinned === null) this.#isolate(this.#under(event));
    });
    on("focusout", () => this.#isolate(this.pinned));
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
    this.#isolated = null;
    this.onisolate(view, null);
    this.pin(this.pinned);
  }

  pin(isolated) {
    this.pinned = isolated;
    this.#isolate(isolated);
    for (const word of Object.values(this.#picture.words).flat()) {
      word.setAttribute("aria-pressed", String(alike(isolated, this.#place(word))));
    }
  }

  #toggle(isolated) {
    this.pin(alike(isolated, this.pinned) ? null : isolated);
  }

  #isolate(isolated) {
    if (alike(isolated, this.#isolated)) return;
    this.#isolated = isolated;
    this.#picture.isolate(isolated);
    this.onisolate(this.#picture.view, isolated);
  }

  #place(word) {
    return { side: word.dataset.side, index: Number(word.dataset.index) };
  }

  #under(event) {
    const word = event.target.closest(".word");
    if (word) return this.#place(word);
    if (!event.target.matches(".cells") || !("clientX" in event)) return null;
    const box = this.#picture.element.getBoundingClientRect();
    return this.#picture.at(event.clientX - box.left, event.clientY - box.top);
  }

  #key(event) {
    const word = event.target.closest(".word");
    if (event.key === "Escape") this.pin(null);
    if (!word) return;
    const place = this.#place(word);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#toggle(place);
      return;
    }
    const next = this.#neighbour(place, event.key);
    if (!next) return;
    event.preventDefault();
    for (const each of this.#picture.words[next.dataset.side]) each.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  // Two of the arrow keys go along the words of a side, the other two to the other side.
  #neighbour({ side, index }, key) {
    const { words, along } = this.#picture;
    const [own, others] = [words[side], words[otherSide(side)]];
    if (key === along[side][0]) return own[index - 1];
    if (key === along[side][1]) return own[index + 1];
    if (key === "Home") return own[0];
    if (key === "End") return own.at(-1);
    return key.startsWith("Arrow") ? others[Math.min(index, others.length - 1)] : null;
  }
}
