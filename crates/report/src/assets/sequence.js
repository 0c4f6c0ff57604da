// The time-sequence graph, as Stevens drew it and tcptrace made it common.
(() => {
  "use strict";
  const KINDS = [
    // name of the marks, legend, colour, line width
    ["sent", "Segments", "segment", 1.25],
    ["sacked", "SACK blocks", "sack", 2],
    ["dsack", "DSACK", "dsack", 3],
    ["probe", "Tail loss probes", "probe", 3],
    ["retransmit", "Retransmissions", "red", 3],
  ];

  // Stretches of time in recovery or loss.
  const bands = (states, end) => {
    const found = { recovery: [], loss: [] };
    states.forEach(([from, state], i) => {
      const to = states[i + 1]?.[0] ?? end;
      if (state === "recovery" || state === "cwr") found.recovery.push([from, to]);
      else if (state === "loss") found.loss.push([from, to]);
    });
    return found;
  };

  // The mark nearest to the pointer, within a few pixels.
  const nearest = (u, sets) => {
    const { left, top } = u.cursor, reach = 8;
    const from = u.posToVal(left - reach, "x"), to = u.posToVal(left + reach, "x");
    let best = reach, text = "";
    for (const [name, marks] of sets) {
      const [first, end] = W.visibleMarks(marks, from, to);
      for (let i = first; i < Math.min(end, first + 5000); i++) {
        const dx = Math.max(u.valToPos(marks.start[i], "x") - left, left - u.valToPos(marks.start[i] + marks.span[i], "x"), 0);
        const dy = Math.max(top - u.valToPos(marks.seq[i], "y"), u.valToPos(marks.seq[i] + marks.len[i], "y") - top, 0);
        const distance = Math.hypot(dx, dy);
        if (distance >= best) continue;
        best = distance;
        const many = marks.count[i] > 1 ? ` (${W.human("count", marks.count[i])} segments)` : "";
        text = `${name}: bytes ${W.exact("count", marks.seq[i])} to ${W.exact("count", marks.seq[i] + marks.len[i])}, ${W.human("bytes", marks.len[i])}${many}, at ${marks.start[i].toFixed(6)} s`;
      }
    }
    return text;
  };

  // The height that shows all segments and ACKs between two times, and the window's edge where it is not far off.
  const span = (sets, acks, from, to) => {
    let low = Infinity, high = -Infinity, edge = -Infinity;
    for (const [, marks] of sets) {
      const [first, end] = W.visibleMarks(marks, from, to);
      for (let i = first; i < end; i++) {
        if (marks.seq[i] < low) low = marks.seq[i];
        if (marks.seq[i] + marks.len[i] > high) high = marks.seq[i] + marks.len[i];
      }
    }
    for (let i = Math.max(0, W.lowerBound(acks.time, from) - 1); i < acks.time.length && acks.time[i] <= to; i++) {
      if (acks.ack[i] < low && acks.time[i] >= from) low = acks.ack[i];
      if (acks.ack[i] > high) high = acks.ack[i];
      if (acks.window_end[i] > edge) edge = acks.window_end[i];
    }
    if (low > high) return [0, 1];
    if (edge > high && edge - high < (high - low) * 0.5) high = edge;
    const room = (high - low) * 0.04;
    return [Math.max(0, low - room), high + room];
  };

  W.sequencePlot = (run, selected) => new W.Plot({
    title: "Time-sequence graph", wide: true, height: 480,
    about: "Every segment at the time it was sent, over the bytes it carried. Drag a box to zoom in on single segments.",
    build: () => {
      const trace = W.traceOf(run, selected());
      if (trace.sampled) return "This flow was not recorded. Set record = [\"tcp\"] on the flow to see its segments.";
      const acks = W.columns(trace.acks);
      const marks = [];
      const sets = [];
      const band = bands(trace.states, W.timeline.span);
      const shade = (name, list, colour) => {
        if (list.length) marks.push({ name, colour, shape: "band", under: true, paint: (u) => W.paintBands(u, list.map(([a, b]) => [a, b, colour])) });
      };
      shade("Recovery", band.recovery, W.colour("window"));
      shade("Loss state", band.loss, W.colour("red"));
      for (const [kind, name, token, width] of KINDS) {
        if (!trace.marks[kind]) continue;
        const set = W.columns(trace.marks[kind]);
        const colour = W.colour(token);
        sets.push([name, set]);
        marks.push({ name, colour, shape: "bar", paint: (u) => W.paintBars(u, set, colour, width) });
      }
      if (trace.marks.lost) {
        const lost = W.columns(trace.marks.lost);
        sets.push(["Declared lost", lost]);
        marks.push({ name: "Declared lost", colour: W.colour("lost"), shape: "cross", paint: (u) => W.paintCrosses(u, lost, W.colour("lost")) });
      }
      if (trace.undos.length) marks.push({ name: "Undo", colour: W.colour("sack"), shape: "bar", paint: (u) => W.paintTicks(u, trace.undos, W.colour("sack"), 0) });
      const hasAcks = acks.time.length > 0;
      return {
        x: hasAcks ? acks.time : [0, W.timeline.span],
        lines: [
          { name: "ACK", values: hasAcks ? acks.ack : [null, null], colour: W.colour("ack"), stepped: !trace.acks_thinned, whole: true, kind: "bytes" },
          { name: "Receive window", values: hasAcks ? acks.window_end : [null, null], colour: W.colour("window"), stepped: !trace.acks_thinned, whole: true, dash: [5, 3], kind: "bytes" },
        ],
        marks, kind: "bytes", box: true, warmup: run.summary.warmup_s,
        hover: (u) => nearest(u, sets),
        range: (from, to) => span(sets, acks, from, to),
      };
    },
  });
})();
