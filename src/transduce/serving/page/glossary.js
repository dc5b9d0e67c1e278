// The glossary: one of the service's, or the user's own terms; and the drawer to choose it. The
// choice and the terms are stored in this browser.

const OWN = "own"; // value of the option; those of the service's glossaries begin with NAMED
const NAMED = "name:";

const byId = (id) => document.getElementById(id);

/**
 * Read terms: a line is `source = target`, or has columns with tabs between them: source, target
 * and, if any, flags. Blank lines, comments and a header are skipped. Return {entries, wrong};
 * `wrong` has the numbers of the other lines.
 */
export function parseTerms(text) {
  const entries = [];
  const wrong = [];
  for (const [i, line] of text.split("\n").entries()) {
    const hasTabs = line.includes("\t");
    const columns = hasTabs ? line.split("\t") : line.split(/\s=\s|=/);
    const [source, target, flags = ""] = columns.map((column) => column.trim());
    const isHeader = i === 0 && /^source\ttarget\b/i.test(line);
    if (line.trim() === "" || line.startsWith("#") || isHeader) continue;
    if (!source || !target || columns.length > (hasTabs ? 3 : 2)) wrong.push(i + 1);
    else entries.push({ source, target, ...(flags && { flags: flags.split(/[,\s]+/) }) });
  }
  return { entries, wrong };
}

function counted(entries) {
  return entries.length === 1 ? "1 term" : `${entries.length.toLocaleString("en")} terms`;
}

export class GlossaryChoice {
  #settings;
  #changed;
  #model = null;
  #most = Infinity; // terms in a request
  #terms = { entries: [], wrong: [] };
  #select = byId("glossary");
  #field = byId("terms");

  /** `changed` is called after a choice and after an edit. */
  constructor(settings, changed) {
    this.#settings = settings;
    this.#changed = changed;
    const drawer = byId("glossaries");
    byId("open-glossaries").addEventListener("click", () => drawer.showModal());
    drawer.addEventListener("click", (event) => {
      if (event.target === drawer) drawer.close(); // a click outside the drawer
    });
    this.#select.addEventListener("change", () => {
      settings.set("glossary", this.#select.value || undefined);
      this.#show();
      if (this.#select.value === OWN) this.#field.focus();
      changed();
    });
    this.#field.addEventListener("input", () => this.#edit());
  }

  /** The `glossary` of requests: a name, a list of entries, or undefined. */
  get value() {
    const { value } = this.#select;
    if (value.startsWith(NAMED)) return value.slice(NAMED.length);
    return value === OWN && this.#terms.entries.length ? this.#terms.entries : undefined;
  }

  /** Offer the glossaries of a model, and the terms for its pair of languages. */
  use(model, limits) {
    this.#model = model;
    this.#most = limits.glossary;
    const options = [
      new Option("None", ""),
      ...model.glossaries.map((name) => new Option(name, NAMED + name)),
      new Option("Own terms", OWN),
    ];
    this.#select.replaceChildren(...options);
    const stored = this.#settings.get("glossary") ?? "";
    this.#select.value = options.some(({ value }) => value === stored) ? stored : "";
    this.#field.value = this.#settings.get("terms")?.[this.#pair] ?? "";
    byId("terms-pair").textContent = `${model.source_name} to ${model.target_name}`;
    this.#terms = parseTerms(this.#field.value);
    this.#show();
  }

  get #pair() {
    return `${this.#model.source}-${this.#model.target}`;
  }

  #edit() {
    const text = this.#field.value;
    const { [this.#pair]: _, ...others } = this.#settings.get("terms") ?? {};
    this.#settings.set("terms", text === "" ? others : { ...others, [this.#pair]: text });
    this.#terms = parseTerms(text);
    this.#show();
    this.#changed();
  }

  #show() {
    const { value, selectedOptions } = this.#select;
    const { entries, wrong } = this.#terms;
    byId("own-terms").hidden = value !== OWN;
    byId("terms-count").textContent = entries.length ? counted(entries) : "";
    byId("terms-problem").textContent =
      entries.length > this.#most
        ? `There are ${counted(entries)}, the limit is ${this.#most.toLocaleString("en")}.`
        : wrong.length
          ? `Line ${wrong[0].toLocaleString("en")} is not used: expected “term = translation”.`
          : "";
    const name = value === OWN ? counted(entries) : selectedOptions[0].textContent;
    byId("glossary-name").textContent = value === "" ? "" : `: ${name}`;
  }
}
