// The API key: asked for once, and stored for this tab only.

import { button, html } from "/elements.js";

const NAME = "key";
const UNAUTHORIZED = 401;

let asking = null; // a promise for the key, while the dialog is open
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

/** Ask for the key; resolves to null if the user has none. */
function ask(isWrong) {
  const hidden = { type: "password", autocomplete: "off", spellcheck: "false" };
  const field = html("input", { name: "key", required: "", ...hidden });
  const problem = isWrong ? "The service does not accept this key." : "";
  const close = button("Not now", { class: "plain" }, () => dialog.close());
  const form = html("form", { method: "dialog" },
    html("h2", { id: "key-title" }, "This service needs a key"),
    html("label", {}, "Key ", field),
    html("p", { class: "error", role: "alert" }, problem),
    html("p", { class: "quiet" }, "The key is kept until you close this tab."),
    html("div", { class: "foot" }, close, html("button", { class: "primary" }, "Continue")));
  const dialog = html("dialog", { id: "key", "aria-labelledby": "key-title" }, form);
  document.body.append(dialog);
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

/**
 * Send a request with the key; `send` takes headers and returns a promise of a response. If a key
 * is needed, ask once for all waiting requests.
 */
export async function sendWithKey(send) {
  let key = storedKey();
  for (;;) {
    const response = await send(key === null ? {} : { Authorization: `Bearer ${key}` });
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

export function fetchWithKey(path, options) {
  return sendWithKey((headers) => {
    return fetch(path, { ...options, headers: { ...options?.headers, ...headers } });
  });
}
