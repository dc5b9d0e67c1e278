// Documents are sent with XMLHttpRequest: fetch does not say how much it has sent.

/**
 * Send a form and return a Response. `onSent` is called with the share that was sent; the promise
 * is rejected with an AbortError after `signal`, and with a TypeError without an answer, as fetch's.
 */
export function sendForm(path, form, headers, { signal, onSent }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    request.open("POST", path);
    request.responseType = "blob";
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", ({ loaded, total }) => onSent(loaded / total));
    request.upload.addEventListener("load", () => onSent(1));
    request.addEventListener("load", () => resolve(responseOf(request)));
    request.addEventListener("error", () => reject(new TypeError("no answer")));
    request.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
    request.addEventListener("loadend", () => signal.removeEventListener("abort", abort));
    signal.addEventListener("abort", abort);
    if (signal.aborted) return reject(new DOMException("cancelled", "AbortError"));
    request.send(form);
  });
}

function responseOf(request) {
  const headers = new Headers();
  const retry = request.getResponseHeader("Retry-After");
  if (retry !== null) headers.set("Retry-After", retry);
  return new Response(request.response, { status: request.status, headers });
}
