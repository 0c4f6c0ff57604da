// Columns of numbers: decoded from base64 when first asked for.
(() => {
  "use strict";
  const ARRAYS = { i8: Int8Array, i16: Int16Array, i32: Int32Array, f32: Float32Array, f64: Float64Array };
  const decoded = new Map();

  const bytes = (text) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const array = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) array[i] = raw.charCodeAt(i);
    return array;
  };

  const decode = (d) => {
    const raw = new ARRAYS[d.t](bytes(document.getElementById("c" + d.c).textContent).buffer);
    if (raw.length !== d.n) throw new Error(`column ${d.c} holds ${raw.length} rows, not ${d.n}`);
    const values = new Float64Array(d.n);
    let missing = false;
    for (let i = 0, sum = d.b; i < d.n; i++) {
      const v = d.d ? (sum += raw[i]) : raw[i];
      values[i] = d.s === 1 ? v : v / d.s;
      if (v !== v) missing = true;
    }
    // The plot library wants null where there is no value.
    return missing ? Array.from(values, (v) => (v === v ? v : null)) : values;
  };

  // The numbers of a column descriptor; an empty array for none.
  W.column = (d) => {
    if (!d) return [];
    let values = decoded.get(d.c);
    if (!values) decoded.set(d.c, (values = decode(d)));
    return values;
  };

  // All columns of a set, by name.
  W.columns = (set) => Object.fromEntries(Object.entries(set ?? {}).map(([name, d]) => [name, W.column(d)]));

  // The samples of a member or a sum by name, with the range of each bin where the series was thinned.
  W.curve = (curves, name) => ({
    values: W.column(curves.values[name]),
    low: curves.low[name] && W.column(curves.low[name]),
    high: curves.high[name] && W.column(curves.high[name]),
  });

  W.maximum = (values) => {
    let max = -Infinity;
    for (const v of values) if (v !== null && v > max) max = v;
    return max;
  };
})();
