// The other half of pack.rs: base64, variable-length integers, differences, runs.

class Unpacker {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }

  // Arithmetic, not bit operations: times in µs pass 2^32.
  number() {
    let byte = this.bytes[this.at++];
    let value = byte & 0x7f, unit = 128;
    while (byte >= 0x80) {
      byte = this.bytes[this.at++];
      value += (byte & 0x7f) * unit;
      unit *= 128;
    }
    return value;
  }

  column(length, scale = 1) {
    const values = new Array(length);
    let now = 0, i = 0;
    while (i < length) {
      const step = this.number();
      let run = 1;
      if (step === 0) run = this.number();
      else now += step % 2 ? -(step + 1) / 2 : step / 2;
      const value = now === 0 ? null : (now - 1) * scale;
      while (run-- > 0) values[i++] = value;
    }
    return values;
  }
}

const MICRO = 1e-6;

function unpack(cookie) {
  const u = new Unpacker(document.getElementById("c" + cookie).textContent);
  const points = u.number();
  const times = u.column(points, MICRO);
  const curves = [];
  for (let i = 0; i < 11; i++) curves.push(u.column(points, i >= 5 && i <= 7 ? 1e-3 : 1));
  const from = u.number(), end = u.number(), width = u.number(), bins = u.number();
  // Rates are written in units of 100 bit/s.
  const throughput = { width: width * MICRO, times: [], acked: u.column(bins, 1e-4), received: u.column(bins, 1e-4) };
  for (let i = 0; i < bins; i++) throughput.times.push((from + i * width) * MICRO);
  // A step needs its end: the last bin is drawn until the connection ends.
  throughput.times.push(end * MICRO);
  throughput.acked.push(throughput.acked[bins - 1]);
  throughput.received.push(throughput.received[bins - 1]);
  const marks = u.number();
  const ticks = { times: u.column(marks, MICRO), kinds: u.column(marks), counts: u.column(marks) };
  const stretches = u.number();
  const bands = { from: u.column(stretches, MICRO), length: u.column(stretches, MICRO), state: u.column(stretches) };
  return { points, times, curves, throughput, ticks, bands };
}
