// The page that translates as you type: the text on one side, what the model makes of it on the
// other, and below them the sentence under the cursor, looked at from within.

import { Refusal, fetchModels, translate } from "/api.js";
import { Focus } from "/focus.js";
import { Settings, bindDrawer } from "/settings.js";
import { TranslationView } from "/words.js";

const PAUSE = 120; // ms after the last key
const SLOW = 400; // ms after which the page says that it waits
const PORTION = 1500; // characters of the first request of a long text; later ones are larger
const KEPT = 2000; // paragraphs that are no longer in the text
const NEAR = 0.8; // of the limit, from where on characters are counted
const RETRY = 2; // seconds, where the service does not say

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
const results = new Map(); // of paragraphs, the latest used last
const choices = new Map(); // the candidate that the reader has put in the place of the best
let models = [];
let model = null;
let limits = null;

// What stands there

const view = new TranslationView(byId("translation"), {
  textOf: (segment) => {
    const wanted = choices.get(keyOf(segment.source));
    const has = segment.candidates.some(({ text }) => text === wanted);
    return has ? wanted : segment.candidates[0].text;
  },
  onWord: (word) => focus.chooseWord(word),
  onVisible: () => focus.lookSoon(),
});
const focus = new Focus(view, settings, takeCandidate);

/** Return what a paragraph or sentence is known by: with it, all that its translation hangs on. */
function keyOf(text) {
  const { beam, alpha, nbest } = settings.search(model, limits);
  return JSON.stringify([model.name, beam, alpha, nbest, text]);
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
  const most = KEPT + field.value.length; // no text has more lines than letters
  if (results.size > most) results.delete(results.keys().next().value);
}

// Translating

let timer = null; // until the next request, or the next attempt
let asked = null; // the request under way
let failures = 0; // in a row

function translateSoon(delay) {
  clearTimeout(timer);
  timer = setTimeout(translateNow, delay);
}

async function translateNow() {
  clearTimeout(timer);
  asked?.abort();
  if (model === null || isTooLong()) return;
  const request = (asked = new AbortController());
  const lines = show();
  const missing = [...new Set(lines.filter((line) => line.trim() !== "" && !resultOf(line)))];
  const search = settings.search(model, limits);
  const began = performance.now();
  const slow = setTimeout(() => (status.textContent = "Translating …"), SLOW);
  let done = 0;
  try {
    for (const some of portions(missing)) {
      const wanted = { ...search, text: some.join("\n"), model: model.name };
      const answer = await translate(wanted, request.signal);
      const { paragraphs, model: name } = answer;
      some.forEach((line, i) => remember(line, { ...paragraphs[i], model: name }));
      done += some.length;
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

/** Cut what is missing into requests: a small first one, so that something stands there soon. */
function* portions(lines) {
  let some = [];
  let size = 0;
  let most = PORTION;
  for (const line of lines) {
    if (size > 0 && size + line.length > most) {
      yield some;
      [some, size, most] = [[], 0, 4 * PORTION];
    }
    some.push(line);
    size += line.length;
  }
  if (some.length) yield some;
}

let frame = null;

/** Show it with the next frame: some ways to put in a long text tell of each of its lines. */
function showSoon() {
  frame ??= requestAnimationFrame(show);
}

/** Show what is known of the text as it is now; the rest of the translation is dimmed. */
function show() {
  cancelAnimationFrame(frame);
  frame = null;
  const lines = field.value.split("\n");
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
  const { count } = view;
  const sentences = count === 1 ? "1 sentence" : `${count.toLocaleString("en")} sentences`;
  const time = milliseconds === null ? "" : ` in ${inWords(milliseconds)}`;
  status.textContent = count === 0 ? "" : sentences + time;
  focus.lookSoon();
}

function inWords(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

function fail(error) {
  if (!(error instanceof Refusal)) throw error;
  status.textContent = "";
  const isBusy = error.status === 503 || error.status === 429; // for all, or for this reader
  const passes = error.status === 0 || isBusy;
  if (!passes) {
    problem.textContent = error.message;
    // The service was begun again without this model: take one of those that it has now.
    if (error.status === 404) setTimeout(start, 1000 * RETRY);
    return;
  }
  failures += 1;
  const seconds = error.retryAfter ?? Math.min(15, RETRY * failures);
  problem.textContent =
    isBusy
      ? `The service is busy: the page asks again in ${seconds} s.`
      : `The service cannot be reached: the page tries again every ${seconds} s.`;
  translateSoon(1000 * seconds);
}

function isTooLong() {
  const length = lengthOf(field.value);
  if (length <= limits.characters) return false;
  const [has, most] = [length, limits.characters].map((number) => number.toLocaleString("en"));
  status.textContent = "";
  problem.textContent = `The text has ${has} characters, the service takes ${most}: shorten it.`;
  return true;
}

/** Count characters as the service does: an emoji is one. */
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

/** Look at the sentence that the cursor is in. */
function followCursor() {
  const before = field.value.slice(0, field.selectionStart);
  const row = before.split("\n").length - 1;
  const column = before.length - (before.lastIndexOf("\n") + 1);
  const isTyping = document.activeElement === field || view.selected === null;
  const sentence = (isTyping && view.at(row, column)) || view.selected;
  if (sentence !== view.selected) view.select(sentence);
  focus.show();
}

/** Keep the translation at the same height as the text. */
function scrollAlong() {
  const { element } = view;
  const part = field.scrollTop / Math.max(1, field.scrollHeight - field.clientHeight);
  element.scrollTop = part * (element.scrollHeight - element.clientHeight);
}

/** Put another candidate into the translation. */
function takeCandidate(sentence, rank) {
  const { source, candidates } = sentence.segment;
  choices.set(keyOf(source), candidates[rank].text);
  view.redraw(sentence);
  focus.show();
}

// The model, the settings, the buttons

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
  showExamples();
  const parameters = `${COUNT.format(model.parameters)} parameters`;
  byId("model-words").textContent =
    [model.name, parameters, model.engine, model.weights].filter(Boolean).join(" · ");
  showLegend();
  translateNow();
}

function showExamples() {
  const place = byId("examples");
  for (const button of place.querySelectorAll("button")) button.remove();
  for (const text of model.examples) {
    const button = document.createElement("button");
    button.type = "button";
    button.lang = model.source;
    button.dir = "auto";
    button.textContent = text;
    place.append(button);
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
    problem.textContent = `${error.message}: the page tries again every ${RETRY} s.`;
    setTimeout(start, 1000 * RETRY);
    return;
  }
  problem.textContent = "";
  byId("model").replaceChildren();
  for (const one of models) byId("model").add(new Option(nameOf(one), one.name));
  byId("choice").hidden = models.length < 2;
  byId("pair").classList.toggle("unseen", models.length > 1);
  use(models.find(({ name }) => name === settings.get("model")) ?? models[0]);
  performance.mark("ready"); // for those who measure
}

/** Put a text in the place of the one that is there, so that Ctrl+Z brings that back. */
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
    // Without https there is no clipboard to write to, but the selection can be copied.
    getSelection().selectAllChildren(view.element);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  status.textContent = "Copied";
}

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
byId("examples").addEventListener("click", (event) => {
  if (event.target.matches("button")) put(event.target.textContent);
});
start();
