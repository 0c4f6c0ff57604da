// The scenario that is open: its text, what the server says of it, and its history.
import { asked, call } from "./api.js";
import { fail, seldom } from "./page.js";

const PAST = 300;
const listeners = { text: [], checked: [], file: [] };

export const doc = {
  // The file; none for a scenario that has not been saved.
  name: null,
  // What a new scenario is to be called.
  suggestion: "scenario.toml",
  text: "",
  saved: "",
  version: null,
  // The server's answer to the text: problems, drawing, values as they are written.
  checked: { valid: false, problems: [] },
  drawing: { nodes: [], links: [], flows: [] },
  places: {},
  past: [],
  future: [],
};

export const on = (what, listener) => listeners[what].push(listener);
const tell = (what, ...more) => listeners[what].forEach((listener) => listener(...more));

export const isChanged = () => doc.text !== doc.saved;
export const placesName = () => doc.name ?? "scenario.toml";

// While a text is wrong, the links that it names keep the values that they had.
const keepValues = (drawing, before) => {
  const key = (own, link) => `${link.origin} ${own.nodes[link.from].name} ${own.nodes[link.to].name}`;
  const known = new Map(before.links.map((link) => [key(before, link), link]));
  for (const link of drawing.links) {
    const old = link.there ? null : known.get(key(drawing, link));
    if (old) Object.assign(link, { there: old.there, back: old.back });
  }
};

const take = (checked) => {
  doc.checked = checked;
  if (checked.drawing && !checked.about) keepValues(checked.drawing, doc.drawing);
  if (checked.drawing) doc.drawing = checked.drawing;
  tell("checked");
};

let asking = null;
const check = async () => {
  asking?.abort();
  const own = (asking = new AbortController());
  const text = doc.text;
  try {
    const checked = await call("POST", "/api/check", { name: doc.name ?? doc.suggestion, text }, own.signal);
    if (text === doc.text) take(checked);
  } catch (error) {
    fail(error);
  }
};
const checkSoon = seldom(220, check);

const remember = () => {
  doc.past.push(doc.text);
  if (doc.past.length > PAST) doc.past.shift();
  doc.future = [];
};

// Another text, typed or made. What is typed within a moment is one step of the history.
let typed = 0;
export const setText = (text, typing = false) => {
  if (text === doc.text) return;
  const now = performance.now();
  if (!typing || now - typed > 900) remember();
  typed = typing ? now : 0;
  doc.text = text;
  tell("text", typing);
  checkSoon();
};

// Changes by hand: the server makes the text of them.
let queue = Promise.resolve();
export const change = (...changes) => {
  const work = async () => {
    for (;;) {
      const before = doc.text;
      const answer = await call("POST", "/api/edit", { name: doc.name ?? doc.suggestion, text: before, changes });
      // Typed in the meantime: once more, with the newer text.
      if (doc.text !== before) continue;
      if (answer.text === before) return;
      remember();
      typed = 0;
      doc.text = answer.text;
      tell("text", false);
      take(answer.checked);
      return;
    }
  };
  const done = queue.then(work);
  queue = done.catch(() => {});
  return done;
};

const step = (from, to) => {
  if (!from.length) return false;
  to.push(doc.text);
  doc.text = from.pop();
  typed = 0;
  tell("text", false);
  check();
  return true;
};
export const undo = () => step(doc.past, doc.future);
export const redo = () => step(doc.future, doc.past);

const begin = async (name, text, version, suggestion) => {
  Object.assign(doc, { name, text, version, suggestion, saved: version === null ? "" : text, past: [], future: [], places: {} });
  doc.drawing = { nodes: [], links: [], flows: [] };
  if (name) doc.places = await call("GET", asked("/api/places", { name })).catch(() => ({}));
  tell("file", true);
  tell("text", false);
  await check();
};

export const open = async (name) => {
  const file = await call("GET", asked("/api/file", { name }));
  await begin(file.name, file.text, file.version, file.name);
};

export const beginWith = (text, suggestion) => begin(null, text, null, suggestion);

// Writes the file. It is refused if another program has changed it.
export const save = async (name = doc.name) => {
  const version = name === doc.name ? doc.version : null;
  const text = doc.text;
  const written = await call("PUT", "/api/file", { name, text, version });
  Object.assign(doc, { name, version: written.version, saved: text });
  tell("file", false);
  keepPlaces();
  return written.files;
};

// Where nodes were put by hand.
export const keepPlaces = seldom(400, () => {
  if (doc.name) call("PUT", "/api/places", { name: doc.name, places: doc.places }).catch(fail);
});
