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

// How many scenarios were opened. What was asked for one of them is of no use to the next.
let opened = 0;

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
  const own = opened;
  const work = async () => {
    while (own === opened) {
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

// Waits until the text has all that was changed by hand so far.
export const settled = () => queue;

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
  const places = name ? await call("GET", asked("/api/places", { name })).catch(() => ({})) : {};
  opened++;
  Object.assign(doc, { name, text, version, suggestion, saved: version === null ? "" : text, past: [], future: [], places });
  doc.drawing = { nodes: [], links: [], flows: [] };
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
const write = async (name, own) => {
  await settled();
  if (own !== opened) throw new Error(`${name} is not saved: another scenario was opened in the meantime.`);
  const version = name === doc.name ? doc.version : null;
  const text = doc.text;
  const written = await call("PUT", "/api/file", { name, text, version });
  if (own !== opened) return written.files;
  Object.assign(doc, { name, version: written.version, saved: text });
  tell("file", false);
  keepPlaces();
  return written.files;
};

// One after the other: the second one is to know the version that the first one has made.
let saving = Promise.resolve();
export const save = (name = doc.name) => {
  const own = opened;
  const done = saving.then(() => write(name, own));
  saving = done.catch(() => {});
  return done;
};

// Where nodes were put by hand. Another scenario may be open when they are written.
const keep = seldom(400, (name, places) => {
  if (name) call("PUT", "/api/places", { name, places }).catch(fail);
});
export const keepPlaces = () => keep(doc.name, doc.places);
