// Runs and shells in progress, whoever started them: their links are changed, and their hosts have terminals.
import { call, events, pause } from "./api.js";
import { button, fail, icon, onShow, say, shown } from "./page.js";

// How often to look what is in progress, in milliseconds, while the part is shown.
const LOOK = 1500;
// Lines of a terminal that are kept.
const LINES = 2000;
// Characters that are kept of what a command prints, to look for words in them.
const KEPT = 10000;
// How often, in milliseconds, and how many times to look whether a server listens that was just started.
const PAUSE = 100;
const LOOKS = 100;

// What a program prints, without colours and moves of the cursor. A carriage return begins the line anew, a backspace takes a letter back.
export class Screen {
  constructor() {
    // The lines that are complete, and the characters of the last one. A character may be two units of a string.
    this.lines = [];
    this.last = [];
    this.at = 0;
    this.rest = "";
  }

  add(text) {
    const all = (this.rest + text).replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78]/g, "");
    // A sequence that is not complete yet.
    const begun = all.lastIndexOf("\x1b");
    this.rest = begun >= 0 && all.length - begun < 64 ? all.slice(begun) : "";
    for (const sign of begun >= 0 && this.rest ? all.slice(0, begun) : all) {
      if (sign === "\n") { this.lines.push(this.last.join("")); this.last = []; this.at = 0; }
      else if (sign === "\r") this.at = 0;
      else if (sign === "\b") this.at = Math.max(0, this.at - 1);
      else if (sign >= " " || sign === "\t") this.last[this.at++] = sign;
    }
    if (this.lines.length >= LINES) this.lines.splice(0, this.lines.length - LINES + 1);
    return [...this.lines, this.last.join("")].join("\n");
  }
}

class Terminal {
  // `hosts` are those of the run, with their addresses; `open(host)` opens another terminal there.
  constructor(socket, host, hosts, open, closed) {
    this.host = host;
    // Whether its shell has ended, or is no longer heard.
    this.over = false;
    // What was printed since the last command.
    this.printed = "";
    // By host: the terminal that was opened there for a server.
    this.servers = new Map();
    this.stop = new AbortController();
    this.screen = new Screen();
    this.log = W.el("pre", { class: "screen", role: "log", tabindex: "0", "aria-label": `What the terminal on ${host} prints` });
    this.input = W.el("input", { type: "text", class: "typed", autocomplete: "off", spellcheck: "false", autocapitalize: "off", "aria-label": `Type a line for ${host}`, placeholder: "type a command, and Enter", onkeydown: (event) => {
      if (!event.ctrlKey || event.altKey || event.metaKey) return;
      // With text chosen, Ctrl+C copies.
      const control = { c: "\x03", d: "\x04", z: "\x1a" }[event.key.toLowerCase()];
      if (!control || this.input.selectionStart !== this.input.selectionEnd) return;
      event.preventDefault();
      this.type(control).catch(fail);
    } });
    const others = hosts.filter((own) => own.host !== host);
    this.to = W.el("select", { "aria-label": `The other host, seen from ${host}` }, ...others.map((own) => W.el("option", { value: own.address }, own.host)));
    const tools = others.length ? [W.el("span", { class: "about" }, "to"), this.to,
      button("ping", () => this.command(`ping -c 10 ${this.to.value}`)),
      button("iperf3", async () => {
        const address = this.to.value, name = this.to.selectedOptions[0].text;
        // The promise is kept, so that two clicks open one.
        let server = this.servers.get(name);
        if (!server || (await server.catch(() => null))?.over !== false) this.servers.set(name, (server = open(name)));
        const other = await server;
        await other.command("iperf3 -s -1");
        for (let look = 0; look < LOOKS && !other.printed.includes("Server listening"); look++) await pause(PAUSE);
        await this.command(`iperf3 -c ${address} -t 10`);
      })] : [];
    this.words = W.el("span", { class: "about", role: "status" });
    this.element = W.el("section", { class: "card terminal", "aria-label": `Terminal on ${host}` },
      W.el("div", { class: "card-head" }, W.el("h3", null, host), this.words, ...tools,
        button("Ctrl-C", () => this.type("\x03"), { "aria-label": `Interrupt what runs on ${host}` }),
        icon("✕", `Close the terminal on ${host}`, () => { this.close(); closed(this); })),
      this.log,
      W.el("form", { onsubmit: (event) => {
        event.preventDefault();
        const line = this.input.value;
        this.input.value = "";
        this.type(`${line}\n`).catch(fail);
      } }, this.input));
    // What is typed before the shell has said something may be taken by a program that it starts with.
    this.ready = new Promise((done) => { this.spoke = done; });
    this.opened = this.open(socket);
    this.typed = this.opened.catch(() => {});
  }

  // The server closes a terminal when its answer is no longer read. The first event has the terminal's number.
  async open(socket) {
    const output = events("POST", "/api/terminals", { socket, host: this.host }, this.stop.signal);
    this.number = (await output.next()).value?.terminal;
    if (this.number === undefined) throw new Error("The terminal has ended.");
    this.read(output).catch((error) => { if (error.name !== "AbortError") this.words.textContent = error.message; }).finally(() => { this.over = true; this.spoke(); });
    return this;
  }

  async read(output) {
    for await (const event of output) {
      this.spoke();
      if (event.ended) {
        this.words.textContent = "ended";
        this.input.disabled = true;
        return;
      }
      const below = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 40;
      this.printed = (this.printed + event.text).slice(-KEPT);
      this.log.textContent = this.screen.add(event.text);
      if (below) this.log.scrollTop = this.log.scrollHeight;
    }
  }

