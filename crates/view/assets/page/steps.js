// Step curves for uPlot: of the points in one column of pixels, only what can be seen is drawn.

function steps(u, series, first, last) {
  const xs = u.data[0], ys = u.data[series], { left, top, width, height } = u.bbox;
  const { min: x0, max: x1 } = u.scales.x, { min: y0, max: y1 } = u.scales[u.series[series].scale];
  const perX = width / (x1 - x0), perY = height / (y1 - y0), floor = top + height;
  const stroke = new Path2D(), fill = new Path2D();
  let x = 0, low = 0, high = 0, now = null, start = 0;

  // Up and down the column, to where the last of its points left the curve.
  const column = () => {
    if (low !== high) {
      stroke.lineTo(x, low);
      stroke.lineTo(x, high);
    }
    stroke.lineTo(x, now);
    fill.lineTo(x, now);
  };
  const end = (at) => {
    if (now === null) return;
    column();
    stroke.lineTo(at, now);
    fill.lineTo(at, now);
    fill.lineTo(at, floor);
    fill.lineTo(start, floor);
    now = null;
  };

  const to = Math.min(last + 1, xs.length - 1);
  for (let i = Math.max(first - 1, 0); i <= to; i++) {
    // Far outside, a coordinate is only its side: canvases lose precision there.
    const at = Math.min(Math.max(left + (xs[i] - x0) * perX, left - 10), left + width + 10);
    if (ys[i] === null) {
      end(at);
      continue;
    }
    const y = Math.max(floor - (ys[i] - y0) * perY, top - height);
    if (now === null) {
      stroke.moveTo(at, y);
      fill.moveTo(at, floor);
      x = start = at;
      low = high = y;
    } else if (Math.floor(at) === Math.floor(x)) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    } else {
      column();
      stroke.lineTo(at, now);
      fill.lineTo(at, now);
      x = at;
      low = Math.min(now, y);
      high = Math.max(now, y);
    }
    now = y;
  }
  end(x);
  return { stroke, fill, clip: null, flags: 1 };
}
