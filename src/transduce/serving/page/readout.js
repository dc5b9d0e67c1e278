// What a chart says of one place: a small table beside the hairline, a row for each run.

import { element, swatch } from "/drawing.js";

const GAP = 12; // between it and the hairline

export class Readout {
  /** `kinds` are the columns, and their titles. */
  constructor(kinds) {
    this.kinds = kinds;
    this.element = document.createElement("div");
    this.element.className = "readout";
    this.hide();
  }

  get hidden() {
    return this.element.hidden;
  }

  hide() {
    this.element.hidden = true;
  }

  /** Show what was read, {run, kind, value, where}, on the roomier side of a place. */
  show(title, readings, place, width) {
    this.element.replaceChildren(this.#table(title, readings));
    this.element.hidden = false;
    const own = this.element.offsetWidth;
    const beside = place > width / 2 ? place - own - GAP : place + GAP;
    this.element.style.left = `${Math.max(0, Math.min(width - own, beside))}px`;
  }

  #table(title, readings) {
    const table = document.createElement("table");
    table.createCaption().textContent = title;
    const there = new Set(readings.map(({ kind }) => kind));
    const kinds = Object.keys(this.kinds).filter((kind) => there.has(kind));
    const head = table.createTHead().insertRow();
    head.append(cell("td", ""), ...kinds.map((kind) => cell("th", this.kinds[kind])));
    const body = table.createTBody();
    for (const run of new Set(readings.map((one) => one.run))) {
      const own = readings.filter((one) => one.run === run);
      const values = kinds.map((kind) => valueCell(own.find((one) => one.kind === kind)));
      body.insertRow().append(nameCell(run), ...values);
    }
    return table;
  }
}

function nameCell(run) {
  const made = cell("th", "");
  const mark = element("svg", { width: 22, height: 16 });
  swatch(run, mark);
  made.append(mark, ` ${run.name}`);
  return made;
}

function valueCell(reading) {
  const made = cell("td", reading?.value ?? "");
  const where = document.createElement("small");
  where.textContent = reading?.where ?? "";
  made.append(where);
  return made;
}

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}
