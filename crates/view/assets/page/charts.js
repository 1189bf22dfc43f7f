// Charts of one connection on one axis of time; zoom and cursor are common to all.

const CURVES = [
  { id: "window", title: "Window", unit: "segments", height: 220, bands: true, text: short, series: [
    ["cwnd", 0, "--blue", { width: 1.8, main: true }],
    ["ssthresh", 1, "--orange", { width: 1.4, dash: [6, 3] }],
    ["in flight", 2, "--green", { width: 1, fill: 0.16, main: true }],
    ["clamp", 3, "--purple", { width: 1.2, dash: [8, 3, 2, 3] }],
    ["send window", 4, "--grey", { width: 1, dash: [2, 2] }],
  ] },
  { id: "events", title: "Events", unit: "", lanes: true },
  { id: "throughput", title: "Throughput", unit: "Mbit/s", height: 150, bins: true, text: short, series: [
    ["acknowledged", "acked", "--blue", { width: 1.5, main: true, fill: 0.1 }],
    ["received", "received", "--red", { width: 1.5, main: true, dash: [5, 2] }],
  ], beside: [
    ["received at the other end", "received", "--purple", { width: 1.3, main: true, dash: [2, 2] }],
    ["acknowledged at the other end", "acked", "--grey", { width: 1.3, main: true, dash: [8, 3, 2, 3] }],
  ] },
  { id: "rtt", title: "Round-trip time", unit: "ms", height: 150, text: short, series: [
    ["smoothed RTT", 5, "--blue", { width: 1.5, main: true }],
    ["minimum RTT", 6, "--red", { width: 1.5, dash: [5, 2], main: true }],
    ["RTO", 7, "--grey", { width: 1, dash: [8, 3, 2, 3], off: true }],
  ], beside: [["smoothed RTT at the other end", 5, "--purple", { width: 1.2, dash: [2, 2] }]] },
  { id: "queues", title: "Queues", unit: "bytes of memory; unsent: bytes", height: 150, time: true, text: (n) => si(n).trim(), series: [
    ["send queue", 8, "--blue", { width: 1.5, main: true }],
    ["receive queue", 9, "--red", { width: 1.5, dash: [5, 2], main: true }],
    ["unsent", 10, "--green", { width: 1, fill: 0.16, main: true }],
  ], beside: [
    ["receive queue at the other end", 9, "--purple", { width: 1.3, dash: [2, 2], main: true }],
    ["send queue at the other end", 8, "--grey", { width: 1.3, dash: [8, 3, 2, 3], main: true }],
  ] },
];
const STATES = ["open", "disorder", "cwr", "recovery", "loss"];
// What tells the states apart where colours do not: lines on squares of so many pixels.
const TILE = 8, TILES = ["", "", "M0 3.5H8", "M-1 1L1 -1M0 8L8 0M7 9L9 7", "M-1 1L1 -1M0 8L8 0M7 9L9 7M-1 7L1 9M0 0L8 8M7 -1L9 1"];
const LANE = 25, AXIS = 52, PADDING = [6, 12, 4, 0], LABEL = 14, FONT = "11px system-ui, sans-serif";
const GRAVE = 4;
const LOST = -1;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (name, alpha) => colour(name) + Math.round(alpha * 255).toString(16).padStart(2, "0");

// The background of a state, as a pattern for a canvas.
function tile(state) {
  const square = document.createElement("canvas"), scale = devicePixelRatio;
  square.width = square.height = Math.round(TILE * scale);
  const ctx = square.getContext("2d");
  ctx.fillStyle = colour("--" + STATES[state]);
  ctx.fillRect(0, 0, square.width, square.height);
  ctx.scale(square.width / TILE, square.height / TILE);
  ctx.strokeStyle = colour("--hatch");
  ctx.stroke(new Path2D(TILES[state]));
  return ctx.createPattern(square, "repeat");
}

// A curve in a legend: its line, and its area where it has one.
function mark(ink, { width, dash, fill }, long) {
  const area = fill ? `<path d="M0 4h${long}v6h-${long}z" fill="var(${ink})" fill-opacity="${Math.max(fill, 0.2)}"/>` : "";
  return `<svg width="${long}" height="10" aria-hidden="true">${area}<path d="M0 4h${long}" stroke="var(${ink})" stroke-width="${width + 0.4}" stroke-dasharray="${dash ?? ""}"/></svg>`;
}

