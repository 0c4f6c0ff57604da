// The fields of what is chosen in the drawing, and what can be done with it.
import { change, doc, keepPlaces, on } from "./document.js";
import { button, fail, say } from "./page.js";
import { propertiesOf, rootProperties, rows } from "./fields.js";

// What is asked for most, first.
const FIRST = {
  scenario: ["name", "description", "duration", "warmup", "seed", "sample_interval"],
  link: ["name", "rate", "delay", "queue", "loss"],
  flow: ["name", "from", "to", "app", "cc", "count", "start", "stop"],
  host: ["endpoint", "address"],
};

const LINK = { rate: "10Mbit/s", delay: "10ms" };

export class Inspector {
  constructor(choose) {
    this.choose = choose;
    this.thing = null;
    this.body = W.el("div", { class: "inspector-body" });
    this.element = W.el("section", { class: "card inspector", "aria-label": "Values" }, this.body);
    on("checked", () => this.fill());
    this.body.addEventListener("focusout", () => setTimeout(() => { if (this.stale) this.fill(); }));
  }

  select(thing) {
    this.thing = thing;
    this.adding = null;
    this.fill();
    this.body.scrollTop = 0;
  }

  problem(path) {
    const own = path.join(".");
    const found = doc.checked.problems.find((problem) => problem.path === own);
    return found ? [found.message, ...found.help].join("; ") : "";
  }

  at(path, value) {
    return { path, value, problem: (own) => this.problem(own), set: (own, given) => change({ do: "set", path: own, ...given }).catch(fail) };
  }

  fill() {
    // What is being typed is not taken away.
    const typing = document.activeElement;
    this.stale = this.body.contains(typing) && typing.matches("input[type=text]") && typing.value !== typing.defaultValue;
    if (this.stale) return;
    const focus = document.activeElement?.closest?.(".inspector") ? document.activeElement.dataset.path : null;
    const top = this.body.scrollTop;
    const written = doc.checked.written;
    if (!written && doc.text.trim()) {
      this.body.replaceChildren(W.el("h2", null, "Values"), W.el("p", { class: "about" }, "The text is not TOML at the moment. When it is again, the values are here."));
      return;
    }
    const content = this.adding ? this.adding() : this.content(written ?? {});
    this.body.replaceChildren(...content.filter(Boolean));
    this.body.scrollTop = top;
    if (focus) this.body.querySelector(`[data-path="${CSS.escape(focus)}"]`)?.focus();
  }

  content(written) {
    const thing = this.thing;
    if (thing?.kind === "link") return this.link(thing, written);
    if (thing?.kind === "node") return this.node(thing, written);
    if (thing?.kind === "flow") return this.flow(thing, written);
    return this.scenario(written);
  }

  scenario(written) {
    const skip = ["link", "flow", "host", "replicate"];
    return [
      W.el("h2", null, "Scenario"),
      W.el("p", { class: "about" }, "Choose a node, a link or a flow to see its values. Here are those of the whole."),
      W.el("div", { class: "actions" }, button("Add a node", () => this.addNode()), button("Add a link", () => this.addLink()), button("Add a flow", () => this.addFlow())),
      ...rows(rootProperties(), FIRST.scenario, this.at([], written), skip),
    ];
  }

  link(thing, written) {
    const [table, second] = thing.origin.split(".");
    const drawn = doc.drawing.links.find((link) => link.origin === thing.origin);
    const ends = drawn ? `${doc.drawing.nodes[drawn.from].name} – ${doc.drawing.nodes[drawn.to].name}` : thing.origin;
    if (table === "topology") {
      const alike = doc.drawing.links.filter((link) => link.origin === thing.origin).length;
      return [
        W.el("h2", null, `Link ${ends}`),
        W.el("p", { class: "about" }, alike > 1 ? `One of ${alike} links that the topology makes of the same values ("${second}"). A change is one of all of them.` : `The topology makes it of "${second}".`),
        ...this.force(drawn),
        ...rows(propertiesOf("DuplexOptions"), FIRST.link, this.at(["topology", second], written.topology?.[second])),
      ];
    }
    const number = Number(second);
    const values = written.link?.[number];
    if (!values) return this.scenario(written);
    return [
      W.el("h2", null, `Link ${ends}`),
      ...this.force(drawn),
      W.el("div", { class: "actions" }, button("Remove this link", () => this.remove(thing), { class: "quiet" })),
      ...rows(propertiesOf("Link"), FIRST.link, this.at(["link", number], values), ["between", "from", "to"]),
    ];
  }

