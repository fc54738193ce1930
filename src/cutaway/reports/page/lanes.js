// Lanes over time. Python stores, for every row and bin, how much of the bin each (operation, layer) had; here those
// are summed pairwise into coarser levels once, so that any zoom draws at most one bin for each pixel.
const ROW = 22,
  BAND = 15,
  AXIS = 24;

// Names stand to the left of the lanes; on a phone they leave room.
const labels = (wide) => Math.min(140, Math.round(0.28 * wide));

// A time in seconds with as many digits as steps of this size need.
const clock = (seconds, step) =>
  seconds.toFixed(Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)))) + " s";

const bytes = (n) => (n >= 1e9 ? (n / 1e9).toFixed(1) + " GB" : (n / 1e6).toFixed(0) + " MB");

class Level {
  constructor(bins, planes, rows, data) {
    Object.assign(this, { bins, planes, rows, data });
  }
  at(row, plane, bin) {
    return this.data[(row * this.planes + plane) * this.bins + bin];
  }
  coarser() {
    const bins = this.bins >> 1,
      out = new Float32Array(this.rows * this.planes * bins);
    for (let line = 0, to = 0; line < this.rows * this.planes; line++) {
      for (let b = 0, from = line * this.bins; b < bins; b++, from += 2)
        out[to++] = (this.data[from] + this.data[from + 1]) / 2;
    }
    return new Level(bins, this.planes, this.rows, out);
  }
}

async function loadWindows(lanes) {
  const windows = [];
  for (const stored of lanes.windows) {
    const levels = [
      new Level(stored.bins, lanes.planes.length, lanes.rows.length, await inflate(stored.data)),
    ];
    while (levels[levels.length - 1].bins > 64) levels.push(levels[levels.length - 1].coarser());
    windows.push({ from: stored.from, to: stored.to, levels });
  }
  if (lanes.path) {
    let level = new Level(lanes.path.bins, 1, lanes.rows.length, await inflate(lanes.path.data));
    windows[1].path = [level];
    while (level.bins > 64) windows[1].path.push((level = level.coarser()));
  }
  return windows;
}

class Lanes {
  constructor(lanes) {
    this.lanes = lanes;
    this.memory = new Map((lanes.memory?.lines || []).map((line) => [line.row, line.values]));
    this.windows = [];
    this.colourBy = "operation";
    this.canvas = h("canvas", {});
    this.spacer = h("div", {});
    this.box = h(
      "div",
      {
        class: "lanes",
        tabindex: "0",
        role: "application",
        "aria-describedby": "lanes-range lanes-shares",
        "aria-label":
          "Time lanes: plus and minus zoom, left and right move, up and down scroll, 0 shows everything",
      },
      this.canvas,
      this.spacer,
    );
    this.overview = new Overview(this);
    this.range = h("span", { class: "soft", id: "lanes-range", "aria-live": "polite" });
    this.shares = h("p", { class: "soft", id: "lanes-shares" });
    this.legend = h("span", { class: "legend" });
    this.view = [lanes.from, lanes.to];
    this.drag = null;
    this.listen();
  }

  listen() {
    const at = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
    this.box.addEventListener("scroll", () => this.later());
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("pointerdown", (e) => {
      this.drag = [at(e), at(e)];
      this.canvas.setPointerCapture(e.pointerId);
      hideTip();
    });
    this.canvas.addEventListener("pointermove", (e) => {
      if (this.drag) {
        this.drag[1] = at(e);
        this.later();
      } else this.explain(e);
    });
    this.canvas.addEventListener("pointerup", () => {
      const [a, b] = (this.drag || [0, 0]).map((x) => this.timeAt(x)).sort((p, q) => p - q);
      const wide = this.drag && Math.abs(this.drag[1] - this.drag[0]) > 4;
      this.drag = null;
      if (wide) this.show(a, b);
      else this.later();
    });
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("dblclick", () => this.show(this.lanes.from, this.lanes.to));
    this.box.addEventListener(
      "wheel",
      (e) => {
        if (!e.ctrlKey && !e.shiftKey) return;
        e.preventDefault();
        this.zoom((e.deltaY || e.deltaX) > 0 ? 1.25 : 0.8, this.timeAt(at(e)));
      },
      { passive: false },
    );
    new ResizeObserver(() => this.later()).observe(this.box);
    dark.addEventListener("change", () => {
      this.keys();
      this.later();
    });
  }

