// Every attention head of one translation: a grid of small maps, and what is chosen of it large, as
// lines between words (the paper's Figures 3 to 5) or as a map.

import { KINDS, attentionOf, nameOf } from "./attention.js";
import { printed, series, themed } from "./colours.js";
import { button, choice, html, press } from "./elements.js";
import { Grid } from "./grid.js";
import { Lines } from "./lines.js";
import { HeatMap } from "./map.js";
import { chanceOf, markOf, readingOf } from "./reading.js";
import { saveHtml, savePng, saveSvg } from "./save.js";
import { Stage } from "./stage.js";
import { alike } from "./view.js";

const PICTURES = { lines: Lines, map: HeatMap };
const WIDTH = 640; // of a picture that is saved, or that has no place yet
const HINT = {
  true:
    "Shift-click or Space adds a head; a layer’s name shows all of its heads. " +
    "Point at a word for its lines alone, click to keep them.",
  false:
    "With this on, a tap adds a head; a layer’s name shows all of its heads. " +
    "Tap a word for its lines alone.",
};
const hovering = () => matchMedia("(hover: hover)").matches;

// The heads with one more, or without it where it is there already; one always stays.
function toggled(heads, head) {
  const rest = heads.filter((one) => !alike(one, head));
  if (rest.length === heads.length) return [...heads, head];
  return rest.length > 0 ? rest : heads;
}

