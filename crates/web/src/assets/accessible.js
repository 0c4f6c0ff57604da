// The network as a list: for the keyboard, for who does not see the drawing, and to find something in a large one.

const MOST = 200;

export class List {
  constructor(choose) {
    this.choose = choose;
    this.selected = null;
    this.find = W.el("input", { type: "search", placeholder: "Find a node, link or flow", "aria-label": "Find a node, link or flow", oninput: () => this.fill() });
    this.body = W.el("div", { class: "things-body" });
    this.element = W.el("section", { class: "things", "aria-label": "All nodes, links and flows" }, this.find, this.body);
    this.things = [];
  }

  set(network, wrong) {
    const { nodes, links, flows } = network;
    const name = (i) => nodes[i]?.name ?? "?";
    this.things = [
      ["Flows", flows.map((flow) => ({
        thing: { kind: "flow", entry: flow.entry }, text: flow.name, colour: network.colourOfFlow(flow.entry),
        more: `${flow.from.length === 1 ? name(flow.from[0]) : `${flow.from.length} hosts`} → ${flow.to.length === 1 ? name(flow.to[0]) : `${flow.to.length} hosts`}${flow.count > 1 ? `, ${flow.count} times` : ""}${flow.words ? `, ${flow.words}` : ""}`,
        wrong: wrong.has(`flow.${flow.entry}`),
      }))],
      ["Links", links.map((link, number) => ({
        thing: { kind: "link", origin: link.origin, number }, text: `${name(link.from)} – ${name(link.to)}`, more: link.there?.words ?? "", wrong: wrong.has(link.origin),
      }))],
      ["Nodes", nodes.map((node, number) => ({
        thing: { kind: "node", name: node.name, number }, text: node.name, more: node.endpoint && node.endpoint !== "model" ? node.endpoint : node.role, wrong: wrong.has(node.name),
      }))],
    ];
    this.fill();
  }

  same(thing) {
    const own = this.selected;
    if (!own || own.kind !== thing.kind) return false;
    return own.kind === "node" ? own.name === thing.name : own.kind === "flow" ? own.entry === thing.entry : own.origin === thing.origin;
  }

  select(thing) {
    this.selected = thing;
    for (const button of this.body.querySelectorAll("button")) button.setAttribute("aria-pressed", String(this.same(button.thing)));
  }

  fill() {
    const focused = document.activeElement?.thing;
    const wanted = this.find.value.toLowerCase();
    const part = ([title, all]) => {
      const found = all.filter((item) => !wanted || `${item.text} ${item.more}`.toLowerCase().includes(wanted));
      const shown = found.slice(0, MOST);
      return W.el("details", { open: true }, W.el("summary", null, `${title} (${W.human("count", found.length)})`),
        W.el("ul", null, ...shown.map((item) => {
          const button = W.el("button", { type: "button", class: item.wrong ? "wrong" : null, "aria-pressed": String(this.same(item.thing)), onclick: () => this.choose(item.thing) },
            item.colour ? this.swatch(item.colour) : null, W.el("span", { class: "name" }, item.text), W.el("span", { class: "extra" }, item.more),
            item.wrong ? W.el("span", { class: "hidden-text" }, " has an error") : null);
          button.thing = item.thing;
          return W.el("li", null, button);
        })),
        found.length > MOST ? W.el("p", { class: "about" }, `and ${W.human("count", found.length - MOST)} more: type a part of the name above`) : null);
    };
    this.body.replaceChildren(...this.things.filter(([, all]) => all.length).map(part));
    if (focused) [...this.body.querySelectorAll("button")].find((button) => JSON.stringify(button.thing) === JSON.stringify(focused))?.focus();
  }

  swatch(colour) {
    const swatch = W.el("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colour;
    return swatch;
  }
}
