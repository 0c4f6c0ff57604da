// Packets that move: a run played back from its records, at any speed, forward, back, and event by event.
import { asked, call } from "./api.js";
import { LANE, Network } from "./network.js";
import { button, dialog, fail, icon, onShow, say, shown } from "./page.js";
import { eventWords, packetWords, seconds, story } from "./story.js";
import { Windows } from "./windows.js";

// How long on the screen a drop is seen.
const FLASH_MS = 700;
// How often the reader of a screen hears what goes on.
const SPOKEN_MS = 2500;
const LISTED = 14;
// What went wrong on a link.
const BAD = ["drop", "mark", "corrupt"];

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Watch {
  constructor() {
    this.network = new Network("The network, with its packets under way. The list beside it says what happens.", {
      empty: "Choose a run whose packets were recorded.",
      select: (thing) => { this.network.select(thing); },
      press: (x, y) => this.press(x, y),
      arrows: true,
    });
    this.network.quiet = false;
    this.network.paint = (ctx) => this.paint(ctx);
    this.title = W.el("h2", null, "Watch");
    this.play = button("▶", () => this.toggle(), { class: "icon play", "aria-label": "Play" });
    this.slider = W.el("input", { type: "range", min: 0, max: 1, step: "any", value: 0, class: "time", "aria-label": "Time", oninput: () => this.seek(Number(this.slider.value) * this.end) });
    this.clock = W.el("output", { class: "clock" }, "0 s");
    this.speedRange = W.el("input", { type: "range", min: 0, max: 1, step: 0.01, class: "speed", "aria-label": "Speed", oninput: () => this.setSpeed(this.slow * (this.fast / this.slow) ** Number(this.speedRange.value)) });
    this.speedWords = W.el("output", { class: "speed-words" });
    this.which = W.el("select", { "aria-label": "Which events to step through" }, ...[["all", "every event"], ["bad", "drops and marks"], ["followed", "the followed packet"]].map(([v, t]) => W.el("option", { value: v }, t)));
    this.choice = W.el("select", { "aria-label": "Run", onchange: () => this.open(this.choice.value).catch(fail) });
    const bar = W.el("div", { class: "player", role: "group", "aria-label": "Player" },
      icon("⇤", "Back to the begin", () => this.seek(0)), icon("◂", "Step back", () => this.step(-1)), this.play, icon("▸", "Step on", () => this.step(1)),
      icon("◀", "Play backwards", () => this.toggle(-1)), this.slider, this.clock,
      W.el("label", { class: "field" }, "Steps", this.which), W.el("label", { class: "field speed-field" }, "Speed", this.speedRange), this.speedWords,
      icon("?", "Keys", () => this.help()));
    this.list = W.el("ol", { class: "moments", "aria-label": "What happens now" });
    this.story = W.el("section", { class: "card story", "aria-label": "The followed packet", hidden: true });
    this.legend = W.el("ul", { class: "watch-legend", "aria-label": "Flows" });
    this.note = W.el("p", { class: "about" });
    this.spoken = W.el("p", { class: "hidden-text", "aria-live": "polite" });
    this.element = W.el("section", { class: "watch" },
      W.el("section", { class: "card watch-main", "aria-label": "Packets" },
        W.el("div", { class: "card-head" }, this.title, W.el("label", { class: "field" }, "Run", this.choice)),
        this.note, this.network.element, this.legend, bar),
      W.el("div", { class: "watch-side" }, this.story, W.el("section", { class: "card", "aria-label": "Events" }, W.el("h3", null, "What happens now"), this.list)), this.spoken);
    this.element.addEventListener("keydown", (event) => this.key(event));
    onShow((name) => { if (name === "watch") this.refresh().catch(fail); else this.pause(); });
    this.end = 0;
    this.t = 0;
    this.direction = 1;
    this.playing = false;
  }

  // Runs whose packets are there.
  async refresh() {
    const entries = await call("GET", "/api/runs");
    const all = entries.flatMap((entry) => (entry.cells ? entry.cells : [entry])).filter((entry) => entry.packets);
    this.choice.replaceChildren(...(all.length ? [] : [W.el("option", { value: "" }, "no run has recorded packets")]), ...all.map((entry) => W.el("option", { value: entry.run }, entry.run)));
    this.choice.value = this.run ?? "";
    if (!this.run && all.length) await this.open(all[0].run);
    else if (!all.length) this.note.textContent = "Press “Run and watch” above: the run records every packet, and is then played here.";
  }

  async open(run, { playing = false } = {}) {
    if (!run) return;
    this.pause();
    this.looking = null;
    this.run = run;
    const about = await call("GET", asked("/api/runs/watch", { run }));
    // Another one was opened in the meantime.
    if (this.run !== run) return;
    // A step that is still on its way is one of the run before.
    this.looking = null;
    this.windows?.destroy();
    this.choice.value = run;
    const drawing = about.checked.drawing ?? { nodes: [], links: [], flows: [] };
    this.network.set(drawing, this.places?.(drawing) ?? {});
    this.ways = [];
    drawing.links.forEach((link, number) => {
      if (link.there) this.ways[link.there.number] = { ...link.there, drawn: number, back: false, from: link.from, to: link.to };
      if (link.back) this.ways[link.back.number] = { ...link.back, drawn: number, back: true, from: link.to, to: link.from };
    });
    this.flows = drawing.flows;
    this.end = Math.max(1, Math.round((about.checked.about?.duration_s ?? 1) * 1e9));
    const ways = Object.values(this.ways);
    const times = ways.map((way) => way.delay_s * 1e9 + (way.rate_bps ? 12144e9 / way.rate_bps : 0));
    const longest = Math.min(Math.max(...times, 1000), 5e9);
    this.windows = new Windows(run, this.end + 1, longest * 1.5 + 1000, this.ways, () => this.draw());
    this.follow(null);
    this.t = 0;
    // A packet is on the slowest link for a second and a half.
    this.slow = longest / 200;
    this.fast = Math.max(longest * 20, this.end / 20);
    this.setSpeed(longest / 1.5);
    this.speedRange.value = String(Math.log(this.speed / this.slow) / Math.log(this.fast / this.slow));
    this.note.textContent = about.events === null ? "This run has not recorded its packets." : `${W.human("count", about.events)} events are recorded; they are read a window at a time. Choose a packet to follow it.`;
    this.legend.replaceChildren(...this.flows.slice(0, 12).map((flow) => {
      const swatch = W.el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = this.network.colourOfFlow(flow.entry);
      return W.el("li", null, swatch, `${flow.name}${flow.words ? ` (${flow.words})` : ""}`);
    }));
    if (this.flows.length > 12) this.legend.append(W.el("li", { class: "about" }, `and ${this.flows.length - 12} more`));
    const { windows } = this;
    await windows.ask(0);
    if (this.windows !== windows) return;
    // To the first packet: nothing happens before it.
    const first = windows.parts[0]?.time[0];
    this.seek(first && first > this.end / 1000 ? first : 0);
    if (playing && !still.matches) this.toggle(1);
  }

  // A run, or all runs below a name, have another name now.
  renamed(from, to) {
    const { run, windows } = this;
    if (run !== from && !run?.startsWith(`${from}/`)) return;
    this.run = to + run.slice(from.length);
    if (windows?.run === run) windows.run = this.run;
  }

  linkName(number) {
    const way = this.ways[number];
    return way ? `${this.network.nodes[way.from].name} → ${this.network.nodes[way.to].name}` : `link ${number}`;
  }

  entryOf(flow) {
    return this.flows.findLast((own) => own.first <= flow && flow < own.first + own.count) ?? this.flows[0];
  }

  flowName(flow) {
    const entry = this.entryOf(flow);
    return entry ? (entry.count > 1 ? `${entry.name}.${flow - entry.first}` : entry.name) : `flow ${flow}`;
  }

  colour(flow) {
    const entry = this.entryOf(flow);
    return this.network.colourOfFlow(entry?.entry ?? 0);
  }

  // Nanoseconds of the run in a second of ours.
  setSpeed(speed) {
    this.speed = speed;
    const share = speed / 1e9;
    this.speedWords.textContent = share < 0.95 ? `${W.human("s", share)} of the run in a second` : `${Number(share.toPrecision(2))} × real time`;
  }

  toggle(direction = 1) {
    if (!this.windows) return;
    if (this.playing && this.direction === direction) { this.pause(); return; }
    this.direction = direction;
    if (direction > 0 && this.t >= this.end) this.t = 0;
    this.playing = true;
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "Pause");
    this.before = performance.now();
    if (still.matches) this.stepped();
    else this.askFrame();
  }

  // The next picture; never two of them, however often it is asked for.
  askFrame() {
    cancelAnimationFrame(this.coming);
    this.coming = requestAnimationFrame((now) => this.frame(now));
  }

  // Without motion: a picture for each event.
  stepped() {
    clearInterval(this.stepping);
    this.stepping = setInterval(() => this.step(this.direction, true).catch((error) => { this.pause(); fail(error); }), 900);
  }

  pause() {
    this.playing = false;
    clearInterval(this.stepping);
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "Play");
  }

  frame(now) {
    if (!this.playing || shown() !== "watch") return;
    const passed = Math.min(Math.max(now - this.before, 0), 100);
    this.before = now;
    // Time stands while a window is on its way.
    const next = Math.min(Math.max(this.t + (this.direction * passed * this.speed) / 1000, 0), this.end);
    this.windows.now = next;
    if (this.windows.need(next, this.direction > 0, this.speed)) {
      this.t = next;
      if (this.direction > 0 ? next === this.end : next === 0) this.pause();
    } else if (this.windows.failed) {
      fail(this.windows.failed);
      this.windows.failed = null;
      this.pause();
    }
    this.draw();
    this.askFrame();
  }

  seek(t) {
    this.t = Math.min(Math.max(t, 0), this.end);
    if (!this.windows) return;
    this.windows.now = this.t;
    this.draw();
  }

  fits(event) {
    if (this.which.value === "bad") return BAD.includes(event.event);
    if (this.which.value === "followed" && this.followed) return event.packet === this.followed.packet;
    return true;
  }

  // The same, as the server is asked for it; nothing where every event fits.
  wanted() {
    if (this.which.value === "bad") return { events: BAD.join() };
    return this.which.value === "followed" && this.followed ? { packet: this.followed.packet } : null;
  }

  // To the next event, or the one before. One at a time: it may be far away.
  async step(direction, going = false) {
    if (this.looking) return;
    const own = (this.looking = {});
    try {
      await this.look(direction, going);
    } finally {
      if (this.looking === own) this.looking = null;
    }
  }

  // For a step on its way: tells whether somebody has gone elsewhere since, to another run, time or kind of events, or has paused or played it.
  elsewhere() {
    const { looking } = this;
    const aim = () => JSON.stringify([this.t, this.playing, this.direction, this.wanted()]);
    const before = aim();
    return () => this.looking !== looking || aim() !== before;
  }

  // Further windows are asked for until there is an event. What not every window has is looked for by the server: few windows are kept here.
  async look(direction, going) {
    if (!going) this.pause();
    const { windows } = this;
    if (!windows) return;
    windows.failed = windows.short = null;
    const gone = this.elsewhere();
    let all = false;
    for (let tries = 0; tries < 60 && !all; tries++) {
      if (windows.need(this.t, direction > 0)) {
        const at = windows.next(this.t - (direction < 0 ? 1 : 0));
        const list = windows.events;
        if (direction > 0) {
          for (let i = at; i < list.length; i++) if (this.fits(list[i])) { this.arrive(list[i]); return; }
        } else {
          for (let i = at - 1; i >= 0; i--) if (this.fits(list[i]) && list[i].time < this.t) { this.arrive(list[i]); return; }
        }
        const known = windows.around(this.t);
        all = direction > 0 ? known.until >= this.end : known.from <= 0;
        const wanted = all ? null : this.wanted();
        if (wanted) { await this.leap(direction, wanted); return; }
        // A window that was too long to be read to its end leaves a gap: that first.
        if (!all) await (direction > 0 ? windows.ask(known.until) : windows.short ? windows.ask(...windows.short) : windows.before(known));
      } else await windows.read;
      if (gone()) return;
      if (windows.failed) {
        fail(windows.failed);
        windows.failed = null;
        this.pause();
        return;
      }
    }
    if (all) this.nothing(direction);
    // Too far away for the windows: few are kept, and those that were read on the way may be gone.
    else await this.leap(direction, this.wanted() ?? {});
  }

  nothing(direction) {
    this.pause();
    say(direction > 0 ? "There is no further event." : "There is no earlier event.");
  }

  // To an event that is not in the windows that are known.
  async leap(direction, wanted) {
    const { windows } = this;
    let gone = this.elsewhere();
    // Events have whole times, the picture has not.
    let from = direction > 0 ? Math.floor(this.t) : Math.ceil(this.t), time = null;
    while (time === null && (direction > 0 ? from < this.end : from > 0)) {
      ({ time, looked: from } = await call("GET", asked("/api/runs/step", { run: this.run, time: from, back: direction < 0, ...wanted })));
      if (gone()) return;
    }
    if (time === null) { this.nothing(direction); return; }
    this.seek(time);
    gone = this.elsewhere();
    for (let tries = 0; tries < 60 && !windows.need(time, direction > 0); tries++) {
      await windows.read;
      if (gone()) return;
      const { failed } = windows;
      windows.failed = null;
      if (failed) throw failed;
    }
    const event = windows.events.find((own) => own.time === time && this.fits(own));
    if (event) this.arrive(event);
  }

  arrive(event) {
    this.seek(event.time);
    this.spoken.textContent = `${seconds(event.time)}: ${packetWords(event, this)} ${eventWords(event, this)}`;
  }

  follow(row) {
    this.followed = row;
    this.story.hidden = !row;
    if (row) {
      this.pause();
      story(this, row, this.story).catch((error) => { if (this.followed === row) this.story.replaceChildren(W.el("p", { class: "error" }, error.message)); });
    } else this.story.replaceChildren();
    this.draw();
  }

  // The packet at a point of the screen.
  press(x, y) {
    let best = 12, found = null;
    for (const { flight, points } of this.drawn ?? []) {
      const [[ax, ay], [bx, by]] = points;
      const distance = Math.hypot((ax + bx) / 2 - x, (ay + by) / 2 - y) - Math.hypot(ax - bx, ay - by) / 2;
      if (distance < best) { best = distance; found = flight; }
    }
    if (found) this.follow(found);
    return Boolean(found);
  }

  draw() {
    this.network.redraw();
    this.slider.value = String(this.t / this.end);
    this.slider.setAttribute("aria-valuetext", seconds(this.t, 3));
    this.clock.textContent = seconds(this.t, this.end < 1e9 ? 7 : this.speed < 1e6 ? 6 : 4);
    const now = performance.now();
    if (!this.playing || now - (this.listedAt ?? 0) > 180) {
      this.listedAt = now;
      this.moments();
    }
    if (this.playing && now - (this.spokenAt ?? 0) > SPOKEN_MS) {
      this.spokenAt = now;
      const waiting = this.ways ? Object.keys(this.ways).map((link) => [this.windows.waiting(Number(link), this.t), link]).sort(([a], [b]) => b - a)[0] : null;
      this.spoken.textContent = `${seconds(this.t, 2)}: ${(this.drawn ?? []).length} packets under way${waiting?.[0] ? `, ${waiting[0]} wait at ${this.linkName(Number(waiting[1]))}` : ""}`;
    }
  }

  // The last events, the newest first.
  moments() {
    const { windows } = this;
    if (!windows?.events.length || !windows.has(this.t)) { this.list.replaceChildren(); this.listed = ""; return; }
    const at = windows.next(this.t);
    const found = [];
    for (let i = at - 1; i >= 0 && found.length < LISTED && i > at - 4000; i--) if (this.fits(windows.events[i])) found.push(windows.events[i]);
    const key = found.map((event) => `${event.time}${event.packet}${event.event}`).join();
    if (key === this.listed) return;
    this.listed = key;
    const focus = document.activeElement?.closest?.(".moments") ? [...this.list.children].findIndex((item) => item.contains(document.activeElement)) : -1;
    this.list.replaceChildren(...found.map((event) => {
      const item = button("", () => this.follow(event), { class: event.event });
      const swatch = W.el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = this.colour(event.flow);
      item.append(W.el("time", null, seconds(event.time)), swatch, W.el("span", null, W.el("b", null, eventWords(event, this).replace(/^is /, "")), W.el("small", null, packetWords(event, this))));
      return W.el("li", null, item);
    }));
    if (focus >= 0) this.list.children[Math.min(focus, this.list.children.length - 1)]?.querySelector("button")?.focus();
  }

  paint(ctx) {
    const { windows, network } = this;
    this.drawn = [];
    if (!windows || !this.ways) return;
    if (!windows.need(this.t, this.direction >= 0)) {
      ctx.fillStyle = W.colour("muted");
      ctx.font = `13px ${W.colour("sans")}`;
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.fillText("reading …", 12, 12);
      return;
    }
    const thick = Math.min(Math.max(6.5 * network.view.scale, 2), 9);
    this.paintQueues(ctx, thick);
    ctx.lineCap = "butt";
    const t = this.t;
    for (const flight of windows.under(t)) {
      const way = this.ways[flight.link];
      if (!way) continue;
      const lane = network.lane(way.drawn, way.back);
      // From the last bit to the first: a packet has a length.
      const travel = Math.max(flight.end - flight.start - flight.send, 0);
      const head = travel > 0 ? Math.min((t - flight.start) / travel, 1) : (t - flight.start) / Math.max(flight.end - flight.start, 1);
      const tail = travel > 0 ? Math.max((t - flight.start - flight.send) / travel, 0) : head;
      let a = lane(Math.max(Math.min(tail, head), 0)), b = lane(head);
      const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
      const least = flight.len > 0 ? 7 : 4;
      if (length < least) {
        const from = lane(0), to = lane(1);
        const whole = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
        const ux = ((to[0] - from[0]) / whole) * (least / 2), uy = ((to[1] - from[1]) / whole) * (least / 2);
        const mx = (a[0] + b[0]) / 2, my = (a[1] + b[1]) / 2;
        a = [mx - ux, my - uy];
        b = [mx + ux, my + uy];
      }
      const followed = this.followed?.packet === flight.packet;
      ctx.strokeStyle = this.colour(flight.flow);
      ctx.globalAlpha = this.followed && !followed ? 0.35 : 1;
      ctx.lineWidth = flight.len > 0 ? thick : thick * 0.45;
      ctx.beginPath();
      ctx.moveTo(...a);
      ctx.lineTo(...b);
      ctx.stroke();
      if (flight.ecn === 3) {
        ctx.strokeStyle = W.colour("window");
        ctx.lineWidth = 1.5;
        ctx.strokeRect((a[0] + b[0]) / 2 - thick, (a[1] + b[1]) / 2 - thick, 2 * thick, 2 * thick);
      }
      if (followed) {
        ctx.globalAlpha = 1;
        ctx.strokeStyle = W.colour("ink");
        ctx.lineWidth = 2;
        ctx.beginPath();
        ctx.arc((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, thick + 5, 0, 2 * Math.PI);
        ctx.stroke();
      }
      this.drawn.push({ flight, points: [a, b] });
    }
    ctx.globalAlpha = 1;
    this.paintDrops(ctx);
    if (this.followed) this.paintWaiting(ctx, thick);
  }

  // A ring where the followed packet waits.
  paintWaiting(ctx, thick) {
    const { windows, network } = this;
    if (this.drawn.some(({ flight }) => flight.packet === this.followed.packet)) return;
    for (let i = windows.next(this.t) - 1, tries = 0; i >= 0 && tries < 50000; i--, tries++) {
      const event = windows.events[i];
      if (event.packet !== this.followed.packet) continue;
      const way = this.ways[event.link];
      if (!way || (event.event !== "enqueue" && event.event !== "mark")) return;
      const lane = network.lane(way.drawn, way.back);
      const from = lane(0), to = lane(1);
      const whole = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
      const px = -(to[1] - from[1]) / whole, py = (to[0] - from[0]) / whole;
      const x = from[0] + px * (LANE + thick + 8) + py * 8, y = from[1] + py * (LANE + thick + 8) - px * 8;
      ctx.fillStyle = this.colour(event.flow);
      ctx.strokeStyle = W.colour("ink");
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.arc(x, y, thick * 0.6 + 1, 0, 2 * Math.PI);
      ctx.fill();
      ctx.beginPath();
      ctx.arc(x, y, thick + 5, 0, 2 * Math.PI);
      ctx.stroke();
      return;
    }
  }

  // In front of each link: a bar for what waits, as long as the longest queue so far.
  paintQueues(ctx, thick) {
    const { windows, network } = this;
    const most = Math.max(windows.most ?? 1, 8);
    ctx.font = `11px ${W.colour("sans")}`;
    ctx.textBaseline = "middle";
    for (const [link] of windows.queues) {
      const waiting = windows.waiting(link, this.t);
      const way = this.ways[link];
      if (!waiting || !way) continue;
      const lane = network.lane(way.drawn, way.back);
      const from = lane(0), to = lane(1);
      const whole = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
      const ux = (to[0] - from[0]) / whole, uy = (to[1] - from[1]) / whole;
      // To the right of the way, from the sender's side: a stack of packets beside the node.
      const px = -uy, py = ux;
      const room = Math.min(whole * 0.32, 44), depth = Math.min(8 + 26 * (most > 40 ? 1 : most / 40), 34) * Math.min(1, network.view.scale + 0.25);
      const x = from[0] + px * (LANE + thick), y = from[1] + py * (LANE + thick);
      const fill = Math.min(waiting / most, 1);
      const box = (share, style, stroke) => {
        ctx.beginPath();
        ctx.moveTo(x, y);
        ctx.lineTo(x + ux * room, y + uy * room);
        ctx.lineTo(x + ux * room + px * depth * share, y + uy * room + py * depth * share);
        ctx.lineTo(x + px * depth * share, y + py * depth * share);
        ctx.closePath();
        if (stroke) { ctx.strokeStyle = style; ctx.lineWidth = 1; ctx.stroke(); } else { ctx.fillStyle = style; ctx.fill(); }
      };
      ctx.globalAlpha = 0.8;
      box(fill, fill > 0.85 ? W.colour("red") : W.colour("window"), false);
      ctx.globalAlpha = 0.5;
      box(1, W.colour("muted"), true);
      ctx.globalAlpha = 1;
      if (network.nodes.length < 150) {
        ctx.fillStyle = W.colour("ink");
        ctx.textAlign = px > 0.5 ? "left" : px < -0.5 ? "right" : "center";
        ctx.lineWidth = 3;
        ctx.strokeStyle = W.colour("card");
        ctx.strokeText(String(waiting), x + ux * room / 2 + px * (depth + 9), y + uy * room / 2 + py * (depth + 9));
        ctx.fillText(String(waiting), x + ux * room / 2 + px * (depth + 9), y + uy * room / 2 + py * (depth + 9));
      }
    }
  }

  // A cross that falls away from the link where a packet was dropped; a ring where one was marked.
  paintDrops(ctx) {
    const { windows, network } = this;
    const before = this.playing ? (FLASH_MS * this.speed) / 1000 : Math.max((120 * this.speed) / 1000, 1);
    const at = windows.next(this.t);
    for (let i = at - 1, count = 0; i >= 0 && count < 400 && windows.events[i].time >= this.t - before; i--) {
      const event = windows.events[i];
      if (event.event !== "drop" && event.event !== "mark") continue;
      const way = this.ways[event.link];
      if (!way) continue;
      count++;
      const age = (this.t - event.time) / before;
      const [x, y] = network.lane(way.drawn, way.back)(event.reason === "loss" ? 0.5 : 0.04);
      ctx.globalAlpha = 1 - age;
      if (event.event === "drop") {
        const fall = this.playing ? age * 26 : 0, arm = 5;
        ctx.strokeStyle = W.colour("red");
        ctx.lineWidth = 2.5;
        ctx.beginPath();
        ctx.moveTo(x - arm, y + fall - arm);
        ctx.lineTo(x + arm, y + fall + arm);
        ctx.moveTo(x - arm, y + fall + arm);
        ctx.lineTo(x + arm, y + fall - arm);
        ctx.stroke();
      } else {
        ctx.strokeStyle = W.colour("window");
        ctx.lineWidth = 2;
        ctx.beginPath();
        ctx.arc(x, y, 4 + 8 * age, 0, 2 * Math.PI);
        ctx.stroke();
      }
    }
    ctx.globalAlpha = 1;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input[type=text], select, textarea")) return;
    const range = event.target.matches("input[type=range]");
    if (event.key === " " && !event.target.matches("button")) this.toggle(1);
    else if (event.key === "ArrowRight" && !range) this.step(1).catch(fail);
    else if (event.key === "ArrowLeft" && !range) this.step(-1).catch(fail);
    else if (event.key === "b") this.toggle(-1);
    else if (event.key === "," || event.key === ".") {
      this.setSpeed(Math.min(Math.max(this.speed * (event.key === "." ? 1.5 : 1 / 1.5), this.slow), this.fast));
      this.speedRange.value = String(Math.log(this.speed / this.slow) / Math.log(this.fast / this.slow));
    } else if (event.key === "Home" && !range) this.seek(0);
    else return;
    event.preventDefault();
  }

  help() {
    const keys = [["Space", "play or pause"], ["b", "play backwards"], ["→ and ←", "to the next event, to the one before"], [". and ,", "faster, slower"], ["Home", "to the beginning"], ["+ and −", "zoom, where the drawing has the focus; 0 shows all of it"]];
    dialog("Keys", W.el("dl", { class: "keys" }, ...keys.flatMap(([key, words]) => [W.el("dt", null, key), W.el("dd", null, words)])),
      W.el("p", { class: "about" }, "Thick bars are data, thin ones acknowledgements. The stack beside a link is its queue. A cross is a drop, a ring a mark. Choose a packet in the drawing or an event in the list to follow a packet."));
  }
}
