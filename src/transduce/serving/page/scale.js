// The scale of an axis, and its ticks.

const STEPS = [1, 2, 5, 10];

/** An axis from `low` to `high`, drawn from `begin` to `end` in pixels. */
export class Scale {
  constructor(low, high, begin, end, { log = false } = {}) {
    this.low = low;
    this.high = high;
    this.begin = begin;
    this.end = end;
    this.log = log;
  }

  at(value) {
    const part = this.log
      ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : (value - this.low) / (this.high - this.low);
    return this.begin + part * (this.end - this.begin);
  }

  /** Return the value at a position on a linear axis. */
  value(place) {
    const part = (place - this.begin) / (this.end - this.begin);
    return this.low + part * (this.high - this.low);
  }

  /** Return about `count` round values within the axis. */
  ticks(count) {
    return this.log ? this.#decades(count) : this.#even(count);
  }

  #even(count) {
    const step = roundStep((this.high - this.low) / Math.max(1, count));
    const first = Math.ceil(this.low / step - 1e-9);
    const last = Math.floor(this.high / step + 1e-9);
    const round = (value) => Number(value.toPrecision(12));
    return Array.from({ length: last - first + 1 }, (_, i) => round((first + i) * step));
  }

  #decades(count) {
    const first = Math.floor(Math.log10(this.low));
    const last = Math.ceil(Math.log10(this.high));
    const times = (factors, stride) => {
      const ticks = [];
      for (let power = Math.ceil(first / stride) * stride; power <= last; power += stride) {
        for (const factor of factors) ticks.push(Number(`${factor}e${power}`));
      }
      return ticks.filter((value) => value >= this.low && value <= this.high);
    };
    const sparse = [1, 2, 3, 5].map((stride) => times([1], stride));
    const choices = [times([1, 2, 5], 1), times([1, 3], 1), ...sparse];
    const fitting = choices.find((ticks) => ticks.length <= Math.max(3, count));
    if (fitting !== undefined && fitting.length > 1) return fitting;
    return this.#even(count).filter((value) => value > 0); // less than a decade
  }
}

function roundStep(rough) {
  if (!(rough > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * STEPS.find((step) => step >= (rough / power) * 0.999);
}

/** Return the index of the nearest value in an ascending list; -1 if it is empty. */
export function nearest(values, value) {
  const next = values.findIndex((other) => other >= value);
  if (next < 0) return values.length - 1;
  return next > 0 && value - values[next - 1] < values[next] - value ? next - 1 : next;
}
