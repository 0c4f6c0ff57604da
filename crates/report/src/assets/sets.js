// Sets of seeds: key figures as mean and interval, and curves with the 95 % interval of the mean as a band.
(() => {
  "use strict";
  const SHOWN = 12;

  const nameOf = (m) => (m.of.kind === "total" ? "All flows" : m.of.name);
  const keyOf = (m) => `${m.of.kind} ${m.of.name ?? ""} ${m.head.name}`;

  // A row per measure, a column per set. Single flows are in the tables of the runs.
  const figures = () => {
    const known = new Map();
    W.sets.forEach((set, i) => set.measures.filter((m) => m.of.kind !== "flow").forEach((m) => {
      if (!known.has(keyOf(m))) known.set(keyOf(m), { measure: m, values: [] });
      known.get(keyOf(m)).values[i] = m;
    }));
    const rows = [...known.values()].filter(({ values }) => values.some((m) => m && (m.estimate.min !== 0 || m.estimate.max !== 0)));
    const cell = (m) => {
      if (!m) return W.el("td", null, "–");
      const { kind } = m.head, e = m.estimate;
      const title = `${e.n} seeds; least ${W.human(kind, e.min)}, most ${W.human(kind, e.max)}` + (e.stddev == null ? "" : `, deviation ${W.human(kind, e.stddev)}`);
      return W.el("td", { title }, W.human(kind, e.mean), e.ci95 == null ? null : W.el("span", { class: "difference" }, `± ${W.human(kind, e.ci95)}`));
    };
    const body = W.el("tbody", null);
    const fill = (limit) => body.replaceChildren(...rows.slice(0, limit).map(({ measure, values }) => W.el("tr", null,
      W.el("td", { class: "text key" }, nameOf(measure)), W.el("td", { class: "text", title: measure.head.about }, measure.head.label), ...W.sets.map((_, i) => cell(values[i])))));
    const more = W.el("button", { type: "button", class: "more", onclick: () => { fill(rows.length); more.hidden = true; } }, `Show all ${rows.length} measures`);
    more.hidden = rows.length <= SHOWN;
    fill(SHOWN);
    const head = (text, words) => W.el("th", { scope: "col", class: words ? "text plain" : "plain" }, text);
    return W.el("section", { class: "card wide table", "aria-label": "Key figures" }, W.el("div", { class: "card-head" }, W.el("h3", null, "Key figures")),
      W.el("p", { class: "about" }, "Mean over the seeds; ± is half of the mean’s 95 % confidence interval (Student’s t)."),
      W.el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Key figures" }, W.el("table", { class: "compare" },
        W.el("thead", null, W.el("tr", null, head("Of", true), head("Measure", true), ...W.sets.map((set) => head(`${set.label}, ${set.count} ${set.count === 1 ? "seed" : "seeds"}`)))),
        body), more));
  };

  // A plot per quantity, with a choice of the group or link where there are several.
  const bandPlot = (quantity) => {
    const bands = W.sets.flatMap((set) => set.bands).filter((b) => b.quantity === quantity);
    const names = [...new Set(bands.map((b) => b.of))];
    let of = names[0];
    const tools = names.length > 1 ? [W.select("", names.map((n) => [n, n === "" ? "All flows" : n]), of, (v) => { of = v; plot.rebuild(); })] : [];
    tools[0]?.lastChild.setAttribute("aria-label", `Whose ${bands[0].label.toLowerCase()}`);
    const only = names.length === 1 && names[0] !== "" ? ` Link ${names[0]}.` : "";
    const plot = new W.Plot({
      title: bands[0].label, of: W.several(), wide: quantity === "goodput", height: quantity === "goodput" ? 300 : 260, tools,
      about: `${bands[0].about}${only} Mean over the seeds, and its 95 % interval.`,
      build: () => {
        const groups = W.sets.map((set, i) => {
          const b = set.bands.find((other) => other.quantity === quantity && other.of === of);
          return b && [W.column(b.time), [{ name: set.label, values: W.column(b.mean), low: W.column(b.low), high: W.column(b.high), skipped: b.skipped, ...W.seriesStyle(i), width: 2 }]];
        }).filter(Boolean);
        const joined = W.joined(groups);
        return joined ? { ...joined, kind: bands[0].kind, warmup: Math.min(...W.runs.map((r) => r.summary.warmup_s ?? 0)) } : "No run has this.";
      },
    });
    return plot;
  };

  W.setsSection = () => {
    const plots = [...new Set(W.sets.flatMap((set) => set.bands.map((b) => b.quantity)))].map(bandPlot);
    const lacking = W.sets.filter((set) => set.incomplete);
    return W.el("section", { class: "part", "aria-label": "Across seeds" },
      W.el("div", { class: "part-head" }, W.el("h2", null, "Across seeds"),
        W.el("span", { class: "field" }, W.sets.map((set) => `${set.label}: ${set.count === 1 ? "seed" : "seeds"} ${set.seeds || "none"}`).join("; "))),
      ...lacking.map((set) => W.el("p", { class: "note warning", role: "alert" }, `${set.label}: left out, because incomplete: ${set.incomplete}.`)),
      W.el("div", { class: "cards" }, figures(), ...plots.map((plot) => plot.element)));
  };
})();
