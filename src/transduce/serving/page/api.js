// Requests to the service, and their errors.

import { fetchWithKey } from "/key.js";

/** An error answer, or no answer. */
export class ServiceError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status; // 0: no answer came
    this.retryAfter = retryAfter; // seconds, if the service sends it
  }
}

async function request(path, options) {
  let response, answer;
  try {
    response = await fetchWithKey(path, options);
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
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export const fetchModels = () => request("/api/models");
export const translate = (body, signal) => post("/api/translate", body, signal);
export const inspect = (body, signal) => post("/api/inspect", body, signal);
