// What the reader has set, kept by this browser; and the drawer to set it in.

const KEY = "translate";
const CANDIDATES = 4; // that are asked for, unless the reader says otherwise

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {}; // nothing is kept, or nothing that can be read
  }
}

function store(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // the reader keeps nothing: this page has it all the same
  }
}

export class Settings {
  #kept = stored();

  get(name) {
    return this.#kept[name];
  }

  /** Keep a value; undefined: forget it, so that the default holds. */
  set(name, value) {
    this.#kept[name] = value;
    store(KEY, JSON.stringify(this.#kept));
  }

  get shades() {
    return this.get("shades") ?? true;
  }

  /** Return the settings of the search, as the API takes them. */
  search(model, limits) {
    const beam = Math.min(this.get("beam") ?? model.search.beam, limits.beam);
    const alpha = this.get("alpha") ?? model.search.alpha;
    const nbest = Math.min(this.get("nbest") ?? CANDIDATES, beam, limits.nbest);
    return { beam, alpha, nbest };
  }
}

function chosenTheme() {
  try {
    return localStorage.getItem("theme") ?? "";
  } catch {
    return document.documentElement.dataset.theme;
  }
}

function setTheme(name) {
  store("theme", name || null);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = name || (dark ? "dark" : "light");
  dispatchEvent(new Event("themechange"));
}

/** Make the drawer work; `current` tells the model and the limits, `changed` hears of changes. */
export function bindDrawer(dialog, settings, current, changed) {
  const form = dialog.querySelector("form");
  const { beam, alpha, nbest, shades, theme } = form.elements;
  const problem = dialog.querySelector("#settings-problem");

  const fill = () => {
    const { model, limits } = current();
    const search = settings.search(model, limits);
    beam.max = limits.beam;
    nbest.max = limits.nbest;
    beam.value = search.beam;
    alpha.value = search.alpha;
    nbest.value = settings.get("nbest") ?? CANDIDATES;
    shades.checked = settings.shades;
    theme.value = chosenTheme();
    problem.textContent = "";
  };

  form.addEventListener("input", (event) => {
    const field = event.target;
    if (field === theme) return setTheme(theme.value);
    if (field === shades) settings.set("shades", shades.checked);
    else if (field.validity.valid) settings.set(field.name, field.valueAsNumber);
    const wrong = [beam, alpha, nbest].find((one) => !one.validity.valid);
    const name = wrong?.parentElement.firstChild.textContent.trim();
    problem.textContent = wrong ? `${name}: ${wrong.validationMessage}` : "";
    if (field.validity.valid) changed();
  });
  dialog.querySelector("#reset").addEventListener("click", () => {
    for (const name of ["beam", "alpha", "nbest", "shades"]) settings.set(name, undefined);
    setTheme("");
    fill();
    changed();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the ground beside the drawer
  });
  return () => {
    fill();
    dialog.showModal();
  };
}
