// Sample translations at each validation: one slider for all runs; words that are also in the
// reference are marked.

import { matches } from "/common.js";
import { swatchPicture } from "/drawing.js";
import { html } from "/elements.js";

const PACE = 700; // ms per validation while playing

const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** Split a text into words, punctuation and spaces. */
function splitWords(text) {
  return Array.from(words.segment(text), ({ segment }) => segment);
}

/** Return a translation in which words that are also in the reference are marked. */
function marked(output, reference) {
  const isWord = (part) => part.trim() !== "";
  const parts = splitWords(output);
  const flags = matches(parts.filter(isWord), splitWords(reference).filter(isWord));
  const shown = paragraph("made");
  let open = null;
  let place = 0;
  for (let i = 0; i < parts.length; i += 1) {
    // A space is marked if both neighbouring words are.
    const hit = isWord(parts[i]) ? flags[place] : open !== null && (flags[place] ?? false);
    if (isWord(parts[i])) place += 1;
    if (!hit) open = null;
    else if (open === null) {
      open = html("mark");
      shown.append(open);
    }
    (open ?? shown).append(parts[i]);
  }
  if (parts.length === 0) shown.append("(nothing)");
  return shown;
}

function paragraph(kind, ...contents) {
  return html("p", { class: kind, dir: "auto" }, ...contents);
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

  /** Show the samples of these runs: {name, colour, index, note, samples}. */
  update(runs) {
    const atEnd = Number(this.slider.value) >= this.#steps.length - 1;
    const current = this.#steps[Number(this.slider.value)];
    this.#runs = runs;
    this.#steps = [...new Set(runs.flatMap(({ samples }) => samples.step))].sort((a, b) => a - b);
    const last = Math.max(0, this.#steps.length - 1);
    this.slider.max = String(last);
    const before = this.#steps.findLastIndex((step) => step <= current);
    this.slider.value = String(atEnd || current === undefined ? last : Math.max(0, before));
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
    const label = at === undefined ? "" : `step ${at.toLocaleString("en")}`;
    this.step.textContent = label;
    this.slider.setAttribute("aria-valuetext", label);
    const runsWithoutSamples = this.#runs.filter(({ samples }) => samples.step.length === 0);
    this.none.textContent = runsWithoutSamples.map(({ note }) => note).join(" ");
    this.controls.hidden = this.#steps.length === 0;
    const runs = this.#runs.filter(({ samples }) => samples.step.length > 0);
    const shown = sentences(runs).map((sentence) => this.#sentence(sentence, runs, at));
    this.list.replaceChildren(...shown);
  }

  #sentence({ source, reference }, runs, at) {
    const given = [paragraph("source", source), paragraph("reference", reference)];
    const item = html("li", {}, html("div", {}, ...given));
    for (const run of runs) {
      const { samples } = run;
      const same = (text, i) => text === source && samples.reference[i] === reference;
      const place = samples.source.findIndex(same);
      if (place < 0) continue;
      const cell = html("div", { class: "output" });
      if (runs.length > 1) cell.append(paragraph("quiet", swatchPicture(run), ` ${run.name}`));
      const validation = samples.step.findLastIndex((step) => step <= at);
      if (validation < 0) cell.append(paragraph("quiet", "not yet validated"));
      else cell.append(marked(samples.outputs[validation][place] ?? "", reference));
      item.append(cell);
    }
    return item;
  }
}

/** Return the distinct sentences of all runs. */
function sentences(runs) {
  const distinct = new Map();
  for (const { samples } of runs) {
    samples.source.forEach((source, i) => {
      const reference = samples.reference[i];
      distinct.set(JSON.stringify([source, reference]), { source, reference });
    });
  }
  return [...distinct.values()];
}