  press(event) {
    const span = this.view[1] - this.view[0];
    const moves = { ArrowLeft: -0.2, ArrowRight: 0.2, a: -0.2, d: 0.2 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves)
      this.show(this.view[0] + moves[event.key] * span, this.view[1] + moves[event.key] * span);
    else if (["+", "=", "w"].includes(event.key)) this.zoom(0.5);
    else if (["-", "s"].includes(event.key)) this.zoom(2);
    else if (event.key === "0" || event.key === "Home" || event.key === "Escape")
      this.show(this.lanes.from, this.lanes.to);
    else return;
    event.preventDefault();
  }

  zoom(factor, around) {
    const [a, b] = this.view,
      pivot = around === undefined ? (a + b) / 2 : around;
    this.show(pivot - (pivot - a) * factor, pivot + (b - pivot) * factor);
  }

  show(from, to) {
    const { from: first, to: last } = this.lanes;
    const least = Math.min(last - first, 1e-3);
    const span = Math.min(last - first, Math.max(least, to - from));
    from = Math.min(Math.max(first, (from + to - span) / 2), last - span);
    this.view = [from, from + span];
    this.later();
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.sumUp(), 100);
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  left() {
    return labels(this.canvas.clientWidth);
  }

  timeAt(x) {
    const share = Math.min(
      1,
      Math.max(0, (x - this.left()) / (this.canvas.clientWidth - this.left())),
    );
    return this.view[0] + share * (this.view[1] - this.view[0]);
  }

  // The finest stored window that covers the view; the whole run when none does.
  level(pixels) {
    const [a, b] = this.view;
    const fitting = this.windows.filter((w) => w.from <= a + 1e-9 && w.to >= b - 1e-9);
    const best = fitting.reduce((x, y) =>
      (y.to - y.from) / y.levels[0].bins < (x.to - x.from) / x.levels[0].bins ? y : x,
    );
    const wanted = (best.to - best.from) / ((b - a) / pixels);
    const level = best.levels.find((l) => l.bins <= wanted) || best.levels[best.levels.length - 1];
    const path = (best.path || []).find((l) => l.bins === level.bins);
    return { from: best.from, width: (best.to - best.from) / level.bins, level, path };
  }

  colour(plane) {
    const [operation, layer] = this.lanes.planes[plane];
    if (layer === "wait") return cssColour("--wait");
    return this.colourBy === "layer"
      ? LAYER_COLOURS[layer] || cssColour("--none")
      : operationColour(operation);
  }

  keys() {
    const used = this.lanes.planes.filter(([, layer]) => layer !== "wait");
    const order = Object.keys(this.colourBy === "layer" ? LAYER_COLOURS : DATA.colours);
    const names = [
      ...new Set(used.map(([operation, layer]) => (this.colourBy === "layer" ? layer : operation))),
    ].sort((p, q) => order.indexOf(p) - order.indexOf(q));
    const entries = names.map((name) =>
      this.colourBy === "layer"
        ? key(LAYER_NAMES[name] || name, LAYER_COLOURS[name] || cssColour("--none"))
        : key(shown(name), operationColour(name)),
    );
    const line = this.memory.size
      ? [key("line: memory where it changes; the top is its peak", cssColour("--ink"))]
      : [];
    const path = this.lanes.path ? [key("on the critical path", cssColour("--focus"))] : [];
    this.legend.replaceChildren(...entries, key("waits", cssColour("--wait")), ...line, ...path);
  }

  draw() {
    const wide = this.box.clientWidth,
      rows = this.lanes.rows.length,
      full = rows * ROW + AXIS + 6;
    const tall = Math.min(full, 478),
      scale = window.devicePixelRatio || 1;
    this.canvas.style.height = tall + "px";
    this.spacer.style.height = Math.max(0, full - tall) + "px";
    if (
      this.canvas.width !== Math.round(wide * scale) ||
      this.canvas.height !== Math.round(tall * scale)
    ) {
      this.canvas.width = Math.round(wide * scale);
      this.canvas.height = Math.round(tall * scale);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, wide, tall);
    if (this.windows.length) this.rows(pen, wide, tall);
    this.axis(pen, wide);
    if (this.windows.length) this.overview.draw();
    if (this.drag) {
      pen.fillStyle = cssColour("--focus");
      pen.globalAlpha = 0.25;
      pen.fillRect(Math.min(...this.drag), 0, Math.abs(this.drag[1] - this.drag[0]), tall);
      pen.globalAlpha = 1;
    }
    const [a, b] = this.view;
    const fine = (b - a) / 100;
    this.range.textContent = `${clock(a, fine)} to ${clock(b, fine)} of ${time(this.lanes.to * 1000)}; ${rows === 1 ? "1 row" : `${rows} rows`}`;
  }

