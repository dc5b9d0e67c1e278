// The API key: asked for once, and stored for this tab only.

const NAME = "key";
const UNAUTHORIZED = 401;

let asking = null; // the promise of the typed key, while the dialog is open
let declined = false; // the user has no key

function storedKey() {
  try {
    return sessionStorage.getItem(NAME) ?? memory;
  } catch {
    return memory;
  }
}

let memory = null; // if storage is disabled

function storeKey(key) {
  memory = key;
  try {
    sessionStorage.setItem(NAME, key);
  } catch {
    // storage is disabled: `memory` has it
  }
}

function create(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Ask for the key; resolves to null if the user has none. */
function ask(isWrong) {
  const field = create("input", {
    type: "password",
    name: "key",
    required: true,
    autocomplete: "off",
    spellcheck: false,
  });
  const problem = create("p", { className: "error", role: "alert" });
  if (isWrong) problem.textContent = "The service does not know this key.";
  const close = create("button", { type: "button", className: "plain" }, "Not now");
  const form = create("form", { method: "dialog" },
    create("h2", { id: "key-title" }, "This service needs a key"),
    create("label", {}, "Key ", field),
    problem,
    create("p", { className: "quiet" }, "This tab keeps it until it is closed."),
    create("div", { className: "foot" }, close, create("button", { className: "primary" }, "Go on")));
  const dialog = create("dialog", { id: "key" }, form);
  dialog.setAttribute("aria-labelledby", "key-title");
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  return new Promise((resolve) => {
    form.addEventListener("submit", () => resolve(field.value.trim() || null));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(null);
    });
    dialog.showModal();
    field.focus();
  });
}

function send(path, options, key) {
  if (key === null) return fetch(path, options);
  return fetch(path, {
    ...options,
    headers: { ...options?.headers, Authorization: `Bearer ${key}` },
  });
}

/** Fetch with the key; if one is needed, ask once for all waiting requests. */
export async function fetchWithKey(path, options) {
  let key = storedKey();
  for (;;) {
    const response = await send(path, options, key);
    if (response.status !== UNAUTHORIZED || declined) return response;
    if (storedKey() === key) {
      asking ??= ask(key !== null).finally(() => (asking = null));
      const typed = await asking;
      declined = typed === null;
      if (declined) return response;
      storeKey(typed);
    }
    key = storedKey();
  }
}
