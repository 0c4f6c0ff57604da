// Puts the page together and says when its first plots are drawn.
(() => {
  "use strict";
  const root = document.documentElement;
  const main = document.getElementById("main");
  const part = (title, head, ...cards) => W.el("section", { class: "part", "aria-label": title },
    W.el("div", { class: "part-head" }, W.el("h2", null, title), ...head), W.el("div", { class: "cards" }, ...cards));

  // The part of the page on one run, and the plots in it.
  const runView = (run) => {
    const plots = [];
    const add = (...made) => { plots.push(...made); return made.map((plot) => plot.element); };
    const view = W.el("div", null);
    if (W.runs.length > 1) view.append(...[W.facts(run.summary), ...W.notes(run), W.figures(run)].filter(Boolean));
    // Of a run that is a capacity test this is the result; of flows that measure it is one table among others.
    const result = run.tables.find((t) => t.id === "capacity" && !t.columns.includes("flow"));
    if (result) view.append(part("Result", [], W.table(result)));
    if (run.flows?.members.length) view.append(part("Flows", [], ...add(W.throughputPlot(run))));
    const choices = W.traceChoices(run);
    if (choices.length) {
      let selected = choices[0][0];
      let followers = [];
      const field = W.select("Flow", choices, selected, (v) => { selected = v; followers.forEach((plot) => plot.rebuild()); });
      followers = [W.windowPlot(run, () => selected), W.rttPlot(run, () => selected)];
      if (run.tcp.length) followers.unshift(W.sequencePlot(run, () => selected));
      view.append(part("Transport", choices.length > 1 ? [field] : [W.el("span", { class: "field" }, choices[0][1])], ...add(...followers)));
    }
    if (run.links?.members.length) view.append(part("Links", [], ...add(...W.linkPlots(run))));
    if (W.dilation(run)) view.append(part("Time", [], ...add(W.dilationPlot(run))));
    if (run.distributions.length) view.append(part("Distributions", [], ...add(...run.distributions.map(W.distributionPlot))));
    if (run.shares?.length) view.append(part("Keeping pace", [], ...add(...run.shares.map(W.sharesPlot))));
    const order = ["capacity", "programs", "groups", "sizes", "flows", "links", "transfers", "hosts", "machines", "dilation", "stretches", "audits"];
    const tables = run.tables.filter((t) => t !== result && t.cells[0]?.length).sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
    if (tables.length) view.append(part("Tables", [], ...tables.map((t) => W.table(t))));
    return { view, destroy: () => plots.forEach((plot) => plot.destroy()) };
  };

  W.current = W.runs[0] ?? { label: "", summary: {} };
  W.timeline.start(Math.max(0, ...W.runs.map((r) => r.summary.simulated_s ?? r.summary.duration_s ?? 0)));
  if (W.runs.length) W.pageHead();
  if (!W.current.summary.calibration) main.append(W.timeBar());
  if (W.sets.length) main.append(W.setsSection());
  else if (W.runs.length > 1) main.append(W.compareSection());
  let shown = null;
  const show = (run) => {
    W.current = run;
    const next = runView(run);
    shown?.destroy();
    if (shown) shown.view.replaceWith(next.view);
    else main.append(next.view);
    shown = next;
  };
  if (W.runs.length > 1) {
    main.append(W.el("div", { class: "part-head part" }, W.el("h2", null, "One run"),
      W.select("Run", W.runs.map((run, i) => [String(i), run.label]), "0", (i) => show(W.runs[Number(i)]))));
  }
  if (W.runs.length) show(W.runs[0]);

  // Ready when every plot in view is drawn: two frames let the observers report.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const plot of W.plots) {
      const box = plot.element.getBoundingClientRect();
      if (box.top < innerHeight) plot.draw();
    }
    setTimeout(() => {
      root.dataset.plots = String(W.plots.size);
      root.dataset.openMs = performance.now().toFixed(0);
      root.dataset.ready = "1";
    });
  }));
})();
