// The runs page: polls for newly logged values every two seconds.

import { Chart } from "/chart.js";
import { formatNumber, swatch } from "/drawing.js";
import { fetchWithKey } from "/key.js";
import { Samples } from "/samples.js";

const LIVE = 2_000; // ms between polls while a run trains and the page is visible
const AT_REST = 10_000; // while no run trains
const HIDDEN = 30_000; // while the page is hidden
const SHOWN = 8; // runs that are shown initially: one per colour
const SMOOTHED = 0.02; // fraction of a run that is averaged on each side
const STALE = 60; // seconds without a log entry after which the status says so
const UNITS = [["hours", 3600], ["minutes", 60], ["seconds", 1]];

const byId = (id) => document.getElementById(id);
const number = (digits) => {
  const exactly = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat("en", exactly).format;
};
const whole = number(0);
const three = number(3);

const CHARTS = [
  { key: "loss", title: "Loss", format: three, log: false, crop: true, best: "lowest",
    training: "loss", validation: "valid_loss", smooth: true },
  { key: "bleu", title: "BLEU", format: number(1), from0: true, best: "highest",
    validation: "valid_bleu" },
  { key: "perplexity", title: "Perplexity", format: number(2), log: true, best: "lowest",
    training: "perplexity", validation: "valid_perplexity" },
  { key: "source", title: "Source use", format: number(2), from0: true, best: "highest",
    validation: "valid_source_use" },
  { key: "rate", title: "Learning rate", format: (value) => value.toExponential(2), log: false,
    from0: true, training: "learning_rate" },
  { key: "speed", title: "Tokens per second", format: whole, from0: true,
    training: "target_tokens_per_second" },
];

const runs = new Map(); // name -> Run
const view = { by: "step", smooth: false, range: null };
const charts = CHARTS.map((options) => {
  const chart = new Chart(byId("charts"), options);
  chart.figure.dataset.chart = options.key;
  chart.onCross = (x, from) => charts.forEach((other) => other.cross(x, { list: other === from }));
  chart.onZoom = zoom;
  return chart;
});
const samples = new Samples({
  section: byId("samples"),
  controls: byId("samples-controls"),
  slider: byId("validation"),
  step: byId("validation-step"),
  play: byId("play"),
  list: byId("sentences"),
  none: byId("no-samples"),
});

/** A run: its log, and its entry in the list. */
class Run {
  constructor(summary, index) {
    this.name = summary.name;
    this.index = index;
    this.colour = `--series-${(index % 8) + 1}`;
    this.token = "";
    this.forget();
    this.item = byId("run").content.firstElementChild.cloneNode(true);
    this.box = this.item.querySelector("input");
    this.box.addEventListener("change", () => poll());
    this.item.querySelector(".run-name").textContent = this.name;
    byId("runs").append(this.item);
    this.tint();
  }

  forget() {
    this.training = {};
    this.validation = {};
    this.samples = { source: [], reference: [], step: [], outputs: [] };
  }

  get shown() {
    return this.box.checked;
  }

  tint() {
    this.item.querySelector("svg").replaceChildren(swatch(this));
  }

  /** Append new data. */
  add(data) {
    if (data.void) this.forget();
    for (const part of ["training", "validation"]) {
      for (const [name, values] of Object.entries(data[part])) {
        this[part][name] = (this[part][name] ?? []).concat(values);
      }
    }
    const { source, reference, step, outputs } = data.samples;
    this.samples = {
      source, reference,
      step: this.samples.step.concat(step),
      outputs: this.samples.outputs.concat(outputs),
    };
    this.token = data.token;
  }

  /** Return a logged value and its positions on the axis. */
  series(kind, name) {
    const logged = this[kind];
    if (logged.step === undefined || logged[name] === undefined) return { x: [], y: [] };
    const indices = logged.step.map((_, i) => i).filter((i) => logged[name][i] !== null);
    const [, unit] = timeUnit();
    const x = view.by === "step" ? logged.step : this.seconds(logged.step).map((s) => s / unit);
    return { x: indices.map((i) => x[i]), y: indices.map((i) => logged[name][i]) };
  }

  /** Return the times of these steps, interpolated between logged ones. */
  seconds(steps) {
    const known = [0].concat(this.training.step ?? []);
    const times = [0].concat(this.training.seconds ?? []);
    const last = known.length - 1;
    let at = 0;
    return steps.map((step) => {
      if (step >= known[last]) return known[last] ? (times[last] * step) / known[last] : 0;
      while (known[at + 1] < step) at += 1;
      const part = (step - known[at]) / (known[at + 1] - known[at]);
      return times[at] + part * (times[at + 1] - times[at]);
    });
  }

