// The packets of a run, a window of time at a time: asked for ahead, few kept, however long the run was.
import { asked, call } from "./api.js";

// Events of a window.
const EVENTS = 6000;
// Windows that are kept.
const KEPT = 8;

export class Windows {
  // `lead`: how long before a time the packets that are under way at it may have begun. `ends`: one-way links by number, with delay and rate.
  constructor(run, end, lead, ends, changed) {
    Object.assign(this, { run, end, lead, ends, changed });
    this.parts = [];
    this.asking = null;
    this.flights = [];
    this.queues = new Map();
    this.events = [];
  }

  // The windows that follow each other without a gap around a time.
  around(t) {
    const at = this.parts.findIndex((part) => part.from <= t && t < part.until);
    if (at < 0) return null;
    let first = at, last = at;
    while (first > 0 && this.parts[first - 1].until === this.parts[first].from) first--;
    while (last + 1 < this.parts.length && this.parts[last].until === this.parts[last + 1].from) last++;
    return { first, last, from: this.parts[first].from, until: this.parts[last].until };
  }

  // Whether what happens at a time is known, with what is under way from before.
  has(t) {
    const own = this.around(t);
    return Boolean(own) && (own.from <= t - this.lead || own.from === 0);
  }

  // Sees to it that a time, and what comes next (or before it, backwards), is known. Returns whether the time itself is.
  need(t, forward = true, span = 0) {
    const own = this.around(t);
    const known = this.has(t);
    if (!own) {
      // After a jump: what was asked for ahead of the old place is of no use.
      if (this.asking !== null && !this.urgent) this.request.abort();
      this.ask(Math.max(0, Math.floor(t - this.lead)), this.end, true);
    } else if (!known) this.before(own);
    else if (forward && own.until < this.end && own.until - t < Math.max(span, (this.parts[own.last].until - this.parts[own.last].from) * 0.6)) this.ask(own.until);
    else if (!forward && own.from > 0 && t - this.lead - own.from < Math.max(span, (this.parts[own.first].until - this.parts[own.first].from) * 0.4)) this.before(own);
    if (known && this.built !== this.parts[own.first].from + own.until) this.build(own);
    return known;
  }

  // What comes before a window: as long as a window is, by the one that is known.
  before(own) {
    const part = this.parts[own.first];
    const length = Math.max(part.until - part.from, this.lead, 1000);
    return this.ask(Math.max(0, Math.floor(part.from - Math.min(length, this.end / 4))), part.from);
  }

  // Reads a window, or waits for the one that is being read.
  ask(from, to = this.end, urgent = false) {
    if (this.asking === null) this.read = this.load(from, to, urgent);
    return this.read;
  }

  async load(from, to, urgent) {
    // A window that has begun to be known is asked for to its end.
    const inside = this.parts.find((part) => part.from <= from && from < part.until);
    if (inside) from = inside.until;
    const next = this.parts.find((part) => part.from > from);
    if (next) to = Math.min(to, next.from);
    if (from >= to) return;
    this.asking = from;
    this.urgent = urgent;
    this.request = new AbortController();
    try {
      const part = await call("GET", asked("/api/runs/packets", { run: this.run, from, to, limit: EVENTS }), undefined, this.request.signal);
      this.parts.push(part);
      this.parts.sort((a, b) => a.from - b.from);
      this.last = part;
      // What is missing of the window, because there was more in it than is read at a time.
      this.short = part.until < to ? [part.until, to] : null;
      this.forget();
      this.built = null;
    } catch (error) {
      if (error.name !== "AbortError") this.failed = error;
    } finally {
      this.asking = null;
    }
    this.changed();
  }

  // Drops what is farthest from where we are.
  forget() {
    while (this.parts.length > KEPT) {
      const here = this.now ?? this.last.from;
      let worst = 0, most = -1;
      this.parts.forEach((part, i) => {
        const distance = part === this.last ? -1 : Math.max(part.from - here, here - part.until, 0);
        if (distance > most) { most = distance; worst = i; }
      });
      this.parts.splice(worst, 1);
    }
  }

  // Makes of the events: which packet is on which link from when to when, how much waits where, and the list of what happens.
  build({ first, last, until }) {
    this.built = this.parts[first].from + until;
    const flights = [], open = new Map(), queues = new Map(), events = [];
    const key = (link, packet) => link * 2 ** 32 + packet;
    for (const part of this.parts.slice(first, last + 1)) {
      const word = (name) => part.words.indexOf(name);
      const [transmit, deliver, drop, mark, duplicate, corrupt] = ["transmit", "deliver", "drop", "mark", "duplicate", "corrupt"].map(word);
      for (let i = 0; i < part.time.length; i++) {
        const link = part.link[i], time = part.time[i], event = part.event[i], packet = part.packet[i];
        if (event !== deliver && event !== corrupt && event !== duplicate) {
          let queue = queues.get(link);
          if (!queue) queues.set(link, (queue = { time: [], waiting: [], most: 0 }));
          queue.time.push(time);
          queue.waiting.push(part.waiting[i]);
          if (part.waiting[i] > queue.most) queue.most = part.waiting[i];
        }
        const row = { time, link, packet, flow: part.flow[i], to: part.to[i], size: part.size[i], seq: part.seq[i], ack: part.ack[i], len: part.len[i], ecn: part.ecn[i], event: part.words[event], reason: part.reason[i] === null ? null : part.words[part.reason[i]], waiting: part.waiting[i] };
        if (event === transmit) {
          const way = this.ends[link];
          const send = way.rate_bps ? (row.size * 8e9) / way.rate_bps : 0;
          const flight = { start: time, send, end: time + send + way.delay_s * 1e9, ...row };
          flights.push(flight);
          open.set(key(link, packet), flight);
        } else if (event === deliver || event === drop) {
          const flight = open.get(key(link, packet));
          if (flight && flight.start <= time) {
            flight.end = time;
            flight.lost = event === drop;
            open.delete(key(link, packet));
          }
        } else if (event === mark) row.marked = true;
        events.push(row);
      }
    }
    this.flights = flights;
    this.queues = queues;
    this.events = events;
    this.longest = flights.reduce((most, flight) => Math.max(most, flight.end - flight.start), 0);
    for (const queue of queues.values()) this.most = Math.max(this.most ?? 1, queue.most);
  }

  // Packets that are on a link at a time.
  *under(t) {
    const { flights } = this;
    let low = 0, high = flights.length;
    const from = t - this.longest;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (flights[middle].start < from) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < flights.length && flights[i].start <= t; i++) if (t < flights[i].end) yield flights[i];
  }

  // Packets that wait in front of a link.
  waiting(link, t) {
    const queue = this.queues.get(link);
    if (!queue) return 0;
    const at = W.lowerBound(queue.time, t + 1);
    return at > 0 ? queue.waiting[at - 1] : 0;
  }

  // The index of the first event after a time.
  next(t) {
    let low = 0, high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].time <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  destroy() {
    this.request?.abort();
  }
}
