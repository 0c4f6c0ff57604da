// What is drawn on a plot beside its lines: warm-up, ticks, marks in sequence space, bands, units of the axes.
(() => {
  "use strict";
  const clipped = (u, draw) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, bbox, devicePixelRatio || 1);
    ctx.restore();
  };

  // From values to canvas pixels without a function call per point.
  const mapping = (u) => {
    const { bbox, scales: { x, y } } = u;
    const kx = bbox.width / (x.max - x.min), ky = bbox.height / (y.max - y.min);
    return {
      x: (v) => bbox.left + (v - x.min) * kx,
      y: (v) => bbox.top + bbox.height - (v - y.min) * ky,
    };
  };

  // Where a line is broken, as ranges of canvas pixels that rise and do not overlap: at `gaps`, and where time was skipped.
  W.withSkipped = (u, skipped, gaps) => {
    if (!skipped?.length) return gaps;
    const { x } = mapping(u), { left, width } = u.bbox;
    const inside = (seconds) => Math.min(Math.max(x(seconds), left), left + width);
    const all = [...gaps, ...skipped.map(([from, to]) => [inside(from), inside(to)])].sort((a, b) => a[0] - b[0]);
    const apart = [];
    for (const [from, to] of all) {
      const last = apart[apart.length - 1];
      if (last && from <= last[1]) last[1] = Math.max(last[1], to);
      else apart.push([from, to]);
    }
    return apart;
  };

  // The part of the plot in which no time was skipped, as a path; null for all of it.
  W.clipSkipped = (u, skipped) => {
    const { left, top, width, height } = u.bbox;
    return uPlot.clipGaps(W.withSkipped(u, skipped, []), 0, left, top, width, height);
  };

  // The part of the run that the figures leave out.
  W.paintWarmup = (u, seconds) => {
    if (!(seconds > 0)) return;
    clipped(u, (ctx, bbox, ratio) => {
      const right = Math.min(mapping(u).x(seconds), bbox.left + bbox.width);
      if (right <= bbox.left) return;
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = W.colour("warm");
      ctx.fillRect(bbox.left, bbox.top, right - bbox.left, bbox.height);
    });
  };

  // What the shade is, above the plot, where no curve passes; left out where the unit stands.
  const nameWarmup = (u, seconds, yText) => {
    if (!(seconds > 0)) return;
    const { ctx, bbox } = u, ratio = devicePixelRatio || 1;
    const right = Math.min(mapping(u).x(seconds), bbox.left + bbox.width);
    const word = "warm-up";
    if (right - ctx.measureText(word).width < Math.max(2 * ratio + ctx.measureText(yText).width + 8 * ratio, bbox.left)) return;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(word, right, bbox.top - 6 * ratio);
  };

  // Short lines at the upper edge, at most one per pixel. `row` keeps several kinds apart.
  W.paintTicks = (u, times, colour, row) => clipped(u, (ctx, bbox, ratio) => {
    const { x } = mapping(u);
    const to = u.scales.x.max;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    let before = -1;
    for (let i = W.lowerBound(times, u.scales.x.min); i < times.length && times[i] <= to; i++) {
      const at = Math.round(x(times[i]));
      if (at === before) continue;
      before = at;
      ctx.moveTo(at + 0.5, bbox.top + row * 9 * ratio);
      ctx.lineTo(at + 0.5, bbox.top + (row * 9 + 7) * ratio);
    }
    ctx.stroke();
  });

  // The indices of marks that a time range shows. A mark may begin before the range: the longest span bounds how far.
  W.visibleMarks = (marks, from, to) => {
    marks.longest ??= Math.max(0, W.maximum(marks.span));
    return [W.lowerBound(marks.start, from - marks.longest), W.lowerBound(marks.start, to)];
  };

  // Bars from `seq` to `seq + len`; marks that fall on one pixel column and touch are drawn as one.
  W.paintBars = (u, marks, colour, width) => clipped(u, (ctx, bbox, ratio) => {
    const { x, y } = mapping(u);
    const [first, end] = W.visibleMarks(marks, u.scales.x.min, u.scales.x.max);
    const least = 2 * ratio;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width * ratio;
    ctx.beginPath();
    let px = NaN, low = 0, high = 0;
    const flush = () => {
      if (px !== px) return;
      const grow = Math.max(0, least - (low - high)) / 2;
      ctx.moveTo(px, low + grow);
      ctx.lineTo(px, high - grow);
    };
    for (let i = first; i < end; i++) {
      const x0 = Math.round(x(marks.start[i])) + 0.5;
      const x1 = Math.round(x(marks.start[i] + marks.span[i])) + 0.5;
      const y0 = y(marks.seq[i]), y1 = y(marks.seq[i] + marks.len[i]);
      if (x1 > x0) {
        flush();
        px = NaN;
        ctx.moveTo(x0, y0);
        ctx.lineTo(x1, y1);
      } else if (x0 === px && y0 >= high - ratio && y1 <= low + ratio) {
        low = Math.max(low, y0);
        high = Math.min(high, y1);
      } else {
        flush();
        px = x0; low = y0; high = y1;
      }
    }
    flush();
    ctx.stroke();
  });

  // Crosses at the marks' lower ends.
  W.paintCrosses = (u, marks, colour) => clipped(u, (ctx, bbox, ratio) => {
    const { x, y } = mapping(u);
    const [first, end] = W.visibleMarks(marks, u.scales.x.min, u.scales.x.max);
    const arm = 3.5 * ratio;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1.25 * ratio;
    ctx.beginPath();
    let beforeX = NaN, beforeY = NaN;
    for (let i = first; i < end; i++) {
      const px = x(marks.start[i]), py = y(marks.seq[i] + marks.len[i] / 2);
      if (Math.abs(px - beforeX) < arm && Math.abs(py - beforeY) < arm) continue;
      beforeX = px; beforeY = py;
      ctx.moveTo(px - arm, py - arm);
      ctx.lineTo(px + arm, py + arm);
      ctx.moveTo(px - arm, py + arm);
      ctx.lineTo(px + arm, py - arm);
    }
    ctx.stroke();
  });

  // Bands over time: [from, to, colour].
  W.paintBands = (u, bands) => clipped(u, (ctx, bbox) => {
    const { x } = mapping(u);
    ctx.globalAlpha = 0.13;
    for (const [from, to, colour] of bands) {
      if (to < u.scales.x.min || from > u.scales.x.max) continue;
      const left = x(from);
      ctx.fillStyle = colour;
      // No least width: what is too short to see must not add up to a wash over the whole plot.
      ctx.fillRect(left, bbox.top, x(to) - left, bbox.height);
    }
  });

  // A line with more points than pixels as what each pixel column holds: smallest, largest, and the mean where the points
  // are evenly spaced samples. Null while there is room for every point and no bin hides a range.
  W.condense = (u, item) => {
    if (item.points || item.whole) return null;
    const { bbox, scales: { x }, data: [times] } = u;
    const key = `${x.min} ${x.max} ${bbox.width}`;
    if (item.condensed?.key === key) return item.condensed.columns;
    const from = Math.max(0, W.lowerBound(times, x.min) - 1), to = Math.min(times.length, W.lowerBound(times, x.max) + 1);
    const width = Math.round(bbox.width);
    let columns = null;
    if (item.low || to - from > 2.5 * width) {
      columns = [];
      const k = bbox.width / (x.max - x.min);
      let last = null;
      for (let i = from; i < to; i++) {
        const value = item.values[i];
        if (value === null || value === undefined) continue;
        const px = Math.round((times[i] - x.min) * k);
        const low = item.low ? item.low[i] : value, high = item.high ? item.high[i] : value;
        if (last && last.px === px) {
          last.low = Math.min(last.low, low);
          last.high = Math.max(last.high, high);
          last.sum += value;
          last.count++;
        } else {
          // Successive columns touch, so that a steep line has no gaps.
          last = { px, low, high, sum: value, count: 1 };
          columns.push(last);
        }
      }
    }
    item.condensed = { key, columns };
    return columns;
  };

  // The range of a condensed line as a shade behind it.
  W.paintRange = (u, item, columns, skipped) => clipped(u, (ctx, bbox) => {
    const { y } = mapping(u);
    const clip = W.clipSkipped(u, skipped);
    if (clip) ctx.clip(clip);
    ctx.beginPath();
    columns.forEach((c, i) => ctx[i ? "lineTo" : "moveTo"](bbox.left + c.px, y(c.high)));
    for (let i = columns.length - 1; i >= 0; i--) ctx.lineTo(bbox.left + columns[i].px, y(columns[i].low));
    ctx.closePath();
    ctx.fillStyle = item.colour;
    ctx.globalAlpha = item.stepped ? 0.3 : 0.22;
    ctx.fill();
  });

  // The stroke of a condensed line: its mean, or for events, which are not evenly spaced, the edges of its range.
  W.condensedPath = (u, item, columns) => {
    const { bbox } = u, { y } = mapping(u), path = new Path2D();
    const trace = (of) => columns.forEach((c, i) => path[i ? "lineTo" : "moveTo"](bbox.left + c.px, y(of(c))));
    if (item.stepped && !item.low) {
      trace((c) => c.high);
      trace((c) => c.low);
    } else trace((c) => c.sum / c.count);
    return path;
  };

  // The units above the vertical axis and at the end of the horizontal one.
  W.paintUnits = (u, yText, xText, warmup) => {
    const { ctx, bbox } = u, ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = `${11 * ratio}px ${W.colour("sans")}`;
    ctx.fillStyle = W.colour("muted");
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillText(yText, 2 * ratio, bbox.top - 6 * ratio);
    nameWarmup(u, warmup, yText);
    ctx.textBaseline = "bottom";
    ctx.textAlign = "right";
    ctx.textBaseline = "top";
    ctx.fillText(xText, bbox.left + bbox.width, bbox.top + bbox.height + 24 * ratio);
    ctx.restore();
  };
})();
