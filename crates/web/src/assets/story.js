// A packet followed: where it waited, why it was dropped, which acknowledgement it caused.
import { asked, call } from "./api.js";
import { button } from "./page.js";

const REASONS = { overflow: "the queue was full", aqm: "the queue’s management dropped it early", loss: "the link lost it", down: "the link was down" };

export const seconds = (ns, places = 6) => `${(ns / 1e9).toFixed(places)} s`;
const span = (ns) => W.human("s", ns / 1e9);

// What happened, in words.
export const eventWords = (event, watch) => {
  const link = watch.linkName(event.link);
  switch (event.event) {
    case "enqueue": return `comes to ${link}${event.waiting > 1 ? `, where ${event.waiting} wait` : ""}`;
    case "transmit": return `is sent on ${link}${event.queued_ns ? ` after ${span(event.queued_ns)} in the queue` : ""}`;
    case "deliver": return `arrives over ${link}`;
    case "drop": return `is dropped at ${link}: ${REASONS[event.reason] ?? event.reason}`;
    case "mark": return `is marked (congestion experienced) at ${link}`;
    case "duplicate": return `is copied on ${link}`;
    case "corrupt": return `has a bit changed on ${link}`;
    default: return `${event.event} at ${link}`;
  }
};

export const packetWords = (row, watch) => {
  const flow = watch.flowName(row.flow);
  const acks = row.ack !== null && row.ack !== undefined;
  // Segments with data acknowledge, too. Without it is a datagram, and its number stands in place of that of a byte.
  if (row.len > 0 && !acks) return `datagram ${W.exact("count", row.seq)} of ${flow}${row.to === 0 ? ", back to the sender" : ""}, ${W.human("bytes", row.len)}`;
  if (row.len > 0) return `data of ${flow}, bytes ${W.human("count", row.seq)} to ${W.human("count", row.seq + row.len)}`;
  return acks ? `acknowledgement of ${flow} up to byte ${W.human("count", row.ack)}` : `packet of ${flow}`;
};

export const story = async (watch, row, element) => {
  element.replaceChildren(W.el("p", { class: "about" }, "Looking …"));
  const told = await call("GET", asked("/api/runs/packet", { run: watch.run, packet: row.packet, time: row.time }));
  // Another packet is followed in the meantime.
  if (watch.followed !== row) return;
  const goto = (time, text, packet) => button(text, () => { watch.follow(packet ? { ...row, packet, time } : null); watch.seek(time); }, { class: "quiet" });
  const waited = told.steps.reduce((sum, step) => sum + (step.queued_ns ?? 0), 0);
  const last = told.steps[told.steps.length - 1];
  const begun = told.steps[0].time;
  const lost = told.steps.find((step) => step.event === "drop");
  const facts = [
    `${told.protocol.toUpperCase()}, ${W.human("bytes", told.size)}${told.flags && told.flags !== "." ? `, flags ${told.flags}` : ""}`,
    lost ? `Dropped: ${REASONS[lost.reason] ?? lost.reason}.` : `On its way for ${span(last.time - begun)}, of which it waited ${waited ? span(waited) : "not at all"}.`,
  ];
  const links = [];
  if (told.acknowledged) links.push(W.el("p", null, `It caused the acknowledgement up to byte ${W.human("count", told.acknowledged.ack)}, `, goto(told.acknowledged.time, `packet ${told.acknowledged.packet} at ${seconds(told.acknowledged.time)}`, told.acknowledged.packet)));
  if (told.again) links.push(W.el("p", null, "Its bytes were sent again in ", goto(told.again.time, `packet ${told.again.packet} at ${seconds(told.again.time)}`, told.again.packet)));
  if (told.len > 0 && !lost && !told.acknowledged) links.push(W.el("p", { class: "about" }, "No acknowledgement of it is recorded."));
  element.replaceChildren(
    W.el("div", { class: "card-head" }, W.el("h3", null, `Packet ${told.packet}`), button("Stop following", () => watch.follow(null), { class: "quiet" })),
    W.el("p", null, `${packetWords(told, watch).replace(/^./, (c) => c.toUpperCase())}.`), ...facts.map((fact) => W.el("p", { class: "about" }, fact)),
    W.el("ol", { class: "steps" }, ...told.steps.map((step) => W.el("li", { class: step.event }, button(seconds(step.time), () => watch.seek(step.time), { class: "quiet" }), W.el("span", null, eventWords(step, watch))))),
    ...links);
};
