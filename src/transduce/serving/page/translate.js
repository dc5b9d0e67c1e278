// The translation page: the text, its translation as you type, and below them the sentence at the
// cursor with its candidates and attention.

import { ServiceError, fetchModels, translate } from "/api.js";
import { Documents } from "/documents.js";
import { button } from "/elements.js";
import { Focus } from "/focus.js";
import { GlossaryChoice } from "/glossary.js";
import { Settings, bindDrawer } from "/settings.js";
import { TranslationView } from "/words.js";

const PAUSE = 120; // ms after the last keystroke
const EDITED = 500; // ms after the last change of the glossary
const SLOW = 400; // ms after which the page shows that it waits
const PORTION = 1500; // characters in the first request for a long text; later ones are larger
const CACHED = 2000; // paragraphs that are no longer in the text
const NEAR = 0.8; // fraction of the limit above which the number of characters is shown
const RETRY = 2; // seconds, if the service sends no Retry-After

const COUNT = new Intl.NumberFormat("en", {
  notation: "compact",
  compactDisplay: "long",
  maximumSignificantDigits: 2,
});

const byId = (id) => document.getElementById(id);
const field = byId("text");
const status = byId("status");
const problem = byId("problem");

const settings = new Settings();
const results = new Map(); // translated paragraphs, the most recent last
const choices = new Map(); // candidates that the user has chosen instead of the best
let models = [];
let model = null;
let limits = null;
let fields = {}; // of requests for the model and the settings
let variant = 0; // the number of these fields
const variants = []; // as JSON

// The translation

const view = new TranslationView(byId("translation"), {
  textOf: (segment) => {
    const wanted = choices.get(keyOf(segment.source));
    const has = segment.candidates.some(({ text }) => text === wanted);
    return has ? wanted : segment.candidates[0].text;
  },
  onWord: (word) => focus.chooseWord(word),
  onDoubt: (sentence) => focus.chooseSentence(sentence),
  onVisible: () => focus.inspectSoon(),
});
const focus = new Focus(view, settings, takeCandidate);

/** Read the fields of requests; called after every change. */
function readFields() {
  fields = { model: model.name, ...settings.request(model, limits), glossary: glossary.value };
  const now = JSON.stringify(fields);
  if (!variants.includes(now)) variants.push(now);
  variant = variants.indexOf(now);
}

function documentFields() {
  if (model !== null) readFields();
  const { model: name, guard, glossary: terms } = fields;
  return { model, fields: { model: name, guard, glossary: terms } };
}

/** Return the cache key of a paragraph or sentence: all settings and the text. */
function keyOf(text) {
  return `${variant} ${text}`;
}

function resultOf(line) {
  const result = model === null ? undefined : results.get(keyOf(line));
  if (result !== undefined) remember(line, result);
  return result;
}

function remember(line, result) {
  const key = keyOf(line);
  results.delete(key);
  results.set(key, result);
  const most = CACHED + field.value.length; // a text has no more lines than letters
  if (results.size > most) results.delete(results.keys().next().value);
}

// Translating

let timer = null; // for the next request or retry
let current = null; // the request in progress
let failures = 0; // in a row

function translateSoon(delay) {
  clearTimeout(timer);
  timer = setTimeout(translateNow, delay);
}

async function translateNow() {
  clearTimeout(timer);
  current?.abort();
  if (model === null || isTooLong()) return;
  const request = (current = new AbortController());
  readFields();
  const lines = show();
  const missing = [...new Set(lines.filter((line) => line.trim() !== "" && !resultOf(line)))];
  const began = performance.now();
  const slow = setTimeout(() => (status.textContent = "Translating …"), SLOW);
  let done = 0;
  try {
    for (const portion of portions(missing)) {
      const wanted = { ...fields, text: portion.join("\n") };
      const { text, paragraphs, model: name } = await translate(wanted, request.signal);
      if (settings.tags) remember(portion[0], { html: text, paragraphs });
      else portion.forEach((line, i) => remember(line, { ...paragraphs[i], model: name }));
      done += portion.length;
      show();
      if (done < missing.length) {
        clearTimeout(slow);
        status.textContent = `Translating: ${done} of ${missing.length} paragraphs`;
      }
    }
    settle(missing.length ? performance.now() - began : null);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    clearTimeout(slow);
  }
}

