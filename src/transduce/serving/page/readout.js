// The readout of a chart: a small table next to the crosshair, with a row for each run.

import { swatchPicture } from "/drawing.js";
import { html } from "/elements.js";

const GAP = 12; // to the crosshair

export class Readout {
  /** `kinds` maps the columns to their titles. */
  constructor(kinds) {
    this.kinds = kinds;
    this.element = html("div", { class: "readout", hidden: "" });
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
    const table = html("table", {}, html("caption", {}, title));
    const present = new Set(readings.map(({ kind }) => kind));
    const kinds = Object.keys(this.kinds).filter((kind) => present.has(kind));
    const head = table.createTHead().insertRow();
    head.append(html("td"), ...kinds.map((kind) => html("th", {}, this.kinds[kind])));
    const body = table.createTBody();
    for (const run of new Set(readings.map((reading) => reading.run))) {
      const ofRun = readings.filter((reading) => reading.run === run);
      const values = kinds.map((kind) => valueCell(ofRun.find((reading) => reading.kind === kind)));
      const name = html("th", {}, swatchPicture(run), ` ${run.name}`);
      body.insertRow().append(name, ...values);
    }
    return table;
  }
}

function valueCell(reading) {
  return html("td", {}, reading?.value ?? "", html("small", {}, reading?.where ?? ""));
}
