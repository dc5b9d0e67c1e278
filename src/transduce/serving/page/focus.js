// Inspection of visible sentences once their translation is stable, and the panel for the selected
// sentence: its candidates, the attention of its words, and every head.

import { Card } from "/card.js";
import { html } from "/elements.js";
import { Inspections } from "/inspections.js";
import { fetchWithKey } from "/key.js";
import { SentencePanel } from "/sentence.js";

const STABLE = 250; // ms without a change before a translation is inspected
const RETRY = 3000; // ms after a temporary error

const byId = (id) => document.getElementById(id);

async function loadExplorer() {
  document.head.append(html("link", { rel: "stylesheet", href: "/explorer.css" }));
  const { Explorer } = await import("/explorer.js");
  const options = { document: "/api/explorer.html", fetch: fetchWithKey };
  return { explorer: new Explorer(byId("explorer"), options), inspection: null, piece: null };
}

export class Focus {
  #inspections = new Inspections();
  #timer = null;
  #isInspecting = false;
  #word = null; // the element of the chosen word
  #explorer = null; // loaded when first opened

  /** `onCandidate` is called with a sentence and the rank of the chosen candidate. */
  constructor(view, settings, onCandidate) {
    this.view = view;
    this.settings = settings;
    this.card = new Card(byId("card"), view.element, {
      place: (word) => view.place(word),
      fetchInspection: (sentence) => this.#inspect(sentence),
    });
    this.panel = new SentencePanel(
      {
        echo: byId("echo"),
        note: byId("echo-note"),
        remarks: byId("remarks"),
        candidates: byId("candidates"),
      },
      (rank) => onCandidate(view.selected, rank),
    );
    const attention = byId("attention");
    attention.open = settings.get("explorer") ?? false;
    attention.addEventListener("toggle", () => {
      settings.set("explorer", attention.open);
      this.#showExplorer();
    });
  }

  /** Show the attention of a word; open the explorer unless the user has closed it. */
  chooseWord(word) {
    const { sentence } = this.view.place(word);
    this.#mark(word);
    this.view.select(sentence);
    if (this.settings.get("explorer") === undefined) byId("attention").open = true;
    this.show();
    if (sentence.inspection === null) this.#inspect(sentence);
  }

  chooseSentence(sentence) {
    this.view.select(sentence);
    this.show();
  }

  /** Show the selected sentence. */
  show() {
    const { selected } = this.view;
    byId("focus").hidden = selected === null;
    if (selected === null) return;
    if (!selected.words?.includes(this.#word)) this.#mark(null);
    this.panel.show(selected, this.#word && this.#currentWord());
    this.#showExplorer();
    if (selected.inspection === null) this.inspectSoon();
  }

  inspectSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#inspectVisible(), STABLE);
  }

  #mark(word) {
    this.#word?.classList.remove("chosen");
    this.#word = word;
    word?.classList.add("chosen");
  }

  #currentWord() {
    return { text: this.#word.textContent, pieces: this.view.place(this.#word).pieces };
  }

  /** Inspect visible sentences one by one, so that translation goes first. */
  async #inspectVisible() {
    if (this.#isInspecting) return;
    this.#isInspecting = true;
    try {
      for (let next; (next = this.#next()); ) await this.#inspect(next);
    } finally {
      this.#isInspecting = false;
    }
  }

  #next() {
    const { selected, uninspected } = this.view;
    if (selected?.inspection === null) return selected;
    return this.settings.shades ? uninspected[0] : undefined;
  }

  async #inspect(sentence) {
    const { model, segment, text } = sentence;
    const inspection = await this.#inspections.get(model, segment.source, text);
    this.view.shade(sentence, inspection);
    this.card.refresh(sentence);
    if (sentence === this.view.selected) this.show();
    if (inspection.temporary) setTimeout(() => this.#retry(sentence), RETRY);
  }

  #retry(sentence) {
    sentence.inspection = null;
    this.inspectSoon();
  }

  async #showExplorer() {
    if (!byId("attention").open || !this.view.selected?.inspection) return;
    this.#explorer ??= loadExplorer();
    const shown = await this.#explorer;
    const inspection = this.view.selected?.inspection; // it may have changed
    if (!inspection) return;
    byId("explorer").hidden = Boolean(inspection.problem);
    byId("unexplored").textContent = inspection.problem ?? "";
    if (inspection.problem) return;
    const piece = (this.#word && this.#currentWord().pieces?.[0]) ?? null;
    const isNew = shown.inspection !== inspection;
    if (isNew) shown.explorer.show(inspection);
    // Only after a change: the user may have chosen something in the explorer.
    if (isNew ? piece !== null : shown.piece !== piece) shown.explorer.highlight("target", piece);
    Object.assign(shown, { inspection, piece });
  }
}