  force(drawn) {
    if (!drawn?.there) return [];
    const node = (i) => doc.drawing.nodes[i].name;
    const lines = [[`${node(drawn.from)} → ${node(drawn.to)}`, drawn.there.words]];
    if (drawn.back) lines.push([`${node(drawn.to)} → ${node(drawn.from)}`, drawn.back.words]);
    return [W.el("dl", { class: "force" }, ...lines.flatMap(([name, words]) => [W.el("dt", null, name), W.el("dd", null, words)]))];
  }

  node(thing, written) {
    const node = doc.drawing.nodes.find((own) => own.name === thing.name);
    if (!node) return this.scenario(written);
    const number = doc.drawing.nodes.indexOf(node);
    const links = doc.drawing.links.filter((link) => link.from === number || link.to === number);
    const list = links.slice(0, 20).map((link) => W.el("li", null, button(`to ${doc.drawing.nodes[link.from === number ? link.to : link.from].name}`, () => this.choose({ kind: "link", origin: link.origin }), { class: "quiet" })));
    const head = [
      W.el("h2", null, `Node ${node.name}`),
      W.el("p", { class: "about" }, node.built ? "The topology makes this node; its name and its links there follow from the topology's values." : node.role === "host" ? "A host: flows begin or end here." : "A router: no flow begins or ends here."),
      W.el("div", { class: "actions" }, button("Add a link from here", () => this.addLink(node.name)), button("Add a flow from here", () => this.addFlow(node.name)),
        node.built ? null : button("Remove this node", () => this.remove(thing), { class: "quiet" })),
    ];
    if (!node.built) {
      const input = W.el("input", { type: "text", value: node.name, id: "node-name", autocomplete: "off", spellcheck: "false" });
      let asked = node.name;
      input.addEventListener("change", async () => {
        const to = input.value.trim();
        input.defaultValue = input.value;
        // The same again: a key has given it, and now the field loses the focus.
        if (to === asked) return;
        asked = to;
        // The change draws the node: its place must be known before.
        const { places } = doc;
        const { [node.name]: place, [to]: before } = places;
        if (place) places[to] = place;
        try {
          await change({ do: "rename", from: node.name, to });
          if (place) {
            // The old name keeps its place, for an undo.
            keepPlaces();
          }
          this.choose({ kind: "node", name: to });
        } catch (error) {
          if (before) places[to] = before;
          else delete places[to];
          fail(error);
          asked = node.name;
          input.value = node.name;
        }
      });
      head.push(W.el("div", { class: "row given" }, W.el("label", { for: "node-name" }, "name"), input, W.el("p", { class: "help" }, "Everything in the scenario that names it is renamed, too: links, flows, changes, conditions, programs.")));
    }
    const entry = written.host?.findIndex((host) => host.name === node.name) ?? -1;
    const own = entry >= 0
      ? [W.el("h3", null, "What the host is"), ...rows(propertiesOf("Host"), FIRST.host, this.at(["host", entry], written.host[entry]), ["name"])]
      : [button("Give it options of its own …", () => change({ do: "add", list: "host", entry: { name: node.name } }))];
    return [...head, list.length ? W.el("ul", { class: "ends", "aria-label": "Its links" }, ...list) : null, ...own];
  }

  flow(thing, written) {
    const values = written.flow?.[thing.entry];
    if (!values) return this.scenario(written);
    const drawn = doc.drawing.flows.find((flow) => flow.entry === thing.entry);
    return [
      W.el("h2", null, `Flow ${drawn?.name ?? thing.entry}`),
      W.el("p", { class: "about" }, "Its way is drawn in its colour."),
      W.el("div", { class: "actions" }, button("Remove this flow", () => this.remove(thing), { class: "quiet" })),
      ...rows(propertiesOf("Flow"), FIRST.flow, this.at(["flow", thing.entry], values)),
    ];
  }

  async remove(thing) {
    if (thing.kind === "node") {
      const node = doc.drawing.nodes.find((own) => own.name === thing.name);
      if (node?.built) throw new Error("The topology makes this node: change the topology's values instead.");
      await change({ do: "remove-node", name: thing.name });
    } else if (thing.kind === "link") {
      const [table, number] = thing.origin.split(".");
      if (table === "topology") throw new Error("The topology makes this link: change the topology's values instead.");
      await change({ do: "remove", list: "link", number: Number(number) });
    } else await change({ do: "remove", list: "flow", number: thing.entry });
    this.choose(null);
    say("Removed. Undo brings it back.");
  }