  rows(pen, wide, tall) {
    const first = Math.floor(this.box.scrollTop / ROW),
      offset = AXIS - (this.box.scrollTop % ROW);
    const left = labels(wide);
    const { from, width, level, path } = this.level(wide - left);
    const perSecond = (wide - left) / (this.view[1] - this.view[0]);
    const start = Math.max(0, Math.floor((this.view[0] - from) / width));
    const stop = Math.min(level.bins, Math.ceil((this.view[1] - from) / width));
    const colours = this.lanes.planes.map((_, plane) => this.colour(plane));
    for (let row = first, y = offset; row < this.lanes.rows.length && y < tall; row++, y += ROW) {
      for (let bin = start; bin < stop; bin++) {
        const x = Math.max(
          left,
          Math.round(left + (from + bin * width - this.view[0]) * perSecond),
        );
        const end = Math.min(
          wide,
          Math.round(left + (from + (bin + 1) * width - this.view[0]) * perSecond),
        );
        this.stack(pen, level, row, bin, colours, x, end - x, y + BAND);
        const share = path ? path.at(row, 0, bin) / this.lanes.full : 0;
        if (share > 0.02) {
          pen.globalAlpha = Math.max(0.3, share);
          pen.fillStyle = cssColour("--focus");
          pen.fillRect(x, y + BAND + 1, end - x, 3);
          pen.globalAlpha = 1;
        }
      }
      if (this.memory.has(row)) this.memoryLine(pen, this.memory.get(row), wide, y);
      pen.fillStyle = cssColour("--ink");
      pen.font = "11.5px system-ui, sans-serif";
      pen.fillText(middle(this.lanes.rows[row], Math.floor((left - 6) / 7)), 6, y + 12);
    }
    pen.clearRect(0, 0, wide, AXIS - 3);
  }

  // What the stretch in view consists of, over all rows: as exact as some hundred bins are.
  sumUp() {
    if (!this.windows.length) return;
    const { from, width, level } = this.level(256);
    const start = Math.max(0, Math.round((this.view[0] - from) / width));
    const stop = Math.min(
      level.bins,
      Math.max(start + 1, Math.round((this.view[1] - from) / width)),
    );
    const sums = new Map();
    let all = 0;
    for (let row = 0; row < level.rows; row++) {
      for (let plane = 0; plane < level.planes; plane++) {
        const name = this.nameOf(plane);
        let sum = 0;
        for (let bin = start; bin < stop; bin++) sum += level.at(row, plane, bin);
        sums.set(name, (sums.get(name) || 0) + sum);
        all += sum;
      }
    }
    const largest = [...sums].sort((p, q) => q[1] - p[1]).filter(([, sum]) => sum >= 0.01 * all);
    const said = largest.slice(0, 6).map(([name, sum]) => `${percent(sum / all)} ${name}`);
    this.shares.textContent = all ? `In view, all rows together: ${said.join(", ")}.` : "";
  }

  // What the legend calls a plane.
  nameOf(plane) {
    const [operation, layer] = this.lanes.planes[plane];
    if (layer === "wait") return "waits";
    return this.colourBy === "layer" ? LAYER_NAMES[layer] || layer : shown(operation);
  }

  // Resident memory of the row's process; the top of the lane is its own peak. A line that hardly changes in view is not drawn.
  memoryLine(pen, values, wide, y) {
    const step = this.lanes.memory.until / (values.length - 1),
      most = Math.max(...values),
      from = Math.max(0, Math.floor(this.view[0] / step)),
      seen = values.slice(from, Math.ceil(this.view[1] / step) + 1),
      perSecond = (wide - labels(wide)) / (this.view[1] - this.view[0]);
    if (Math.max(...seen) - Math.min(...seen) < 0.05 * most) return;
    pen.save();
    pen.beginPath();
    pen.rect(labels(wide), y, wide - labels(wide), BAND);
    pen.clip();
    pen.beginPath();
    let drawing = false;
    values.forEach((value, i) => {
      const x = labels(wide) + (i * step - this.view[0]) * perSecond,
        top = y + 1 + (BAND - 2) * (1 - value / most);
      if (value && drawing) pen.lineTo(x, top);
      else if (value) pen.moveTo(x, top);
      drawing = value > 0;
    });
    for (const [colour, width] of [
      ["--paper", 3],
      ["--ink", 1.25],
    ]) {
      pen.strokeStyle = cssColour(colour);
      pen.lineWidth = width;
      pen.stroke();
    }
    pen.restore();
  }

  // The memory of a row's process at a time, in words.
  memoryAt(row, t) {
    const values = this.memory.get(row);
    if (!values) return [];
    const at = Math.round((t / this.lanes.memory.until) * (values.length - 1)),
      value = values[Math.min(values.length - 1, Math.max(0, at))];
    return value ? [`${bytes(value * this.lanes.memory.unit)} of memory`] : [];
  }

