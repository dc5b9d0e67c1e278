// How some sentences were translated at each validation: one slider for all, run beside run, and
// the words that stand in the reference too are marked.

import { element, swatch } from "/chart.js";

const PACE = 700; // ms between two validations that are played

const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** Cut a text into words, signs and spaces. */
function cut(text) {
  return Array.from(words.segment(text), ({ segment }) => segment);
}

/** Return which parts of one text stand in another in the same order, as many as can. */
export function matches(parts, others) {
  const lengths = Array.from({ length: parts.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = parts.length - 1; i >= 0; i -= 1) {
    for (let j = others.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = parts[i] === others[j]
        ? lengths[i + 1][j + 1] + 1
        : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = parts.map(() => false);
  for (let i = 0, j = 0; i < parts.length && j < others.length;) {
    if (parts[i] === others[j]) {
      found[i] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/** Return a translation as text in which what the reference has too is marked. */
function marked(output, reference) {
  const isWord = (part) => part.trim() !== "";
  const parts = cut(output);
  const flags = matches(parts.filter(isWord), cut(reference).filter(isWord));
  const paragraph = document.createElement("p");
  let open = null;
  let place = 0;
  for (let i = 0; i < parts.length; i += 1) {
    // A space belongs to the mark if the words on both of its sides do.
    const hit = isWord(parts[i]) ? flags[place] : open !== null && (flags[place] ?? false);
    if (isWord(parts[i])) place += 1;
    if (!hit) open = null;
    else if (open === null) {
      open = document.createElement("mark");
      paragraph.append(open);
    }
    (open ?? paragraph).append(parts[i]);
  }
  if (parts.length === 0) paragraph.append("(nothing)");
  return paragraph;
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
    this.list.replaceChildren(...sentences(speaking).map((one) => this.#sentence(one, speaking, at)));
  }

  #sentence({ source, reference }, runs, at) {
    const item = document.createElement("li");
    const given = document.createElement("div");
    given.append(paragraph("source", source), paragraph("reference", reference));
    item.append(given);
    for (const run of runs) {
      const { samples } = run;
      const place = samples.source.findIndex((one, i) => one === source && samples.reference[i] === reference);
      const when = samples.step.findLastIndex((step) => step <= at);
      if (place < 0) continue;
      const cell = document.createElement("div");
      cell.className = "output";
      if (runs.length > 1) cell.append(this.#name(run));
      const output = when < 0 ? null : samples.outputs[when][place];
      cell.append(output === null ? paragraph("quiet", "not yet validated") : marked(output, reference));
      cell.lastChild.dir = "auto";
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
