// Puts the page together: the head with what is done most, the parts, and the keys.
import { List } from "./accessible.js";
import { call, enter } from "./api.js";
import { beginWith, change, doc, isChanged, keepPlaces, on, open, redo, save, settled, undo } from "./document.js";
import { Editor } from "./editor.js";
import { loadSchema } from "./fields.js";
import { Inspector } from "./inspector.js";
import { LivePart } from "./live.js";
import { Network } from "./network.js";
import { addPart, ask, button, dialog, fail, icon, partButtons, say, show } from "./page.js";
import { Runs } from "./runs.js";
import { Watch } from "./watch.js";

const root = document.documentElement;
const INVALID = "The scenario cannot be run yet: see what is wrong below its text.";
let hello = { files: [] };

const watch = new Watch();
const toWatch = async (run) => {
  show("watch");
  await watch.open(run, { playing: true });
};
const runs = new Runs((run) => toWatch(run).catch(fail), (from, to) => watch.renamed(from, to));
const livePart = new LivePart((run) => {
  show("runs");
  runs.open(run).catch(fail);
});
// A run of the scenario that is open is drawn as it is.
watch.places = (drawing) => {
  const own = new Map(network.nodes.map((node, i) => [node.name, [network.x[i], network.y[i]]]));
  return drawing.nodes.every((node) => own.has(node.name)) ? Object.fromEntries(own) : {};
};

// The network, edited by hand.
const choose = (thing) => {
  network.select(thing);
  list.select(thing);
  inspector.select(thing);
  editor.find(thing);
};
const inspector = new Inspector(choose);
const editor = new Editor();
const list = new List(choose);
const network = new Network("The network of the scenario. All that is in it is in the list below.", {
  empty: "There is no network yet.\nAdd a link, or begin with a template.",
  select: choose,
  move: (name, place) => { doc.places[name] = place; keepPlaces(); },
  join: (from, to) => inspector.join(from, to).catch(fail),
  remove: (thing) => inspector.remove(thing).catch(fail),
});

const named = (label) => ({ "aria-label": label, title: label });
const tools = () => {
  const join = button("Draw links", () => {
    network.joins = !network.joins;
    join.setAttribute("aria-pressed", String(network.joins));
    if (network.joins) say("Drag from a node to another one, or to a free place. Shift does the same at any time.");
  }, { "aria-pressed": "false" });
  const snap = button("Snap", () => {
    network.snap = !network.snap;
    snap.setAttribute("aria-pressed", String(network.snap));
  }, { "aria-pressed": "true", title: "Nodes keep to a grid" });
  return W.el("div", { class: "tools", role: "group", "aria-label": "Drawing" },
    button("+ Node", () => inspector.addNode(network.selected?.kind === "node" ? network.selected.name : undefined), named("Add a node")),
    button("+ Link", () => inspector.addLink(), named("Add a link")), button("+ Flow", () => inspector.addFlow(), named("Add a flow")), join, snap,
    button("Arrange", () => { doc.places = {}; keepPlaces(); network.rearrange(); }, { title: "Lay the nodes out anew" }));
};

const networkPart = W.el("section", { class: "edit" },
  W.el("section", { class: "card network-card", "aria-label": "Drawing" }, W.el("div", { class: "card-head" }, W.el("h2", null, "Network"), tools()), network.element, list.element),
  inspector.element, editor.element);

// What is wrong, by what it belongs to: links by their key, flows by theirs, nodes by name.
const wrongThings = () => {
  const found = new Set();
  for (const { path } of doc.checked.problems) {
    const parts = path.split(".");
    if (["link", "flow", "topology"].includes(parts[0]) && parts.length > 1) found.add(parts.slice(0, 2).join("."));
    if (parts[0] === "host") found.add(doc.checked.written?.host?.[Number(parts[1])]?.name);
    if (parts[0] === "flow" && ["from", "to"].includes(parts[2])) found.add(doc.checked.written?.flow?.[Number(parts[1])]?.[parts[2]]);
  }
  return found;
};

on("checked", () => {
  network.wrong = wrongThings();
  network.set(doc.drawing, doc.places);
  list.set(network, network.wrong);
  head();
});
on("file", (fresh) => {
  if (!fresh) {
    head();
    return;
  }
  network.nodes = [];
  network.shape = null;
  choose(null);
  head();
});
on("text", () => head());

// The head of the page.
const title = button("", () => openDialog().catch(fail), { class: "file", title: "Open another scenario, or begin a new one" });
const state = W.el("span", { class: "about", role: "status" });
const saveButton = button("Save", () => saveNow());
const undoButton = icon("↶", "Undo", () => undo());
const redoButton = icon("↷", "Redo", () => redo());
const runButton = button("Run", () => runs.start());
const watchButton = button("Run and watch", () => runs.start({ record: true, then: (run) => toWatch(run).catch(fail) }), { class: "primary" });
const manyButton = button("Several …", () => runs.startMany(), { title: "Seeds, and values of keys in turn: a grid of runs" });

