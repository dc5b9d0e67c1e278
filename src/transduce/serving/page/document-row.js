// One document in the list: its name, what happens to it, and what can be done with it.

import { remarkList } from "/doubts.js";
import { button, html } from "/elements.js";

const END = 12; // characters of a long file name that are always shown
const LONG = 2000; // ms after which the elapsed time is shown

export function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const [size, unit] = bytes < 2 ** 20 ? [bytes / 2 ** 10, "KiB"] : [bytes / 2 ** 20, "MiB"];
  return `${Number(size.toPrecision(size < 10 ? 2 : 3)).toLocaleString("en")} ${unit}`;
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return a file name that is cut in the middle where it does not fit. */
function fileName(name) {
  const file = html("span", { class: "file", title: name, dir: "auto" }, name);
  const letters = [...name];
  if (letters.length <= 2 * END) return file;
  const parts = [letters.slice(0, -END), letters.slice(-END)];
  const halves = parts.map((part) => html("span", { "aria-hidden": "true" }, part.join("")));
  file.replaceChildren(...halves, html("span", { class: "unseen" }, name));
  return file;
}

export class DocumentRow {
  #name = html("p");
  #state = html("div", { class: "state" });
  #actions = html("div", { class: "actions" });
  #remove;
  #clock = null;

  /** `about` is shown after the name; `onRemove` is called to remove the row. */
  constructor(file, about, onRemove) {
    this.file = file;
    this.#remove = this.#button("Remove", onRemove, { class: "plain" });
    this.#name.append(fileName(file.name), html("span", { class: "quiet" }, about));
    this.element = html("li", {}, this.#name, this.#state, this.#actions);
  }

  /** Ask for a value before the translation starts. */
  ask({ label, note, required }, onAnswer) {
    const field = html("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    field.required = required;
    const form = html("form", {},
      html("label", {}, label, field),
      html("button", { class: "primary" }, "Translate"),
      html("p", { class: "quiet" }, note));
    form.addEventListener("submit", (event) => {
      event.preventDefault(); // the policy forbids forms to be sent
      onAnswer(field.value.trim());
    });
    this.#show([form], [this.#remove]);
    field.focus();
  }

  wait(message, onCancel) {
    this.#show([html("p", { class: "quiet" }, message)], [this.#button("Cancel", onCancel)]);
  }

  /** Show how much was sent, then that it is translated. */
  progress(share, onCancel) {
    const name = { "aria-label": this.file.name };
    const bar = this.#state.querySelector("progress") ?? html("progress", name);
    const text = this.#state.querySelector("p") ?? html("p", { class: "quiet" });
    if (!bar.isConnected) this.#show([bar, text], [this.#button("Cancel", onCancel)]);
    if (share < 1) {
      bar.value = share;
      text.textContent = `Sending: ${Math.floor(100 * share)}%`;
    } else if (this.#clock === null) {
      bar.removeAttribute("value");
      text.textContent = "Translating …";
      const began = performance.now();
      this.#clock = setInterval(() => {
        const milliseconds = performance.now() - began;
        if (milliseconds < LONG) return;
        text.textContent = `Translating … ${Math.round(milliseconds / 1000)} s`;
      }, 1000);
    }
  }

  /** Show the translated document of an answer. */
  finish({ name, url, bytes, texts, remarks, not_translated: left }) {
    const link = html("a", { class: "download", href: url, download: name }, "Download ");
    link.append(fileName(name));
    const facts = [counted(texts, "text"), formatBytes(bytes), "kept for 30 minutes"];
    const parts = [html("p", { class: "quiet" }, facts.join(" · "))];
    if (left.length) parts.push(html("p", { class: "quiet" }, `Not translated: ${left.join(", ")}.`));
    if (remarks.length) {
      const summary = html("summary", {}, counted(remarks.length, "doubtful text"));
      parts.push(html("details", {}, summary, remarkList(remarks)));
    }
    this.#show([link, ...parts], [this.#remove]);
  }

  /** Show why there is no translation; `onRetry` is missing if another try cannot help. */
  stop(message, onRetry) {
    const again = onRetry ? [this.#button("Try again", onRetry)] : [];
    this.#show([html("p", { class: "error" }, message)], [...again, this.#remove]);
  }

  #button(text, onclick, attributes = {}) {
    return button(text, { ...attributes, "aria-label": `${text} ${this.file.name}` }, onclick);
  }

  /** Replace the content; the focus stays in the row. */
  #show(parts, actions) {
    clearInterval(this.#clock);
    this.#clock = null;
    const hadFocus = this.element.contains(document.activeElement);
    this.#state.replaceChildren(...parts);
    this.#actions.replaceChildren(...actions);
    if (hadFocus) (this.#state.querySelector("a") ?? this.#actions.firstChild).focus();
  }
}
