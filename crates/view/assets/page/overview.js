// All connections together over the time of the recording; a drag zooms the charts below.

class Overview {
  constructor(parent, all, names, charts) {
    this.parent = parent;
    const several = names.length > 1;
    const series = [], sources = [];
    const inks = [["--blue", "--red"], ["--orange", "--purple"]];
    const dashes = [[undefined, [5, 2]], [[8, 3, 2, 3], [2, 2]]];
    // The ACKs of an upload and the requests of a download are not worth a curve.
    for (const [at, one] of all.entries()) {
      const peak = Math.max(...one.up, ...one.down);
      const prefix = several ? String.fromCharCode(65 + at) + " " : "", [sent, received] = inks[at % 2];
      const [solid, broken] = dashes[at % 2];
      const columns = [];
      const add = (name, values, ink, how) => {
        if (!values.some((value) => value > (how.scale === "y" ? peak / 100 : 0))) return;
        columns.push([...values, values.at(-1)]);
        series.push({ name: prefix + name, ink, ...how });
      };
      add("sent", one.up, sent, { scale: "y", width: 1.4, dash: solid, fill: several ? 0 : 0.1 });
      add("received", one.down, received, { scale: "y", width: 1.4, dash: broken });
      const most = Math.max(...one.again);
      add(`retransmitted, up to ${count(most)} segment${most === 1 ? "" : "s"}`, one.again, at % 2 ? "--grey" : "--ink", { scale: "n", width: 1, dash: at % 2 ? [1, 2] : undefined, fill: at % 2 ? 0.2 : 0.55 });
      sources.push({ times: one.times, columns });
    }
    if (!series.length) {
      parent.textContent = "No data was carried.";
      return;
    }
    const { times, columns } = sources.length > 1 ? merge(...sources) : sources[0];
    const caption = document.createElement("p"), plot = document.createElement("div");
    caption.className = "keys-of-total";
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", "Throughput of all connections over time: " + series.map((one) => one.name).join(", "));
    const values = series.map((one) => this.key(caption, one));
    const unit = document.createElement("i");
    const widths = all.map((one) => bin(one.width));
    const same = widths.every((width) => width === widths[0]);
    unit.textContent = "Mbit/s, means of " + (same ? widths[0] : widths.map((width, at) => `${width} (${String.fromCharCode(65 + at)})`).join(" and "));
    caption.prepend(unit);
    parent.append(caption, plot);
    this.plot = new uPlot(this.options(series, values, charts), [times, ...columns], plot);
    new ResizeObserver(() => this.plot.setSize({ width: this.width(), height: this.plot.height })).observe(parent);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot.redraw());
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => this.plot.redraw());
  }

  key(caption, one) {
    const key = document.createElement("span"), value = document.createElement("span");
    key.className = "key";
    key.innerHTML = mark(one.ink, one, 22);
    value.className = "value";
    key.append(one.name, value);
    caption.append(key);
    return value;
  }

  width() {
    return Math.max(220, Math.floor(this.parent.clientWidth));
  }

  options(series, values, charts) {
    const ink = () => colour("--soft"), bare = { ticks: { show: false }, stroke: ink, font: FONT };
    const top = (u, low, high) => [0, high > 0 ? high * 1.06 : 1];
    return {
      width: this.width(), height: 128, legend: { show: false }, padding: [6, 16, 0, 0],
      series: [{}, ...series.map((one) => ({
        label: one.name, scale: one.scale, stroke: () => colour(one.ink), width: one.width, dash: one.dash,
        fill: one.fill ? () => faint(one.ink, one.fill) : undefined, paths: steps, points: { show: false },
      }))],
      // Retransmissions keep to the lower third.
      scales: { x: { time: false }, y: { range: top }, n: { range: (u, low, high) => [0, Math.max(high, 1) * 3] } },
      axes: [
        { ...bare, side: 2, size: 22, gap: 3, space: 60, grid: { show: false }, values: (u, splits, axis, space, step) => splits.map((v) => seconds10(v, step)) },
        { ...bare, scale: "y", size: 44, gap: 4, space: 26, grid: { stroke: () => colour("--grid"), width: 1 }, values: (u, splits) => splits.map((v) => +v.toPrecision(6)) },
      ],
      cursor: {
        y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
        dataIdx: (u, curve, near, time) => (near > 0 && u.data[0][near] > time ? near - 1 : near),
        bind: { dblclick: () => () => charts.data && charts.zoom(charts.whole) },
      },
      hooks: {
        setCursor: [(u) => series.forEach((one, i) => {
          const at = u.cursor.left >= 0 ? u.cursor.idxs[i + 1] : null, value = at == null ? null : u.data[i + 1][at];
          values[i].textContent = value == null ? "" : short(value);
        })],
        setSelect: [(u) => {
          if (u.select.width > 3 && charts.data) charts.zoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
      },
    };
  }
}