// First index whose time is not before `time`.
function search(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Step curves of two sources on the times of both: what held before still holds, until a source ends.
function merge(a, b) {
  const times = [], columns = [...a.columns, ...b.columns].map(() => []);
  const ends = [a.times.length, b.times.length], at = [0, 0];
  const next = (i) => (at[i] < ends[i] ? (i ? b : a).times[at[i]] : Infinity);
  while (at[0] < ends[0] || at[1] < ends[1]) {
    const time = Math.min(next(0), next(1));
    for (const i of [0, 1]) if (next(i) === time) at[i]++;
    times.push(time);
    let out = 0;
    for (const [i, source] of [a, b].entries()) {
      const last = source.times[ends[i] - 1];
      const holds = at[i] > 0 && (at[i] < ends[i] || last === time);
      for (const column of source.columns) columns[out++].push(holds ? column[at[i] - 1] : null);
    }
  }
  return { times, columns };
}

class Charts {
  constructor(parent, kinds) {
    Object.assign(this, { parent, kinds, lost: [], plots: [], drawn: new Set(), off: new Set() });
    for (const chart of CURVES) for (const [name, , , how] of chart.series ?? []) if (how.off) this.off.add(name);
    this.sync = uPlot.sync("time");
    new ResizeObserver(() => this.fit()).observe(parent);
  }

  clear() {
    this.plots.forEach((plot) => plot.destroy());
    this.parent.querySelectorAll("figure").forEach((figure) => figure.remove());
    this.plots = [];
    this.drawn.clear();
    this.data = null;
  }

  show(data, about, whole) {
    this.clear();
    Object.assign(this, { data, about, whole, view: whole });
    for (const chart of CURVES) {
      if (chart.lanes) this.lanes(chart);
      else this.curves(chart);
    }
    this.moved();
  }

  figure(chart) {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const title = document.createElement("b"), unit = document.createElement("i"), plot = document.createElement("div");
    title.textContent = chart.title;
    unit.textContent = chart.unit;
    caption.append(title, unit);
    plot.className = "plot";
    plot.setAttribute("role", "img");
    figure.append(caption, plot);
    this.parent.append(figure);
    return { caption, plot };
  }

  curves(chart) {
    const { caption, plot } = this.figure(chart);
    const { times, own, besides } = this.sources(chart);
    const moves = (values) => values.some((value) => value !== null && (!chart.bins || value > 0));
    const known = [...chart.series.map((one, i) => [...one, own[i]]), ...(chart.beside ?? []).map((one, i) => [...one, besides[i]])]
      .filter(([, , , , values]) => values && moves(values));
    // The legend names the most important curve first; it is drawn last, on top.
    const legend = known.map((one) => this.key(caption, chart, one)), values = legend.toReversed(), series = known.toReversed();
    plot.setAttribute("aria-label", `${chart.title} over time: ${known.map((s) => s[0]).join(", ")}`);
    if (chart.bins) caption.querySelector("i").textContent += `, means of ${bin(this.data.throughput.width)}`;
    const options = this.options(chart, chart.height, {
      series: [{}, ...series.map(([name, , ink, how]) => ({
        label: name, scale: "y", show: !this.off.has(name), stroke: () => colour(ink), width: how.width, dash: how.dash,
        fill: how.fill ? () => faint(ink, how.fill) : undefined, paths: steps, points: { show: false },
      }))],
      scales: { x: this.scaleX(), y: { range: (u) => this.rangeY(u, chart, series) } },
      values: (u, splits) => splits.map((v) => (chart.id === "queues" ? si(v).trim() : +v.toPrecision(6))),
      drawClear: (u) => chart.bands && this.drawBands(u),
      draw: (u) => this.drawChanges(u, chart),
      setCursor: (u) => series.forEach((_, i) => {
        const at = u.cursor.left >= 0 ? u.cursor.idxs[i + 1] : null, value = at == null ? null : u.data[i + 1][at];
        values[i].textContent = value == null ? "" : chart.text(value);
      }),
    });
    this.plots.push(new uPlot(options, [times, ...series.map(([, , , , values]) => values)], plot));
  }

  // The columns of a chart on one axis of time: those of this end, and of the other one.
  sources(chart) {
    const of = (data, list) => {
      const source = chart.bins ? data.throughput : data.curves;
      return { times: chart.bins ? source.times : data.times, columns: list.map(([, column]) => source[column]) };
    };
    const own = of(this.data, chart.series), beside = this.data.beside && chart.beside;
    if (!beside) return { times: own.times, own: own.columns, besides: [] };
    const merged = merge(own, of(this.data.beside, chart.beside));
    return { times: merged.times, own: merged.columns.slice(0, own.columns.length), besides: merged.columns.slice(own.columns.length) };
  }

  key(caption, chart, [name, , ink, how]) {
    const key = document.createElement("button"), value = document.createElement("span");
    key.type = "button";
    key.className = "key";
    key.title = "Show or hide";
    key.setAttribute("aria-pressed", !this.off.has(name));
    key.innerHTML = mark(ink, how, 22);
    value.className = "value";
    key.append(name, value);
    key.addEventListener("click", () => {
      const hide = !this.off.has(name);
      this.off[hide ? "add" : "delete"](name);
      key.setAttribute("aria-pressed", !hide);
      const plot = this.plots.find((p) => p.root.closest("figure") === caption.parentNode);
      plot.setSeries(plot.series.findIndex((s) => s.label === name), { show: !hide });
    });
    caption.append(key);
    return value;
  }

  states(caption) {
    for (const state of new Set(this.data.bands.state.toSorted((a, b) => a - b))) {
      const key = document.createElement("span");
      key.className = "key state";
      const at = [0, 1, 2].flatMap((x) => [`${x * TILE} 0`, `${x * TILE} ${TILE}`]);
      const lines = at.map((at) => `<path d="${TILES[state]}" transform="translate(${at})" stroke="var(--hatch)"/>`).join("");
      key.innerHTML = `<svg width="18" height="12" aria-hidden="true"><path d="M0 0h18v12H0z" fill="var(--${STATES[state]})"/>${lines}</svg>`;
      key.append(STATES[state]);
      key.title = "Congestion state of the sender (tcp_ca_state)";
      caption.append(key);
    }
  }

  lanes(chart) {
    const { ticks } = this.data, [from, to] = this.whole;
    const lanes = [...this.kindsOf(ticks, ""), ...(this.data.beside ? this.kindsOf(this.data.beside.ticks, "other end: ") : [])];
    const lost = this.lost.filter(([us]) => us * MICRO >= from && us * MICRO <= to);
    if (lost.length) lanes.unshift({ kind: LOST, name: "events lost (all connections)", times: lost.map((l) => l[0] * MICRO), counts: lost.map((l) => l[1]) });
    const { caption, plot } = this.figure(chart);
    this.states(caption);
    const value = document.createElement("span");
    value.className = "key found";
    caption.append(value);
    plot.setAttribute("aria-label", "Events over time: " + (lanes.map((l) => `${sum(l.counts)} ${l.name}`).join(", ") || "none"));
    if (!lanes.length) value.textContent = "no retransmission, timeout, duplicate ACK, SACK, reset or local congestion was seen";
    const options = this.options(chart, lanes.length * LANE + 6, {
      series: [{}, { show: true, scale: "y", paths: () => null, points: { show: false } }],
      scales: { x: this.scaleX(), y: { range: [0, 1] } },
      values: () => [],
      drawClear: (u) => this.drawBands(u),
      draw: (u) => this.drawLanes(u, lanes),
      setCursor: (u) => lanes.length && (value.textContent = this.near(u, lanes)),
    });
    this.plots.push(new uPlot(options, [[from, to], [null, null]], plot));
  }

  // One lane for each kind of mark that there is.
  kindsOf(ticks, prefix) {
    const lanes = new Map();
    ticks.times.forEach((time, i) => {
      const kind = ticks.kinds[i];
      if (!lanes.has(kind)) lanes.set(kind, { kind, name: prefix + this.kinds[kind], times: [], counts: [] });
      lanes.get(kind).times.push(time);
      lanes.get(kind).counts.push(ticks.counts[i]);
    });
    return [...lanes.values()].sort((a, b) => a.kind - b.kind);
  }

  // What happened within four pixels of the cursor.
  near(u, lanes) {
    if (u.cursor.left < 0) return "";
    const low = u.posToVal(u.cursor.left - 4, "x"), high = u.posToVal(u.cursor.left + 4, "x");
    const found = lanes.map((l) => [sum(l.counts.slice(search(l.times, low), search(l.times, high))), l.name]);
    return found.filter(([n]) => n).map(([n, name]) => `${name} ${count(n)}`).join(", ");
  }

  options(chart, height, { series, scales, values, drawClear, draw, setCursor }) {
    const last = chart.time, ink = () => colour("--soft"), grid = { stroke: () => colour("--grid"), width: 1 };
    const bare = { grid, ticks: { show: false }, stroke: ink, font: FONT };
    return {
      width: this.width(), height: height + (last ? 26 : 0), legend: { show: false }, padding: [PADDING[0], PADDING[1], last ? 0 : PADDING[2], PADDING[3]], series, scales,
      axes: [
        { ...bare, side: 2, size: last ? 26 : 0, gap: 4, space: 70, values: last ? (u, splits, axis, space, step) => splits.map((v) => seconds10(v, step)) : () => [] },
        { ...bare, scale: "y", size: AXIS, gap: 6, space: 34, values, grid: chart.lanes ? { show: false } : grid },
      ],
      cursor: {
        y: false, focus: { prox: -1 }, points: { show: false }, drag: { x: true, y: false, setScale: false },
        sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" || type === "mouseenter" } },
        // A curve is a step function: what holds at the cursor is the event before it.
        dataIdx: (u, curve, near, time) => (near > 0 && u.data[0][near] > time ? near - 1 : near),
        bind: { dblclick: () => () => this.zoom(this.whole) },
      },
      hooks: {
        drawClear: [drawClear], draw: [draw, () => this.count(chart)],
        setCursor: [setCursor, (u) => this.told(u)],
        setSelect: [(u) => {
          if (u.select.width > 3) this.zoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        ready: [(u) => pinch(u, this)],
      },
    };
  }

  scaleX() {
    return { time: false, range: () => this.view };
  }

  // The main curves decide; a far higher limit (clamp, window) is left outside.
  rangeY(u, chart, series) {
    const between = ([start, end]) => series.map((_, i) => {
      const from = Math.max(0, search(u.data[0], start) - 1), to = search(u.data[0], end);
      let top = 0;
      if (u.series[i + 1].show) for (let at = from; at < to; at++) if (u.data[i + 1][at] > top) top = u.data[i + 1][at];
      return top;
    });
    const tops = between(this.view), main = Math.max(0, ...tops.filter((_, i) => series[i][3].main));
    const top = main > 0 ? Math.max(...tops.filter((t) => t <= 2 * main)) : Math.max(...tops, 0);
    const height = chart.height - PADDING[0] - PADDING[2];
    // No label lies over a curve: there is room for it above.
    const above = this.labels(u, chart).map(({ times, row }) => {
      const below = between(times).filter((value) => value <= top);
      return Math.max(...below, 0) / (1 - (LABEL * (row + 1) + 6) / height);
    });
    return [0, top > 0 ? Math.max(top * 1.06, ...above) : 1];
  }

  // Where the labels of changes stand: in pixels from the left, and which times that takes. They are
  // beside their lines, in a few rows; what finds no room has only its line.
  labels(u, chart) {
    if (chart.id !== "window") return [];
    const width = u.width - AXIS - PADDING[1], [start, end] = this.view, span = end - start, gap = 8;
    const rows = [[], [], [], []], placed = [];
    u.ctx.save();
    u.ctx.font = FONT;
    for (const [us, label] of this.about.changes) {
      const x = ((us * MICRO - start) / span) * width;
      if (x < 0 || x > width) continue;
      const size = u.ctx.measureText(label).width, left = Math.max(0, Math.min(x + 4, width - size - 2)), right = left + size;
      const row = rows.findIndex((row) => row.every(([a, b]) => right + gap < a || b + gap < left));
      if (row < 0) continue;
      rows[row].push([left, right]);
      placed.push({ label, left, row, times: [left, right].map((x) => start + (x / width) * span) });
    }
    u.ctx.restore();
    return placed;
  }

  drawBands(u) {
    const { from, length, state } = this.data.bands, { top, height, left, width } = u.bbox;
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(left, top, width, height);
    u.ctx.clip();
    const tiles = STATES.map((_, state) => tile(state));
    from.forEach((start, i) => {
      const x = u.valToPos(start, "x", true), end = u.valToPos(start + length[i], "x", true);
      if (end < left || x > left + width) return;
      u.ctx.fillStyle = tiles[state[i]];
      u.ctx.fillRect(x, top, Math.max(end - x, devicePixelRatio), height);
    });
    u.ctx.restore();
  }

  drawChanges(u, chart) {
    const { top, height, left, width } = u.bbox, scale = devicePixelRatio;
    u.ctx.save();
    u.ctx.font = `${11 * scale}px system-ui, sans-serif`;
    u.ctx.fillStyle = colour("--ink");
    u.ctx.strokeStyle = colour("--paper");
    u.ctx.lineJoin = "round";
    u.ctx.textAlign = "left";
    u.ctx.lineWidth = 4 * scale;
    u.ctx.globalAlpha = 0.5;
    for (const [us] of this.about.changes) {
      const x = Math.round(u.valToPos(us * MICRO, "x", true));
      if (x >= left && x <= left + width) u.ctx.fillRect(x, top, scale, height);
    }
    u.ctx.globalAlpha = 1;
    for (const { label, left: from, row } of this.labels(u, chart)) {
      const x = left + from * scale, y = top + (LABEL * (row + 1) - 2) * scale;
      u.ctx.strokeText(label, x, y);
      u.ctx.fillText(label, x, y);
    }
    u.ctx.restore();
  }

  drawLanes(u, lanes) {
    const { top, left, width } = u.bbox, scale = devicePixelRatio;
    u.ctx.save();
    u.ctx.font = `${11 * scale}px system-ui, sans-serif`;
    u.ctx.textBaseline = "alphabetic";
    u.ctx.textAlign = "left";
    lanes.forEach((lane, row) => {
      const y = top + (row * LANE + 1) * scale;
      u.ctx.fillStyle = colour("--soft");
      u.ctx.fillText(`${lane.name}  ${count(sum(lane.counts))}`, left + 2 * scale, y + 10 * scale);
      u.ctx.fillStyle = colour(lane.kind < GRAVE ? "--red" : "--ink");
      const to = search(lane.times, this.view[1] + 1e-9);
      let last = -Infinity;
      for (let at = search(lane.times, this.view[0]); at < to; at++) {
        const x = Math.round(u.valToPos(lane.times[at], "x", true));
        if (x === last) continue;
        u.ctx.fillRect(x, y + 13 * scale, Math.max(1, Math.round(scale)), 9 * scale);
        last = x;
      }
      u.ctx.fillStyle = colour("--grid");
      u.ctx.fillRect(left, y + 22 * scale, width, scale);
    });
    u.ctx.restore();
  }

  zoom([from, to]) {
    const [start, end] = this.whole, least = 2e-6;
    const middle = (from + to) / 2, span = Math.min(Math.max(to - from, least), end - start);
    const low = Math.min(Math.max(middle - span / 2, start), end - span);
    this.view = [low, low + span];
    this.moved();
    this.plots.forEach((plot) => plot.setScale("x", { min: this.view[0], max: this.view[1] }));
  }

  moved() {
    document.getElementById("reset").disabled = this.view[1] - this.view[0] >= this.whole[1] - this.whole[0];
  }

  told(u) {
    const time = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null;
    document.getElementById("cursor").textContent = time === null ? "Seconds since the recording began" : time.toFixed(6) + " s";
  }

  count(chart) {
    this.drawn.add(chart.id);
    document.body.dataset.drawn = this.drawn.size;
    document.body.dataset.points = this.data.points;
  }

  width() {
    return Math.max(260, Math.floor(this.parent.clientWidth));
  }

  fit() {
    const width = this.width();
    for (const plot of this.plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
  }

  redraw() {
    this.plots.forEach((plot) => plot.redraw());
  }
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// With as many decimals as tell one multiple of the step from the next exactly: 0.0025 has four.
function seconds10(value, step) {
  const digit = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), units = step * 10 ** digit;
  return value.toFixed(digit + (Math.abs(units - Math.round(units)) > 1e-6)) + " s";
}

// The width of a mean, s.
const bin = (width) => (width < 1 ? +(width * 1000).toPrecision(3) + " ms" : +width.toPrecision(6) + " s");

// Two fingers: what was between them stays between them.
function pinch(u, charts) {
  let grip = null;
  const times = (touches) => [...touches].map((t) => u.posToVal(t.clientX - u.rect.left, "x")).sort((a, b) => a - b);
  const spots = (touches) => [...touches].map((t) => t.clientX - u.rect.left).sort((a, b) => a - b);
  u.over.addEventListener("touchstart", (event) => {
    if (event.touches.length === 2) grip = times(event.touches);
  }, { passive: true });
  u.over.addEventListener("touchmove", (event) => {
    if (!grip || event.touches.length !== 2) return;
    event.preventDefault();
    const [a, b] = spots(event.touches), width = u.over.clientWidth;
    const per = (grip[1] - grip[0]) / Math.max(b - a, 8);
    charts.zoom([grip[0] - a * per, grip[0] + (width - a) * per]);
  }, { passive: false });
  u.over.addEventListener("touchend", () => (grip = null), { passive: true });
}
