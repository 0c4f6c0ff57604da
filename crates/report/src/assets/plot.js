// A card with one plot: drawn when it comes into view, with legend, keyboard, zoom and image export.
//
// `spec`: title, about (one sentence), height, wide, time (false: the horizontal axis is not the run's time), tools
// (elements), of (what its image is called after, if it is not the run that is shown), and build(), which returns
//   x      ascending numbers              lines  [{ name, values, colour, dash, width, kind, fill, stepped, points, show }]
//   kind   unit of the vertical axis      marks  [{ name, colour, shape, show, paint(u) }]: drawn beside the lines
//   xKind  unit of the horizontal axis    range  (from, to, low, high) => [low, high] of the vertical axis
//   hover  (u) => text on what is under the pointer; box: dragging zooms both axes; warmup: seconds
//   skipped  [from, to] in seconds: stretches without samples, where neither a line nor its band is drawn; a line may have its own
// or a string: why there is nothing to draw.
(() => {
  "use strict";
  const plots = new Set();
  const stepped = uPlot.paths.stepped({ align: 1 });
  const straight = uPlot.paths.linear();
  const sync = uPlot.sync("time");

  const swatch = (item) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", "18");
    svg.setAttribute("height", "10");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(svg.namespaceURI, "path");
    const shapes = { bar: "M9 0V10", cross: "M5 1L13 9M5 9L13 1", band: "M0 5H18", dots: "M3 5h.1M9 5h.1M15 5h.1" };
    const shape = item.shape ?? (item.points ? "dots" : "line");
    path.setAttribute("d", shapes[shape] ?? "M0 5H18");
    path.setAttribute("stroke", item.colour);
    path.setAttribute("stroke-width", shape === "band" ? "10" : shape === "dots" ? "3" : "2.25");
    if (shape === "band") path.setAttribute("stroke-opacity", "0.3");
    if (shape === "dots") path.setAttribute("stroke-linecap", "round");
    if (item.dash?.length) path.setAttribute("stroke-dasharray", item.dash.join(" "));
    path.setAttribute("fill", "none");
    svg.append(path);
    return svg;
  };

  W.Plot = class {
    constructor(spec) {
      this.spec = spec;
      this.hidden = new Map();
      const name = (text) => ({ "aria-label": text, title: text, type: "button", class: "icon" });
      this.body = W.el("div", { class: "canvas" });
      this.legend = W.el("ul", { class: "legend", "aria-label": "Legend: press to hide or show" });
      this.readout = W.el("p", { class: "readout" });
      this.spoken = W.el("div", { class: "hidden-text", "aria-live": "polite" });
      this.body.style.minHeight = `${this.height()}px`;
      this.element = W.el("section", { class: "card plot" + (spec.wide ? " wide" : ""), "aria-label": spec.title },
        W.el("div", { class: "card-head" }, W.el("h3", null, spec.title),
          W.el("div", { class: "tools" }, ...(spec.tools ?? []),
            W.el("button", { ...name("Save as PNG image"), onclick: () => this.save() }, "⤓"))),
        spec.about ? W.el("p", { class: "about" }, spec.about) : null,
        W.el("div", { class: "frame" }, this.body, this.readout), this.legend, this.spoken);
      this.body.addEventListener("keydown", (e) => this.key(e));
      this.stop = W.timeline.listen(() => this.follow());
      this.observer = new IntersectionObserver((entries) => {
        if (entries.some((entry) => entry.isIntersecting)) this.draw();
      }, { rootMargin: "300px" });
      this.observer.observe(this.element);
      this.resizer = new ResizeObserver(() => {
        const width = this.body.clientWidth;
        if (this.u && width > 0 && width !== this.u.width) this.u.setSize({ width, height: this.height() });
      });
      this.resizer.observe(this.body);
      plots.add(this);
    }

    height() {
      const height = this.spec.height ?? 250;
      return innerWidth < 560 ? Math.min(height, 320) : height;
    }

    draw() {
      if (this.drawn) return;
      this.drawn = true;
      this.observer.disconnect();
      const built = this.spec.build();
      this.body.replaceChildren();
      this.legend.replaceChildren();
      this.readout.textContent = "";
      if (typeof built === "string") {
        this.body.style.minHeight = "0";
        this.body.append(W.el("p", { class: "empty" }, built));
        this.element.dataset.empty = "1";
      } else {
        delete this.element.dataset.empty;
        this.built = built;
        this.create(built);
      }
      this.element.dataset.drawn = "1";
    }

    // After a change of the choice or the colours. Before the first drawing there is nothing to do.
    rebuild() {
      if (!this.drawn) return;
      this.u?.destroy();
      this.u = null;
      this.drawn = false;
      this.draw();
    }

    // New values of the same lines, as while a run goes on: what is zoomed, focused or hidden stays so.
    refresh() {
      if (!this.drawn) return;
      const built = this.u ? this.spec.build() : null;
      const same = built && typeof built !== "string" && built.lines.length === this.built.lines.length
        && built.lines.every((item, i) => item.name === this.built.lines[i].name);
      if (!same) {
        this.rebuild();
        return;
      }
      built.lines.forEach((item, i) => Object.assign(this.built.lines[i], item, { condensed: undefined }));
      this.built.x = built.x;
      this.u.setData([built.x, ...built.lines.map((item) => item.values)]);
    }

    destroy() {
      this.u?.destroy();
      this.stop();
      this.observer.disconnect();
      this.resizer.disconnect();
      plots.delete(this);
    }

    shown(item) {
      return this.hidden.has(item.name) ? !this.hidden.get(item.name) : item.show !== false;
    }

    create(built) {
      const time = this.spec.time !== false;
      const [ink, grid, muted] = ["ink", "grid", "muted"].map(W.colour);
      const font = `11px ${W.colour("sans")}`;
      const units = {};
      const ticks = (axis, kind) => (u, splits, i, space, step) => {
        const { unit, texts } = W.ticks(kind, splits, step || 1);
        units[axis] = unit;
        return texts;
      };
      const look = { stroke: muted, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, gap: 5 };
      const skipped = (item) => item.skipped ?? built.skipped;
      const line = (item) => ({
        label: item.name, stroke: item.colour, width: item.points ? 0 : item.width ?? 1.5, dash: item.dash,
        fill: item.fill ? item.colour + item.fill : undefined, show: this.shown(item),
        paths: item.points ? () => null : (u, index, i0, i1) => {
          const columns = W.condense(u, item);
          if (columns) return { stroke: W.condensedPath(u, item, columns), fill: null, clip: W.clipSkipped(u, skipped(item)) };
          return (item.stepped ? stepped : straight)(u, index, i0, i1);
        },
        gaps: (u, index, i0, i1, gaps) => W.withSkipped(u, skipped(item), gaps),
        points: item.points ? { show: true, size: 3, width: 0, fill: item.colour + "99" } : { show: false },
      });
      const range = (u, low, high) => {
        const [from, to] = time ? W.timeline.range : [u.scales.x.min, u.scales.x.max];
        // A thinned line reaches as far as its ranges.
        for (const item of built.lines) {
          if (!item.low || !this.shown(item)) continue;
          for (let i = Math.max(0, W.lowerBound(built.x, from) - 1); i < built.x.length && built.x[i] <= to; i++) {
            if (item.high[i] > high) high = item.high[i];
            if (item.low[i] !== null && item.low[i] < low) low = item.low[i];
          }
        }
        const [bottom, top] = built.range ? built.range(from, to, low, high, this) : [0, high > 0 ? high * 1.06 : 1];
        return top > bottom ? [bottom, top] : [bottom, bottom + 1];
      };
      const x = built.x;
      this.u = new uPlot({
        width: Math.max(this.body.clientWidth, 200),
        height: this.height(),
        padding: [24, 26, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: false, range: time ? () => W.timeline.range : (u, low, high) => (built.xRange ? built.xRange : [low, high]) },
          y: { range },
        },
        axes: [
          { ...look, size: 40, space: 70, values: ticks("x", built.xKind ?? "s") },
          { ...look, size: (u, texts) => Math.max(34, 14 + 6.4 * Math.max(0, ...(texts ?? []).map((t) => t.length))), values: ticks("y", built.kind) },
        ],
        series: [{}, ...built.lines.map(line)],
        cursor: {
          sync: time ? { key: sync.key, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } } : undefined,
          drag: { x: true, y: Boolean(built.box), uni: 40, dist: 4, setScale: false },
          y: Boolean(built.box),
          points: { size: 6 },
          bind: { dblclick: () => () => (time ? W.timeline.reset() : this.u.setData(this.u.data)) },
        },
        hooks: {
          drawClear: [(u) => {
            if (time) W.paintWarmup(u, built.warmup);
            for (const mark of built.marks ?? []) if (mark.under && this.shown(mark)) mark.paint(u);
          }],
          drawAxes: [(u) => built.lines.forEach((item, i) => {
            const columns = u.series[i + 1].show ? W.condense(u, item) : null;
            if (columns?.length) W.paintRange(u, item, columns, skipped(item));
          })],
          draw: [(u) => {
            for (const mark of built.marks ?? []) if (!mark.under && this.shown(mark)) mark.paint(u);
            W.paintUnits(u, units.y ?? "", time ? `Time (${units.x})` : units.x, time ? built.warmup : 0);
          }],
          setCursor: [(u) => this.values(u)],
          setSelect: [(u) => this.select(u, time, built)],
        },
      }, [x, ...built.lines.map((item) => item.values)], this.body);
      this.over = this.u.root;
      this.over.tabIndex = 0;
      this.over.setAttribute("role", "group");
      this.over.setAttribute("aria-label", `${this.spec.title}. Arrow keys move the cursor, with Shift they move the time range; plus and minus zoom, 0 shows the whole run.`);
      this.entries = [];
      this.makeLegend(built);
    }

    makeLegend(built) {
      const entry = (item, index) => {
        const value = W.el("span", { class: "value" });
        const button = W.el("button", {
          type: "button", title: item.title ?? item.name, "aria-pressed": String(this.shown(item)),
          onclick: () => {
            const show = !this.shown(item);
            this.hidden.set(item.name, !show);
            button.setAttribute("aria-pressed", String(show));
            if (built.stacked) this.rebuild();
            else if (index) this.u.setSeries(index, { show });
            else this.u.redraw(false, true);
          },
        }, swatch(item), W.el("span", { class: "name" }, item.name), index ? value : null);
        this.legend.append(W.el("li", null, button));
        this.entries.push([item, index, value]);
      };
      built.lines.forEach((item, i) => entry(item, i + 1));
      (built.marks ?? []).forEach((item) => entry(item, 0));
    }

    // The values under the cursor, in the legend.
    values(u) {
      const at = u.cursor.idx;
      for (const [item, index, value] of this.entries) {
        if (!index) continue;
        const i = u.cursor.idxs?.[index];
        const raw = i === null || i === undefined ? null : (item.raw ?? item.values)[i];
        value.textContent = raw === null || raw === undefined ? "" : W.human(item.kind ?? this.built.kind, raw);
      }
      const over = at !== null && at !== undefined && u.cursor.left >= 0;
      const kind = this.built.xKind ?? "s";
      let text = over ? (this.spec.time === false ? W.human(kind, u.posToVal(u.cursor.left, "x")) : `${u.posToVal(u.cursor.left, "x").toFixed(6)} s`) : "";
      const hover = over && this.built.hover ? this.built.hover(u) : "";
      if (hover) text += ` · ${hover}`;
      this.readout.textContent = text;
    }

    select(u, time, built) {
      const { left, top, width, height } = u.select;
      if (width < 3 && height < 3) return;
      const from = u.posToVal(left, "x"), to = u.posToVal(left + width, "x");
      const boxed = built.box && height < u.over.clientHeight - 1;
      const low = u.posToVal(top + height, "y"), high = u.posToVal(top, "y");
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      if (width >= 3) {
        if (time) W.timeline.set(from, to);
        else u.setScale("x", { min: from, max: to });
      }
      if (boxed) u.setScale("y", { min: low, max: high });
    }

    follow() {
      if (this.u && this.spec.time !== false) {
        const [min, max] = W.timeline.range;
        this.u.setScale("x", { min, max });
      }
    }

    key(e) {
      if (!this.u || e.ctrlKey || e.metaKey || e.altKey) return;
      const time = this.spec.time !== false;
      const u = this.u, step = u.over.clientWidth / 100;
      const sideways = e.key === "ArrowLeft" ? -1 : e.key === "ArrowRight" ? 1 : 0;
      if (sideways && e.shiftKey && time) W.timeline.pan(sideways * 0.25);
      else if (sideways) {
        const left = Math.min(Math.max((u.cursor.left < 0 ? u.over.clientWidth / 2 : u.cursor.left) + sideways * step, 0), u.over.clientWidth);
        u.setCursor({ left, top: u.over.clientHeight / 2 });
        const shown = this.entries.filter(([, i, value]) => i && value.textContent).slice(0, 8);
        this.spoken.textContent = `${this.readout.textContent}: ${shown.map(([item, , value]) => `${item.name} ${value.textContent}`).join(", ")}`;
      } else if ((e.key === "+" || e.key === "=") && time) W.timeline.zoom(0.5, u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : undefined);
      else if (e.key === "-" && time) W.timeline.zoom(2);
      else if ((e.key === "0" || e.key === "Escape" || e.key === "Home") && time) W.timeline.reset();
      else return;
      e.preventDefault();
    }

    // The plot with its title and legend as an image.
    save() {
      this.draw();
      if (!this.u) return;
      const source = this.u.ctx.canvas, ratio = devicePixelRatio || 1;
      const items = this.entries.map(([item]) => item).filter((item) => this.shown(item));
      const canvas = W.el("canvas", { width: source.width, height: 10 });
      const ctx = canvas.getContext("2d");
      const small = `${12 * ratio}px ${W.colour("sans")}`;
      ctx.font = small;
      // Where each legend entry goes: rows as wide as the plot.
      let x = 12 * ratio, row = 0;
      const places = items.map((item) => {
        const width = ctx.measureText(item.name).width + 40 * ratio;
        if (x + width > source.width && x > 12 * ratio) { x = 12 * ratio; row++; }
        const place = [item, x, row];
        x += width;
        return place;
      });
      const head = 34 * ratio, foot = (row + 1) * 20 * ratio + 12 * ratio;
      canvas.height = head + source.height + foot;
      ctx.fillStyle = W.colour("card");
      ctx.fillRect(0, 0, canvas.width, canvas.height);
      ctx.drawImage(source, 0, head);
      ctx.fillStyle = W.colour("ink");
      ctx.font = `600 ${15 * ratio}px ${W.colour("sans")}`;
      const of = this.spec.of ?? W.current.label;
      ctx.fillText(`${this.spec.title} · ${of}`, 12 * ratio, 22 * ratio);
      ctx.font = small;
      for (const [item, left, line] of places) {
        const y = head + source.height + (line * 20 + 14) * ratio;
        ctx.strokeStyle = item.colour;
        ctx.lineWidth = 2.5 * ratio;
        ctx.setLineDash((item.dash ?? []).map((d) => d * ratio));
        ctx.beginPath();
        ctx.moveTo(left, y - 4 * ratio);
        ctx.lineTo(left + 18 * ratio, y - 4 * ratio);
        ctx.stroke();
        ctx.fillText(item.name, left + 24 * ratio, y);
      }
      canvas.toBlob((blob) => W.download(W.fileName(of, this.spec.title) + ".png", blob), "image/png");
    }
  };

  W.drawAll = () => plots.forEach((plot) => plot.draw());
  W.plots = plots;
  W.onTheme(() => plots.forEach((plot) => plot.rebuild()));
})();