  // One bin: the colours on top of each other, painted from the highest down so that no seam shows between them.
  stack(pen, level, row, bin, colours, x, width, bottom, tall = BAND) {
    const heights = new Map();
    let all = 0;
    for (let plane = 0; plane < level.planes; plane++) {
      const part = level.at(row, plane, bin);
      if (part) heights.set(colours[plane], (heights.get(colours[plane]) || 0) + part);
      all += part;
    }
    const scale = tall / (all > 0.93 * this.lanes.full ? all : this.lanes.full); // rounding must not look like a gap
    for (const [colour, part] of [...heights].reverse()) {
      pen.fillStyle = colour;
      pen.fillRect(x, bottom - all * scale, width, all * scale);
      all -= part;
    }
  }

  axis(pen, wide) {
    const left = labels(wide);
    const [a, b] = this.view,
      most = Math.min(8, Math.max(2, (wide - left) / 80)),
      raw = (b - a) / most,
      power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= raw);
    pen.fillStyle = cssColour("--soft");
    pen.strokeStyle = cssColour("--line");
    pen.font = "11px system-ui, sans-serif";
    for (let t = Math.ceil(a / step) * step; t <= b; t += step) {
      const x = left + ((t - a) / (b - a)) * (wide - left);
      pen.beginPath();
      pen.moveTo(x + 0.5, 16);
      pen.lineTo(x + 0.5, AXIS - 3);
      pen.stroke();
      if (x < wide - 52) pen.fillText(clock(Math.max(0, t), step), x + 3, 13);
    }
  }

  explain(event) {
    const place = this.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - place.top - AXIS + this.box.scrollTop) / ROW);
    const x = event.clientX - place.left;
    if (!this.windows.length || x < this.left() || row < 0 || row >= this.lanes.rows.length)
      return hideTip();
    const t = this.timeAt(x),
      { from, width, level } = this.level(this.canvas.clientWidth - this.left());
    const bin = Math.min(level.bins - 1, Math.max(0, Math.floor((t - from) / width)));
    const parts = this.lanes.planes
      .map(([operation, layer], plane) => [
        level.at(row, plane, bin) / this.lanes.full,
        operation,
        layer,
      ])
      .filter(([share]) => share > 0.02)
      .sort((p, q) => q[0] - p[0])
      .slice(0, 5)
      .map(
        ([share, operation, layer]) =>
          `${percent(share)} ${shown(operation)} · ${LAYER_NAMES[layer] || layer}`,
      );
    showTip(
      event,
      [
        `${this.lanes.rows[row]} at ${time(t * 1000)}`,
        ...(parts.length ? parts : ["not recorded"]),
        ...this.memoryAt(row, t),
      ].join("\n"),
    );
  }
}

SECTIONS.lanes = (data) => {
  document.documentElement.dataset.ready = "no";
  const lanes = new Lanes(data);
  const detail = data.windows.find((w) => w.to - w.from < data.to - data.from);
  const stretch = detail ? time((detail.to - detail.from) * 1000) : "";
  const button = (text, label, act) =>
    h("button", { type: "button", "aria-label": label, onclick: act }, text);
  const tools = h(
    "div",
    { class: "tools" },
    choice("colour", { operation: "operations", layer: "layers" }, "operation", (value) => {
      lanes.colourBy = value;
      lanes.keys();
      lanes.later();
      lanes.sumUp();
    }),
    h(
      "span",
      {},
      button("+", "zoom in", () => lanes.zoom(0.5)),
      " ",
      button("−", "zoom out", () => lanes.zoom(2)),
      " ",
      button("whole run", "show the whole run", () => lanes.show(lanes.lanes.from, lanes.lanes.to)),
      " ",
      detail
        ? button(stretch, `${stretch} in detail`, () => lanes.show(detail.from, detail.to))
        : null,
    ),
    lanes.legend,
    lanes.range,
  );
  loadWindows(data).then((windows) => {
    lanes.windows = windows;
    if (detail) lanes.show(detail.from, detail.to);
    else lanes.show(data.from, data.to);
    document.documentElement.dataset.ready = "yes";
  });
  return h(
    "div",
    {},
    tools,
    lanes.overview.canvas,
    lanes.box,
    lanes.shares,
    data.path ? pathText(data.path, stretch) : null,
  );
};

// The critical path in words: for those who do not see the drawing, and where no row belongs to a thread of it.
const pathText = (path, stretch) =>
  h(
    "p",
    { class: "soft" },
    `Critical path of the ${stretch} in detail (marked below the lanes): ` +
      path.shares
        .map(([share, name, operation]) => `${percent(share)} ${name} ${shown(operation)}`)
        .join(", ") +
      ". What is not on it can get faster without a gain.",
  );