  /** Update the entry in the list. */
  updateEntry() {
    const { summary } = this;
    const put = (name, text) => {
      const place = this.item.querySelector(`.${name}`);
      if (place.textContent !== text) place.textContent = text;
    };
    this.item.dataset.state = summary.state;
    put("status", statusText(summary));
    put("size", size(summary));
    put("numbers", numbers(summary));
    const bar = this.item.querySelector("progress");
    bar.hidden = summary.part === null;
    bar.value = summary.part ?? 0;
  }
}

// Text

function statusText({ state, note, step, planned, epoch, seconds, left, seconds_since_write: age }) {
  const parts = [];
  const of = (wanted, write) => (state === "finished" || !wanted ? "" : ` of ${write(wanted)}`);
  if (step > 0) parts.push(`step ${whole(step)}${of(planned.steps, whole)}`);
  if (planned.epochs && epoch !== null && state !== "finished") {
    parts.push(`epoch ${whole(epoch + 1)}${of(planned.epochs, whole)}`);
  }
  if (state === "finished" && seconds) parts.push(`after ${duration(seconds)}`);
  else if (planned.seconds && seconds) {
    parts.push(`${duration(seconds)}${of(planned.seconds, duration)}`);
  }
  if (left !== null) parts.push(left < 1 ? "nearly done" : `${duration(left)} left`);
  if (state === "training" && age > STALE) parts.push(`no log entry for ${duration(age)}`);
  if (note) parts.push(note);
  return [state, ...parts].join(", ");
}

function size({ preset, size: settings, parameters, languages }) {
  const count = parameters === null ? null : `${formatNumber(parameters)} parameters`;
  const pair = languages === null ? null : languages.join(" to ");
  return [pair, preset, count, settings].filter((text) => text !== null).join(" · ");
}

function numbers({ loss, valid_loss: valid, bleu, speed }) {
  const parts = [];
  if (loss !== null) parts.push(`loss ${three(loss)}`);
  if (valid !== null) parts.push(`validation ${three(valid)}`);
  if (bleu !== null) parts.push(`BLEU ${number(1)(bleu)}`);
  if (speed !== null) parts.push(`${whole(speed)} tokens/s`);
  return parts.join(" · ");
}