  // A name that no node has.
  freeName() {
    const names = new Set(doc.drawing.nodes.map((node) => node.name));
    for (let number = 1; ; number++) if (!names.has(`n${number}`)) return `n${number}`;
  }

  form(title, about, parts, action, done) {
    const inputs = parts.map(([label, value, list], i) => [label, W.el("input", { type: "text", id: `add${i}`, value, list: list ?? null, required: true, autocomplete: "off", spellcheck: "false" })]);
    this.adding = () => [
      W.el("h2", null, title), W.el("p", { class: "about" }, about),
      W.el("datalist", { id: "names" }, ...this.names().slice(0, 1000).map((name) => W.el("option", { value: name }))),
      W.el("form", { onsubmit: async (event) => {
        event.preventDefault();
        for (const [, input] of inputs) input.defaultValue = input.value;
        try {
          await done(inputs.map(([, input]) => input.value.trim()));
          this.adding = null;
          this.fill();
        } catch (error) {
          fail(error);
        }
      } }, ...inputs.map(([label, input], i) => W.el("div", { class: "row given" }, W.el("label", { for: `add${i}` }, label), input)),
      W.el("div", { class: "actions" }, W.el("button", { class: "primary" }, action), button("Cancel", () => { this.adding = null; this.fill(); }))),
    ];
    this.fill();
    inputs[0][1].focus();
    inputs[0][1].select();
  }

  names() {
    const groups = new Set(doc.drawing.nodes.map((node) => node.name.split(".")).filter((parts) => parts.length === 2 && /^\d+$/.test(parts[1])).map(([group]) => group));
    return [...doc.drawing.nodes.map((node) => node.name), ...(doc.checked.written?.topology ? groups : [])];
  }

  addNode(beside) {
    const near = beside ?? (doc.drawing.nodes.find((node) => node.role === "router") ?? doc.drawing.nodes[0])?.name ?? "server";
    this.form("Add a node", "A node exists by being named in a link: say which node it is joined to. It is a host when a flow begins or ends there.",
      [["Name", doc.drawing.nodes.length ? this.freeName() : "client"], ["Joined to", near, "names"], ["Rate", LINK.rate], ["Delay", LINK.delay]], "Add the node",
      async ([name, other, rate, delay]) => {
        if (doc.drawing.nodes.some((node) => node.name === name)) throw new Error(`There is a node ${name} already.`);
        await change({ do: "add", list: "link", entry: { between: [name, other], rate, delay } });
        this.choose({ kind: "node", name });
      });
  }

  addLink(from) {
    const first = from ?? (doc.drawing.nodes.length ? doc.drawing.nodes[0].name : "client");
    const other = doc.drawing.nodes.length ? this.freeName() : "server";
    this.form("Add a link", "Between two nodes. A name that does not exist yet makes a new node.", [["From", first, "names"], ["To", other, "names"], ["Rate", LINK.rate], ["Delay", LINK.delay]], "Add the link",
      async ([a, b, rate, delay]) => {
        await change({ do: "add", list: "link", entry: { between: [a, b], rate, delay } });
        this.choose({ kind: "link", origin: `link.${(doc.checked.written?.link?.length ?? 1) - 1}` });
      });
  }

  addFlow(from) {
    const hosts = doc.drawing.nodes.filter((node) => node.role === "host").map((node) => node.name);
    const names = hosts.length > 1 ? hosts : doc.drawing.nodes.map((node) => node.name);
    const first = from ?? names[0] ?? "";
    this.form("Add a flow", "Data from one node to another. What it sends, and how, can be changed afterwards.", [["From", first, "names"], ["To", names.findLast((name) => name !== first) ?? "", "names"]], "Add the flow",
      async ([a, b]) => {
        await change({ do: "add", list: "flow", entry: { from: a, to: b } });
        this.choose({ kind: "flow", entry: (doc.checked.written?.flow?.length ?? 1) - 1 });
      });
  }

  // A link drawn from one node to another, or to a free place, where a new node begins.
  async join(from, { number, place }) {
    const a = doc.drawing.nodes[from].name;
    const b = number === undefined ? this.freeName() : doc.drawing.nodes[number].name;
    if (place) doc.places[b] = place;
    await change({ do: "add", list: "link", entry: { between: [a, b], ...LINK } });
    this.choose({ kind: "link", origin: `link.${(doc.checked.written?.link?.length ?? 1) - 1}` });
  }
}
