// The whole run in one strip above the lanes, all rows together, with a frame around what is in view. Click or drag moves the view.
const STRIP = 18;

class Overview {
  constructor(lanes) {
    this.lanes = lanes;
    this.canvas = h("canvas", {
      class: "map",
      role: "img",
      "aria-label": "the whole run; the part in view is framed",
      onpointerdown: (event) => {
        this.canvas.setPointerCapture(event.pointerId);
        this.centre(event);
      },
      onpointermove: (event) => event.buttons && this.centre(event),
    });
  }

  // Brings the place that was clicked into the middle of the view.
  centre(event) {
    const box = this.canvas.getBoundingClientRect(),
      { lanes, view } = this.lanes,
      half = (view[1] - view[0]) / 2,
      at = lanes.from + ((event.clientX - box.left) / box.width) * (lanes.to - lanes.from);
    this.lanes.show(at - half, at + half);
  }

  // The strip is painted once for each width and set of colours; what follows the view is only the frame.
  draw() {
    const wide = Math.round(this.canvas.clientWidth * (window.devicePixelRatio || 1)),
      tall = Math.round(STRIP * (window.devicePixelRatio || 1)),
      colours = this.lanes.lanes.planes.map((_, plane) => this.lanes.colour(plane)),
      painted = [wide, ...colours].join();
    if (!wide) return;
    if (this.painted !== painted) {
      this.strip = h("canvas", { width: wide, height: tall });
      this.paint(this.strip.getContext("2d"), wide, tall, colours);
      this.painted = painted;
    }
    Object.assign(this.canvas, { width: wide, height: tall });
    const pen = this.canvas.getContext("2d"),
      { from, to } = this.lanes.lanes,
      [left, right] = this.lanes.view.map((t) => ((t - from) / (to - from)) * wide);
    pen.drawImage(this.strip, 0, 0);
    pen.globalAlpha = 0.6;
    pen.fillStyle = cssColour("--paper");
    pen.fillRect(0, 0, left, tall);
    pen.fillRect(right, 0, wide - right, tall);
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.strokeStyle = cssColour("--ink");
    pen.strokeRect(left + 1, 1, Math.max(2, right - left - 2), tall - 2);
  }

  paint(pen, wide, tall, colours) {
    const level = meanRow(this.lanes.windows[0].levels, wide);
    for (let bin = 0; bin < level.bins; bin++) {
      const x = Math.round((bin / level.bins) * wide),
        end = Math.round(((bin + 1) / level.bins) * wide);
      this.lanes.stack(pen, level, 0, bin, colours, x, end - x, tall, tall);
    }
  }
}

// All rows of a window as one: the mean of those that were recorded at the time.
function meanRow(levels, wide) {
  const { bins, planes, rows, data } =
    levels.find((level) => level.bins <= wide) || levels[levels.length - 1];
  const sums = new Float32Array(planes * bins),
    there = new Float32Array(bins);
  for (let row = 0; row < rows; row++) {
    const seen = new Uint8Array(bins);
    for (let plane = 0, at = row * planes * bins; plane < planes; plane++) {
      for (let bin = 0; bin < bins; bin++, at++) {
        sums[plane * bins + bin] += data[at];
        if (data[at]) seen[bin] = 1;
      }
    }
    seen.forEach((one, bin) => (there[bin] += one));
  }
  return new Level(
    bins,
    planes,
    1,
    sums.map((sum, at) => sum / (there[at % bins] || 1)),
  );
}
