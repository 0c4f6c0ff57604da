// Colours for canvases, and what happens when the scheme changes or the page is printed.
(() => {
  "use strict";
  const root = document.documentElement;
  let style = getComputedStyle(root);
  const listeners = [];

  // A colour token of the style sheet by name.
  W.colour = (name) => style.getPropertyValue("--" + name).trim();

  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2]];
  // The n-th of many series: colours repeat with another dash, so that no two look alike.
  W.seriesStyle = (n) => ({ colour: W.colour("s" + (n % 8)), dash: DASHES[Math.floor(n / 8) % DASHES.length] });

  // Members in the order in which they take colours: those shown at first come first, by number, so that no two of
  // them share one.
  W.ranked = (members, chosen) => {
    const first = members.filter((m) => chosen.has(m.id)).sort((a, b) => a.id - b.id);
    return [...first, ...members.filter((m) => !first.includes(m))];
  };

  W.onTheme = (listener) => listeners.push(listener);
  const changed = () => {
    style = getComputedStyle(root);
    listeners.forEach((listener) => listener());
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

  W.themeButton = () => {
    const names = { "": "Colours: system", light: "Colours: light", dark: "Colours: dark" };
    const order = ["", "light", "dark"];
    const button = W.el("button", {
      type: "button",
      onclick: () => {
        const next = order[(order.indexOf(root.dataset.theme ?? "") + 1) % 3];
        if (next) root.dataset.theme = next;
        else delete root.dataset.theme;
        button.textContent = names[next];
        changed();
      },
    }, names[""]);
    return button;
  };

  // Paper is white, and everything is drawn, also what was never scrolled to.
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    changed();
    W.drawAll();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    changed();
  });
})();
