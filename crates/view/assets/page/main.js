// Puts the page together: which connection is chosen, keys, themes, print.

const DATA = JSON.parse(document.getElementById("data").textContent);
const charts = new Charts(document.getElementById("charts"), DATA.kinds);
const table = new Table(DATA.rows, DATA.all, DATA.about, choose);

const unpacked = new Map();

// The last few stay unpacked: going back and forth between two is common.
function curves(cookie) {
  if (!unpacked.has(cookie)) {
    if (unpacked.size >= 5) unpacked.delete(unpacked.keys().next().value);
    unpacked.set(cookie, unpack(cookie));
  }
  return unpacked.get(cookie);
}

const named = (row) => [row[1], row[2] || "cookie " + cookie(row), row[3], token(row) && "subflow of MPTCP " + token(row)];

function choose(row) {
  const about = DATA.about[row[0]], missing = document.getElementById("missing"), other = otherEnd(about);
  table.mark(row);
  document.getElementById("name").textContent = [traceOf(row), ...named(row)].filter(Boolean).join("  ·  ");
  document.getElementById("verdict").textContent = row[11];
  const beyond = document.getElementById("beyond");
  beyond.hidden = !other;
  beyond.textContent = other ? `The other end (${[traceOf(other), other[1], other[3]].filter(Boolean).join(", ")}): ${other[11]}` : "";
  before(about?.before);
  limits(about?.limits ?? []);
  missing.hidden = !!about;
  document.getElementById("charts").hidden = !about;
  if (!about) {
    charts.clear();
    document.getElementById("method").textContent = "";
    missing.textContent = `Curves of this connection are not in this page. To get them: transom report FILE --connection ${cookie(row)}`;
    return;
  }
  const data = curves(row[0]), beside = other && curves(other[0]);
  const spans = [row, other].filter(Boolean).map((r) => [r[4] * MICRO, (r[4] + r[5]) * MICRO]);
  const from = Math.min(...spans.map((s) => s[0])), to = Math.max(...spans.map((s) => s[1]));
  charts.lost = DATA.lost[traceIndex(row)];
  charts.show({ ...data, beside }, about, [from, Math.max(to, from + 1e-5)]);
  document.getElementById("method").textContent = method(data, about);
  if (location.hash !== "#" + row[0]) history.replaceState(null, "", "#" + row[0]);
}

// The row of the same connection as its other end recorded it.
function otherEnd(about) {
  return about?.other && DATA.about[about.other] ? DATA.rows.find((row) => row[0] === about.other) : undefined;
}

// What led to the recording, where another source than events knows it.
function before(known) {
  const [heading, steps] = known ?? ["", []], section = document.getElementById("before");
  section.hidden = !known;
  section.querySelector("h3").textContent = heading;
  section.querySelector("ol").replaceChildren(...steps.map((step) => {
    const item = document.createElement("li");
    item.textContent = step;
    return item;
  }));
}

function limits(list) {
  document.getElementById("limits").replaceChildren(...list.map(([name, share]) => {
    const item = document.createElement("li"), bar = document.createElement("span");
    bar.className = "share";
    bar.style.width = share * 12 + "em";
    item.append(bar, `${name} ${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);
    return item;
  }));
}

// Says what was left out of the picture, so that nobody takes it for all there was.
function method(data, about) {
  const text = [], marks = data.ticks.times.length;
  if (about.buckets) text.push(`Curves are drawn through ${count(data.points)} of ${count(about.events)} events: of each 1/${count(about.buckets)} of the connection's time the first, the last, and the smallest and largest of every curve.`);
  if (marks < about.errors) text.push(`${count(about.errors)} error events are drawn as ${count(marks)} marks: events of one kind that are too close to be told apart are one mark, and are all counted.`);
  if (about.joined) text.push(`${count(about.joined)} congestion states too short to be seen are drawn with their neighbours, as the gravest of them.`);
  if (about.more_changes) text.push(`${count(about.more_changes)} later changes of algorithm or clamp are not drawn.`);
  if (text.length) text.push("For more detail of one connection: transom report FILE --connection COOKIE.");
  return text.join(" ");
}

addEventListener("keydown", (event) => {
  if (event.target.id === "filter" && !["Escape", "ArrowDown", "ArrowUp"].includes(event.key)) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const move = (by, scale = 1) => {
    if (!charts.data) return;
    const [from, to] = charts.view, span = to - from, middle = (from + to) / 2 + by * span;
    charts.zoom([middle - (span * scale) / 2, middle + (span * scale) / 2]);
  };
  const keys = {
    ArrowDown: () => table.step(1), ArrowUp: () => table.step(-1),
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    "+": () => move(0, 0.5), "=": () => move(0, 0.5), "-": () => move(0, 2),
    Escape: () => charts.data && charts.zoom(charts.whole), 0: () => charts.data && charts.zoom(charts.whole),
    "/": () => document.getElementById("filter").focus(),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

document.getElementById("reset").addEventListener("click", () => charts.zoom(charts.whole));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redraw());

// Paper is white, whatever the screen is.
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  table.draw();
  charts.redraw();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  table.draw();
  charts.redraw();
});

const touched = matchMedia("(pointer: coarse)").matches;
document.getElementById("hint").textContent = touched ? "Pinch to zoom" : "Drag to zoom, double click for all";

const hashed = () => DATA.rows.find((row) => "#" + row[0] === location.hash && !subflows(row));
addEventListener("hashchange", () => hashed() && choose(hashed()));

if (document.getElementById("total")) new Overview(document.getElementById("total"), DATA.overview, DATA.names, charts);
const first = hashed() ?? DATA.rows.find((row) => DATA.about[row[0]]) ?? DATA.rows.find((row) => !subflows(row));
if (first) choose(first);
else document.getElementById("charts").hidden = true;
