// The table of all connections: sorted, filtered, only what is in sight in the document.

const ROW_HEIGHT = 28;
const bytes = (n) => (n === null ? "" : si(n) + "B");
const seconds = (us) => (us >= 1e6 ? (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s" : us >= 1000 ? (us / 1000).toFixed(1) + " ms" : us + " µs");

function si(n) {
  const abs = Math.abs(n);
  const [unit, letter] = abs >= 1e9 ? [1e9, "G"] : abs >= 1e6 ? [1e6, "M"] : abs >= 1e3 ? [1e3, "k"] : [1, ""];
  return +(n / unit).toPrecision(3) + " " + letter;
}

const rate = (row) => (row[5] > 0 ? ((row[6] + row[7]) * 8) / row[5] : 0);
const short = (n) => (n === 0 ? "0" : n >= 100 ? n.toFixed(0) : String(+n.toPrecision(3)));
const count = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");
const nonzero = (n) => (n === 0 ? "0" : count(n));

// What a row has beside its columns: the token of a subflow's MPTCP connection, and, if the row is
// the sum of subflows, their number.
const token = (row) => row[12] ?? "";
const subflows = (row) => row[13] ?? 0;
// The addresses and ports of a row that shows names of them, for the filter.
const numbers = (row) => row[14] ?? "";

// Where there are two traces, the letter of each stands before the cookie.
const traceOf = (row) => /^([A-Z])-/.exec(row[0])?.[1] ?? "";
const traceIndex = (row) => (traceOf(row) ? traceOf(row).charCodeAt(0) - 65 : 0);
const cookie = (row) => row[0].replace(/^[A-Z]-/, "");

// [title, width, text of a row, value to sort by, is a number]
const COLUMNS = [
  ["Program", "6.5rem", (r) => r[1] || "?", (r) => r[1]],
  ["Local > remote", "19rem", (r) => r[2] || "cut before its start; cookie " + cookie(r), (r) => r[2]],
  ["Algorithm", "5rem", (r) => r[3], (r) => r[3]],
  ["Duration", "5.3rem", (r) => seconds(r[5]), (r) => r[5], true],
  ["Sent", "4.8rem", (r) => bytes(r[6]), (r) => r[6], true],
  ["Received", "5.4rem", (r) => bytes(r[7]), (r) => r[7], true],
  ["Mbit/s", "4.4rem", (r) => short(rate(r)), rate, true],
  ["Retransm.", "5.8rem", (r) => nonzero(r[8]), (r) => r[8], true],
  ["RTOs", "4rem", (r) => nonzero(r[9]), (r) => r[9], true],
  ["Min RTT", "5rem", (r) => (r[10] === null ? "" : seconds(r[10])), (r) => r[10] ?? Infinity, true],
  ["Verdict", "auto", (r) => r[11], (r) => r[11]],
];
const HINTS = {
  Sent: "Bytes that the other side acknowledged",
  Received: "Bytes that arrived in order",
  "Mbit/s": "Mean of both ways together, over the connection's duration",
  "Retransm.": "Segments retransmitted",
};

const connections = (rows) => rows.filter((row) => !subflows(row)).length;

// What stays together in any order: a connection, or a sum and its subflows.
function families(rows) {
  const all = [];
  for (const row of rows) {
    const last = all.at(-1);
    if (last && subflows(last[0]) && token(last[0]) === token(row)) last.push(row);
    else all.push([row]);
  }
  return all;
}

class Table {
  constructor(rows, total, about, choose) {
    Object.assign(this, { all: rows, total, about, choose, rows, chosen: null, order: null, families: families(rows) });
    this.scroll = document.getElementById("scroll");
    this.body = document.getElementById("rows");
    this.filter = document.getElementById("filter");
    this.verdicts = rows.some((row) => row[11]);
    const traces = rows.some(traceOf) ? [["Trace", "3.2rem", traceOf, traceOf]] : [];
    this.columns = [...traces, ...COLUMNS.filter((c) => c[0] !== "Verdict" || this.verdicts)];
    this.head();
    this.scroll.addEventListener("scroll", () => this.draw());
    this.filter.addEventListener("input", () => this.refresh());
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-at]");
      if (row) this.pick(+row.dataset.at, 1);
    });
    addEventListener("resize", () => this.draw());
    this.refresh();
  }

  head() {
    const columns = document.getElementById("columns"), head = document.getElementById("head");
    for (const [title, width, , , number] of this.columns) {
      const column = document.createElement("col");
      column.style.width = title !== "Local > remote" ? width : this.verdicts ? this.endpoints() : "auto";
      columns.append(column);
      const cell = document.createElement("th"), button = document.createElement("button");
      cell.scope = "col";
      if (number) cell.className = "number";
      button.type = "button";
      button.textContent = title;
      if (HINTS[title]) button.title = HINTS[title];
      button.addEventListener("click", () => this.sort(title));
      cell.append(button);
      head.append(cell);
    }
  }

  // As wide as the longest pair of addresses, within reason: the verdict needs room.
  endpoints() {
    const longest = this.all.reduce((most, row) => Math.max(most, row[2].length), 0);
    return Math.min(Math.max(longest * 0.48 + 1, 9), 22) + "rem";
  }

  sort(title) {
    const number = this.columns.find((c) => c[0] === title)[4];
    const down = this.order && this.order.title === title ? !this.order.down : !!number;
    this.order = { title, down };
    [...document.getElementById("head").children].forEach((cell, i) => {
      if (this.columns[i][0] === title) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    this.refresh();
  }

  refresh() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (row) => {
      const text = `${cookie(row)} ${row[1]} ${row[2]} ${numbers(row)} ${row[3]} ${row[11]} ${token(row) && "mptcp " + token(row)}`.toLowerCase();
      return subflows(row) || words.every((word) => text.includes(word));
    };
    const kept = this.families.map((family) => family.filter(matches)).filter((family) => connections(family) > 0);
    if (this.order) {
      const key = this.columns.find((c) => c[0] === this.order.title)[3], way = this.order.down ? -1 : 1;
      const compare = (a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : 0);
      kept.sort((a, b) => compare(a[0], b[0]));
      for (const family of kept) family.sort((a, b) => (subflows(b) && 1) - (subflows(a) && 1) || compare(a, b));
    }
    this.rows = kept.flat();
    const shown = connections(this.rows), listed = connections(this.all);
    const parts = [shown === this.total ? (this.total > 1 ? count(this.total) : "") : `${count(shown)} of ${count(this.total)}`];
    if (listed < this.total) parts.push(`the ${count(this.total - listed)} with the fewest bytes are not listed`);
    const drawn = Object.keys(this.about).length;
    if (drawn < this.total) parts.push(`curves of ${count(drawn)} are in this page; --top N or --connection puts others in`);
    document.getElementById("shown").textContent = parts.filter(Boolean).join("; ");
    this.scroll.scrollTop = 0;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_HEIGHT) - 4);
    const sight = Math.ceil((this.scroll.clientHeight || 260) / ROW_HEIGHT) + 8;
    const printing = document.documentElement.dataset.theme === "light" && this.rows.length <= 200;
    const last = printing ? this.rows.length : Math.min(this.rows.length, first + sight);
    const start = printing ? 0 : first;
    const lines = [this.space(start)];
    for (let at = start; at < last; at++) lines.push(this.line(at));
    lines.push(this.space(this.rows.length - last));
    this.body.replaceChildren(...lines);
    document.getElementById("table").setAttribute("aria-rowcount", this.rows.length + 1);
  }

  space(rows) {
    const line = document.createElement("tr"), cell = document.createElement("td");
    line.className = "space";
    line.setAttribute("aria-hidden", "true");
    cell.colSpan = this.columns.length;
    cell.style.height = rows * ROW_HEIGHT + "px";
    line.append(cell);
    return line;
  }

  line(at) {
    const row = this.rows[at], line = document.createElement("tr");
    line.dataset.at = at;
    line.setAttribute("aria-rowindex", at + 2);
    line.setAttribute("aria-selected", this.chosen === row);
    if (subflows(row)) line.className = "family";
    else if (this.rows[at - 1] && token(row) && token(this.rows[at - 1]) === token(row)) line.className = "subflow";
    if (!subflows(row) && !this.about[row[0]]) {
      line.classList.add("bare");
      line.title = "No curves of this connection are in this page";
    }
    for (const [, , text, , number] of this.columns) {
      const cell = document.createElement("td");
      cell.textContent = text(row);
      if (number) cell.className = "number";
      else cell.title = cell.textContent;
      line.append(cell);
    }
    return line;
  }

  mark(row) {
    this.chosen = row;
    const at = this.rows.indexOf(row), top = at * ROW_HEIGHT;
    const sight = this.scroll.clientHeight - 2 * ROW_HEIGHT;
    if (at >= 0 && (top < this.scroll.scrollTop || top > this.scroll.scrollTop + sight)) {
      this.scroll.scrollTop = Math.max(0, top - sight / 2);
    }
    this.draw();
  }

  step(by) {
    if (!this.rows.length) return;
    this.pick(this.rows.indexOf(this.chosen) + by, by);
  }

  // A sum has no curves of its own: the next subflow in the direction of the step stands for it.
  pick(at, way) {
    at = Math.min(Math.max(at, 0), this.rows.length - 1);
    if (subflows(this.rows[at])) at += at > 0 && way < 0 ? -1 : 1;
    this.choose(this.rows[at]);
  }
}
