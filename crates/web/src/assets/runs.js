// The runs: started, watched while they go on, listed, named, compared, and shown in full.
import { call } from "./api.js";
import { Curves } from "./curves.js";
import { doc, settled } from "./document.js";
import { grid, stateWords } from "./grid.js";
import { ask, button, dialog, fail, onShow, say, show, shown } from "./page.js";

// Recordings with more events than this are not made unless asked for.
const MANY = 3e6;

// Larger numbers cannot be told apart here, and another seed would be run.
const seed = (text) => {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new Error(`The seed ${text} is too large: the largest one that this page can take is ${Number.MAX_SAFE_INTEGER}.`);
  return number;
};

// Seeds as people write them: "1..20" or "1, 2, 5".
export const seedsOf = (text) => text.split(",").map((part) => part.trim()).filter(Boolean).flatMap((part) => {
  const range = /^(\d+)\s*\.\.\s*(\d+)$/.exec(part);
  if (range) {
    const [from, to] = [seed(range[1]), seed(range[2])];
    if (to < from || to - from > 1000) throw new Error(`"${part}" is no range of up to 1000 seeds.`);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  }
  if (!/^\d+$/.test(part)) throw new Error(`"${part}" is no seed: write numbers, 1..20 or 1, 2, 5.`);
  return [seed(part)];
});

// Values between commas; those within brackets, braces or quotation marks stay together.
export const valuesOf = (text) => {
  const found = [];
  let depth = 0, quoted = false, own = "";
  for (const sign of text) {
    if (sign === '"') quoted = !quoted;
    else if (!quoted && "[{".includes(sign)) depth++;
    else if (!quoted && "]}".includes(sign)) depth--;
    if (sign === "," && depth === 0 && !quoted) { found.push(own.trim()); own = ""; } else own += sign;
  }
  return [...found, own.trim()].filter(Boolean);
};

