// Fields of the scenario by its schema: a label, a way to give the value, the default, the unit, and what it means.
import { call } from "./api.js";

let schema = null;
export const loadSchema = async () => { schema = await call("GET", "/api/schema"); };

// A schema with what its reference says; "or null" means only that the key may be left out.
export const resolved = (own) => {
  let all = own;
  for (let depth = 0; depth < 12; depth++) {
    const { $ref, anyOf, ...rest } = all;
    const choices = anyOf?.filter((choice) => choice.type !== "null");
    const next = $ref ? schema.$defs[$ref.split("/").pop()] : choices?.length === 1 ? choices[0] : null;
    if (!next) return all;
    // What is said at the key is nearer than what is said at the type, but for its examples.
    all = { ...next, ...rest };
  }
  return all;
};

export const propertiesOf = (name) => schema.$defs[name].properties;
export const rootProperties = () => schema.properties;

const type = (own) => (Array.isArray(own.type) ? own.type.find((word) => word !== "null") : own.type);

// Kinds of a component ("droptail", "codel"), each with its parameters.
const forms = (own) => [...(own.oneOf ?? []), ...(own.anyOf ?? [])].flatMap((form) => {
  const real = resolved(form);
  return real.oneOf && !real.properties ? forms(real) : real.properties?.kind?.const ? [real] : [];
});

const words = (own) => {
  const list = [...(own.enum ?? []).map((word) => [word, ""])];
  for (const form of [...(own.oneOf ?? []), ...(own.anyOf ?? [])]) {
    if (typeof form.const === "string") list.push([form.const, form.description ?? ""]);
    else if (form.enum) list.push(...form.enum.map((word) => [word, ""]));
  }
  return list;
};

const plainText = (text) => (text ?? "").replaceAll("`", "").replaceAll("\n", " ");

const UNITS = {
  time: "a time: ms, s, min", rate: "a rate: kbit/s, Mbit/s, Gbit/s", size: "a size: B, kB, MB", "queue-limit": "packets (20p), bytes (150kB), a multiple of the BDP (1BDP) or a time (50ms)",
  start: "a time, or a range such as 0s..1s", window: "segments (10p) or bytes (64kB)", probability: "a number from 0 to 1, or 1%", cc: "a name, perhaps with parameters",
};

const unitOf = (own) => {
  const formats = [own.format, ...(own.anyOf ?? []).map((form) => form.format)];
  return formats.map((format) => UNITS[format]).find(Boolean) ?? "";
};

const defaultOf = (own) => {
  const said = /Default:? ([^.]*(?:\.\d[^.]*)*)\.?/.exec(plainText(own.description));
  if (said) return said[1].replaceAll("`", "").replaceAll('"', "").split(";")[0].split(",")[0].trim();
  return typeof own.default === "string" || typeof own.default === "number" || typeof own.default === "boolean" ? String(own.default) : "";
};

// A value as TOML writes it.
export const toToml = (value) => {
  if (Array.isArray(value)) return `[${value.map(toToml).join(", ")}]`;
  if (value && typeof value === "object") return `{ ${Object.entries(value).map(([key, own]) => `${/^[\w-]+$/.test(key) ? key : JSON.stringify(key)} = ${toToml(own)}`).join(", ")} }`;
  return JSON.stringify(value);
};

let count = 0;

// `at`: { path, value, set(path, { value } or { toml }), problem(path) }.
const row = (name, own, at, control, more = []) => {
  const id = `f${++count}`;
  const unit = unitOf(own);
  const help = plainText(own.description) + (unit ? ` Written as ${unit}.` : "");
  const wrong = at.problem(at.path);
  control.id = id;
  control.setAttribute("aria-describedby", `${id}h${wrong ? ` ${id}e` : ""}`);
  if (wrong) control.setAttribute("aria-invalid", "true");
  control.dataset.path = at.path.join(".");
  return W.el("div", { class: `row${wrong ? " wrong" : ""}${at.value !== undefined ? " given" : ""}` },
    W.el("label", { for: id }, name.replaceAll("_", " ")), control,
    wrong ? W.el("p", { class: "error", id: `${id}e` }, wrong) : null,
    W.el("p", { class: "help", id: `${id}h` }, help), ...more);
};

