// Documents: chosen or dropped, translated one after the other, and downloaded.

import { ServiceError, translateDocument } from "/api.js";
import { DocumentRow, formatBytes } from "/document-row.js";

const RETRY = 5; // seconds, if a busy service sends no Retry-After
const CANCELLED = "Cancelled.";
const HEAD = 4096; // bytes of a table that are read for its first line
const COLUMNS = { field: "columns", label: "Columns to translate", required: true };
const KEYS = {
  field: "keys",
  label: "Keys to translate",
  note: "Names with commas between them; without any, all texts are translated.",
};
const QUESTIONS = { csv: COLUMNS, tsv: COLUMNS, json: KEYS, jsonl: KEYS, ndjson: KEYS };

const byId = (id) => document.getElementById(id);
const list = byId("document-list");

function suffixOf({ name }) {
  return /\.[^.]*$/.exec(name)?.[0].toLowerCase() ?? "";
}

function namesOf(extensions) {
  return extensions.map((suffix) => suffix.slice(1)).join(", ");
}

/** Return why a file is refused; empty if it is accepted. */
function refusal(file, { extensions, max_bytes: most }) {
  if (!extensions.includes(suffixOf(file))) {
    return `Files of this kind are not translated: expected ${namesOf(extensions)}.`;
  }
  if (file.size === 0) return "The file is empty.";
  if (file.size <= most) return "";
  return `The file has ${formatBytes(file.size)}, the limit is ${formatBytes(most)}: split it.`;
}

async function withFirstLine(question, file) {
  if (question !== COLUMNS) return question;
  const head = await file.slice(0, HEAD).text();
  const [line] = head.replace("\ufeff", "").split(/\r?\n/, 1);
  return { ...question, note: `Names or numbers, with commas between them. First line: ${line}` };
}

/** Return whether the same request may succeed later: the document itself is not wrong. */
function mayPass({ status }) {
  return status < 400 || status >= 500 || status === 401 || status === 408;
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason); // an AbortError
    });
  });
}

export class Documents {
  #current;
  #refuse;
  #jobs = []; // {row, fields, controller}; the first one is being translated

  /** `current` returns {model, fields}; `refuse` shows a sentence below the text. */
  constructor(current, refuse) {
    this.#current = current;
    this.#refuse = refuse;
    const input = byId("document-file");
    byId("open-document").addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.#add([...input.files]);
      input.value = ""; // the same file may be chosen again
    });
    this.#acceptDrops(document.querySelector(".desk"));
    addEventListener("beforeunload", (event) => {
      if (this.#jobs.length) event.preventDefault(); // the browser asks whether to leave
    });
  }

  /** Show what a model takes. */
  use({ documents = null }) {
    const open = byId("open-document");
    open.hidden = documents === null;
    if (documents === null) return;
    const { extensions, max_bytes: most } = documents;
    const taken = `${namesOf(extensions)}; up to ${formatBytes(most)}`;
    byId("document-file").accept = extensions.join(",");
    byId("documents-taken").textContent = open.title = taken;
    open.closest(".pane").dataset.taken = `Drop documents here: ${taken}`;
  }

  #acceptDrops(zone) {
    const hasFiles = (event) => event.dataTransfer.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault(); // otherwise the browser opens the file
      zone.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) zone.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      zone.classList.remove("dropping");
      this.#add([...event.dataTransfer.files]);
    });
  }

  async #add(files) {
    const { model, fields } = this.#current();
    if (model === null || files.length === 0) return;
    if (model.documents === null) return this.#refuse("This service takes no documents.");
    byId("documents").hidden = false;
    for (const file of files) await this.#addFile(file, model, fields);
    list.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  async #addFile(file, model, fields) {
    const about = `${formatBytes(file.size)} · ${model.source_name} → ${model.target_name}`;
    const row = new DocumentRow(file, about, () => this.#remove(row));
    const question = QUESTIONS[suffixOf(file).slice(1)];
    const why = refusal(file, model.documents);
    list.append(row.element);
    if (why) return this.#stop({ row }, why, false);
    if (question === undefined) return this.#start(row, fields);
    row.ask(await withFirstLine(question, file), (answer) => {
      this.#start(row, { ...fields, [question.field]: answer || undefined });
    });
  }

  /** Translate a document after those before it. */
  #start(row, fields) {
    const job = { row, fields, controller: new AbortController() };
    row.wait("Waiting …", () => this.#cancel(job));
    this.#jobs.push(job);
    if (this.#jobs.length === 1) this.#run();
  }

  async #run() {
    while (this.#jobs.length) {
      await this.#translate(this.#jobs[0]);
      this.#jobs.shift();
    }
  }

  #cancel(job) {
    job.controller.abort();
    const place = this.#jobs.indexOf(job);
    if (place === 0) return; // its request ends with an error
    this.#jobs.splice(place, 1);
    this.#stop(job, CANCELLED);
  }

  async #translate(job) {
    try {
      const answer = await this.#send(job);
      job.row.finish(answer);
      byId("document-news").textContent = `${job.row.file.name} is translated.`;
    } catch (error) {
      if (error.name === "AbortError") this.#stop(job, CANCELLED);
      else if (error instanceof ServiceError) this.#stop(job, error.message, mayPass(error));
      else throw error;
    }
  }

  /** Send a document, again and again if the service is busy. */
  async #send(job) {
    const { row, fields, controller: { signal } } = job;
    const cancel = () => this.#cancel(job);
    for (;;) {
      const onSent = (share) => row.progress(share, cancel);
      onSent(0);
      try {
        return await translateDocument(row.file, fields, { signal, onSent });
      } catch (error) {
        if (error.status !== 429 && error.status !== 503) throw error;
        const seconds = error.retryAfter ?? RETRY;
        row.wait(`The service is busy: trying again in ${seconds} s.`, cancel);
        await pause(seconds, signal);
      }
    }
  }

  #stop({ row, fields }, message, mayPass = true) {
    const { name } = row.file;
    const problem = message.startsWith(`${name}: `) ? message.slice(name.length + 2) : message;
    row.stop(problem, mayPass ? () => this.#start(row, fields) : undefined);
    byId("document-news").textContent = `${name}: ${problem}`;
  }

  #remove(row) {
    const next = row.element.nextElementSibling ?? row.element.previousElementSibling;
    row.element.remove();
    byId("documents").hidden = next === null;
    (next?.querySelector(".actions button") ?? byId("open-document")).focus();
  }
}
