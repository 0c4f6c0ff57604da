// Several runs of one scenario as a grid: what a run is about, and how it went, in each cell.

const MEASURES = [
  ["goodput_bps", "Goodput", "bps"],
  ["drops", "Packets lost", "count"],
  ["marks", "Packets marked", "count"],
  ["jain", "Jain’s index", "number"],
];

// Cells by the values of the axes: rows are the first axis, columns all others and the seeds. Without axes, rows are folders and columns the runs in them.
const places = (entry) => {
  const axes = entry.grid?.axes ?? [];
  const seeds = entry.grid?.seeds ?? [];
  const short = entry.cells.map((cell) => cell.run.slice(entry.run.length + 1));
  const rows = new Map(), columns = new Map();
  const split = (name) => {
    if (!axes.length) {
      const at = name.lastIndexOf("/");
      return [name.slice(0, Math.max(at, 0)), name.slice(at + 1)];
    }
    const [values, seed] = name.split("/");
    const [row, ...others] = values.split(",");
    return [row, [...others, seed].filter(Boolean).join(", ")];
  };
  short.forEach((name, i) => {
    const [row, column] = split(name);
    if (!rows.has(row)) rows.set(row, new Map());
    rows.get(row).set(column, entry.cells[i]);
    columns.set(column, true);
  });
  // In the order in which the values were given.
  const plain = (text) => text.trim().replace(/[^A-Za-z0-9\-_.]/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60);
  const order = (axes[0]?.values ?? []).map((value) => `${plain(axes[0].key.split(".").pop())}-${plain(value)}`);
  const rank = (name) => { const at = order.indexOf(name); return at < 0 ? order.length : at; };
  const number = (name) => Number(/seed-(\d+)/.exec(name)?.[1] ?? 0);
  const names = [...columns.keys()].sort((a, b) => number(a) - number(b) || a.localeCompare(b, "en", { numeric: true }));
  return { rows: [...rows].sort(([a], [b]) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true })), names, axes, seeds };
};

let measure = "goodput_bps";

export const stateWords = (job, cell) => {
  if (job?.state === "waiting") return "waits";
  if (job?.state === "running") return "runs";
  if (job?.state === "failed") return "failed";
  if (job?.state === "stopped" || cell?.complete === false) return "stopped early";
  return "done";
};

export const grid = (entry, openCell, changed) => {
  const { rows, names, axes, seeds } = places(entry);
  const kind = MEASURES.find(([key]) => key === measure)[2];
  const values = entry.cells.map((cell) => cell.totals?.[measure]).filter((value) => typeof value === "number");
  const most = Math.max(...values, 0), least = Math.min(...values, most);
  const cell = (own) => {
    if (!own) return W.el("td", null, "–");
    const value = own.totals?.[measure];
    const words = own.totals ? W.human(kind, value ?? null) : stateWords(own.job, own);
    const share = typeof value === "number" && most > least ? (value - least) / (most - least) : 0;
    const button = W.el("button", { type: "button", onclick: () => openCell(own), title: `Open ${own.run}` }, W.el("span", null, words));
    button.style.setProperty("--share", share.toFixed(3));
    if (own.job?.state === "failed") button.classList.add("bad");
    return W.el("td", null, button);
  };
  const done = entry.cells.filter((own) => own.totals).length;
  const choice = W.select("Cells show", MEASURES.map(([key, label]) => [key, label]), measure, (value) => { measure = value; changed(); });
  return W.el("section", { class: "card grid-card", "aria-label": "Grid of runs" },
    W.el("div", { class: "card-head" }, W.el("h3", null, `${done} of ${entry.cells.length} runs done`), choice),
    W.el("p", { class: "about" }, axes.length ? `Rows: ${axes[0].key}. Columns: ${[...axes.slice(1).map((axis) => axis.key), seeds.length > 1 ? "seed" : ""].filter(Boolean).join(", ") || "one run each"}.` : entry.grid ? "Columns: seeds." : "Rows: folders. Columns: runs."),
    W.el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Grid of runs" }, W.el("table", { class: "grid" },
      W.el("thead", null, W.el("tr", null, W.el("td", null), ...names.map((name) => W.el("th", { scope: "col", class: "plain" }, name || "run")))),
      W.el("tbody", null, ...rows.map(([row, cells]) => W.el("tr", null, W.el("th", { scope: "row" }, row || "all"), ...names.map((name) => cell(cells.get(name)))))))));
};