export class Runs {
  // `watch(run)` plays a run; `renamed(from, to)` hears of new names.
  constructor(watch, renamed) {
    this.watch = watch;
    this.renamed = renamed;
    this.chosen = new Set();
    this.list = W.el("ul", { class: "run-list" });
    this.detail = W.el("div", { class: "run-detail" });
    this.compareButton = button("Compare the chosen runs", () => this.compare(), { disabled: true });
    this.count = W.el("p", { class: "about" });
    this.element = W.el("section", { class: "runs" },
      W.el("section", { class: "card run-side", "aria-label": "List of runs" }, W.el("div", { class: "card-head" }, W.el("h2", null, "Runs"), this.compareButton), this.count, this.list),
      this.detail);
    this.entries = [];
    this.hint();
    onShow((name) => {
      if (name === "runs") this.goOn().catch(fail);
      else this.leave();
    });
    // A tab that nobody sees does not ask either.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.leave();
      else if (shown() === "runs") this.goOn(true).catch(fail);
    });
  }

  // Asks no longer for what the curves show: nobody sees them.
  leave() {
    if (!this.live) return;
    this.left = { run: this.live.run, then: this.then };
    this.live.destroy();
    this.live = null;
  }

  // Shows again what was left. The curves come from the beginning. `awaited` says that nothing else was done here in the meantime: what was to follow
  // the run follows it, also if it is over by now.
  async goOn(awaited = false) {
    const { left } = this;
    if (!left) return;
    await this.refresh();
    // Something else was opened in the meantime, or the part left again.
    if (this.left !== left || shown() !== "runs") return;
    await this.open(left.run, awaited || this.isActive(this.entry(left.run) ?? {}) ? left.then : undefined);
  }

  hint() {
    this.detail.replaceChildren(W.el("div", { class: "card hint" }, W.el("h2", null, "No run is open"),
      W.el("p", null, "Choose one in the list, or start one with Run above. A run is a folder with tables, captures and a report: hand on the folder to share it.")));
  }

  // How much a recording of all packets would hold, in words; and whether it is made without being asked for.
  recording() {
    const events = doc.checked.about?.events ?? 0;
    const size = events * 22;
    return { usual: doc.checked.about?.simulated === true && events < MANY, words: `about ${W.human("count", Number(events.toPrecision(2)))} events, ${W.human("bytes", Number(size.toPrecision(1)))}` };
  }

  async start({ seeds = [], axes = [], record, name, then } = {}) {
    await settled();
    // How much a recording would hold may have changed until here.
    record ??= this.recording().usual;
    const answer = await call("POST", "/api/runs", { text: doc.text, file: doc.name, called: doc.suggestion, name: name || null, seeds, axes, record });
    await this.refresh();
    show("runs");
    (answer.runs.length > 1 ? this.open(answer.name) : this.open(answer.runs[0], then)).catch(fail);
    say(answer.runs.length > 1 ? `${answer.runs.length} runs have begun.` : `The run ${answer.name} has begun.`, "quiet");
  }

  // More than one run: seeds and values of keys.
  async startMany() {
    const seeds = W.el("input", { type: "text", id: "many-seeds", value: String(doc.checked.about?.seed ?? 1), autocomplete: "off" });
    const name = W.el("input", { type: "text", id: "many-name", value: "", placeholder: doc.checked.about?.name ?? "", autocomplete: "off" });
    const { usual, words } = this.recording();
    const record = W.el("input", { type: "checkbox", id: "many-record" });
    record.checked = usual;
    const axes = W.el("div", { class: "axes" });
    const keys = this.keys();
    const add = (key = "", values = "") => {
      const number = axes.children.length;
      axes.append(W.el("div", { class: "axis" },
        W.el("label", { for: `axis-key${number}` }, "Key"), W.el("input", { type: "text", id: `axis-key${number}`, value: key, list: "axis-keys", placeholder: "such as flow.bulk.cc", autocomplete: "off" }),
        W.el("label", { for: `axis-values${number}` }, "Values"), W.el("input", { type: "text", id: `axis-values${number}`, value: values, placeholder: "cubic, reno, bbr", autocomplete: "off" })));
    };
    add();
    const total = W.el("p", { class: "about", role: "status" });
    const read = () => {
      const list = [...axes.children].map((axis) => [...axis.querySelectorAll("input")].map((input) => input.value.trim())).filter(([key, values]) => key || values);
      return { seeds: seedsOf(seeds.value), axes: list.map(([key, values]) => ({ key, values: valuesOf(values) })), record: record.checked, name: name.value.trim() };
    };
    const tell = () => {
      try {
        const wish = read();
        const runs = wish.axes.reduce((product, axis) => product * axis.values.length, wish.seeds.length);
        total.textContent = `${runs} ${runs === 1 ? "run" : "runs"}`;
      } catch (error) {
        total.textContent = error.message;
      }
    };
    const form = W.el("form", { class: "many", oninput: tell, onsubmit: async (event) => {
      event.preventDefault();
      try {
        await this.start(read());
        box.close();
      } catch (error) {
        fail(error);
      }
    } },
    W.el("datalist", { id: "axis-keys" }, ...keys.map((key) => W.el("option", { value: key }))),
    W.el("div", { class: "row given" }, W.el("label", { for: "many-name" }, "Name"), name),
    W.el("div", { class: "row given" }, W.el("label", { for: "many-seeds" }, "Seeds"), seeds, W.el("p", { class: "help" }, "1..20 or 1, 2, 5. The same seed gives the same run.")),
    W.el("h3", null, "Values in turn"), W.el("p", { class: "about" }, "Each combination is a run of its own: a cell of a grid."), axes,
    button("Add a key", () => { add(); }),
    W.el("label", { class: "check" }, record, `Record all packets of each run, to watch them (${words})`), total,
    W.el("div", { class: "actions" }, W.el("button", { class: "primary" }, "Start")));
    tell();
    const box = dialog("Several runs", form);
  }

  // Keys that can be given values in turn, as --set has them.
  keys() {
    const { drawing, checked } = doc;
    const links = [...new Set(drawing.links.map((link) => link.origin))].flatMap((origin) => ["rate", "delay", "queue.limit", "loss"].map((key) => `${origin}.${key}`));
    return [...drawing.flows.flatMap((flow) => ["cc", "count", "start"].map((key) => `flow.${flow.entry}.${key}`)), ...links.slice(0, 200), "duration", ...(checked.written?.topology?.rtt ? ["topology.rtt"] : [])];
  }

  async refresh() {
    this.entries = await call("GET", "/api/runs");
    this.fill();
    const active = this.entries.some((entry) => this.isActive(entry));
    clearTimeout(this.timer);
    if (active) this.timer = setTimeout(() => this.refresh().catch(fail), 1000);
    // A grid that is shown is made anew only if something of it is: somebody may be choosing in it.
    const open = this.shownGrid && this.entry(this.opened);
    if (open?.cells && JSON.stringify(open) !== this.shownGrid) this.openGrid(open);
  }

  isActive(entry) {
    const goes = (job) => job && ["waiting", "running"].includes(job.state);
    return goes(entry.job) || (entry.cells ?? []).some((cell) => goes(cell.job));
  }

  // An entry of the list, or a cell of one.
  entry(run) {
    for (const entry of this.entries) {
      if (entry.run === run) return entry;
      const cell = entry.cells?.find((own) => own.run === run);
      if (cell) return cell;
    }
    return null;
  }

  fill() {
    for (const name of this.chosen) if (!this.entries.some((entry) => entry.run === name)) this.chosen.delete(name);
    this.compareButton.disabled = this.chosen.size < 2;
    const focus = document.activeElement?.closest?.(".run-list") ? document.activeElement.dataset.run : null;
    // Runs of one grid that have begun, but are not in the folder yet, are one entry.
    this.count.textContent = this.entries.length ? "Choose two or more to compare them." : "There is no run yet.";
    this.list.replaceChildren(...this.entries.map((entry) => {
      const active = this.isActive(entry);
      const state = entry.cells ? `${entry.cells.filter((cell) => cell.totals).length} of ${entry.cells.length} runs` : stateWords(entry.job, entry);
      const more = entry.totals ? `${W.human("bps", entry.totals.goodput_bps)}, seed ${entry.seed}` : entry.job?.why ? entry.job.why.split("\n")[0] : "";
      const check = W.el("input", { type: "checkbox", "aria-label": `Choose ${entry.run} for comparison`, onchange: () => {
        if (check.checked) this.chosen.add(entry.run);
        else this.chosen.delete(entry.run);
        this.compareButton.disabled = this.chosen.size < 2;
      } });
      check.checked = this.chosen.has(entry.run);
      check.disabled = !entry.totals && !entry.cells?.some((cell) => cell.totals);
      return W.el("li", null, check, W.el("button", { type: "button", class: "run-open", "data-run": entry.run, "aria-pressed": String(this.opened === entry.run), onclick: () => this.open(entry.run).catch(fail) },
        W.el("b", null, entry.run), W.el("span", { class: `state ${active ? "" : entry.job?.state === "failed" ? "bad" : "good"}` }, state), W.el("span", { class: "extra" }, more)));
    }));
    if (focus) this.list.querySelector(`[data-run="${CSS.escape(focus)}"]`)?.focus();
  }

  clear() {
    this.live?.destroy();
    this.live = null;
    this.left = null;
    this.shownGrid = null;
    this.ticket = null;
  }

  // Shows a run: its curves while it goes on, then its report. `then` is called when it is done.
  async open(run, then) {
    this.clear();
    this.opened = run;
    this.fill();
    const entry = this.entry(run);
    if (!entry) { this.hint(); return; }
    if (entry.cells) this.openGrid(entry);
    else if (this.isActive(entry)) this.openLive(run, then);
    else if (entry.totals) {
      const opened = await this.openReport([run], run, entry);
      // A short run may have ended before it was looked at.
      if (opened && then && shown() === "runs" && entry.job?.state === "done") then(run, entry);
    }
    else this.openFailed(run, entry.job?.why ?? "There are no results.");
  }

  head(title, ...actions) {
    return W.el("div", { class: "detail-head" }, W.el("h2", null, title), W.el("div", { class: "actions" }, ...actions.filter(Boolean)));
  }

  openGrid(entry) {
    this.shownGrid = JSON.stringify(entry);
    const focus = this.detail.contains(document.activeElement) ? document.activeElement : null;
    this.detail.replaceChildren(this.head(entry.run,
      this.isActive(entry) ? button("Stop all", () => this.stop(entry.run)) : null,
      entry.cells.filter((cell) => cell.totals).length > 1 ? button("Compare all", () => this.openReport(entry.cells.filter((cell) => cell.totals).slice(0, 40).map((cell) => cell.run), `All of ${entry.run}`)) : null,
      this.isActive(entry) ? null : button("Rename", () => this.rename(entry.run))),
    grid(entry, (cell) => this.open(cell.run).catch(fail), () => this.openGrid(entry)));
    if (focus) [...this.detail.querySelectorAll(focus.tagName)].find((own) => own.title === focus.title && (own.title || own.textContent === focus.textContent))?.focus();
  }

  openLive(run, then) {
    this.then = then;
    this.live = new Curves(run, (line) => {
      if (line.event !== "over") return;
      this.refresh().then(async () => {
        if (this.opened !== run || this.left) return;
        if (line.job.state === "failed") { this.openFailed(run, line.job.why); return; }
        if (line.job.state === "stopped") say(`The run ${run} has stopped: ${line.job.why}.`);
        const entry = this.entry(run);
        if (!entry?.totals) { this.openFailed(run, line.job.why ?? "There are no results."); return; }
        await this.open(run, then);
      }).catch(fail);
    });
    this.detail.replaceChildren(this.head(run, this.cellOf(run), button("Stop", () => this.stop(run))), this.live.element);
    if (document.hidden) this.leave();
  }

  openFailed(run, why) {
    this.clear();
    this.detail.replaceChildren(this.head(run, this.cellOf(run)), W.el("div", { class: "card" }, W.el("h3", null, "This run has no results"), W.el("pre", { class: "why" }, why)));
  }

  // The way back from a cell to its grid.
  cellOf(run) {
    const parent = this.entries.find((entry) => entry.cells && run.startsWith(`${entry.run}/`));
    return parent ? button(`All of ${parent.run}`, () => this.open(parent.run)) : null;
  }

  // Returns whether it was opened: nothing else was in the meantime.
  async openReport(runs, title, entry) {
    const ticket = (this.ticket = {});
    const { address } = await call("POST", "/api/report", { runs });
    if (this.ticket !== ticket) return false;
    this.clear();
    const wait = W.el("p", { class: "about", role: "status" }, "The report is being made …");
    const frame = W.el("iframe", { src: address, title: `Report of ${title}`, sandbox: "allow-scripts allow-downloads", onload: () => wait.remove() });
    this.detail.replaceChildren(this.head(title,
      entry ? this.cellOf(entry.run) : null,
      entry?.packets ? button("Watch its packets", () => this.watch(entry.run), { class: "primary" }) : null,
      button("Report in a tab of its own", () => { window.open(address, "_blank", "noopener"); }),
      entry && !entry.run.includes("/") ? button("Rename", () => this.rename(entry.run)) : null,
      entry?.path ? button("Share", () => this.share(entry)) : null), wait, frame);
    return true;
  }

  share(entry) {
    const path = W.el("input", { type: "text", readonly: true, value: entry.path, id: "share-path" });
    const box = dialog("Share this run", W.el("p", null, "The run is a folder. It has the report, which opens in any browser, the tables, and the scenario as it was run. Pack the folder and hand it on: whoever gets it can open the report, or run the scenario again and get the same bytes."),
      W.el("div", { class: "row given" }, W.el("label", { for: "share-path" }, "Folder"), path),
      W.el("div", { class: "actions" }, button("Copy the path", async () => { path.select(); await navigator.clipboard.writeText(entry.path); say("Copied."); box.close(); }, { class: "primary" })));
  }

  async compare() {
    const runs = [...this.chosen].flatMap((name) => this.entry(name)?.cells?.filter((cell) => cell.totals).map((cell) => cell.run) ?? [name]);
    this.opened = null;
    this.fill();
    await this.openReport(runs.slice(0, 40), `${runs.length} runs compared`);
  }

  async stop(run) {
    await call("POST", "/api/runs/stop", { run });
    await this.refresh();
  }

  async rename(run) {
    const name = await ask("Rename the run", "Name", run, "Rename");
    if (!name || name === run) return;
    await call("POST", "/api/runs/rename", { run, name });
    if (this.chosen.delete(run)) this.chosen.add(name);
    this.renamed(run, name);
    this.opened = name;
    await this.refresh();
    await this.open(name);
  }
}
