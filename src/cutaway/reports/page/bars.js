// Operation × layer bars of the main process, and the same time by CPU / GPU / both.
SECTIONS.bars = (data) => {
  const box = h("div", {});
  const legend = h("span", { class: "legend" });
  const views = { layers: "by layer", resources: "CPU / GPU / both" };
  const draw = (view) => {
    box.replaceChildren(drawBars(data, view));
    const [names, strengths] =
      view === "layers" ? [LAYER_NAMES, LAYER_STRENGTH] : [RESOURCE_NAMES, RESOURCE_STRENGTH];
    const used = new Set(data.rows.flatMap((bar) => bar[view].map(([name]) => name)));
    legend.replaceChildren(
      ...Object.keys(strengths)
        .filter((n) => used.has(n))
        .map((name) => key(names[name], cssColour("--ink"), strengths[name])),
      ...Object.keys(LAYER_NAMES)
        .filter((kind) =>
          data.rows.some((bar) => bar.device.some(([n, ms]) => n === kind && ms > 0)),
        )
        .map((kind) => key(LAYER_NAMES[kind] + " (thin line)", LAYER_COLOURS[kind])),
    );
  };
  const tools = h("div", { class: "tools" }, choice("bars", views, "layers", draw), legend);
  dark.addEventListener("change", () => tools.querySelector("[aria-pressed=true]").click());
  return h("div", {}, tools, box);
};

function drawBars(data, view) {
  const left = 130,
    right = 135,
    width = 1140,
    step = 34,
    tall = 24;
  const device = (bar) => bar.device.reduce((sum, [, ms]) => sum + ms, 0);
  const most = Math.max(...data.rows.map((bar) => Math.max(bar.total, device(bar))), 1e-9);
  const strengths = view === "layers" ? LAYER_STRENGTH : RESOURCE_STRENGTH;
  const names = view === "layers" ? LAYER_NAMES : RESOURCE_NAMES;
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${data.rows.length * step}`,
    role: "img",
    "aria-label": data.title,
  });
  data.rows.forEach((bar, i) => {
    const y = i * step + 4;
    let x = left;
    picture.append(s("text", { x: 0, y: y + 16 }, clip(shown(bar.operation), 18)));
    for (const [name, ms] of bar[view]) {
      const w = (ms / most) * (width - left - right);
      const rect = s("rect", {
        x,
        y,
        width: Math.max(0, w - (w > 3 ? 1 : 0)),
        height: tall,
        fill: operationColour(bar.operation),
        "fill-opacity": strengths[name],
      });
      picture.append(
        hover(
          rect,
          `${shown(bar.operation)} · ${names[name]}\n${time(ms)} for each ${DATA.unit} (${percent(ms / DATA.total)})`,
        ),
      );
      if (w > names[name].length * 6.6 + 10)
        picture.append(
          s("text", { x: x + 5, y: y + 16, class: insideClass(strengths[name]) }, names[name]),
        );
      x += w;
    }
    let below = left;
    for (const [name, ms] of bar.device) {
      const w = (ms / most) * (width - left - right);
      const rect = s("rect", {
        x: below,
        y: y + tall + 1,
        width: w,
        height: 4,
        fill: LAYER_COLOURS[name],
      });
      if (w > 0)
        picture.append(
          hover(
            rect,
            `${shown(bar.operation)} · ${LAYER_NAMES[name]}, launched here\n${time(ms)} for each ${DATA.unit}`,
          ),
        );
      below += w;
    }
    const error = bar.error ? ` ± ${time(bar.error)}` : "";
    picture.append(s("text", { x: x + 7, y: y + 16 }, time(bar.total) + error));
  });
  return picture;
}

const insideClass = (strength) => (strength > 0.75 ? "inside" : "");