  // What is typed arrives in its order.
  type(text) {
    const typed = this.typed.then(() => call("POST", "/api/terminals/type", { terminal: this.number, text }));
    this.typed = typed.catch(() => {});
    return typed;
  }

  async command(line) {
    await this.ready;
    this.printed = "";
    await this.type(`${line}\n`);
  }

  close() {
    this.over = true;
    this.spoke();
    this.stop.abort();
  }
}

export class LivePart {
  // `toRun(run)` shows a run of this lab.
  constructor(toRun) {
    this.toRun = toRun;
    this.terminals = [];
    this.screens = W.el("div", { class: "terminals" });
    this.list = W.el("div", { class: "in-progress" });
    this.element = W.el("section", { class: "progress-part" }, this.list, this.screens);
    this.shape = "";
    onShow((name) => { if (name === "live") this.look(); });
    // The page goes, and with it what its terminals show.
    addEventListener("pagehide", () => this.terminals.forEach((terminal) => terminal.close()));
  }

  async look() {
    clearTimeout(this.timer);
    if (shown() !== "live") return;
    try {
      const { all, keys } = await call("GET", "/api/live");
      this.fill(all, keys);
    } catch (error) {
      fail(error);
    }
    this.timer = setTimeout(() => this.look(), LOOK);
  }

  fill(all, keys) {
    // Made anew only where something has come or gone: somebody may be typing.
    const shape = JSON.stringify(all.map((one) => [one.socket, one.links.map((link) => link.link), one.hosts]));
    if (shape !== this.shape) {
      this.shape = shape;
      this.cells = new Map();
      this.list.replaceChildren(...(all.length ? all.map((one) => this.card(one, keys)) : [this.hint()]));
    }
    for (const one of all) {
      this.cells.get(one.socket).textContent = `at ${one.at}`;
      for (const link of one.links) this.cells.get(`${one.socket} ${link.link}`).textContent = link.words;
    }
  }

  hint() {
    return W.el("div", { class: "card hint" }, W.el("h2", null, "Nothing is in progress"),
      W.el("p", null, "A run is here while it goes on, if its scenario has the real or a dilated clock: start one with Run above. So is a run or a shell of yours that was started with --control in a terminal."),
      W.el("p", { class: "about" }, "The template “live hosts” has two hosts to type commands on."));
  }

  card(one, keys) {
    const at = W.el("span", { class: "about" });
    this.cells.set(one.socket, at);
    const rows = one.links.map((link) => {
      const words = W.el("td", { class: "words" });
      this.cells.set(`${one.socket} ${link.link}`, words);
      const row = W.el("tr", null, W.el("th", { scope: "row" }, link.link), words,
        W.el("td", null, button("Change …", () => this.changes(one, link, keys, row), { "aria-label": `Change ${link.link}` })));
      return row;
    });
    return W.el("section", { class: "card", "aria-label": `${one.run}, in progress` },
      W.el("div", { class: "card-head" }, W.el("h2", null, one.run), at, one.own ? button("Show its curves", () => this.toRun(one.own)) : null),
      one.hosts.length ? W.el("div", { class: "actions hosts" }, ...one.hosts.map(({ host }) => button(`Terminal on ${host}`, () => this.open(one, host)))) : null,
      W.el("div", { class: "table-box" }, W.el("table", { class: "links" }, W.el("tbody", null, ...rows))));
  }

  async open(one, host) {
    const terminal = new Terminal(one.socket, host, one.hosts, (other) => this.open(one, other), (closed) => {
      closed.element.remove();
      this.forget(closed);
    });
    // Known before it is open, so that it is closed with the page.
    this.terminals.push(terminal);
    try {
      await terminal.opened;
    } catch (error) {
      terminal.stop.abort();
      this.forget(terminal);
      throw error;
    }
    this.screens.append(terminal.element);
    terminal.input.focus();
    return terminal;
  }

  forget(terminal) {
    this.terminals = this.terminals.filter((own) => own !== terminal);
  }

  // A row of fields below the link's; what is left empty stays as it is.
  changes(one, link, keys, row) {
    if (row.nextSibling?.classList.contains("changes")) {
      row.nextSibling.remove();
      return;
    }
    const inputs = new Map(keys.map((key) => {
      const value = link[key];
      const shownValue = value === null || value === undefined ? "" : typeof value === "object" ? value.kind ?? JSON.stringify(value) : String(value);
      const attributes = { "aria-label": `${key} of ${link.link}`, autocomplete: "off" };
      return [key, key === "down"
        ? W.el("select", attributes, W.el("option", { value: "" }, "as it is"), W.el("option", { value: "true" }, "down"), W.el("option", { value: "false" }, "up"))
        : W.el("input", { type: "text", ...attributes, placeholder: shownValue })];
    }));
    const form = W.el("form", { class: "change-form", onsubmit: async (event) => {
      event.preventDefault();
      const given = [...inputs].map(([key, input]) => [key, input.value.trim()]).filter(([, text]) => text !== "");
      const set = Object.fromEntries(given.map(([key, text]) => [key, text === "true" ? true : text === "false" ? false : text]));
      if (!given.length) return;
      try {
        const answer = await call("POST", "/api/live/change", { socket: one.socket, link: link.link, set });
        const now = answer.links[0];
        Object.assign(link, now);
        this.cells.get(`${one.socket} ${link.link}`).textContent = now.words;
        inputs.forEach((input) => { input.value = ""; });
        say(`${now.link} is now ${now.words}.`, "quiet");
      } catch (error) {
        fail(error);
      }
    } }, ...[...inputs].map(([key, input]) => W.el("label", null, key, input)), W.el("button", { class: "primary" }, "Change"));
    row.after(W.el("tr", { class: "changes" }, W.el("td", { colspan: "3" }, form)));
    inputs.get(keys[0]).focus();
  }
}
