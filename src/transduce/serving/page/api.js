// The service's answers, and what went wrong in one sentence.

import { fetchWithKey } from "/key.js";

export class Refusal extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status; // 0: no answer came
    this.retryAfter = retryAfter; // seconds, where the service says when to come again
  }
}

async function ask(path, options) {
  let response, said;
  try {
    response = await fetchWithKey(path, options);
    said = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response === undefined) throw new Refusal("The service does not answer");
    said = null; // something in between has answered, not in JSON
  }
  if (response.ok && said !== null) return said;
  const seconds = Number.parseFloat(response.headers.get("Retry-After"));
  throw new Refusal(
    said?.error ?? `The service answered ${response.status}, but nothing that the page can read.`,
    response.status,
    Number.isNaN(seconds) ? null : seconds,
  );
}

function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export const fetchModels = () => ask("/api/models");
export const translate = (body, signal) => post("/api/translate", body, signal);
export const inspect = (body, signal) => post("/api/inspect", body, signal);
