// The time dilation factor of a dilated run over time.
(() => {
  "use strict";
  // The run's factors as columns; nothing where it stayed the same.
  W.dilation = (run) => {
    const table = run.tables.find((t) => t.id === "dilation");
    const column = (name) => table?.cells[table.columns.indexOf(name)];
    const [time, tdf] = [column("time_s"), column("tdf")];
    return time && tdf?.length > 1 ? { time, tdf } : null;
  };

  W.dilationPlot = (run) => new W.Plot({
    title: "Time dilation factor", wide: true, height: 200,
    about: "Seconds of the machine in a second of the run.",
    build: () => {
      const { time, tdf } = W.dilation(run);
      // The last one holds to the end.
      const end = Math.max(run.summary.simulated_s ?? 0, time[time.length - 1]);
      return {
        x: Float64Array.from([...time, end]),
        lines: [{ name: "TDF", values: Float64Array.from([...tdf, tdf[tdf.length - 1]]), ...W.seriesStyle(0), stepped: true }],
        kind: "count", warmup: run.summary.warmup_s,
      };
    },
  });
})();
