// Curves of a run while it goes on: what comes line by line becomes plots that grow.
import { follow } from "./api.js";

const MOST_LINES = 6;

export class Curves {
  // `told(line)` hears of progress and the end.
  constructor(run, told) {
    this.run = run;
    this.told = told;
    this.time = [];
    // By kind and name: the columns.
    this.rows = { flows: new Map(), links: new Map() };
    this.stop = new AbortController();
    this.bar = W.el("progress", { max: 1, value: 0, "aria-label": `Progress of ${run}` });
    this.words = W.el("span", { class: "about" }, "starting …");
    const plot = (title, about, what, key, kind, wanted) => new W.Plot({ title, about, height: 220, build: () => this.lines(what, key, kind, wanted) });
    this.plots = [
      plot("Goodput of flows", "What applications got, each byte once.", "flows", "goodput_bps", "bps", (row) => row.sum),
      plot("Congestion window", "What a sender may have on its way.", "flows", "cwnd_bytes", "bytes", (row) => row.sum),
      plot("Round-trip time", "As senders smooth it.", "flows", "srtt_ms", "ms", (row) => row.sum),
      plot("Queues", "Packets that wait in front of a link.", "links", "backlog_packets", "packets", (row) => row.busy),
    ];
    this.element = W.el("div", { class: "live" }, W.el("div", { class: "live-head" }, this.bar, this.words),
      W.el("div", { class: "cards" }, ...this.plots.map((own) => own.element)));
    this.read();
  }

  lines(what, key, kind, weight) {
    const members = [...this.rows[what]].filter(([, row]) => row.values[key]?.some((v) => v !== null));
    if (!members.length) return "Nothing yet.";
    const chosen = new Set([...members].sort(([, a], [, b]) => weight(b) - weight(a)).slice(0, MOST_LINES).map(([name]) => name));
    const lines = members.map(([name, row], i) => [name, row, i]).filter(([name]) => chosen.has(name))
      .map(([name, row], i) => ({ name, values: row.values[key], ...W.seriesStyle(i), width: 1.75 }));
    return { x: this.time, lines, kind, warmup: this.begin?.warmup_s ?? 0 };
  }

  take(what, list) {
    const at = this.time.length - 1;
    for (const row of list) {
      let own = this.rows[what].get(row.name);
      if (!own) this.rows[what].set(row.name, (own = { values: {}, sum: 0, busy: 0 }));
      own.sum += row.goodput_bps ?? 0;
      own.busy = Math.max(own.busy, row.backlog_packets ?? 0) + (row.drops ?? 0) * 1e-3;
      for (const [key, value] of Object.entries(row)) {
        if (typeof value !== "number") continue;
        own.values[key] ??= [];
        while (own.values[key].length < at) own.values[key].push(null);
        own.values[key].push(value);
      }
    }
    // What did not come this time has no value.
    for (const own of this.rows[what].values()) {
      for (const values of Object.values(own.values)) while (values.length <= at) values.push(null);
    }
  }

  async read() {
    try {
      for await (const line of follow(this.run, this.stop.signal)) {
        if (line.event === "begin") {
          this.begin = line;
          W.timeline.start(line.duration_s);
          W.current = { label: this.run, summary: { warmup_s: line.warmup_s } };
        } else if (line.event === "progress") {
          this.bar.value = line.share;
          this.words.textContent = `${W.human("s", line.time_s)} of ${W.human("s", this.begin?.duration_s ?? 0)}, ${Math.round(line.share * 100)} %`;
        } else if (line.event === "interval") {
          this.time.push(line.time_s);
          this.take("flows", line.flows);
          this.take("links", line.links);
          this.refresh();
        }
        this.told(line);
      }
    } catch (error) {
      if (error.name !== "AbortError") this.words.textContent = error.message;
    }
  }

  // A few times in a second: more is not seen.
  refresh() {
    if (this.due) return;
    this.due = setTimeout(() => {
      this.due = 0;
      if (!this.stop.signal.aborted) this.plots.forEach((plot) => plot.refresh());
    }, 300);
  }

  destroy() {
    this.stop.abort();
    this.plots.forEach((plot) => plot.destroy());
  }
}
