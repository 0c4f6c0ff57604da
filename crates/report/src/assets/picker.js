// A choice of several among many, with a filter.
(() => {
  "use strict";
  // `items` are [id, name]; `chosen` is a Set of ids, changed in place; `all` is how many there are, where not each can be chosen.
  W.picker = (what, items, chosen, change, all = items.length) => {
    const head = W.el("summary", null);
    const list = W.el("ul", null);
    const filter = W.el("input", { type: "search", placeholder: `Find ${what}`, "aria-label": `Find ${what}`, oninput: fill });
    const count = () => { head.textContent = `${chosen.size} of ${W.human("count", all)} ${what}`; };
    function fill() {
      const wanted = filter.value.toLowerCase();
      const found = items.filter(([, name]) => name.toLowerCase().includes(wanted)).slice(0, 200);
      list.replaceChildren(...found.map(([id, name]) => {
        const box = W.el("input", { type: "checkbox", onchange: () => {
          if (box.checked) chosen.add(id);
          else chosen.delete(id);
          count();
          change();
        } });
        box.checked = chosen.has(id);
        return W.el("li", null, W.el("label", null, box, name));
      }));
    }
    const choose = (ids) => () => {
      chosen.clear();
      ids.forEach((id) => chosen.add(id));
      count();
      fill();
      change();
    };
    const element = W.el("details", { class: "picker" }, head, W.el("div", null, filter, list,
      all > items.length ? W.el("p", { class: "about" }, `The ${items.length} largest can be chosen.`) : null,
      W.el("button", { type: "button", onclick: choose(items.slice(0, 8).map(([id]) => id)) }, "First 8"), " ",
      W.el("button", { type: "button", onclick: choose([]) }, "None")));
    element.addEventListener("toggle", () => { if (element.open) { fill(); filter.focus(); } });
    element.addEventListener("keydown", (e) => { if (e.key === "Escape") { element.open = false; head.focus(); } });
    document.addEventListener("click", (e) => { if (!element.contains(e.target)) element.open = false; });
    count();
    return element;
  };
})();
