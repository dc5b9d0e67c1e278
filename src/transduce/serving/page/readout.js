// The readout of a chart: a small table beside the crosshair, with a row for each run.

import { element, swatch } from "/drawing.js";

const GAP = 12; // to the crosshair

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

  /** Show readings, {run, kind, value, where}, on the wider side of a position. */
  show(title, readings, place, width) {
    this.element.replaceChildren(this.#table(title, readings));
    this.element.hidden = false;
    const size = this.element.offsetWidth;
    const beside = place > width / 2 ? place - size - GAP : place + GAP;
    this.element.style.left = `${Math.max(0, Math.min(width - size, beside))}px`;
  }

  #table(title, readings) {
    const table = document.createElement("table");
    table.createCaption().textContent = title;
    const present = new Set(readings.map(({ kind }) => kind));
    const kinds = Object.keys(this.kinds).filter((kind) => present.has(kind));
    const head = table.createTHead().insertRow();
    head.append(cell("td", ""), ...kinds.map((kind) => cell("th", this.kinds[kind])));
    const body = table.createTBody();
    for (const run of new Set(readings.map((reading) => reading.run))) {
      const ofRun = readings.filter((reading) => reading.run === run);
      const values = kinds.map((kind) => valueCell(ofRun.find((reading) => reading.kind === kind)));
      body.insertRow().append(nameCell(run), ...values);
    }
    return table;
  }
}

function nameCell(run) {
  const box = cell("th", "");
  const mark = element("svg", { width: 22, height: 16 });
  swatch(run, mark);
  box.append(mark, ` ${run.name}`);
  return box;
}

function valueCell(reading) {
  const box = cell("td", reading?.value ?? "");
  const where = document.createElement("small");
  where.textContent = reading?.where ?? "";
  box.append(where);
  return box;
}

function cell(kind, text) {
  const box = document.createElement(kind);
  box.textContent = text;
  return box;
}
