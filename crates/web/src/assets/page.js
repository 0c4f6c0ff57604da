// What all parts of the page use: announcements, dialogs, buttons, and which part is shown.

const said = document.getElementById("said");

// Tells everybody, also who does not see the page.
let fade = 0;
export const say = (text, level = "info") => {
  said.textContent = "";
  said.textContent = text;
  // What can be seen anyway is announced to screen readers only.
  if (level === "quiet") return;
  document.querySelector(".toast")?.remove();
  const toast = W.el("div", { class: `toast ${level}` }, W.el("span", null, text),
    W.el("button", { type: "button", class: "icon", "aria-label": "Close this message", onclick: () => toast.remove() }, "✕"));
  document.body.append(toast);
  clearTimeout(fade);
  if (level === "info") fade = setTimeout(() => toast.remove(), 5000);
};

export const fail = (error) => {
  if (error.name !== "AbortError") say(error.message ?? String(error), "wrong");
};

// A button. An error in what it does is shown.
export const button = (text, work, attributes = {}) => {
  const element = W.el("button", { type: "button", ...attributes, onclick: async (event) => {
    try {
      await work(event, element);
    } catch (error) {
      fail(error);
    }
  } }, text);
  return element;
};

export const icon = (text, label, work, attributes = {}) => button(text, work, { class: "icon", "aria-label": label, title: label, ...attributes });

// A dialog over the page; Escape closes it.
export const dialog = (title, ...content) => {
  const heading = W.el("h2", { id: "dialog-title" }, title);
  const element = W.el("dialog", { "aria-labelledby": "dialog-title" },
    W.el("div", { class: "dialog-head" }, heading, icon("✕", "Close", () => element.close())), ...content);
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  document.body.append(element);
  element.showModal();
  return element;
};

// Asks for a line of text; nothing if it is not given.
export const ask = (title, label, value, action) => new Promise((done) => {
  const input = W.el("input", { type: "text", value, id: "ask", required: true, autocomplete: "off" });
  const form = W.el("form", { class: "ask", method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    done(input.value.trim());
    box.close();
  } }, W.el("label", { for: "ask" }, label), input, W.el("button", { class: "primary" }, action));
  const box = dialog(title, form);
  box.addEventListener("close", () => done(""));
  input.select();
});

const parts = new Map();
const listeners = [];
let current = "";

// A part of the page: "network", "runs", "watch".
export const addPart = (name, title, element) => {
  element.id = `part-${name}`;
  element.hidden = true;
  element.setAttribute("aria-label", title);
  document.getElementById("main").append(element);
  parts.set(name, { title, element });
};

export const show = (name) => {
  current = name;
  for (const [own, { element }] of parts) element.hidden = own !== name;
  for (const link of document.querySelectorAll("[data-part]")) {
    if (link.dataset.part === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  listeners.forEach((listener) => listener(name));
};

export const shown = () => current;
export const onShow = (listener) => listeners.push(listener);

export const partButtons = () => W.el("nav", { class: "parts", "aria-label": "Parts of the lab" },
  ...[...parts].map(([name, { title }]) => W.el("button", { type: "button", "data-part": name, onclick: () => show(name) }, title)));

// Calls at most once in a while, and once more at the end.
export const seldom = (ms, work) => {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), ms);
  };
};