/** Split lines into requests; the first is small, so that its translation appears soon. */
function* portions(lines) {
  let portion = [];
  let size = 0;
  let most = PORTION;
  for (const line of lines) {
    if (size > 0 && size + line.length > most) {
      yield portion;
      [portion, size, most] = [[], 0, 4 * PORTION];
    }
    portion.push(line);
    size += line.length;
  }
  if (portion.length) yield portion;
}

let frame = null;

/** Show the text with the next frame: some ways of pasting fire an event for each line. */
function showSoon() {
  frame ??= requestAnimationFrame(show);
}

/** Show the available translations; paragraphs without one are dimmed. */
function show() {
  cancelAnimationFrame(frame);
  frame = null;
  const lines = settings.tags ? [field.value] : field.value.split("\n");
  view.update(lines, resultOf);
  const isEmpty = field.value.trim() === "";
  byId("empty").hidden = !isEmpty;
  byId("clear").disabled = field.value === "";
  byId("copy").disabled = isEmpty;
  countCharacters();
  followCursor();
  if (document.activeElement === field) scrollAlong();
  return lines;
}

function settle(milliseconds) {
  failures = 0;
  problem.textContent = "";
  const { count, doubtful } = view;
  const sentences = count === 1 ? "1 sentence" : `${count.toLocaleString("en")} sentences`;
  const time = milliseconds === null ? "" : ` in ${formatTime(milliseconds)}`;
  const doubts = doubtful === 0 ? "" : ` · ${doubtful.toLocaleString("en")} doubtful`;
  status.textContent = count === 0 ? "" : sentences + time + doubts;
  focus.inspectSoon();
}

