// Sortable, filterable tables that can be copied and saved as CSV.
(() => {
  "use strict";
  const PAGE = 200;
  // Longer texts are wrapped: sentences, not names.
  const LONG = 60;
  const csvCell = (value) => {
    if (value === null || value === undefined) return "";
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
  };

  W.table = (table, label) => {
    const { columns, heads: told, cells } = table;
    const total = cells[0]?.length ?? 0;
    const kinds = columns.map((_, c) => (cells[c].some((v) => typeof v === "string") ? "text" : told[c].kind));
    // A column without a single value only takes room.
    const shownColumns = columns.map((_, c) => c).filter((c) => cells[c].some((v) => v !== null));
    const key = columns.includes("name") ? columns.indexOf("name") : columns.indexOf("group");
    if (key >= 0) shownColumns.sort((a, b) => (b === key) - (a === key));
    let order = Array.from({ length: total }, (_, row) => row);
    let sorted = null, descending = false, limit = PAGE;

    const body = W.el("tbody", null);
    const count = W.el("span", { class: "field", role: "status" });
    const more = W.el("button", { type: "button", class: "more", onclick: () => { limit += 5 * PAGE; fill(); } });
    const heads = new Map();

    const compare = (c) => (a, b) => {
      const x = cells[c][a], y = cells[c][b];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return (descending ? -order : order) || a - b;
    };
    const rows = () => {
      const wanted = filter.value.trim().toLowerCase();
      const texts = columns.map((_, c) => c).filter((c) => kinds[c] === "text");
      const found = order.filter((row) => !wanted || texts.some((c) => String(cells[c][row] ?? "").toLowerCase().includes(wanted)));
      return sorted === null ? found : found.sort(compare(sorted));
    };
    function fill() {
      const found = rows();
      body.replaceChildren(...found.slice(0, limit).map((row) => W.el("tr", null, ...shownColumns.map((c) => W.el(
        "td", { class: (kinds[c] === "text" ? "text" : "") + (c === key ? " key" : "") + (String(cells[c][row] ?? "").length > LONG ? " long" : ""), title: W.exact(kinds[c], cells[c][row]) },
        W.human(kinds[c], cells[c][row]))))));
      const all = table.total_rows > total ? `${W.human("count", total)} of ${W.human("count", table.total_rows)} rows` : `${W.human("count", total)} ${total === 1 ? "row" : "rows"}`;
      count.textContent = found.length < total ? `${W.human("count", found.length)} of ${all}` : all;
      more.hidden = found.length <= limit;
      more.textContent = `Show more of ${W.human("count", found.length)} rows`;
    }
    const csv = () => [columns.map(csvCell).join(","), ...rows().map((row) => columns.map((_, c) => csvCell(cells[c][row])).join(","))].join("\r\n") + "\r\n";

    const filter = W.el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${table.id}`, oninput: () => { limit = PAGE; fill(); } });
    const copy = W.el("button", { type: "button", onclick: async () => {
      let done = "Copied";
      try {
        await navigator.clipboard.writeText(csv());
      } catch {
        done = "The browser did not allow it";
      }
      copy.textContent = done;
      setTimeout(() => { copy.textContent = "Copy CSV"; }, 1800);
    } }, "Copy CSV");
    const save = W.el("button", { type: "button", onclick: () => W.download(W.fileName(W.current.label, table.id) + ".csv", new Blob([csv()], { type: "text/csv" })) }, "Save CSV");

    const head = W.el("tr", null, ...shownColumns.map((c) => {
      const th = W.el("th", { scope: "col", class: (kinds[c] === "text" ? "text" : "") + (c === key ? " key" : "") },
        W.el("button", { type: "button", title: told[c].about ? `${columns[c]}: ${told[c].about}` : columns[c], onclick: () => {
          // Numbers start with the largest: that is what one looks for.
          descending = sorted === c ? !descending : kinds[c] !== "text" && kinds[c] !== "id";
          sorted = c;
          heads.forEach((other, i) => { if (i === c) other.setAttribute("aria-sort", descending ? "descending" : "ascending"); else other.removeAttribute("aria-sort"); });
          fill();
        } }, told[c].label));
      heads.set(c, th);
      return th;
    }));
    fill();
    const title = label ?? table.id.charAt(0).toUpperCase() + table.id.slice(1).replaceAll("_", " ");
    return W.el("section", { class: "card wide table", "aria-label": title },
      W.el("div", { class: "card-head" }, W.el("h3", null, title), W.el("div", { class: "tools" }, count, total > 8 ? filter : null, copy, save)),
      W.el("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": title }, W.el("table", null, W.el("thead", null, head), body), more));
  };
})();
