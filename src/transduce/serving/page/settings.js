// Settings of the page, stored in this browser, and the dialog to change them. The theme is in
// theme.js.

const KEY = "translate";
const CANDIDATES = 4; // default
const GUARD = "flag"; // default

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // storage is disabled, or its content is invalid
  }
}

export class Settings {
  #values = stored();

  get(name) {
    return this.#values[name];
  }

  /** Store a value; undefined restores the default. */
  set(name, value) {
    this.#values[name] = value;
    try {
      localStorage.setItem(KEY, JSON.stringify(this.#values));
    } catch {
      // storage is disabled: the setting lasts for this page
    }
  }

  get shades() {
    return this.get("shades") ?? true;
  }

  get tags() {
    return this.get("tags") ?? false;
  }

  get guard() {
    return this.get("guard") ?? GUARD;
  }

  /** Return the fields of a request to translate a text. */
  request(model, limits) {
    const format = this.tags ? "html" : "text";
    return { ...this.search(model, limits), guard: this.guard, format };
  }

  /** Return the search settings for the API. */
  search(model, limits) {
    const beam = Math.min(this.get("beam") ?? model.search.beam, limits.beam);
    const alpha = this.get("alpha") ?? model.search.alpha;
    const nbest = Math.min(this.get("nbest") ?? CANDIDATES, beam, limits.nbest);
    return { beam, alpha, nbest };
  }
}

/** Set up the drawer; `current` returns model and limits, `changed` is called after changes. */
export function bindDrawer(dialog, settings, current, changed) {
  const form = dialog.querySelector("form");
  const { beam, alpha, nbest, guard, tags, shades, theme } = form.elements;
  const problem = dialog.querySelector("#settings-problem");

  const fill = () => {
    const { model, limits } = current();
    const search = settings.search(model, limits);
    beam.max = limits.beam;
    nbest.max = limits.nbest;
    beam.value = search.beam;
    alpha.value = search.alpha;
    nbest.value = settings.get("nbest") ?? CANDIDATES;
    guard.value = settings.guard;
    tags.checked = settings.tags;
    shades.checked = settings.shades;
    theme.value = chosenTheme() ?? "";
    problem.textContent = "";
  };

  form.addEventListener("input", (event) => {
    const field = event.target;
    if (field === theme) return chooseTheme(theme.value || null);
    if (field.type === "checkbox") settings.set(field.name, field.checked);
    else if (field === guard) settings.set("guard", guard.value);
    else if (field.validity.valid) settings.set(field.name, field.valueAsNumber);
    const wrong = [beam, alpha, nbest].find((input) => !input.validity.valid);
    const name = wrong?.parentElement.firstChild.textContent.trim();
    problem.textContent = wrong ? `${name}: ${wrong.validationMessage}` : "";
    if (field.validity.valid) changed();
  });
  dialog.querySelector("#reset").addEventListener("click", () => {
    for (const name of ["beam", "alpha", "nbest", "guard", "tags", "shades"]) settings.set(name, undefined);
    chooseTheme(null);
    fill();
    changed();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // a click outside the drawer
  });
  return () => {
    fill();
    dialog.showModal();
  };
}