const select = (items, value, change) => {
  const element = W.el("select", { onchange: () => change(element.value) }, ...items.map(([v, text, title]) => W.el("option", { value: v, title: title || null }, text)));
  element.value = value;
  return element;
};

const line = (own, at, read) => {
  const shown = at.value === undefined ? "" : typeof at.value === "object" ? toToml(at.value) : String(at.value);
  const unit = unitOf(own);
  const standard = defaultOf(own);
  const input = W.el("input", { type: "text", value: shown, autocomplete: "off", spellcheck: "false", placeholder: standard || (own.examples?.[0] !== undefined && typeof own.examples[0] !== "object" ? `such as ${own.examples[0]}` : unit), title: unit || null });
  const give = () => {
    if (input.value === shown) return;
    // Given, and no longer being typed: the fields may be made anew.
    input.defaultValue = input.value;
    if (input.value.trim() === "") at.set(at.path, { value: null });
    else at.set(at.path, read(input.value.trim()));
  };
  input.addEventListener("change", give);
  return input;
};

const number = (text) => (/^[+-]?\d[\d_]*(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? { value: Number(text.replaceAll("_", "")) } : { value: text });

// The rows of a key: one, or those of its parts.
export const field = (name, given, at) => {
  const own = resolved(given);
  const kinds = forms(own);
  if (kinds.length) return component(name, own, kinds, at);
  const list = words(own);
  if (list.length && !own.anyOf?.some((form) => form.format)) {
    const standard = defaultOf(own);
    const known = at.value === undefined || list.some(([word]) => word === at.value);
    const items = [["", standard ? `${standard} (default)` : "not said"], ...list.map(([word, about]) => [word, word, about]), ...(known ? [] : [[String(at.value), String(at.value)]])];
    return row(name, own, at, select(items, at.value ?? "", (value) => at.set(at.path, { value: value || null })));
  }
  if (type(own) === "boolean") {
    const standard = defaultOf(own);
    const items = [["", standard ? `${standard === "true" ? "yes" : standard === "false" ? "no" : standard} (default)` : "not said"], ["true", "yes"], ["false", "no"]];
    return row(name, own, at, select(items, at.value === undefined ? "" : String(at.value), (value) => at.set(at.path, { value: value === "" ? null : value === "true" })));
  }
  if (type(own) === "object" && own.properties) return group(name, own, at);
  if (type(own) === "array") {
    const item = resolved(own.items ?? {});
    const choices = words(item);
    if (choices.length && type(item) !== "object") return checks(name, own, choices, at);
    return row(name, own, at, line(own, at, (text) => ({ toml: text })));
  }
  if (type(own) === "integer" || type(own) === "number") return row(name, own, at, line(own, at, number));
  const numbers = own.anyOf?.some((form) => form.type === "number" || form.type === "integer");
  return row(name, own, at, line(own, at, (text) => (numbers ? number(text) : /^[[{]/.test(text) ? { toml: text } : { value: text })));
};

// Several of a few words.
const checks = (name, own, choices, at) => {
  const chosen = Array.isArray(at.value) ? at.value : [];
  const box = W.el("div", { class: "checks", role: "group", "aria-label": name, tabindex: "-1" }, ...choices.map(([word, about]) => {
    const input = W.el("input", { type: "checkbox", onchange: () => {
      const next = choices.map(([own]) => own).filter((own) => (own === word ? input.checked : chosen.includes(own)));
      at.set(at.path, { value: next.length ? next : null });
    } });
    input.checked = chosen.includes(word);
    return W.el("label", { title: about || null }, input, word);
  }));
  return row(name, own, at, box);
};

// A kind and its parameters. What is written in short ("20p") stays so until a parameter is given.
const component = (name, own, kinds, at) => {
  const short = typeof at.value === "string" || typeof at.value === "number" ? String(at.value) : "";
  const kind = kinds.find((form) => form.properties.kind.const === (at.value?.kind ?? short));
  const standard = defaultOf(own);
  const asText = at.value !== undefined && !kind;
  const items = [["", standard ? `${standard} (default)` : "not said"], ...kinds.map((form) => [form.properties.kind.const, form.properties.kind.const, form.description]), ["?", "written in short …"]];
  const control = select(items, kind ? kind.properties.kind.const : asText ? "?" : "", (value) => {
    if (value === "?") {
      const input = line(own, { ...at, value: undefined }, (text) => ({ value: text }));
      input.setAttribute("aria-label", `${name}, in short`);
      input.classList.add("short");
      control.after(input);
      input.focus();
    } else if (value === "") at.set(at.path, { value: null });
    else at.set(at.path, { value: { kind: value } });
  });
  const rows = [];
  if (asText) {
    const input = line(own, at, (text) => (/^[[{]/.test(text) ? { toml: text } : { value: text }));
    input.setAttribute("aria-label", `${name}, in short`);
    input.classList.add("short");
    rows.push(input);
  }
  const parameters = kind ? Object.entries(kind.properties).filter(([key]) => key !== "kind") : [];
  if (parameters.length) {
    const values = typeof at.value === "object" ? at.value : {};
    const needed = new Set([...(kind.required ?? []), ...Object.keys(values)]);
    const make = ([key, property]) => field(key, property, { ...at, path: [...at.path, key], value: values[key] });
    const first = parameters.filter(([key]) => needed.has(key) || key === "limit"), rest = parameters.filter((entry) => !first.includes(entry));
    rows.push(W.el("div", { class: "parameters" }, kind.description ? W.el("p", { class: "about" }, plainText(kind.description)) : null, ...first.map(make),
      rest.length ? more(`${at.path.join(".")}/parameters`, `${rest.length} more parameters`, () => rest.map(make)) : null));
  }
  const made = row(name, own, at, control, rows);
  return made;
};

// Which parts were opened, so that they stay open when the fields are made anew.
const opened = new Set();
export const more = (key, title, rows) => {
  const box = W.el("details", { class: "more-fields", open: opened.has(key) }, W.el("summary", null, title));
  let made = false;
  const make = () => {
    if (made) return;
    made = true;
    box.append(...rows());
  };
  if (opened.has(key)) make();
  box.addEventListener("toggle", () => {
    if (box.open) { opened.add(key); make(); } else opened.delete(key);
  });
  return box;
};

const group = (name, own, at) => {
  const values = at.value && typeof at.value === "object" ? at.value : {};
  const box = more(at.path.join("."), name.replaceAll("_", " ") + (at.value === undefined ? "" : " ●"), () => [
    W.el("p", { class: "about" }, plainText(own.description)),
    ...Object.entries(own.properties).map(([key, property]) => field(key, property, { ...at, path: [...at.path, key], value: values[key] })),
  ]);
  return box;
};

// Rows for the keys of a table: the first ones at once, the others when asked for.
export const rows = (properties, first, at, skip = []) => {
  const values = at.value ?? {};
  // What a key is for stands before its text: "cbr: The rate ... onoff: The rate while on".
  const apps = properties.app ? words(resolved(properties.app)).map(([word]) => word) : [];
  const forApps = (property) => [...plainText(property.description).matchAll(/(?:^|\. )([a-z][a-z, ]*): /g)].flatMap(([, list]) => list.split(", ")).filter((word) => apps.includes(word));
  const ownApp = values.app ?? apps[0];
  const special = (property) => forApps(property).length > 0;
  const fits = (property) => !special(property) || forApps(property).includes(ownApp);
  const applies = (property) => fits(property) && Object.entries(property["x-goes-with"] ?? {}).every(([key, list]) => {
    const other = resolved(properties[key] ?? {});
    const own = values[key] ?? (defaultOf(other) || words(other)[0]?.[0]);
    return list.includes(own);
  });
  const keys = Object.keys(properties).filter((key) => !skip.includes(key) && (applies(properties[key]) || values[key] !== undefined) && !properties[key].deprecated);
  const needed = keys.filter((key) => first.includes(key) || special(properties[key]));
  const shown = [...first.filter((key) => keys.includes(key)), ...needed.filter((key) => !first.includes(key)), ...keys.filter((key) => !needed.includes(key) && values[key] !== undefined)];
  const rest = keys.filter((key) => !shown.includes(key));
  const make = (key) => field(key, properties[key], { ...at, path: [...at.path, key], value: values[key] });
  return [...shown.map(make), rest.length ? more(`${at.path.join(".")}/rest`, `All other keys (${rest.length})`, () => rest.map(make)) : null].filter(Boolean);
};