function formatTime(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

function fail(error) {
  if (!(error instanceof ServiceError)) throw error;
  status.textContent = "";
  const isBusy = error.status === 503 || error.status === 429; // 503: all clients; 429: this one
  const temporary = error.status === 0 || isBusy;
  if (!temporary) {
    problem.textContent = error.message;
    // The service was restarted without this model: choose another.
    if (error.status === 404) setTimeout(start, 1000 * RETRY);
    return;
  }
  failures += 1;
  const seconds = error.retryAfter ?? Math.min(15, RETRY * failures);
  problem.textContent =
    isBusy
      ? `The service is busy: trying again in ${seconds} s.`
      : `The service cannot be reached: trying again every ${seconds} s.`;
  translateSoon(1000 * seconds);
}

function isTooLong() {
  const length = lengthOf(field.value);
  if (length <= limits.characters) return false;
  const [has, most] = [length, limits.characters].map((number) => number.toLocaleString("en"));
  status.textContent = "";
  problem.textContent = `The text has ${has} characters, the limit is ${most}: shorten it.`;
  return true;
}

/** Count characters as the service does: an emoji counts as one. */
function lengthOf(text) {
  let pairs = 0;
  for (let i = 0; i < text.length; i++) pairs += (text.charCodeAt(i) & 0xfc00) === 0xd800;
  return text.length - pairs;
}

function countCharacters() {
  const isNear = limits !== null && field.value.length > NEAR * limits.characters;
  const numbers = () =>
    [lengthOf(field.value), limits.characters].map((number) => number.toLocaleString("en"));
  byId("count").textContent = isNear ? `${numbers().join(" of ")} characters` : "";
}

/** Select the sentence at the cursor. */
function followCursor() {
  const before = field.value.slice(0, field.selectionStart);
  const row = before.split("\n").length - 1;
  const column = before.length - (before.lastIndexOf("\n") + 1);
  const isTyping = document.activeElement === field || view.selected === null;
  const sentence = (isTyping && view.at(row, column)) || view.selected;
  if (sentence !== view.selected) view.select(sentence);
  focus.show();
}

/** Scroll the translation with the text. */
function scrollAlong() {
  const { element } = view;
  const part = field.scrollTop / Math.max(1, field.scrollHeight - field.clientHeight);
  element.scrollTop = part * (element.scrollHeight - element.clientHeight);
}

/** Use a different candidate in the translation. */
function takeCandidate(sentence, rank) {
  const { source, candidates } = sentence.segment;
  choices.set(keyOf(source), candidates[rank].text);
  view.redraw(sentence);
  focus.show();
}

// Model, settings, buttons

function nameOf({ name, source_name: from, target_name: to }) {
  const alike = models.filter((other) => other.source_name === from && other.target_name === to);
  return `${from} → ${to}${alike.length > 1 ? ` · ${name}` : ""}`;
}

function reverse() {
  return models.find(({ source, target }) => source === model.target && target === model.source);
}

function use(chosen) {
  model = chosen;
  const { source, target, source_name: from, target_name: to } = model;
  byId("pair").textContent = `${from} to ${to}`;
  byId("from").textContent = from;
  byId("to").textContent = to;
  for (const element of [field, byId("echo")]) element.lang = source;
  for (const element of [view.element, byId("candidates")]) element.lang = target;
  byId("model").value = model.name;
  byId("swap").hidden = reverse() === undefined;
  glossary.use(model, limits);
  documents.use(model);
  showExamples();
  const parameters = `${COUNT.format(model.parameters)} parameters`;
  byId("model-words").textContent =
    [model.name, parameters, model.engine, model.weights].filter(Boolean).join(" · ");
  showLegend();
  translateNow();
}

function showExamples() {
  const place = byId("examples");
  for (const example of place.querySelectorAll("button")) example.remove();
  for (const text of model.examples) {
    place.append(button(text, { lang: model.source, dir: "auto" }, () => put(text)));
  }
  place.hidden = model.examples.length === 0;
}

function showLegend() {
  byId("legend").hidden = !settings.shades;
  view.element.classList.toggle("shaded", settings.shades);
}

async function start() {
  try {
    ({ models, limits } = await fetchModels());
  } catch (error) {
    if (error.status === 401) {
      problem.textContent = "This service needs a key: reload the page to give it.";
      return;
    }
    problem.textContent = `${error.message}: trying again every ${RETRY} s.`;
    setTimeout(start, 1000 * RETRY);
    return;
  }
  problem.textContent = "";
  byId("model").replaceChildren();
  for (const other of models) byId("model").add(new Option(nameOf(other), other.name));
  byId("choice").hidden = models.length < 2;
  byId("pair").classList.toggle("unseen", models.length > 1);
  use(models.find(({ name }) => name === settings.get("model")) ?? models[0]);
  performance.mark("ready"); // read by tools/page_timing.py
}

/** Replace the text so that Ctrl+Z restores it. */
function put(text) {
  field.focus();
  field.select();
  document.execCommand(text === "" ? "delete" : "insertText", false, text);
  translateNow();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(view.text);
  } catch {
    // Without https the clipboard API is missing, but the selection can be copied.
    getSelection().selectAllChildren(view.element);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  status.textContent = "Copied";
}

const glossary = new GlossaryChoice(settings, () => translateSoon(EDITED));
const documents = new Documents(documentFields, (message) => (problem.textContent = message));
const openSettings = bindDrawer(byId("settings"), settings, () => ({ model, limits }), () => {
  showLegend();
  translateNow();
});

field.addEventListener("input", (event) => {
  focus.card.hide();
  if (model === null) return;
  showSoon();
  translateSoon(event.inputType === "insertFromPaste" ? 0 : PAUSE);
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateNow();
});
field.addEventListener("scroll", scrollAlong, { passive: true });
document.addEventListener("selectionchange", () => {
  if (document.activeElement === field) followCursor();
});
document.addEventListener("keydown", (event) => {
  const isField = event.target.closest("textarea, input, select, dialog");
  if (event.key === "?" && !isField) byId("shortcuts").showModal();
});
addEventListener("online", translateNow);
byId("open-shortcuts").addEventListener("click", () => byId("shortcuts").showModal());
byId("open-settings").addEventListener("click", () => model && openSettings());
byId("clear").addEventListener("click", () => put(""));
byId("copy").addEventListener("click", copy);
byId("swap").addEventListener("click", () => {
  const text = view.text;
  settings.set("model", reverse().name);
  field.value = text;
  use(reverse());
});
byId("model").addEventListener("change", (event) => {
  settings.set("model", event.target.value);
  use(models.find(({ name }) => name === event.target.value));
});
start();
