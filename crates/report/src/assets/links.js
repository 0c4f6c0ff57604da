// Queues and utilisation of the links over time.
(() => {
  "use strict";
  const METRICS = [
    ["backlog_packets", "Packets", "packets", "packets"],
    ["backlog_bytes", "Bytes", "bytes", "bytes"],
  ];

  // The links worth showing first: where something queued.
  const busy = (run) => {
    const members = run.links.members;
    const peak = (m) => Math.max(m.curves.values.queue_delay_ms ? W.maximum(W.column(m.curves.values.queue_delay_ms)) : 0, m.events.drops ? 1e-3 : 0);
    const ranked = members.map((m) => [m, peak(m)]).sort((a, b) => b[1] - a[1]);
    const top = ranked.length ? ranked[0][1] : 0;
    const some = ranked.filter(([, p]) => p > 0 && p >= top / 50).slice(0, 4).map(([m]) => m.id);
    return new Set(some.length ? some : members.slice(0, 2).map((m) => m.id));
  };

  const queueGroup = (run, m, i, sampled, exact, column) => {
    const events = run.link_events.find((e) => e.link === m.id);
    const style = W.seriesStyle(i);
    if (events && exact(events)) {
      const set = W.columns(exact(events)[0]);
      return [set.time, [{ name: m.name, values: set[exact(events)[1]], ...style, stepped: column !== "delay" }]];
    }
    return [W.column(run.links.time), m.curves.values[sampled] ? [{ name: m.name, ...W.curve(m.curves, sampled), ...style }] : []];
  };

  const tickMarks = (run, chosen) => {
    const marks = [];
    const add = (name, times, colour) => {
      if (!times?.length) return;
      const row = marks.length;
      marks.push({ name, colour, shape: "bar", paint: (u) => W.paintTicks(u, times, colour, row) });
    };
    for (const m of run.links.members.filter((m) => chosen.has(m.id))) {
      const events = run.link_events.find((e) => e.link === m.id);
      const ticks = events ? Object.entries(events.ticks) : Object.entries(m.events);
      for (const [kind, set] of ticks) {
        const mark = kind.startsWith("mark");
        add(`${m.name}: ${events ? kind : mark ? "marks" : "drops"}`, W.column(set.time), W.colour(mark ? "window" : "red"));
      }
    }
    return marks;
  };

  const picker = (run, chosen, change) => (run.links.members.length > 1
    ? [W.picker("links", run.links.members.map((m) => [m.id, m.name]), chosen, change)] : []);

  W.linkPlots = (run) => {
    const chosen = busy(run);
    const ranked = W.ranked(run.links.members, chosen);
    const members = () => ranked.map((m, i) => [m, i]).filter(([m]) => chosen.has(m.id));
    let metric = METRICS[0], load = "utilisation";
    const all = [];
    const change = () => all.forEach((plot) => plot.rebuild());
    const length = new W.Plot({
      title: "Queue length", about: "What waits in front of the link. Ticks at the top: packets lost or marked.", height: 270,
      tools: [...picker(run, chosen, change), labelled("Unit", W.select("", METRICS.map(([id, text]) => [id, text]), metric[0], (v) => {
        metric = METRICS.find(([id]) => id === v);
        length.rebuild();
      }))],
      build: () => {
        const joined = W.joined(members().map(([m, i]) => queueGroup(run, m, i, metric[0], (e) => [e.backlog, metric[2]], "backlog")).filter(([, lines]) => lines.length));
        return joined ? { ...joined, kind: metric[3], marks: tickMarks(run, chosen), warmup: run.summary.warmup_s, skipped: run.skipped } : "No link is chosen.";
      },
    });
    const delay = new W.Plot({
      title: "Queueing delay", about: "Time packets waited, at the moment they left; the mean of the interval where packets were not recorded.", height: 270,
      build: () => {
        const joined = W.joined(members().map(([m, i]) => queueGroup(run, m, i, "queue_delay_ms", (e) => [e.delay, "delay"], "delay")).filter(([, lines]) => lines.length));
        return joined ? { ...joined, kind: "ms", warmup: run.summary.warmup_s, skipped: run.skipped } : "No link is chosen.";
      },
    });
    // What a link could have carried in each interval: a number for each sample. Runs of older versions have only the mean rate.
    const capacity = (m, rows) => (m.curves.values.capacity_bps ? W.column(m.curves.values.capacity_bps) : Array(rows).fill(m.rate_bps));
    const varies = (values) => values.some((v) => v !== null && v !== values[0]);
    const use = new W.Plot({
      title: "Link utilisation", about: "What the link carried, as a share of what it could have: of its rate, or of the opportunities of its trace.", wide: true, height: 230,
      tools: [labelled("Metric", W.select("", [["utilisation", "Share of the capacity"], ["throughput", "Bits per second"]], load, (v) => { load = v; use.rebuild(); }))],
      build: () => {
        const share = load === "utilisation";
        const x = W.column(run.links.time);
        const behind = [];
        const lines = members().filter(([m]) => m.curves.values.throughput_bps && (!share || m.rate_bps)).map(([m, i]) => {
          const curve = W.curve(m.curves, "throughput_bps");
          const style = W.seriesStyle(i);
          const limit = capacity(m, x.length);
          if (share) {
            // A packet may begin in one interval and end in the next: a share above all is none.
            const part = (values) => values && Array.from(values, (v, k) => (v === null || !(limit[k] > 0) ? null : Math.min((v / limit[k]) * 100, 100)));
            for (const key of ["values", "low", "high"]) curve[key] = part(curve[key]);
            // Of bins in which the capacity itself changed the ends are not known, only the mean.
            if (varies(limit)) curve.low = curve.high = undefined;
          } else if (varies(limit)) {
            behind.push({ name: `${m.name}: capacity`, values: limit, colour: W.colour("muted"), width: 1, dash: style.dash, fill: "22", stepped: true, whole: true });
          }
          return { name: m.name, ...curve, ...style };
        });
        if (!lines.length) return share ? "None of the chosen links has a rate to be a share of." : "No link is chosen.";
        return { x, lines: [...behind, ...lines], kind: share ? "percent" : "bps", warmup: run.summary.warmup_s, skipped: run.skipped };
      },
    });
    all.push(length, delay, use);
    return all;
  };

  function labelled(label, field) {
    field.lastChild.setAttribute("aria-label", label);
    return field;
  }
})();
