// Cumulative distributions, and shares over what is counted.
(() => {
  "use strict";
  W.distributionPlot = (spec) => new W.Plot({
    title: spec.title, of: spec.of, time: false, height: 270, about: spec.about ?? "Share of samples at or below a value.",
    build: () => {
      const sets = spec.lines.map((line) => W.columns(line.columns));
      const low = Math.min(...sets.map(({ value }) => value[0])), high = Math.max(...sets.map(({ value }) => value[value.length - 1]));
      // How far before its value the step of a line with a single value begins: too little to be seen, but not nothing.
      const foot = 1e-6 * (high || 1);
      const groups = spec.lines.map((line, i) => {
        const set = sets[i];
        // Steps of equal values: only the highest counts.
        const x = [], y = [];
        for (let k = 0; k < set.value.length; k++) {
          if (x.length && x[x.length - 1] === set.value[k]) y[y.length - 1] = set.fraction[k] * 100;
          else { x.push(set.value[k]); y.push(set.fraction[k] * 100); }
        }
        // From the ground up, so that a single value is a step too.
        if (x.length === 1) { x.unshift(x[0] - foot); y.unshift(0); }
        return [x, [{ name: line.name, title: `${line.name}: ${W.human("count", line.samples)} samples`, values: y, ...W.seriesStyle(i), stepped: true, whole: true, kind: "percent" }]];
      });
      const joined = W.joined(groups);
      if (!joined) return "No samples.";
      // Where all values are the same, the axis goes from zero to twice that value.
      return { ...joined, kind: "percent", xKind: spec.unit, xRange: high > low ? undefined : [0, 2 * high || 1], range: () => [0, 102] };
    },
  });

  W.sharesPlot = (spec) => new W.Plot({
    title: spec.title, time: false, height: 270, about: spec.about,
    build: () => {
      const groups = spec.lines.map((line, i) => {
        const set = W.columns(line.columns);
        return [Array.from(set.count), [{ name: line.name, title: line.name, values: Array.from(set.percent), ...W.seriesStyle(i), whole: true, kind: "percent" }]];
      });
      const joined = W.joined(groups);
      if (!joined) return "Nothing was measured.";
      return { ...joined, kind: "percent", xKind: "count", range: () => [0, 105] };
    },
  });
})();