export class Explorer {
  #state = { kind: "cross", picture: "lines", unit: "pieces", several: false };
  #chosen = {}; // for each kind, the heads that someone has chosen
  #grid = new Grid((heads, adds) => {
    this.#choose(heads, heads.length === 1 && (adds || this.#state.several));
  });
  #stage = new Stage((view, isolated) => this.#read(view, isolated));
  #parts;

  // `options.document` is where a page that holds all of this by itself can be had, and
  // `options.fetch` what fetches it, where that needs more than the browser's own.
  constructor(element, options = {}) {
    this.element = element;
    this.options = options;
    element.classList.add("explorer");
    this.#parts = this.#make();
    this.#lay(this.#parts);
    addEventListener("themechange", () => this.inspection && this.#grid.paint());
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width === width) return;
      width = entry.contentRect.width;
      if (this.inspection) this.#draw();
    }).observe(this.#stage.element);
  }

  #make() {
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
      says: html("p", { class: "says" }),
      legend: html("ul", { class: "legend", "aria-label": "Heads shown" }),
      readout: html("div", { class: "readout", "aria-live": "polite" }),
      saving: this.#saving(),
    };
  }

  #saving() {
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

  #lay({ kinds, says, several, readout, pictures, units, saving, legend }) {
    const scroller = html("div", { class: "scroller" }, this.#grid.element);
    const hint = html("p", { class: "hint" }, several, html("span", {}, HINT[hovering()]));
    const heads = html("section", { class: "heads", "aria-label": "Heads" }, scroller, hint);
    const tools = html("div", { class: "tools" }, pictures, units, saving);
    const picture = html("section", { class: "picture", "aria-label": "Picture" });
    picture.append(tools, legend, this.#stage.element);
    const side = html("div", { class: "side" }, heads, readout);
    this.element.replaceChildren(
      html("div", { class: "top" }, kinds, says),
      html("div", { class: "panes" }, side, picture),
    );
  }

  show(inspection) {
    this.inspection = inspection;
    this.attention = attentionOf(inspection);
    this.#set({ kind: this.#state.kind });
  }

  // Show one head; without `head` the mean of the layer, without `layer` that of all.
  select({ kind, layer, head }) {
    const name = layer ? (head ? { layer, head } : { layer }) : {};
    if (!this.attention?.[kind]?.has(name)) return;
    this.#chosen[kind] = [name];
    this.#set({ kind });
  }

  // Show what one piece has to do with the other side: of the "target" what it looks at in the
  // source, of the "source" what looks at it. An index of null shows all again.
  highlight(side, index) {
    if (!this.inspection) return;
    const { rows, columns } = this.attention.cross;
    const word = (side === "target" ? rows : columns).words[index];
    if (this.#state.kind !== "cross") this.#set({ kind: "cross" });
    const own = side === "target" ? "row" : "column";
    const place = this.#state.unit === "words" ? word : index;
    this.#stage.pin(word === undefined ? null : { side: own, index: place });
  }

  #set(changes) {
    Object.assign(this.#state, changes);
    const { kind, picture, unit, several } = this.#state;
    press(this.#parts.kinds, kind);
    press(this.#parts.pictures, picture);
    press(this.#parts.units, unit);
    this.#parts.several.setAttribute("aria-pressed", String(several));
    if (!this.inspection) return;
    this.#parts.says.textContent = KINDS[kind].says;
    if ("kind" in changes || "unit" in changes) {
      this.#stage.pinned = null;
      this.#grid.show(this.attention[kind], unit, KINDS[kind].title);
      this.#grid.mark(this.#shown);
    }
    this.#draw();
  }

  // The heads that are drawn large: those chosen that this model has, or else the mean of the last
  // layer, which tells best which words translate which.
  get #shown() {
    const { kind } = this.#state;
    const kept = (this.#chosen[kind] ?? []).filter((one) => this.attention[kind].has(one));
    return kept.length > 0 ? kept : [{ layer: this.attention[kind].layers }];
  }

  #choose(heads, adds) {
    this.#chosen[this.#state.kind] = adds ? toggled(this.#shown, heads[0]) : heads;
    this.#grid.mark(this.#shown);
    this.#draw();
  }

  #view() {
    const { kind, unit } = this.#state;
    const attention = this.attention[kind];
    const heads = this.#shown.map((name, place) => ({
      name: nameOf(name),
      colour: series(place),
      weights: attention.weights(name, unit),
    }));
    const [rows, columns] = [attention.rows.labels(unit), attention.columns.labels(unit)];
    return { ...KINDS[kind], heads, rows, columns };
  }

  #picture(options) {
    return new PICTURES[this.#state.picture](this.#view(), options);
  }

  #draw() {
    const width = this.#stage.element.clientWidth || WIDTH;
    const picture = this.#picture({ width, paint: themed, saved: false });
    this.#legend(picture.view);
    this.#stage.show(picture);
  }

  #legend({ heads }) {
    const { legend } = this.#parts;
    const chosen = this.#shown;
    const entries = heads.map(({ name, colour }, place) => {
      const entry = html("li", {}, markOf(colour), name);
      if (heads.length > 1) {
        const label = { class: "remove", "aria-label": `Remove ${name}`, title: `Remove ${name}` };
        const remove = () => {
          this.#choose([chosen[place]], true);
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

  // Tell in words what the picture shows of what is isolated.
  #read(view, isolated) {
    const told = isolated === null ? [] : readingOf(view, isolated);
    if (isolated?.side === "row" && view.writes) {
      told.push(chanceOf(this.inspection, this.#state.unit, isolated.index));
    }
    this.#parts.readout.replaceChildren(...told);
  }

  // Save the picture as it stands, in colours that need no style sheet, on white.
  #save(write, ending) {
    const picture = this.#picture({ width: WIDTH, paint: printed, saved: true });
    picture.isolate(this.#stage.pinned);
    const [first, ...rest] = this.#shown;
    const more = rest.length > 0 ? ` and ${rest.length} more` : "";
    const name = `${this.#name} ${this.#state.kind} ${nameOf(first)}${more}`;
    write(picture, `${name.replace(/[^\p{L}\p{N}.]+/gu, "-")}.${ending}`);
  }

  get #name() {
    return this.options.name ?? "attention";
  }

  async #saveHtml() {
    const { sentences: [source, target], model } = this.inspection;
    const asked = { source, target, model };
    try {
      const { document, fetch = window.fetch } = this.options;
      await saveHtml(document, asked, `${this.#name}.html`, fetch);
    } catch (error) {
      const message = `The page could not be saved: ${error.message}`;
      this.#parts.readout.replaceChildren(html("p", { class: "error", role: "alert" }, message));
    }
  }
}
