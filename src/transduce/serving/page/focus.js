// Looking inside: sentences in view are inspected once their translation stands still, and the one
// that the reader is at is shown with its candidates, its words' attention, and every head.

import { Card } from "/card.js";
import { Inspections } from "/inspections.js";
import { fetchWithKey } from "/key.js";
import { SentencePanel } from "/sentence.js";

const STILL = 250; // ms that a translation stands before it is looked into
const AGAIN = 3000; // ms after which what was refused, but not for good, is asked for again

const byId = (id) => document.getElementById(id);

async function loadExplorer() {
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = "/explorer.css";
  document.head.append(style);
  const { Explorer } = await import("/explorer.js");
  const options = { document: "/api/explorer.html", fetch: fetchWithKey };
  return { explorer: new Explorer(byId("explorer"), options), inspection: null, piece: null };
}

export class Focus {
  #inspections = new Inspections();
  #timer = null;
  #isLooking = false;
  #word = null; // the chosen one's element
  #explorer = null; // once it was asked for

  /** `onCandidate` hears of a sentence which candidate the reader takes. */
  constructor(view, settings, onCandidate) {
    this.view = view;
    this.settings = settings;
    this.card = new Card(byId("card"), view.element, {
      place: (word) => view.place(word),
      want: (sentence) => this.#look(sentence),
    });
    this.panel = new SentencePanel(
      { echo: byId("echo"), note: byId("echo-note"), candidates: byId("candidates") },
      (rank) => onCandidate(view.selected, rank),
    );
    const attention = byId("attention");
    attention.open = settings.get("explorer") ?? false;
    attention.addEventListener("toggle", () => {
      settings.set("explorer", attention.open);
      this.#explore();
    });
  }

  /** Look at a word: what it attended to; its heads open unless the reader has closed them. */
  chooseWord(word) {
    const { sentence } = this.view.place(word);
    this.#mark(word);
    this.view.select(sentence);
    if (this.settings.get("explorer") === undefined) byId("attention").open = true;
    this.show();
    if (sentence.inspection === null) this.#look(sentence);
  }

  /** Show the selected sentence as it is now. */
  show() {
    const { selected } = this.view;
    byId("focus").hidden = selected === null;
    if (selected === null) return;
    if (!selected.words?.includes(this.#word)) this.#mark(null);
    this.panel.show(selected, this.#word && this.#wordNow());
    this.#explore();
    if (selected.inspection === null) this.lookSoon();
  }

  lookSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lookAround(), STILL);
  }

  #mark(word) {
    this.#word?.classList.remove("chosen");
    this.#word = word;
    word?.classList.add("chosen");
  }

  #wordNow() {
    return { text: this.#word.textContent, pieces: this.view.place(this.#word).pieces };
  }

  /** Inspect what is in view, one sentence after the other, so that translating goes first. */
  async #lookAround() {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      for (let next; (next = this.#next()); ) await this.#look(next);
    } finally {
      this.#isLooking = false;
    }
  }

  #next() {
    const { selected, unseen } = this.view;
    if (selected?.inspection === null) return selected;
    return this.settings.shades ? unseen[0] : undefined;
  }

  async #look(sentence) {
    const { model, segment, text } = sentence;
    const inspection = await this.#inspections.get(model, segment.source, text);
    this.view.shade(sentence, inspection);
    this.card.refresh(sentence);
    if (sentence === this.view.selected) this.show();
    if (inspection.passes) setTimeout(() => this.#again(sentence), AGAIN);
  }

  #again(sentence) {
    sentence.inspection = null;
    this.lookSoon();
  }

  async #explore() {
    if (!byId("attention").open || !this.view.selected?.inspection) return;
    this.#explorer ??= loadExplorer();
    const shown = await this.#explorer;
    const inspection = this.view.selected?.inspection; // which may be another by now
    if (!inspection) return;
    byId("explorer").hidden = Boolean(inspection.problem);
    byId("unexplored").textContent = inspection.problem ?? "";
    if (inspection.problem) return;
    const piece = (this.#word && this.#wordNow().pieces?.[0]) ?? null;
    const isNew = shown.inspection !== inspection;
    if (isNew) shown.explorer.show(inspection);
    // Not again and again: the reader may have chosen something there.
    if (isNew ? piece !== null : shown.piece !== piece) shown.explorer.highlight("target", piece);
    Object.assign(shown, { inspection, piece });
  }
}
