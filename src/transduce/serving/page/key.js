// The key of a service that needs one: asked for once, and kept by this tab alone.

const NAME = "key";
const NEEDED = 401;

let asking = null; // the promise of what is typed, while the dialog is open
let declined = false; // the reader has none to give

function kept() {
  try {
    return sessionStorage.getItem(NAME) ?? memory;
  } catch {
    return memory;
  }
}

let memory = null; // where the reader keeps nothing

function keep(key) {
  memory = key;
  try {
    sessionStorage.setItem(NAME, key);
  } catch {
    // the reader keeps nothing: this page has it all the same
  }
}

function made(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Ask for the key; resolves to null where the reader has none. */
function ask(isWrong) {
  const field = made("input", {
    type: "password",
    name: "key",
    required: true,
    autocomplete: "off",
    spellcheck: false,
  });
  const problem = made("p", { className: "error", role: "alert" });
  if (isWrong) problem.textContent = "The service does not know this key.";
  const close = made("button", { type: "button", className: "plain" }, "Not now");
  const form = made("form", { method: "dialog" },
    made("h2", { id: "key-title" }, "This service needs a key"),
    made("label", {}, "Key ", field),
    problem,
    made("p", { className: "quiet" }, "This tab keeps it until it is closed."),
    made("div", { className: "foot" }, close, made("button", { className: "primary" }, "Go on")));
  const dialog = made("dialog", { id: "key" }, form);
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

/** Fetch with the key; where one is needed, ask the reader for it, all who wait together. */
export async function fetchWithKey(path, options) {
  let key = kept();
  for (;;) {
    const response = await send(path, options, key);
    if (response.status !== NEEDED || declined) return response;
    if (kept() === key) {
      asking ??= ask(key !== null).finally(() => (asking = null));
      const typed = await asking;
      declined = typed === null;
      if (declined) return response;
      keep(typed);
    }
    key = kept();
  }
}