const head = () => {
  title.textContent = doc.name ?? `${doc.suggestion} (new)`;
  state.textContent = isChanged() ? "changed" : "";
  saveButton.disabled = !isChanged() && doc.name !== null;
  undoButton.disabled = !doc.past.length;
  redoButton.disabled = !doc.future.length;
  for (const own of [runButton, watchButton, manyButton]) {
    own.disabled = !doc.checked.valid;
    own.title = doc.checked.valid ? "" : INVALID;
  }
  if (doc.checked.valid) {
    const { words } = runs.recording();
    watchButton.title = `Records every packet (${words}), and plays the run back`;
    manyButton.title = "Seeds, and values of keys in turn: a grid of runs";
  }
  document.title = `${isChanged() ? "● " : ""}${doc.name ?? doc.suggestion} · Warpline lab`;
};

const saveNow = () => (doc.name ? saveTo(doc.name) : saveAs(doc.suggestion));

// Asks for the name of the file first.
const saveAs = async (suggestion) => {
  const name = await ask("Save the scenario", `File, in ${hello.folder}`, suggestion, "Save");
  if (name) await saveTo(name.endsWith(".toml") ? name : `${name}.toml`);
};

const saveTo = async (name) => {
  try {
    hello.files = await save(name);
    say(`Saved ${name}.`);
  } catch (error) {
    if (error.status !== 409) throw error;
    conflict(error.message, name);
  }
};

const conflict = (message, name) => {
  const box = dialog("Not saved", W.el("p", null, `${message[0].toUpperCase()}${message.slice(1)}.`),
    W.el("div", { class: "actions" },
      button("Save under another name", async () => { box.close(); await saveAs(name.replace(/\.toml$/, "-2.toml")); }, { class: "primary" }),
      button("Read the file again, and lose my changes", async () => { box.close(); await open(name); })));
};

const mayLeave = () => !isChanged() || confirm("The scenario has changes that are not saved. Go on without them?");

// Scenarios of the folder, templates, and the gallery.
const openDialog = async () => {
  const gallery = await call("GET", "/api/gallery");
  hello = await call("GET", "/api/hello");
  const begin = (own) => button(own.name.replaceAll("-", " "), async () => {
    if (!mayLeave()) return;
    box.close();
    const taken = new Set(hello.files);
    let name = `${own.name}.toml`;
    for (let number = 2; taken.has(name); number++) name = `${own.name}-${number}.toml`;
    await beginWith(own.text, name);
    show("network");
  }, { class: "pick" });
  const picks = (shelf) => W.el("ul", { class: "picks" }, ...gallery.filter((own) => own.shelf === shelf).map((own) => W.el("li", null, begin(own), W.el("p", { class: "about" }, own.about))));
  const files = hello.files.length
    ? W.el("ul", { class: "picks" }, ...hello.files.map((name) => W.el("li", null, button(name, async () => {
      if (!mayLeave()) return;
      box.close();
      await open(name);
      show("network");
    }, { class: "pick" }))))
    : W.el("p", { class: "about" }, "There is none yet.");
  const box = dialog("Open or begin",
    W.el("h3", null, "New, from a template"), picks("template"),
    W.el("h3", null, "New, from a lesson of the book"), picks("lesson"),
    W.el("h3", null, "New, from the gallery"), picks("example"),
    W.el("h3", null, `Scenarios in ${hello.folder}`), files);
  return box;
};

addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || document.querySelector("dialog[open]")) return;
  const key = event.key.toLowerCase();
  // What is being typed in a field of the scenario counts.
  if (["s", "enter"].includes(key) && event.target.matches("input[data-path], #node-name")) event.target.dispatchEvent(new Event("change", { bubbles: true }));
  if (key === "s") saveNow().catch(fail);
  // Whether it can be run is known when that has become part of the text.
  else if (key === "enter") settled().then(() => (doc.checked.valid ? runs.start() : say(INVALID, "wrong"))).catch(fail);
  // A field that is being typed in has its own history; the scenario's text has ours.
  else if (["z", "y"].includes(key) && !event.target.matches("input")) (key === "y" || event.shiftKey ? redo : undo)();
  else return;
  event.preventDefault();
});
addEventListener("beforeunload", (event) => { if (isChanged()) event.preventDefault(); });

const start = async () => {
  await enter();
  [hello] = await Promise.all([call("GET", "/api/hello"), loadSchema()]);
  addPart("network", "Network", networkPart);
  addPart("runs", "Runs", runs.element);
  addPart("watch", "Watch", watch.element);
  addPart("live", "Live", livePart.element);
  const themes = W.themeButton();
  themes.classList.add("themes");
  document.getElementById("top").append(
    W.el("div", { class: "bar" }, W.el("h1", { class: "brand" }, "Warpline lab"), partButtons(), title, state,
      W.el("div", { class: "actions" }, undoButton, redoButton, saveButton),
      W.el("div", { class: "actions go" }, runButton, manyButton, watchButton), themes));
  show("network");
  await runs.refresh();
  if (hello.first) await open(hello.first);
  else {
    const gallery = await call("GET", "/api/gallery");
    await beginWith(gallery[0].text, `${gallery[0].name}.toml`);
    doc.saved = doc.text;
    head();
    await openDialog();
  }
};

// For tests and for the console.
Object.assign(W, { lab: { doc, network, inspector, editor, runs, watch, change, show, open, beginWith, save, undo, redo } });

start().catch((error) => {
  fail(error);
  document.getElementById("main").append(W.el("div", { class: "card hint" }, W.el("h2", null, "The lab cannot be shown"), W.el("p", null, error.message)));
}).finally(() => { root.dataset.ready = "1"; });