function duration(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.round(s / 86_400)} days`;
}

// The page

function shownRuns() {
  return [...runs.values()].filter((run) => run.shown);
}

/** Return the unit of the time axis for the shown runs, and its seconds. */
function timeUnit() {
  const longest = Math.max(1, ...shownRuns().map(({ training }) => training.seconds?.at(-1) ?? 0));
  return UNITS.find(([, seconds]) => longest >= 2 * seconds) ?? UNITS[2];
}

function draw() {
  const shown = shownRuns();
  const [unit, seconds] = timeUnit();
  const axis = view.by === "step"
    ? { label: "step", tick: tickOf, format: (x) => `step ${whole(x)}` }
    : { label: unit, tick: tickOf, format: (x) => `after ${duration(x * seconds)}` };
  CHARTS.forEach((options, i) => {
    charts[i].draw(shown.flatMap((run) => linesOf(run, options)), { ...axis, range: view.range });
  });
  charts[0].caution(caution(shown));
  byId("whole").hidden = view.range === null;
  samples.update(shown.map(({ name, colour, index, samples: data, summary }) =>
    ({ name, colour, index, samples: data, note: noSamplesNote(summary) })));
  if (byId("table").open) fillTable(shown);
  byId("nothing").hidden = runs.size > 0;
  byId("legend").hidden = charts.every(({ figure }) => figure.hidden);
}

function linesOf(run, { training, validation, smooth }) {
  const lines = [];
  if (training) {
    const smoothed = smooth && view.smooth;
    const line = { run, kind: "training", faint: smoothed, ...run.series("training", training) };
    lines.push(line);
    if (smoothed) lines.push({ run, kind: "smooth", x: line.x, y: smoothedOf(line.y) });
  }
  if (validation) lines.push({ run, kind: "validation", ...run.series("validation", validation) });
  return lines;
}

/** Return a centred moving average. */
function smoothedOf(values) {
  const widest = Math.max(1, Math.round(values.length * SMOOTHED));
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1) + value);
  return values.map((_, i) => {
    const half = Math.min(widest, i, values.length - 1 - i);
    return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1);
  });
}

function tickOf(value) {
  if (value >= 100_000) return formatNumber(value);
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

/** Warn about losses that are not comparable. */
function caution(shown) {
  const differ = ["eps_ls", "vocabulary"].filter((name) => {
    const values = shown.map(({ summary }) => summary.measure[name]);
    return new Set(values.filter((value) => value !== undefined)).size > 1;
  });
  if (differ.length === 0) return "";
  return `not comparable between these runs: they differ in ${differ.join(" and ")}`;
}

/** Explain why a run has no sample translations. */
function noSamplesNote({ name, valid_loss: loss }) {
  return loss === null ? `${name} has not validated yet.` : `${name} has no sample translations.`;
}

function fillTable(shown) {
  const body = byId("values");
  body.replaceChildren();
  for (const run of shown) {
    const { step = [], ...values } = run.validation;
    step.forEach((at, i) => {
      const row = body.insertRow();
      const cells = [
        run.name, whole(at),
        ...[["valid_loss", three], ["valid_perplexity", number(2)], ["valid_bleu", number(1)]]
          .map(([name, format]) => (values[name][i] === null ? "" : format(values[name][i]))),
      ];
      for (const text of cells) row.insertCell().textContent = text;
    });
  }
}

function zoom(range) {
  view.range = range;
  draw();
}

function choose(by) {
  view.by = by;
  view.range = null;
  for (const chart of charts) chart.cross(null);
  byId("by-step").setAttribute("aria-pressed", String(by === "step"));
  byId("by-time").setAttribute("aria-pressed", String(by === "time"));
  draw();
}

// Polling

async function get(address) {
  const response = await fetchWithKey(address);
  if (response.status === 401) throw new Error("a key is needed: reload the page to enter it");
  if (!response.ok) throw new Error(`status ${response.status}`);
  return response.json();
}

let timer = null;
let polling = false;
let again = false;
let drawn = null; // tokens of the drawn runs

/** Poll now, then regularly; a call during a poll triggers another one right after it. */
async function poll() {
  again = polling;
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  const problem = await fetchNews().then(() => "", (error) => error.message);
  byId("problem").textContent = problem && `transduce does not answer (${problem}): trying again.`;
  show();
  polling = false;
  const trains = [...runs.values()].some(({ summary }) => summary.state === "training");
  const pause = document.hidden ? HIDDEN : trains ? LIVE : AT_REST;
  timer = setTimeout(poll, again ? 0 : pause);
}

/** Fetch the state of all runs, and the new log data of the runs that are shown. */
async function fetchNews() {
  takeIn(await get("/api/runs"));
  const behind = shownRuns().filter((run) => run.token !== run.summary.token);
  const news = await Promise.all(behind.map((run) =>
    get(`/api/runs/data?${new URLSearchParams({ run: run.name, since: run.token })}`)));
  behind.forEach((run, i) => run.add(news[i]));
}

function show() {
  for (const run of runs.values()) run.updateEntry();
  const seen = JSON.stringify(shownRuns().map(({ name, token }) => [name, token]));
  if (seen !== drawn) draw();
  drawn = seen;
  document.title = `${titleOf([...runs.values()].map(({ summary }) => summary))} · transduce`;
}

function takeIn(summaries) {
  const first = runs.size === 0;
  for (const summary of summaries) {
    if (!runs.has(summary.name)) runs.set(summary.name, new Run(summary, runs.size));
    runs.get(summary.name).summary = summary;
  }
  if (first && runs.size > SHOWN) {
    const age = ({ summary }) => summary.seconds_since_write ?? Infinity;
    const latest = new Set([...runs.values()].sort((a, b) => age(a) - age(b)).slice(0, SHOWN));
    for (const run of runs.values()) run.box.checked = latest.has(run);
  }
}

function titleOf(summaries) {
  const training = summaries.filter(({ state }) => state === "training");
  if (training.length !== 1) return "Runs";
  const [{ part, step }] = training;
  return part === null ? `Step ${whole(step)}` : `${Math.floor(part * 100)}%`;
}

byId("by-step").addEventListener("click", () => choose("step"));
byId("by-time").addEventListener("click", () => choose("time"));
byId("whole").addEventListener("click", () => zoom(null));
byId("table").addEventListener("toggle", draw);
byId("smooth").addEventListener("click", () => {
  view.smooth = !view.smooth;
  byId("smooth").setAttribute("aria-pressed", String(view.smooth));
  draw();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});
addEventListener("themechange", () => {
  for (const run of runs.values()) run.tint();
  draw();
});
poll();
get("/api/models").then(({ models }) => {
  byId("translate").hidden = models.length === 0; // `transduce watch` serves none
}).catch(() => {}); // poll() shows the error
