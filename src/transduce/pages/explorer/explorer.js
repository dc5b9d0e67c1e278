// The attention explorer: every head of one translation in a grid of small maps, and the chosen
// heads in a large picture of lines between words (the paper's Figures 3 to 5) or a map.

import { KINDS, attentionOf, headLabel } from "./attention.js";
import { fixed, seriesColour, themed } from "./colours.js";
import { colourMark, describeProbability, describeSelection } from "./description.js";
import { button, choice, html, press } from "./elements.js";
import { Grid } from "./grid.js";
import { Lines } from "./lines.js";
import { HeatMap } from "./map.js";
import { Pane } from "./pane.js";
import { saveHtml, savePng, saveSvg } from "./save.js";
import { sameValue } from "./selection.js";

const PICTURES = { lines: Lines, map: HeatMap };
const WIDTH = 640; // of a saved picture, or while the pane has no width
const HINT = {
  true:
    "Shift-click or Space adds a head; a layer’s name shows all of its heads. " +
    "Point at a word for its lines alone, click to keep them.",
  false:
    "With this on, a tap adds a head; a layer’s name shows all of its heads. " +
    "Tap a word for its lines alone.",
};
const canHover = () => matchMedia("(hover: hover)").matches;

// Add a head, or remove it if it is present; the last one is not removed.
function toggle(heads, head) {
  const rest = heads.filter((each) => !sameValue(each, head));
  if (rest.length === heads.length) return [...heads, head];
  return rest.length > 0 ? rest : heads;
}

