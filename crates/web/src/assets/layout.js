// Where nodes are drawn if nobody has put them anywhere: springs along links, repulsion between nodes.
//
// Nodes far apart repel each other through the cells of a grid, by the middle of what is in a cell, so that a thousand hosts take a moment only.

const LENGTH = 100;
const CELL = 220;

// A repeatable beginning: along the distance from the node with the most links, and around.
const begin = (count, edges, places) => {
  const near = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) { near[a].push(b); near[b].push(a); }
  const x = new Float64Array(count), y = new Float64Array(count), placed = new Uint8Array(count);
  places.forEach((place, i) => { if (place) { [x[i], y[i]] = place; placed[i] = 1; } });
  const order = [...near.keys()].sort((a, b) => near[b].length - near[a].length || a - b);
  const seen = new Uint8Array(count);
  let shift = 0;
  for (const root of order) {
    if (seen[root]) continue;
    seen[root] = 1;
    let ring = [root], depth = 0, widest = 0;
    if (!placed[root]) { x[root] = shift; y[root] = 0; }
    while (ring.length) {
      const next = [];
      for (const node of ring) {
        for (const other of near[node]) {
          if (seen[other]) continue;
          seen[other] = 1;
          next.push([other, node]);
        }
      }
      depth++;
      next.forEach(([node, parent], i) => {
        if (placed[node]) return;
        const angle = (i / next.length) * 2 * Math.PI + depth * 0.35;
        // A new node begins beside the one that it hangs on.
        const radius = depth * LENGTH * Math.max(1, next.length / (6 * depth));
        const [cx, cy] = placed[parent] ? [x[parent], y[parent]] : [shift, 0];
        const reach = placed[parent] ? LENGTH : radius;
        x[node] = cx + Math.cos(angle) * reach;
        y[node] = cy + Math.sin(angle) * reach;
        widest = Math.max(widest, reach);
      });
      ring = next.map(([node]) => node);
    }
    shift += 2 * widest + 2 * LENGTH;
  }
  return { x, y, placed };
};

// `places`: [x, y] of each node that has one. Returns { x, y, step(ms) }: step works for that long and says whether more is to come.
export const layout = (count, edges, places) => {
  const state = begin(count, edges, places);
  const { x, y, placed } = state;
  const dx = new Float64Array(count), dy = new Float64Array(count);
  const degree = new Float64Array(count);
  for (const [a, b] of edges) { degree[a]++; degree[b]++; }
  const rounds = Math.round(Math.min(400, Math.max(120, 40000 / Math.max(count, 1))));
  let round = placed.every(Boolean) && count > 0 ? rounds : 0;

  const repel = (i, ox, oy, weight) => {
    let ex = x[i] - ox, ey = y[i] - oy;
    let square = ex * ex + ey * ey;
    if (square < 1) { ex = ((i * 37) % 11) - 5; ey = ((i * 53) % 13) - 6; square = ex * ex + ey * ey + 1; }
    const force = (weight * LENGTH * LENGTH) / square;
    dx[i] += ex * force;
    dy[i] += ey * force;
  };

  const once = () => {
    dx.fill(0);
    dy.fill(0);
    const cells = new Map();
    for (let i = 0; i < count; i++) {
      const key = `${Math.floor(x[i] / CELL)},${Math.floor(y[i] / CELL)}`;
      let cell = cells.get(key);
      if (!cell) cells.set(key, (cell = { x: 0, y: 0, nodes: [], cx: Math.floor(x[i] / CELL), cy: Math.floor(y[i] / CELL) }));
      cell.x += x[i];
      cell.y += y[i];
      cell.nodes.push(i);
    }
    const list = [...cells.values()];
    for (const cell of list) {
      for (const other of list) {
        const close = Math.abs(cell.cx - other.cx) <= 1 && Math.abs(cell.cy - other.cy) <= 1;
        const n = other.nodes.length;
        for (const i of cell.nodes) {
          if (close) for (const j of other.nodes) { if (i !== j) repel(i, x[j], y[j], 1); }
          else repel(i, other.x / n, other.y / n, n);
        }
      }
    }
    for (const [a, b] of edges) {
      const ex = x[b] - x[a], ey = y[b] - y[a];
      const distance = Math.hypot(ex, ey) || 1;
      const pull = (distance / LENGTH) * (distance > 0 ? 1 : 0);
      dx[a] += (ex / 1) * pull * 0.5 / Math.sqrt(degree[a]);
      dy[a] += (ey / 1) * pull * 0.5 / Math.sqrt(degree[a]);
      dx[b] -= (ex / 1) * pull * 0.5 / Math.sqrt(degree[b]);
      dy[b] -= (ey / 1) * pull * 0.5 / Math.sqrt(degree[b]);
    }
    const heat = LENGTH * 0.9 * (1 - round / rounds) ** 1.5 + 0.5;
    for (let i = 0; i < count; i++) {
      if (placed[i]) continue;
      // A weak pull to the middle keeps parts that are not joined together.
      dx[i] -= x[i] * 0.02;
      dy[i] -= y[i] * 0.02;
      const size = Math.hypot(dx[i], dy[i]);
      const by = Math.min(size, heat) / (size || 1);
      x[i] += dx[i] * by;
      y[i] += dy[i] * by;
    }
    round++;
  };

  // Wide screens want wide drawings: the longer side is turned to lie.
  const turn = () => {
    if (placed.some(Boolean) || count < 2) return;
    let mx = 0, my = 0;
    for (let i = 0; i < count; i++) { mx += x[i] / count; my += y[i] / count; }
    let xx = 0, xy = 0, yy = 0;
    for (let i = 0; i < count; i++) {
      const ex = x[i] - mx, ey = y[i] - my;
      xx += ex * ex; xy += ex * ey; yy += ey * ey;
    }
    const angle = 0.5 * Math.atan2(2 * xy, xx - yy);
    const cos = Math.cos(-angle), sin = Math.sin(-angle);
    // The first node is on the left.
    const flip = (x[0] - mx) * cos - (y[0] - my) * sin > 0 ? -1 : 1;
    for (let i = 0; i < count; i++) {
      const ex = x[i] - mx, ey = y[i] - my;
      x[i] = flip * (ex * cos - ey * sin);
      y[i] = ex * sin + ey * cos;
    }
  };

  return {
    x, y,
    step: (ms) => {
      const end = performance.now() + ms;
      while (round < rounds && performance.now() < end) {
        once();
        if (round === rounds) turn();
      }
      return round < rounds;
    },
  };
};
