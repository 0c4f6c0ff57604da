// A network on a canvas: drawn, moved, zoomed, and pointed at. Large ones are drawn without labels, and in few strokes.
import { layout } from "./layout.js";

const GRID = 20;
const NODE = 17;
// With more links than these, they are drawn as a picture that moves as a whole.
const MANY = 1500;
// A direction of a link is drawn beside its middle, to the right of its sender.
export const LANE = 4;

export class Network {
  // `on`: select(thing), move(name, place), join(from, to or place), empty text; `paint(ctx, network, ratio)` draws above the links.
  constructor(label, on = {}) {
    this.on = on;
    this.nodes = [];
    this.links = [];
    this.flows = [];
    this.x = new Float64Array(0);
    this.y = new Float64Array(0);
    this.view = { scale: 1, x: 0, y: 0 };
    this.selected = null;
    this.hovered = null;
    this.wrong = new Set();
    this.snap = true;
    this.canvas = W.el("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.label = label;
    this.tip = W.el("div", { class: "tip", hidden: true });
    const zoomer = (text, label, work) => W.el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: work }, text);
    this.element = W.el("div", { class: "drawing" }, this.canvas, this.tip, W.el("div", { class: "zoomers", role: "group", "aria-label": "Zoom" },
      zoomer("−", "Zoom out", () => this.zoom(0.8)), zoomer("+", "Zoom in", () => this.zoom(1.25)), zoomer("⤢", "Show all", () => { this.fit(); this.redraw(); })));
    this.listen();
    this.resizer = new ResizeObserver(() => this.resize());
    this.resizer.observe(this.element);
    W.onTheme(() => this.redraw());
    matchMedia("(prefers-reduced-motion: reduce)").addEventListener("change", () => this.redraw());
  }

  // Another drawing; nodes that were there stay where they were.
  set(drawing, places = {}) {
    const before = new Map(this.nodes.map((node, i) => [node.name, [this.x[i], this.y[i]]]));
    const fresh = this.nodes.length === 0;
    this.nodes = drawing.nodes;
    this.links = drawing.links;
    this.flows = drawing.flows;
    this.leftOut = drawing.left_out;
    const known = this.nodes.map((node) => places[node.name] ?? (fresh ? null : before.get(node.name)) ?? null);
    const edges = this.links.map((link) => [link.from, link.to]);
    const shape = JSON.stringify([this.nodes.map((node) => node.name), edges]);
    if (shape === this.shape) {
      known.forEach((place, i) => { if (place) [this.x[i], this.y[i]] = place; });
      this.moves = (this.moves ?? 0) + 1;
      this.redraw();
      return;
    }
    this.shape = shape;
    this.degree = new Uint32Array(this.nodes.length);
    for (const [a, b] of edges) { this.degree[a]++; this.degree[b]++; }
    this.parallel(edges);
    this.arrange(edges, known, fresh || known.every((place) => !place));
  }

  // Links between the same two nodes are bent, so that each is seen.
  parallel(edges) {
    const count = new Map();
    const number = edges.map(([a, b]) => {
      const key = Math.min(a, b) * 1e6 + Math.max(a, b);
      const own = count.get(key) ?? 0;
      count.set(key, own + 1);
      return own;
    });
    this.bend = edges.map(([a, b], i) => {
      const all = count.get(Math.min(a, b) * 1e6 + Math.max(a, b));
      return all > 1 ? (number[i] - (all - 1) / 2) * 26 * (a < b ? 1 : -1) : 0;
    });
  }

  arrange(edges, known, fit) {
    const work = layout(this.nodes.length, edges, known);
    this.x = work.x;
    this.y = work.y;
    const run = ++this.layouts || (this.layouts = 1);
    let first = true;
    const on = () => {
      if (run !== this.layouts) return;
      // What is small is ready at once.
      const more = work.step(first ? 60 : 12);
      first = false;
      if (fit) this.fit();
      this.moves = (this.moves ?? 0) + 1;
      this.redraw();
      if (more) requestAnimationFrame(on);
    };
    on();
  }

  // Forgets where nodes were put.
  rearrange() {
    this.arrange(this.links.map((link) => [link.from, link.to]), this.nodes.map(() => null), true);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    const grown = this.width && this.height ? [width - this.width, height - this.height] : null;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (grown && this.touched) {
      this.view.x += grown[0] / 2;
      this.view.y += grown[1] / 2;
    } else {
      this.fit();
    }
    this.draw();
  }

  // Shows all of it.
  fit() {
    this.touched = false;
    if (!this.nodes.length || !this.width) return;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (let i = 0; i < this.nodes.length; i++) {
      left = Math.min(left, this.x[i]); right = Math.max(right, this.x[i]);
      top = Math.min(top, this.y[i]); bottom = Math.max(bottom, this.y[i]);
    }
    const room = this.nodes.length > 60 ? 24 : 62;
    const scale = Math.min((this.width - 2 * room) / Math.max(right - left, 1), (this.height - 2 * room) / Math.max(bottom - top, 1), 1.7 * Math.max(1, this.width / 1100));
    this.view.scale = Math.max(scale, 0.01);
    this.view.x = this.width / 2 - ((left + right) / 2) * this.view.scale;
    this.view.y = this.height / 2 - ((top + bottom) / 2) * this.view.scale;
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const scale = Math.min(Math.max(view.scale * factor, 0.01), 8);
    view.x = x - (x - view.x) * (scale / view.scale);
    view.y = y - (y - view.y) * (scale / view.scale);
    view.scale = scale;
    this.touched = true;
    this.unsettle();
    this.redraw();
  }

  sx(i) { return this.x[i] * this.view.scale + this.view.x; }
  sy(i) { return this.y[i] * this.view.scale + this.view.y; }

  // Size of nodes on the screen.
  get size() { return Math.min(Math.max(NODE * this.view.scale, 2.5), Math.max(20, (this.width ?? 0) / 55)); }

  // The way of a direction of a link on the screen: a function from 0 (sender) to 1 (receiver) to a point, for links as they are drawn.
  lane(number, back) {
    const link = this.links[number];
    const [a, b] = back ? [link.to, link.from] : [link.from, link.to];
    const ax = this.sx(a), ay = this.sy(a), bx = this.sx(b), by = this.sy(b);
    const length = Math.hypot(bx - ax, by - ay) || 1;
    const ux = (bx - ax) / length, uy = (by - ay) / length;
    const edge = Math.min(this.size + 2, length / 3);
    const both = link.there && link.back;
    const side = both ? Math.min(LANE, length / 12) : 0;
    const bend = (this.bend[number] ?? 0) * Math.min(1, this.view.scale) * (back ? -1 : 1);
    const px = -uy * side, py = ux * side;
    return (f) => {
      const along = edge + f * (length - 2 * edge);
      const arch = bend ? 4 * (along / length) * (1 - along / length) * bend : 0;
      return [ax + ux * along + px - uy * arch, ay + uy * along + py + ux * arch];
    };
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  colourOfFlow(entry) { return W.seriesStyle(entry).colour; }

  draw() {
    const ctx = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    if (!this.width) return;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.width, this.height);
    const tone = Object.fromEntries(["ink", "muted", "line", "card", "accent", "red", "s2", "warm", "sans", "bg"].map((name) => [name, W.colour(name)]));
    if (!this.nodes.length) {
      ctx.fillStyle = tone.muted;
      ctx.font = `15px ${tone.sans}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      const words = this.leftOut ?? this.on.empty ?? "There is no network yet.";
      words.split("\n").forEach((line, i) => ctx.fillText(line, this.width / 2, this.height / 2 + i * 22));
      return;
    }
    this.drawLinks(ctx, tone);
    this.paint?.(ctx, this);
    this.drawNodes(ctx, tone);
    if (this.joining) {
      ctx.strokeStyle = tone.accent;
      ctx.lineWidth = 2;
      ctx.setLineDash([6, 4]);
      ctx.beginPath();
      ctx.moveTo(this.sx(this.joining.from), this.sy(this.joining.from));
      ctx.lineTo(this.joining.x, this.joining.y);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }

  thick(link) {
    const rate = link.there?.rate_bps ?? 0;
    return rate > 0 ? Math.min(Math.max(1 + 0.75 * Math.log10(rate / 1e5), 1), 6.5) * Math.min(1, Math.max(0.3, this.view.scale)) : 1.2;
  }

  path(ctx, number) {
    const link = this.links[number];
    const ax = this.sx(link.from), ay = this.sy(link.from), bx = this.sx(link.to), by = this.sy(link.to);
    ctx.moveTo(ax, ay);
    const bend = (this.bend[number] ?? 0) * Math.min(1, this.view.scale);
    if (!bend) { ctx.lineTo(bx, by); return; }
    const length = Math.hypot(bx - ax, by - ay) || 1;
    ctx.quadraticCurveTo((ax + bx) / 2 - ((by - ay) / length) * bend * 2, (ay + by) / 2 + ((bx - ax) / length) * bend * 2, bx, by);
  }

  // The links of a large network, as a picture: it is moved and stretched with the view, and drawn anew when the view rests.
  drawPicture(ctx, tone) {
    const { view } = this, ratio = devicePixelRatio || 1;
    const key = [this.layouts, this.moves, this.width, this.height, tone.warm, ratio].join();
    const rests = this.picture && this.picture.x === view.x && this.picture.y === view.y && this.picture.scale === view.scale;
    const arranged = this.picture?.key === key;
    if (!arranged || (!rests && !this.unrest)) {
      const canvas = this.picture?.canvas ?? document.createElement("canvas");
      canvas.width = this.canvas.width;
      canvas.height = this.canvas.height;
      const own = canvas.getContext("2d");
      own.setTransform(ratio, 0, 0, ratio, 0, 0);
      own.clearRect(0, 0, this.width, this.height);
      this.strokeLinks(own, tone);
      this.picture = { canvas, key, ...view };
    }
    const { canvas, x, y, scale } = this.picture;
    const by = view.scale / scale;
    ctx.drawImage(canvas, view.x - x * by, view.y - y * by, this.width * by, this.height * by);
  }

  // The view moves: what is costly waits until it rests.
  unsettle() {
    this.unrest = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => { this.unrest = false; this.redraw(); }, 160);
  }

  drawLinks(ctx, tone) {
    if (this.links.length > MANY) this.drawPicture(ctx, tone);
    else this.strokeLinks(ctx, tone);
    this.drawChosen(ctx, tone);
  }

  strokeLinks(ctx, tone) {
    // By thickness: one stroke for all that are alike.
    const groups = new Map();
    this.links.forEach((link, i) => {
      const width = Math.round(this.thick(link) * 2) / 2;
      if (!groups.has(width)) groups.set(width, []);
      groups.get(width).push(i);
    });
    const many = this.links.length > MANY;
    ctx.lineCap = "round";
    ctx.strokeStyle = tone.warm;
    ctx.globalAlpha = many ? 0.25 : 0.45;
    for (const [width, members] of groups) {
      ctx.lineWidth = many ? Math.min(width, 1) : width;
      ctx.beginPath();
      for (const i of members) this.path(ctx, i);
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }

  drawChosen(ctx, tone) {
    const flow = this.selected?.kind === "flow" ? this.flows.find((own) => own.entry === this.selected.entry) : null;
    if (flow) {
      ctx.strokeStyle = this.colourOfFlow(flow.entry);
      ctx.lineWidth = 4;
      ctx.globalAlpha = 0.8;
      ctx.beginPath();
      flow.links.forEach((i) => this.links[i] && this.path(ctx, i));
      ctx.stroke();
      ctx.globalAlpha = 1;
    }
    this.links.forEach((link, i) => {
      const wrong = this.wrong.has(link.origin);
      const selected = this.selected?.kind === "link" && this.selected.origin === link.origin;
      const hovered = this.hovered?.kind === "link" && this.hovered.number === i;
      if (!wrong && !selected && !hovered) return;
      ctx.strokeStyle = wrong ? tone.red : tone.accent;
      ctx.lineWidth = this.thick(link) + (selected ? 3 : 2);
      if (wrong) ctx.setLineDash([5, 4]);
      ctx.beginPath();
      this.path(ctx, i);
      ctx.stroke();
      ctx.setLineDash([]);
    });
    if (this.links.length > 160 || this.quiet) return;
    ctx.font = `11.5px ${tone.sans}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    this.links.forEach((link, i) => {
      const words = link.there?.words.split(", ").slice(0, 2).join(" · ");
      if (!words) return;
      const ax = this.sx(link.from), ay = this.sy(link.from), bx = this.sx(link.to), by = this.sy(link.to);
      const length = Math.hypot(bx - ax, by - ay);
      const width = ctx.measureText(words).width;
      if (length < width + 2 * this.size + 14 && length < 200) return;
      // Beside the line, and upright.
      const steep = Math.abs(by - ay) / length;
      const bend = (this.bend[i] ?? 0) * Math.min(1, this.view.scale);
      const mx = (ax + bx) / 2 - ((by - ay) / length) * bend, my = (ay + by) / 2 + ((bx - ax) / length) * bend;
      let angle = Math.atan2(by - ay, bx - ax);
      if (angle > Math.PI / 2 || angle <= -Math.PI / 2) angle += Math.PI;
      ctx.save();
      ctx.translate(mx, my);
      ctx.rotate(angle);
      ctx.fillStyle = tone.muted;
      ctx.lineWidth = 4;
      ctx.strokeStyle = tone.card;
      ctx.strokeText(words, 0, -11 - steep);
      ctx.fillText(words, 0, -11 - steep);
      ctx.restore();
    });
  }

  drawNodes(ctx, tone) {
    const size = this.size;
    const many = this.nodes.length > 300 && size < 7;
    if (many) {
      // Two strokes for all.
      for (const role of ["router", "host"]) {
        ctx.fillStyle = role === "host" ? tone.accent : tone.muted;
        ctx.beginPath();
        this.nodes.forEach((node, i) => { if (node.role === role) ctx.rect(this.sx(i) - size / 2, this.sy(i) - size / 2, size, size); });
        ctx.fill();
      }
    }
    const labels = this.nodes.length <= 150 || this.view.scale > 0.75;
    ctx.font = `600 12.5px ${tone.sans}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    this.nodes.forEach((node, i) => {
      const x = this.sx(i), y = this.sy(i);
      if (x < -80 || y < -40 || x > this.width + 80 || y > this.height + 40) return;
      const selected = this.selected?.kind === "node" && this.selected.name === node.name;
      const hovered = this.hovered?.kind === "node" && this.hovered.name === node.name;
      const wrong = this.wrong.has(node.name);
      if (!many || selected || hovered || wrong) {
        const host = node.role === "host";
        ctx.beginPath();
        if (host) ctx.roundRect(x - size, y - size * 0.82, size * 2, size * 1.64, size * 0.35);
        else ctx.arc(x, y, size * 0.92, 0, 2 * Math.PI);
        ctx.fillStyle = tone.card;
        ctx.fill();
        ctx.fillStyle = host ? tone.accent : tone.muted;
        ctx.globalAlpha = 0.14;
        ctx.fill();
        ctx.globalAlpha = 1;
        ctx.lineWidth = selected ? 3 : 1.75;
        ctx.strokeStyle = wrong ? tone.red : selected || hovered ? tone.accent : host ? tone.accent : tone.muted;
        ctx.stroke();
        if (size > 8) this.sign(ctx, node, x, y, size, host ? tone.accent : tone.muted);
        if (wrong) {
          ctx.fillStyle = tone.red;
          ctx.beginPath();
          ctx.arc(x + size, y - size * 0.8, 7, 0, 2 * Math.PI);
          ctx.fill();
          ctx.fillStyle = tone.card;
          ctx.fillText("!", x + size, y - size * 0.8 - 6);
        }
      }
      if (labels || selected || hovered) {
        ctx.lineWidth = 4;
        ctx.strokeStyle = tone.card;
        ctx.fillStyle = tone.ink;
        ctx.strokeText(node.name, x, y + size + 4);
        ctx.fillText(node.name, x, y + size + 4);
      }
    });
  }

  // A screen for a host, four arrows for a router; a penguin's colour for a real kernel is told in words only.
  sign(ctx, node, x, y, size, colour) {
    ctx.strokeStyle = colour;
    ctx.fillStyle = colour;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    if (node.role === "host") {
      const s = size * 0.5;
      ctx.roundRect(x - s, y - s * 0.8, s * 2, s * 1.2, 1.5);
      ctx.moveTo(x - s * 0.5, y + s * 0.85);
      ctx.lineTo(x + s * 0.5, y + s * 0.85);
    } else {
      const s = size * 0.42;
      for (const [ux, uy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        ctx.moveTo(x + ux * 2, y + uy * 2);
        ctx.lineTo(x + ux * s, y + uy * s);
        ctx.moveTo(x + ux * s - (ux + uy) * 2.6, y + uy * s - (uy + ux) * 2.6);
        ctx.lineTo(x + ux * s, y + uy * s);
        ctx.lineTo(x + ux * s - (ux - uy) * 2.6, y + uy * s - (uy - ux) * 2.6);
      }
    }
    ctx.stroke();
  }

  // What is at a point of the screen.
  at(px, py) {
    const reach = Math.max(this.size + 4, 8);
    let best = reach, found = null;
    for (let i = 0; i < this.nodes.length; i++) {
      const distance = Math.hypot(this.sx(i) - px, this.sy(i) - py);
      if (distance < best) { best = distance; found = { kind: "node", name: this.nodes[i].name, number: i }; }
    }
    if (found) return found;
    best = 8;
    for (let i = 0; i < this.links.length; i++) {
      const link = this.links[i];
      const ax = this.sx(link.from), ay = this.sy(link.from), bx = this.sx(link.to), by = this.sy(link.to);
      const square = (bx - ax) ** 2 + (by - ay) ** 2;
      const t = square > 0 ? Math.min(Math.max(((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / square, 0), 1) : 0;
      const length = Math.sqrt(square) || 1;
      const arch = 4 * t * (1 - t) * (this.bend[i] ?? 0) * Math.min(1, this.view.scale);
      const distance = Math.hypot(ax + t * (bx - ax) - ((by - ay) / length) * arch - px, ay + t * (by - ay) + ((bx - ax) / length) * arch - py);
      if (distance < best) { best = distance; found = { kind: "link", origin: link.origin, number: i }; }
    }
    return found;
  }

  words(thing) {
    if (thing.kind === "node") {
      const node = this.nodes[thing.number];
      return [node.name, node.endpoint && node.endpoint !== "model" ? node.endpoint : node.role].join(" · ");
    }
    const link = this.links[thing.number];
    const name = (a, b) => `${this.nodes[a].name} → ${this.nodes[b].name}`;
    const there = link.there ? `${name(link.from, link.to)}: ${link.there.words}` : `${name(link.from, link.to)}`;
    const same = link.back && link.there && link.back.words === link.there.words;
    return link.back && !same ? `${there}\n${name(link.to, link.from)}: ${link.back.words}` : there + (same ? "\nand the same back" : "");
  }

  select(thing) {
    this.selected = thing;
    this.redraw();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = this.place(event);
      this.tip.hidden = true;
      pointers.set(event.pointerId, [x, y]);
      canvas.setPointerCapture(event.pointerId);
      if (pointers.size === 2) { drag = { kind: "pinch", gap: this.gap(pointers) }; return; }
      const thing = this.at(x, y);
      const joins = (event.shiftKey || this.joins) && this.on.join;
      if (thing?.kind === "node" && joins) {
        drag = { kind: "join", from: thing.number };
        this.joining = { from: thing.number, x, y };
      } else if (thing?.kind === "node" && this.on.move) drag = { kind: "node", number: thing.number, x, y, thing };
      else drag = { kind: "view", x, y, thing };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = this.place(event);
      if (pointers.has(event.pointerId)) pointers.set(event.pointerId, [x, y]);
      if (!drag) { this.hover(x, y); return; }
      const far = Math.hypot(x - drag.x, y - drag.y) > 3;
      if (drag.kind === "pinch" && pointers.size === 2) {
        const gap = this.gap(pointers);
        const [[ax, ay], [bx, by]] = [...pointers.values()];
        this.zoom(gap / drag.gap, (ax + bx) / 2, (ay + by) / 2);
        drag.gap = gap;
      } else if (drag.kind === "join") {
        this.joining = { from: drag.from, x, y };
        this.redraw();
      } else if (drag.kind === "node" && (drag.moved || far)) {
        drag.moved = true;
        const put = (v) => (this.snap ? Math.round(v / GRID) * GRID : v);
        this.x[drag.number] = put((x - this.view.x) / this.view.scale);
        this.y[drag.number] = put((y - this.view.y) / this.view.scale);
        this.moves = (this.moves ?? 0) + 1;
        this.redraw();
      } else if (drag.kind === "view" && (drag.moved || far)) {
        drag.moved = true;
        this.touched = true;
        this.unsettle();
        this.view.x += x - (drag.lastX ?? drag.x);
        this.view.y += y - (drag.lastY ?? drag.y);
        drag.lastX = x;
        drag.lastY = y;
        this.redraw();
      }
    });
    const up = (event) => {
      const [x, y] = this.place(event);
      pointers.delete(event.pointerId);
      const own = drag;
      drag = null;
      if (!own || event.type === "pointercancel") { this.joining = null; return; }
      if (own.kind === "join") {
        this.joining = null;
        const target = this.at(x, y);
        if (target?.kind === "node" && target.number !== own.from) this.on.join(own.from, { number: target.number });
        else if (!target) this.on.join(own.from, { place: [(x - this.view.x) / this.view.scale, (y - this.view.y) / this.view.scale] });
        this.redraw();
      } else if (own.kind === "node" && own.moved) this.on.move?.(this.nodes[own.number].name, [this.x[own.number], this.y[own.number]]);
      else if ((own.kind === "node" || own.kind === "view") && !own.moved) {
        if (this.on.press?.(x, y)) return;
        this.on.select?.(own.thing ?? null);
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => { this.hovered = null; this.tip.hidden = true; this.redraw(); });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y] = this.place(event);
      this.zoom(Math.exp(-event.deltaY * 0.0015), x, y);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  gap(pointers) {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return Math.hypot(ax - bx, ay - by) || 1;
  }

  hover(x, y) {
    const thing = this.at(x, y);
    const before = this.hovered;
    this.hovered = thing;
    this.tip.hidden = !thing;
    this.canvas.style.cursor = thing ? "pointer" : "grab";
    if (thing) {
      this.tip.textContent = this.words(thing);
      this.tip.style.left = `${Math.min(x + 14, Math.max(8, this.width - 260))}px`;
      this.tip.style.top = `${y + 16 > this.height - 60 ? y - 52 : y + 16}px`;
    }
    if (before?.number !== thing?.number || before?.kind !== thing?.kind) this.redraw();
  }

  // Arrow keys move the view, or with Alt the chosen node; plus and minus zoom.
  key(event) {
    if (event.ctrlKey || event.metaKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    const number = this.selected?.kind === "node" ? this.nodes.findIndex((node) => node.name === this.selected.name) : -1;
    if (way && event.altKey && number >= 0 && this.on.move) {
      this.x[number] += way[0] * GRID;
      this.y[number] += way[1] * GRID;
      this.on.move(this.nodes[number].name, [this.x[number], this.y[number]]);
      this.redraw();
    } else if (way && !this.on.arrows) {
      this.touched = true;
      this.view.x -= way[0] * 40;
      this.view.y -= way[1] * 40;
      this.redraw();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") { this.fit(); this.redraw(); }
    else if (event.key === "Escape") this.on.select?.(null);
    else if ((event.key === "Delete" || event.key === "Backspace") && this.selected && this.on.remove) this.on.remove(this.selected);
    else return;
    event.preventDefault();
  }
}