export class Explorer {
  #state = { kind: "cross", picture: "lines", unit: "pieces", several: false };
  #chosen = {}; // the chosen heads of each kind
  #grid = new Grid((heads, adds) => {
    this.#choose(heads, heads.length === 1 && (adds || this.#state.several));
  });
  #pane = new Pane((view, selection) => this.#describe(view, selection));
  #parts;

  // Options: `document`, the URL that returns the explorer as one page; `fetch`, used for it
  // instead of window.fetch; `name`, for the names of saved files.
  constructor(element, options = {}) {
    this.element = element;
    this.options = options;
    element.classList.add("explorer");
    this.#parts = this.#makeParts();
    this.#layOut(this.#parts);
    addEventListener("themechange", () => this.inspection && this.#grid.paint());
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width === width) return;
      width = entry.contentRect.width;
      if (this.inspection) this.#draw();
    }).observe(this.#pane.element);
  }

  #makeParts() {
    const set = (name) => (value) => this.#set({ [name]: value });
    const kinds = Object.entries(KINDS).map(([kind, { short }]) => [kind, short]);
    const title = "Choose several heads, each in its colour";
    const several = button("Several", { class: "several", "aria-pressed": "false", title }, () =>
      this.#set({ several: !this.#state.several }),
    );
    return {
      kinds: choice("Attention", Object.fromEntries(kinds), set("kind")),
      pictures: choice("Picture", { lines: "Lines", map: "Map" }, set("picture")),
      units: choice("Unit", { pieces: "Pieces", words: "Words" }, set("unit")),
      several,
      description: html("p", { class: "says" }),
      legend: html("ul", { class: "legend", "aria-label": "Heads shown" }),
      readout: html("div", { class: "readout", "aria-live": "polite" }),
      saving: this.#makeSaving(),
    };
  }

  #makeSaving() {
    const title = (what) => ({ title: `Save ${what}` });
    const buttons = [
      button("SVG", title("the picture as SVG"), () => this.#save(saveSvg, "svg")),
      button("PNG", title("the picture as PNG"), () => this.#save(savePng, "png")),
    ];
    if (this.options.document) {
      const page = title("a page that shows every head, to open anywhere");
      buttons.push(button("HTML", page, () => this.#saveHtml()));
    }
    const group = { class: "saving", role: "group", "aria-label": "Save the picture" };
    return html("div", group, ...buttons);
  }

  #layOut({ kinds, description, several, readout, pictures, units, saving, legend }) {
    const scroller = html("div", { class: "scroller" }, this.#grid.element);
    const hint = html("p", { class: "hint" }, several, html("span", {}, HINT[canHover()]));
    const heads = html("section", { class: "heads", "aria-label": "Heads" }, scroller, hint);
    const tools = html("div", { class: "tools" }, pictures, units, saving);
    const picture = html("section", { class: "picture", "aria-label": "Picture" });
    picture.append(tools, legend, this.#pane.element);
    const side = html("div", { class: "side" }, heads, readout);
    this.element.replaceChildren(
      html("div", { class: "top" }, kinds, description),
      html("div", { class: "panes" }, side, picture),
    );
  }

  show(inspection) {
    this.inspection = inspection;
    this.attention = attentionOf(inspection);
    this.#set({ kind: this.#state.kind });
  }

  // Show one head; without `head` the mean of the layer, without `layer` the mean of all.
  select({ kind, layer, head }) {
    const chosen = layer ? (head ? { layer, head } : { layer }) : {};
    if (!this.attention?.[kind]?.has(chosen)) return;
    this.#chosen[kind] = [chosen];
    this.#set({ kind });
  }

  // Select one piece: on the "target" side, to show what it attends to in the source; on the
  // "source" side, to show what attends to it. An index of null clears the selection.
  highlight(side, index) {
    if (!this.inspection) return;
    const { rows, columns } = this.attention.cross;
    const word = (side === "target" ? rows : columns).words[index];
    if (this.#state.kind !== "cross") this.#set({ kind: "cross" });
    const pictureSide = side === "target" ? "row" : "column";
    const position = this.#state.unit === "words" ? word : index;
    this.#pane.pin(word === undefined ? null : { side: pictureSide, index: position });
  }

  #set(changes) {
    Object.assign(this.#state, changes);
    const { kind, picture, unit, several } = this.#state;
    press(this.#parts.kinds, kind);
    press(this.#parts.pictures, picture);
    press(this.#parts.units, unit);
    this.#parts.several.setAttribute("aria-pressed", String(several));
    if (!this.inspection) return;
    this.#parts.description.textContent = KINDS[kind].description;
    if ("kind" in changes || "unit" in changes) {
      this.#pane.pinned = null;
      this.#grid.show(this.attention[kind], unit, KINDS[kind].title);
      this.#grid.markChosen(this.#shown);
    }
    this.#draw();
  }

  // The heads in the large picture: the chosen ones that this model has, or the mean of the last
  // layer, which aligns words best.
  get #shown() {
    const { kind } = this.#state;
    const kept = (this.#chosen[kind] ?? []).filter((head) => this.attention[kind].has(head));
    return kept.length > 0 ? kept : [{ layer: this.attention[kind].layers }];
  }

  #choose(heads, adds) {
    this.#chosen[this.#state.kind] = adds ? toggle(this.#shown, heads[0]) : heads;
    this.#grid.markChosen(this.#shown);
    this.#draw();
  }

  #view() {
    const { kind, unit } = this.#state;
    const attention = this.attention[kind];
    const heads = this.#shown.map((head, index) => ({
      name: headLabel(head),
      colour: seriesColour(index),
      weights: attention.weights(head, unit),
    }));
    const [rows, columns] = [attention.rows.labels(unit), attention.columns.labels(unit)];
    return { ...KINDS[kind], heads, rows, columns };
  }

  #makePicture(options) {
    return new PICTURES[this.#state.picture](this.#view(), options);
  }

  #draw() {
    const width = this.#pane.element.clientWidth || WIDTH;
    const picture = this.#makePicture({ width, paint: themed, saved: false });
    this.#showLegend(picture.view);
    this.#pane.show(picture);
  }

  #showLegend({ heads }) {
    const { legend } = this.#parts;
    const chosen = this.#shown;
    const entries = heads.map(({ name, colour }, index) => {
      const entry = html("li", {}, colourMark(colour), name);
      if (heads.length > 1) {
        const label = { class: "remove", "aria-label": `Remove ${name}`, title: `Remove ${name}` };
        const remove = () => {
          this.#choose([chosen[index]], true);
          legend.querySelector("button")?.focus();
        };
        entry.append(button("×", label, remove));
      }
      return entry;
    });
    if (heads.length > 1 && this.#state.picture === "map") {
      entries.unshift(html("li", {}, "The mean of"));
    }
    legend.replaceChildren(...entries);
  }

  // Describe the selected word below the grid.
  #describe(view, selection) {
    const lines = selection === null ? [] : describeSelection(view, selection);
    if (selection?.side === "row" && view.writes) {
      lines.push(describeProbability(this.inspection, this.#state.unit, selection.index));
    }
    this.#parts.readout.replaceChildren(...lines);
  }

  // Save the picture in the fixed colours, on white.
  #save(write, ending) {
    const picture = this.#makePicture({ width: WIDTH, paint: fixed, saved: true });
    picture.select(this.#pane.pinned);
    const [first, ...rest] = this.#shown;
    const more = rest.length > 0 ? ` and ${rest.length} more` : "";
    const name = `${this.#name} ${this.#state.kind} ${headLabel(first)}${more}`;
    write(picture, `${name.replace(/[^\p{L}\p{N}.]+/gu, "-")}.${ending}`);
  }

  get #name() {
    return this.options.name ?? "attention";
  }

  async #saveHtml() {
    const { sentences: [source, target], model } = this.inspection;
    const request = { source, target, model };
    try {
      const { document, fetch = window.fetch } = this.options;
      await saveHtml(document, request, `${this.#name}.html`, fetch);
    } catch (error) {
      const message = `The page could not be saved: ${error.message}`;
      this.#parts.readout.replaceChildren(html("p", { class: "error", role: "alert" }, message));
    }
  }
}
