// Throughput of the flows over time, and window and RTT of one flow.
(() => {
  "use strict";
  // Lines one above the other: the topmost is drawn first, each filled to the ground.
  const stack = (lines, plot) => {
    const sums = new Float64Array(lines[0]?.values.length ?? 0);
    for (const item of lines) {
      item.raw = item.values;
      item.low = item.high = undefined;
      item.whole = true;
      if (!plot.shown(item)) continue;
      item.values = Float64Array.from(sums, (sum, i) => (sums[i] = sum + (item.raw[i] ?? 0)));
      item.fill = "cc";
      item.width = 0.5;
    }
    return lines.reverse();
  };

  W.throughputPlot = (run) => {
    const { flows } = run;
    const chosen = new Set(flows.members.slice(0, 8).map((m) => m.id));
    const members = W.ranked(flows.members, chosen);
    let metric = "goodput_bps", shape = "lines";
    const redraw = () => plot.rebuild();
    const tools = [
      W.select("", [["goodput_bps", "Goodput"], ["throughput_bps", "Throughput"]], metric, (v) => { metric = v; redraw(); }),
      W.select("", [["lines", "Lines"], ["stacked", "Stacked"]], shape, (v) => { shape = v; redraw(); }),
    ];
    tools[0].lastChild.setAttribute("aria-label", "Metric");
    tools[1].lastChild.setAttribute("aria-label", "Form");
    if (flows.members.length > 8) tools.unshift(W.picker("flows", flows.members.map((m) => [m.id, m.name]), chosen, redraw, flows.members.length + (flows.others?.count ?? 0)));
    const plot = new W.Plot({
      title: "Throughput by flow", wide: true, height: 300, tools,
      about: "Goodput counts every byte once, when it reaches the application; throughput counts what was sent.",
      build: () => {
        const x = W.column(flows.time);
        let lines = members.map((m, i) => [m, i]).filter(([m]) => chosen.has(m.id) && m.curves.values[metric])
          .map(([m, i]) => ({ name: m.name, ...W.curve(m.curves, metric), ...W.seriesStyle(i) }));
        const stacked = shape === "stacked";
        // What is neither chosen nor embedded by itself, so that a stack reaches the total.
        const rest = flows.members.filter((m) => !chosen.has(m.id) && m.curves.values[metric]);
        const others = flows.others;
        const count = rest.length + (others?.count ?? 0);
        if (count > 0) {
          const sum = new Float64Array(x.length);
          const parts = rest.map((m) => W.column(m.curves.values[metric]));
          if (others) parts.push(W.column(others.curves.values[metric]));
          for (const values of parts) for (let i = 0; i < sum.length; i++) sum[i] += values[i] ?? 0;
          lines.push({ name: `${count} other flows`, values: sum, colour: W.colour("muted"), dash: [2, 3], show: stacked });
        }
        if (stacked) lines = stack(lines, plot);
        else if (flows.members.length > 1) {
          lines.push({ name: "All flows", ...W.curve(flows.total, metric), colour: W.colour("ink"), width: 1, dash: [], show: flows.members.length <= 20 });
        }
        return { x, lines, kind: "bps", warmup: run.summary.warmup_s, skipped: run.skipped, stacked };
      },
    });
    return plot;
  };

  // Sampled flows that are not recorded as a trace of their own, in the traces' form.
  W.traceOf = (run, key) => {
    const trace = run.tcp.find((t) => `t${t.flow}.${t.side}` === key);
    if (trace) return trace;
    const member = run.flows?.members.find((m) => `s${m.id}` === key);
    return member && { sampled: member, name: member.name, time: run.flows.time };
  };

  W.traceChoices = (run) => {
    const recorded = run.tcp.map((t) => [`t${t.flow}.${t.side}`, t.name]);
    const flows = new Set(run.tcp.map((t) => t.flow));
    const sampled = (run.flows?.members ?? []).filter((m) => !flows.has(m.id) && m.curves.values.cwnd_bytes)
      .map((m) => [`s${m.id}`, `${m.name} (sampled)`]);
    return [...recorded, ...sampled];
  };

  // Several lines with times of their own on one grid; what a line lacks at a time is undefined, so that it is drawn through.
  W.joined = (groups) => {
    const kept = groups.filter(([time]) => time.length);
    if (!kept.length) return null;
    if (kept.length === 1) return { x: kept[0][0], lines: kept[0][1] };
    const [x, ...values] = uPlot.join(kept.map(([time, lines]) => [time, ...lines.flatMap((line) => [line.values, line.low, line.high].filter(Boolean))]));
    const lines = kept.flatMap(([, group]) => group);
    lines.forEach((line) => ["values", "low", "high"].forEach((part) => { if (line[part]) line[part] = values.shift(); }));
    return { x, lines };
  };

  const some = (values) => values.length > 0 && W.maximum(values) > -Infinity;

  W.windowPlot = (run, selected) => new W.Plot({
    title: "Congestion window", about: "What may be in flight, what is, and the slow-start threshold.", height: 270,
    build: () => {
      const trace = W.traceOf(run, selected());
      const m = trace.sampled ? {} : W.columns(trace.metrics);
      const of = (event, sample) => (trace.sampled ? W.curve(trace.sampled.curves, sample) : { values: m[event] });
      const x = trace.sampled ? W.column(trace.time) : m.time;
      const lines = [
        { name: "In flight", ...of("in_flight", "in_flight_bytes"), colour: W.colour("s2"), width: 1, fill: "26", stepped: true },
        { name: "cwnd", ...of("cwnd", "cwnd_bytes"), colour: W.colour("s0"), width: 2, stepped: true },
        { name: "ssthresh", ...of("ssthresh", "ssthresh_bytes"), colour: W.colour("s1"), dash: [6, 4], stepped: true },
      ].filter((line) => some(line.values));
      if (!lines.length) return "No window was recorded for this flow.";
      const marks = [];
      const retransmits = trace.sampled ? W.columns(trace.sampled.events.retransmits).time : W.columns(trace.marks.retransmit).start;
      if (retransmits?.length) marks.push({ name: "Retransmissions", colour: W.colour("red"), shape: "bar", paint: (u) => W.paintTicks(u, retransmits, W.colour("red"), 0) });
      if (trace.undos?.length) marks.push({ name: "Undo", colour: W.colour("sack"), shape: "bar", paint: (u) => W.paintTicks(u, trace.undos, W.colour("sack"), 1) });
      return { x, lines, marks, kind: "bytes", warmup: run.summary.warmup_s, skipped: run.skipped };
    },
  });

  W.rttPlot = (run, selected) => new W.Plot({
    title: "Round-trip time", about: "Samples, the smoothed and the smallest, and the retransmission time-out.", height: 270,
    build: () => {
      const trace = W.traceOf(run, selected());
      let groups;
      if (trace.sampled) {
        groups = [[W.column(trace.time), [{ name: "Smoothed", ...W.curve(trace.sampled.curves, "srtt_ms"), colour: W.colour("s0") }]]];
      } else {
        const m = W.columns(trace.metrics), r = W.columns(trace.rtt);
        const rto = W.maximum(m.rto), rtt = Math.max(W.maximum(r.rtt), W.maximum(m.srtt));
        groups = [
          [r.time, [{ name: "Samples", values: r.rtt, colour: W.colour("s7"), points: true }]],
          [m.time, [
            { name: "Smoothed", values: m.srtt, colour: W.colour("s0"), width: 2 },
            { name: "Smallest", values: m.min_rtt, colour: W.colour("s2"), dash: [6, 4] },
            // Where it dwarfs the RTT it is offered in the legend, not drawn.
            { name: "RTO", values: m.rto, colour: W.colour("s1"), show: rto < 2 * rtt, stepped: true },
          ]],
        ];
      }
      groups = groups.map(([time, lines]) => [time, lines.filter((line) => some(line.values))]).filter(([, lines]) => lines.length);
      const joined = W.joined(groups);
      if (!joined) return "No round-trip time was recorded for this flow.";
      return {
        ...joined, kind: "ms", warmup: run.summary.warmup_s, skipped: run.skipped,
        range: (from, to, low, high) => {
          const room = Math.max((high - low) * 0.08, high * 0.01);
          return [Math.max(0, low - room), high + room];
        },
      };
    },
  });
})();
