// The head of the page: what ran, how it went, what to know before reading on.
(() => {
  "use strict";
  const fact = (label, ...value) => (value[0] === null ? null : W.el("div", null, W.el("dt", null, label), W.el("dd", null, ...value)));
  const given = (value, text) => (value === undefined || value === null ? null : text ?? String(value));

  W.facts = (s) => {
    const hash = given(s.scenario_hash || null);
    // A capacity test between programs has no scenario: no seed, no warm-up, no events.
    const measured = s.scenario_hash === "";
    const audit = s.live?.audit;
    const us = (v) => W.human("ms", (v ?? 0) / 1000);
    return W.el("dl", { class: "facts" },
      measured ? null : fact("Seed", given(s.seed)),
      fact("Duration", given(s.duration_s, W.human("s", s.duration_s))),
      measured ? null : fact("Warm-up", s.warmup_s > 0 ? W.human("s", s.warmup_s) : given(s.warmup_s, "none")),
      fact("Clock", given(s.clock)),
      ...(audit ? [
        fact("Lateness (median, 99 %, largest)", `${us(audit.lateness?.median_us)}, ${us(audit.lateness?.p99_us)}, ${us(audit.lateness?.max_us)}`),
        fact("Late packets", `${audit.lateness?.late_packets ?? 0} of ${audit.lateness?.packets ?? 0} by more than ${us(audit.lateness?.threshold_us)}`),
        fact("Lost outside the network", given(audit.lost_outside)),
        s.guests?.hosts?.some((host) => host.card_drops > 0) ? fact("Dropped by guests’ network cards", String(s.guests.hosts.reduce((sum, host) => sum + (host.card_drops ?? 0), 0))) : null,
        fact("Emulator’s CPU", `${((audit.cpu_share ?? 0) * 100).toFixed(0)} % of a core`),
      ] : []),
      fact("Packet hops", given(s.packet_hops, W.human("count", s.packet_hops))),
      measured ? null : fact("Events", given(s.events, W.human("count", s.events))),
      fact("Scenario hash", hash === null ? null : W.el("code", { title: hash }, hash.length > 22 ? hash.slice(0, 19) + "…" : hash)),
      fact("Cores", given(s.calibration?.cores)),
      fact("Kernel", given(s.calibration?.kernel)),
      fact("Load before", given(s.calibration?.load)),
      fact("Warpline", given(s.warpline)));
  };

  W.figures = (run) => {
    const s = run.summary, t = s.totals ?? {};
    const hasFlows = run.tables.some((table) => table.id === "flows" && table.cells[0]?.length);
    const figures = W.totalHeads.filter(({ name }) => t[name] !== undefined && t[name] !== null)
      // A capacity test has no links that would drop or mark, nor flows to share among. A shell has links only.
      .filter(({ kind }) => hasFlows ? s.scenario_hash !== "" || kind === "bps" : kind !== "bps").map(({ name, label, kind }) => [label, kind, t[name]]);
    if (!figures.length) return null;
    return W.el("div", { class: "figures" }, ...figures.map(([label, kind, v]) => W.el("div", { class: "figure" },
      W.el("span", null, label), W.el("b", { title: W.exact(kind, v) }, W.human(kind, v)))));
  };

  W.notes = (run) => {
    const info = run.notes.filter((n) => n.level === "info");
    return [
      ...run.notes.filter((n) => n.level === "warning").map((n) => W.el("p", { class: "note warning", role: "alert" }, n.text)),
      info.length ? W.el("details", { class: "notes" }, W.el("summary", null, `How this page shows the data (${info.length})`), ...info.map((n) => W.el("p", null, n.text))) : null,
    ].filter(Boolean);
  };

  // What a page of several runs is about.
  W.several = () => {
    const sets = W.sets;
    return sets.length === 1 ? `${sets[0].label}: ${sets[0].count} ${sets[0].count === 1 ? "seed" : "seeds"}` : sets.length ? `${sets.length} sets compared` : `${W.runs.length} runs compared`;
  };

  W.pageHead = () => {
    const one = W.runs.length === 1;
    const s = W.runs[0].summary;
    const title = one ? s.scenario ?? W.runs[0].label : W.several();
    document.getElementById("top").append(
      W.el("div", { class: "head-row" },
        W.el("div", null, W.el("p", { class: "brand" }, "Warpline report"), W.el("h1", null, title)),
        W.themeButton()),
      ...(one ? [W.facts(s), ...W.notes(W.runs[0]), W.figures(W.runs[0])].filter(Boolean) : []));
    if (s.calibration) document.querySelector(".page-foot").append("Sizes are those of packets on an Ethernet wire; the smallest counts from the IP header on.");
    else document.querySelector(".page-foot").append("Figures exclude the warm-up, which the plots shade. Times are seconds of the run. ",
      "The Parquet tables beside this page hold all values.");
  };
})();
