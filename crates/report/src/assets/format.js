// Numbers for people: units, ticks of axes.
(() => {
  "use strict";
  const SCALES = {
    bps: [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]],
    bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    ms: [[1e3, "s"], [1, "ms"], [1e-3, "µs"], [1e-6, "ns"]],
    packets: [[1, "packets"]],
    percent: [[1, "%"]],
    count: [[1, ""]],
    number: [[1, ""]],
  };
  const group = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
  const exact = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 12 });
  const UNIT = { bps: "bit/s", bytes: "B", s: "s", ms: "ms", percent: "%", packets: "packets" };

  const scaleFor = (kind, size) => {
    const scales = SCALES[kind] ?? SCALES.number;
    return scales.find(([factor]) => size >= factor) ?? scales[scales.length - 1];
  };

  // Four significant digits, no exponent.
  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 1000 || value === 0) return group.format(value);
    return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
  };

  // A value with its unit: 9.57 Mbit/s.
  W.human = (kind, value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (kind === "text" || typeof value === "string") return String(value);
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (kind === "count" || kind === "id") return Number.isInteger(value) ? group.format(value) : digits(value);
    if (kind === "ratio") return digits(value * 100) + " %";
    if (kind === "number") return String(Number(value.toPrecision(4)));
    if (value === 0) return "0 " + (UNIT[kind] ?? "");
    const [factor, unit] = scaleFor(kind, Math.abs(value));
    return digits(value / factor) + " " + unit;
  };

  // All digits, in the base unit.
  W.exact = (kind, value) => {
    if (typeof value !== "number") return value === null || value === undefined ? "no value" : String(value);
    return exact.format(value) + (UNIT[kind] ? " " + UNIT[kind] : "");
  };

  // Tick texts of an axis and the unit they share. `step` is the distance between ticks.
  W.ticks = (kind, values, step) => {
    const size = Math.max(...values.map((v) => Math.abs(v ?? 0)));
    const [factor, unit] = scaleFor(kind, size);
    // As many places as the step has digits: 0.25 is not 0.3.
    const digitsOf = (v, places) => Math.abs(v * 10 ** places - Math.round(v * 10 ** places)) < 1e-6 * Math.max(1, v * 10 ** places);
    let places = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / factor) + 1e-9)));
    while (places < 9 && !digitsOf(step / factor, places)) places++;
    const format = new Intl.NumberFormat("en-GB", { minimumFractionDigits: places, maximumFractionDigits: places });
    return { unit, texts: values.map((v) => (v === null ? "" : format.format(v / factor))) };
  };
})();
