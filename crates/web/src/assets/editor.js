// The text of the scenario: a plain text area with line numbers, colours behind it, and what is wrong at its line.
import { doc, on, setText } from "./document.js";

const TOKEN = /(#.*)|("""[\s\S]*?"""|"(?:\\.|[^"\\])*"|'[^']*')|(^\s*\[\[?[^\]\n]*\]\]?)|(^\s*[\w."'-]+(?=\s*=))|\b(true|false|[+-]?\d[\d_]*(?:\.\d+)?)\b/gm;
const CLASSES = ["comment", "string", "head", "key", "number"];
// A longer text is shown without colours.
const MOST = 200000;

export class Editor {
  constructor() {
    this.area = W.el("textarea", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": "The scenario as TOML", "aria-describedby": "editor-help" });
    this.back = W.el("pre", { class: "back", "aria-hidden": "true" });
    this.gutter = W.el("div", { class: "gutter", "aria-hidden": "true" });
    this.problems = W.el("ul", { class: "problems", "aria-label": "What is wrong" });
    this.state = W.el("p", { class: "state", role: "status" });
    this.element = W.el("section", { class: "card editor", "aria-label": "Text" },
      W.el("div", { class: "card-head" }, W.el("h2", null, "Text"), this.state),
      W.el("p", { class: "hidden-text", id: "editor-help" }, "Escape, then Tab, leaves the text. What is changed here is changed in the drawing, and the other way round."),
      W.el("div", { class: "editor-box" }, this.gutter, W.el("div", { class: "editor-text" }, this.back, this.area)), this.problems);
    this.area.addEventListener("input", () => setText(this.area.value, true));
    this.area.addEventListener("scroll", () => this.scroll());
    this.area.addEventListener("keydown", (event) => this.key(event));
    on("text", (typing) => {
      if (!typing) this.show();
      this.colour();
    });
    on("checked", () => this.mark());
  }

  show() {
    if (this.area.value === doc.text) return;
    const { scrollTop, selectionStart, selectionEnd } = this.area;
    // What stays in front of the change keeps the caret.
    this.area.value = doc.text;
    this.area.setSelectionRange(Math.min(selectionStart, doc.text.length), Math.min(selectionEnd, doc.text.length));
    this.area.scrollTop = scrollTop;
  }

  key(event) {
    if (event.key === "Tab" && !event.shiftKey && !event.ctrlKey && !this.leaving) {
      event.preventDefault();
      this.area.setRangeText("    ", this.area.selectionStart, this.area.selectionEnd, "end");
      setText(this.area.value, true);
    }
    this.leaving = event.key === "Escape";
  }

  scroll() {
    this.back.style.transform = `translate(${-this.area.scrollLeft}px, ${-this.area.scrollTop}px)`;
    this.gutter.firstChild && (this.gutter.firstChild.style.transform = `translateY(${-this.area.scrollTop}px)`);
  }

  colour() {
    const text = doc.text;
    const parts = [];
    if (text.length <= MOST) {
      let at = 0;
      for (const match of text.matchAll(TOKEN)) {
        if (match.index > at) parts.push(text.slice(at, match.index));
        const kind = match.slice(1).findIndex((part) => part !== undefined);
        parts.push(W.el("span", { class: `t-${CLASSES[kind]}` }, match[0]));
        at = match.index + match[0].length;
      }
      parts.push(text.slice(at));
    } else parts.push(text);
    this.back.replaceChildren(...parts, "\n");
    this.mark();
  }

  mark() {
    const { problems, omitted = 0, valid } = doc.checked;
    const lines = doc.text.split("\n");
    const wrong = new Set(problems.map((problem) => problem.line).filter(Boolean));
    const numbers = W.el("div", null);
    numbers.append(...lines.map((_, i) => W.el("span", { class: wrong.has(i + 1) ? "wrong" : null }, String(i + 1))));
    this.gutter.replaceChildren(numbers);
    this.scroll();
    this.problems.replaceChildren(...problems.map((problem) => W.el("li", null,
      W.el("button", { type: "button", onclick: () => this.go(problem) }, W.el("b", null, problem.line ? `Line ${problem.line}: ` : ""), problem.message,
        ...problem.help.map((help) => W.el("span", { class: "about" }, help))))));
    if (omitted) this.problems.append(W.el("li", { class: "about" }, `and ${omitted} more`));
    this.problems.hidden = !problems.length;
    const count = problems.length + omitted;
    this.state.textContent = valid ? "can be run" : count ? `${count} ${count === 1 ? "error" : "errors"}` : "";
    this.state.className = `state ${valid ? "good" : count ? "bad" : ""}`;
  }

  // Puts the caret at a place of the text.
  go({ line, column = 1, width = 1 }) {
    if (!line) return;
    const lines = doc.text.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, own) => sum + own.length + 1, 0);
    // Columns count characters, and the text area counts UTF-16.
    const begin = start + [...lines[line - 1]].slice(0, column - 1).join("").length;
    this.area.focus();
    this.area.setSelectionRange(begin, begin + [...lines[line - 1]].slice(column - 1, column - 1 + width).join("").length);
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    this.area.scrollTop = Math.max(0, (line - 5) * height);
    this.scroll();
  }

  // Shows where a thing of the drawing is written.
  find(thing) {
    if (!thing || document.activeElement === this.area) return;
    let wanted = null, nth = 0;
    if (thing.kind === "link" && thing.origin.startsWith("link.")) [wanted, nth] = ["[[link]]", Number(thing.origin.split(".")[1])];
    else if (thing.kind === "flow") [wanted, nth] = ["[[flow]]", thing.entry];
    else if (thing.kind === "link") wanted = `[${thing.origin}]`;
    else return;
    const lines = doc.text.split("\n");
    let line = lines.findIndex((own) => own.trim().startsWith(wanted) && nth-- === 0);
    if (line < 0 && thing.kind === "link") line = lines.findIndex((own) => own.startsWith("[topology]"));
    if (line < 0) return;
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    this.area.scrollTop = Math.max(0, (line - 2) * height);
    this.scroll();
  }
}
