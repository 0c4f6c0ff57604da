// The time range that all time plots share.
(() => {
  "use strict";
  const listeners = new Set();
  const timeline = {
    span: 1,
    range: [0, 1],
    zoomed: false,

    start(span) {
      timeline.span = span > 0 ? span : 1;
      timeline.range = [0, timeline.span];
      timeline.zoomed = false;
    },
    set(from, to) {
      if (!(to > from)) return;
      const width = Math.min(Math.max(to - from, 1e-7), timeline.span);
      const low = Math.min(Math.max(from, 0), timeline.span - width);
      timeline.range = [low, low + width];
      timeline.zoomed = width < timeline.span * 0.9999;
      listeners.forEach((listener) => listener());
    },
    reset() {
      timeline.range = [0, timeline.span];
      timeline.zoomed = false;
      listeners.forEach((listener) => listener());
    },
    // Around `centre`, or the middle.
    zoom(factor, centre) {
      const [from, to] = timeline.range;
      const middle = centre ?? (from + to) / 2;
      timeline.set(middle - (middle - from) * factor, middle + (to - middle) * factor);
    },
    // By a fraction of the width.
    pan(fraction) {
      const [from, to] = timeline.range;
      timeline.set(from + (to - from) * fraction, to + (to - from) * fraction);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  W.timeline = timeline;

  // The bar with the range in numbers: for keyboards, touch, and exact limits.
  W.timeBar = () => {
    const input = (label) => W.el("input", { type: "number", step: "any", min: 0, "aria-label": label, onchange: apply });
    const from = input("From, seconds");
    const to = input("To, seconds");
    const reset = W.el("button", { type: "button", onclick: timeline.reset }, "Reset");
    function apply() {
      timeline.set(Number(from.value), Number(to.value));
      show();
    }
    function show() {
      const step = (timeline.range[1] - timeline.range[0]) / 1000;
      const places = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step))));
      from.value = String(Number(timeline.range[0].toFixed(places)));
      to.value = String(Number(timeline.range[1].toFixed(places)));
      reset.disabled = !timeline.zoomed;
    }
    timeline.listen(show);
    show();
    const button = (text, label, action) => W.el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: action }, text);
    return W.el("div", { class: "timebar", role: "group", "aria-label": "Time range of all plots" },
      W.el("label", null, W.el("span", { class: "word" }, "Time"), from), W.el("label", null, "to", to), "s",
      button("−", "Zoom out", () => timeline.zoom(2)), button("+", "Zoom in", () => timeline.zoom(0.5)),
      button("←", "Earlier", () => timeline.pan(-0.5)), button("→", "Later", () => timeline.pan(0.5)), reset,
      W.el("span", { class: "hint" }, "Drag in a plot to zoom, double-click to reset."));
  };
})();
