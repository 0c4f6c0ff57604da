// Several runs together: a table of their key figures and their curves in common plots.
(() => {
  "use strict";
  // Each as label, kind, and its value in a run.
  const metrics = () => {
    const told = ["packet_hops", "simulated_s"];
    return [
      ...W.totalHeads.map(({ name, label, kind }) => [label, kind, (run) => run.summary.totals?.[name]]),
      ...W.foldHeads.map(({ label, kind }, i) => [label, kind, (run) => run.folds[i]]),
      ...W.runHeads.filter(({ name }) => told.includes(name)).map(({ name, label, kind }) => [label, kind, (run) => run.summary[name]]),
    ];
  };

  const difference = (value, base) => {
    if (!base || value === undefined || value === null) return null;
    const percent = (value / base - 1) * 100;
    return W.el("span", { class: "difference" }, `${percent > 0 ? "+" : percent < 0 ? "−" : "±"}${Math.abs(percent).toFixed(1)} %`);
  };

  const comparison = () => {
    const rows = metrics().map(([label, kind, of]) => [label, kind, W.runs.map(of)]).filter(([, , values]) => values.some((v) => v !== undefined && v !== null));
    return W.el("section", { class: "card wide table", "aria-label": "Key figures" }, W.el("div", { class: "card-head" }, W.el("h3", null, "Key figures")),
      W.el("p", { class: "about" }, "Differences are from the first run."),
      W.el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Key figures" }, W.el("table", { class: "compare" },
        W.el("thead", null, W.el("tr", null, W.el("th", { class: "text key plain", scope: "col" }, "Metric"), ...W.runs.map((r) => W.el("th", { scope: "col", class: "plain" }, r.label)))),
        W.el("tbody", null, ...rows.map(([label, kind, values]) => W.el("tr", null, W.el("td", { class: "text key" }, label),
          ...values.map((v, i) => W.el("td", { title: W.exact(kind, v) }, W.human(kind, v), i ? difference(v, values[0]) : null))))))));
  };

  // One line per chosen run; `find` gives [time, values] of a run or nothing.
  const overlay = (spec, chosen, find) => new W.Plot({
    ...spec, of: W.several(),
    build: () => {
      const groups = W.runs.map((run, i) => [run, i]).filter(([, i]) => chosen.has(i)).map(([run, i]) => {
        const found = find(run);
        return found ? [found[0], [{ name: run.label, ...found[1], skipped: run.skipped, ...W.seriesStyle(i) }]] : null;
      }).filter(Boolean);
      const joined = W.joined(groups);
      return joined ? { ...joined, kind: spec.kind, warmup: Math.min(...W.runs.map((r) => r.summary.warmup_s ?? 0)) } : "None of the chosen runs has this.";
    },
  });

  const namesOf = (pick) => [...new Set(W.runs.flatMap((run) => pick(run)?.members.map((m) => m.name) ?? []))];
  const member = (series, name) => series?.members.find((m) => m.name === name);

  W.compareSection = () => {
    const chosen = new Set(W.runs.map((_, i) => i).slice(0, 8));
    const plots = [];
    const redraw = () => plots.forEach((plot) => plot.rebuild());
    plots.push(overlay({ title: "Goodput of all flows", wide: true, height: 280, kind: "bps" }, chosen,
      (run) => run.flows?.total.values.goodput_bps && [W.column(run.flows.time), W.curve(run.flows.total, "goodput_bps")]));
    const chooser = (label, names, start, make) => {
      if (!names.length) return;
      let name = start;
      const field = W.select("", names.map((n) => [n, n]), name, (v) => { name = v; mine.forEach((plot) => plot.rebuild()); });
      field.lastChild.setAttribute("aria-label", label);
      const mine = make(() => name, [field]);
      plots.push(...mine);
    };
    const links = namesOf((run) => run.links);
    const queued = (name) => Math.max(...W.runs.map((run) => {
      const m = member(run.links, name);
      return m?.curves.values.queue_delay_ms ? W.maximum(W.column(m.curves.values.queue_delay_ms)) : 0;
    }));
    const busiest = links.slice(0, 12).reduce((best, name) => (best === null || queued(name) > queued(best) ? name : best), null);
    chooser("Link", links, busiest, (name, tools) => [
      overlay({ title: "Queueing delay", height: 260, kind: "ms", tools }, chosen, (run) => {
        const m = member(run.links, name());
        return m?.curves.values.queue_delay_ms && [W.column(run.links.time), W.curve(m.curves, "queue_delay_ms")];
      }),
    ]);
    const flows = namesOf((run) => run.flows);
    chooser("Flow", flows, flows[0], (name, tools) => [
      overlay({ title: "Congestion window", height: 260, kind: "bytes", tools }, chosen, (run) => {
        const m = member(run.flows, name());
        return m?.curves.values.cwnd_bytes && [W.column(run.flows.time), W.curve(m.curves, "cwnd_bytes")];
      }),
    ]);
    // Distributions of the same name, one line per run and line.
    const titles = [...new Set(W.runs.flatMap((run) => run.distributions.map((d) => d.title)))];
    for (const title of titles) {
      const found = W.runs.map((run) => run.distributions.find((d) => d.title === title)).filter(Boolean);
      const lines = W.runs.flatMap((run) => (run.distributions.find((d) => d.title === title)?.lines ?? []).map((line) => ({ ...line, name: `${run.label}: ${line.name}` })));
      plots.push(W.distributionPlot({ title, of: W.several(), unit: found[0].unit, lines: lines.slice(0, 16), about: lines.length > 16 ? `The first 16 of ${lines.length} lines.` : undefined }));
    }
    const pick = W.picker("runs", W.runs.map((run, i) => [i, run.label]), chosen, redraw);
    return W.el("section", { class: "part", "aria-label": "Comparison" },
      W.el("div", { class: "part-head" }, W.el("h2", null, "Comparison"), pick),
      W.el("div", { class: "cards" }, comparison(), ...plots.map((plot) => plot.element)));
  };
})();
