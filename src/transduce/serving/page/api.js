// Requests to the service, and their errors.

import { fetchWithKey, sendWithKey } from "/key.js";
import { sendForm } from "/upload.js";

/** An error answer, or no answer. */
export class ServiceError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status; // 0: no answer came
    this.retryAfter = retryAfter; // seconds, if the service sends it
  }
}

async function request(send) {
  let response, answer;
  try {
    response = await send();
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response === undefined) throw new ServiceError("The service does not answer");
    answer = null; // not JSON: perhaps a proxy has answered
  }
  if (response.ok && answer !== null) return answer;
  const seconds = Number.parseFloat(response.headers.get("Retry-After"));
  throw new ServiceError(
    answer?.error ?? `The service answered ${response.status} without JSON.`,
    response.status,
    Number.isNaN(seconds) ? null : seconds,
  );
}

function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body), signal };
  return request(() => fetchWithKey(path, options));
}

export const fetchModels = () => request(() => fetchWithKey("/api/models"));
export const translate = (body, signal) => post("/api/translate", body, signal);
export const inspect = (body, signal) => post("/api/inspect", body, signal);

/** Translate a document; `fields` are those of the API. `progress` is {signal, onSent}. */
export function translateDocument(file, fields, progress) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) form.append(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  form.append("file", file);
  return request(() => {
    return sendWithKey((headers) => sendForm("/api/documents", form, headers, progress));
  });
}
