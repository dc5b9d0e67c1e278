// How some sentences were translated at each validation: one slider for all, run beside run, and
// the words that stand in the reference too are marked.

import { matches } from "/common.js";
import { element, swatch } from "/drawing.js";

const PACE = 700; // ms between two validations that are played

const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** Cut a text into words, signs and spaces. */
function cut(text) {
  return Array.from(words.segment(text), ({ segment }) => segment);
}

/** Return a translation as text in which what the reference has too is marked. */
function marked(output, reference) {
  const isWord = (part) => part.trim() !== "";
  const parts = cut(output);
  const flags = matches(parts.filter(isWord), cut(reference).filter(isWord));
  const shown = paragraph("made", "");
  let open = null;
  let place = 0;
  for (let i = 0; i < parts.length; i += 1) {
    // A space belongs to the mark if the words on both of its sides do.
    const hit = isWord(parts[i]) ? flags[place] : open !== null && (flags[place] ?? false);
    if (isWord(parts[i])) place += 1;
    if (!hit) open = null;
    else if (open === null) {
      open = document.createElement("mark");
      shown.append(open);
    }
    (open ?? shown).append(parts[i]);
  }
  if (parts.length === 0) shown.append("(nothing)");
  return shown;
}

function paragraph(kind, text) {
  const made = document.createElement("p");
  made.className = kind;
  made.dir = "auto";
  made.textContent = text;
  return made;
}

export class Samples {
  #runs = [];
  #steps = [];
  #playing = null;

  constructor({ section, controls, slider, step, play, list, none }) {
    Object.assign(this, { section, controls, slider, step, play, list, none });
    slider.addEventListener("input", () => {
      this.#stop();
      this.#render();
    });
    play.addEventListener("click", () => (this.#playing === null ? this.#start() : this.#stop()));
  }

  /** Show what these runs have translated: {name, colour, index, note, samples}. */
  update(runs) {
    const atEnd = Number(this.slider.value) >= this.#steps.length - 1;
    const kept = this.#steps[Number(this.slider.value)];
    this.#runs = runs;
    this.#steps = [...new Set(runs.flatMap(({ samples }) => samples.step))].sort((a, b) => a - b);
    const last = Math.max(0, this.#steps.length - 1);
    this.slider.max = String(last);
    const before = this.#steps.findLastIndex((step) => step <= kept);
    this.slider.value = String(atEnd || kept === undefined ? last : Math.max(0, before));
    this.slider.disabled = this.play.disabled = last === 0;
    this.section.hidden = runs.length === 0;
    this.#render();
  }

  #start() {
    if (Number(this.slider.value) >= this.#steps.length - 1) this.slider.value = "0";
    this.play.textContent = "Pause";
    this.#playing = setInterval(() => {
      if (Number(this.slider.value) >= this.#steps.length - 1) this.#stop();
      else {
        this.slider.value = String(Number(this.slider.value) + 1);
        this.#render();
      }
    }, PACE);
    this.#render();
  }

  #stop() {
    clearInterval(this.#playing);
    this.#playing = null;
    this.play.textContent = "Play";
  }

  #render() {
    const at = this.#steps[Number(this.slider.value)];
    const said = at === undefined ? "" : `step ${at.toLocaleString("en")}`;
    this.step.textContent = said;
    this.slider.setAttribute("aria-valuetext", said);
    const silent = this.#runs.filter(({ samples }) => samples.step.length === 0);
    this.none.textContent = silent.map(({ note }) => note).join(" ");
    this.controls.hidden = this.#steps.length === 0;
    const speaking = this.#runs.filter(({ samples }) => samples.step.length > 0);
    const shown = sentences(speaking).map((one) => this.#sentence(one, speaking, at));
    this.list.replaceChildren(...shown);
  }

  #sentence({ source, reference }, runs, at) {
    const item = document.createElement("li");
    const given = document.createElement("div");
    given.append(paragraph("source", source), paragraph("reference", reference));
    item.append(given);
    for (const run of runs) {
      const { samples } = run;
      const same = (one, i) => one === source && samples.reference[i] === reference;
      const place = samples.source.findIndex(same);
      if (place < 0) continue;
      const cell = document.createElement("div");
      cell.className = "output";
      if (runs.length > 1) cell.append(this.#name(run));
      const when = samples.step.findLastIndex((step) => step <= at);
      if (when < 0) cell.append(paragraph("quiet", "not yet validated"));
      else cell.append(marked(samples.outputs[when][place] ?? "", reference));
      item.append(cell);
    }
    return item;
  }

  #name(run) {
    const name = paragraph("quiet", "");
    const mark = element("svg", { width: 22, height: 16, "aria-hidden": "true" });
    swatch(run, mark);
    name.append(mark, ` ${run.name}`);
    return name;
  }
}

/** Return the sentences of all runs, each once. */
function sentences(runs) {
  const found = new Map();
  for (const { samples } of runs) {
    samples.source.forEach((source, i) => {
      const reference = samples.reference[i];
      found.set(JSON.stringify([source, reference]), { source, reference });
    });
  }
  return [...found.values()];
}
