// The pace of the run as a line over the shares of its operations, from start to end.
SECTIONS.time = (data) => {
  const left = 60,
    width = 1140,
    tall = 120,
    all = data.rows;
  const begin = all[0].from,
    end = all[all.length - 1].to,
    most = Math.max(...all.map((one) => one.rate));
  const x = (t) => left + ((t - begin) / (end - begin || 1)) * (width - left);
  const what = data.what,
    paced = most > 0;
  const top = paced ? 70 : 8;
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${top + tall + 20}`,
    role: "img",
    "aria-label": data.title,
  });
  const line = all.map(
    (one) =>
      `${x((one.from + one.to) / 2).toFixed(1)},${(top - 8 - (one.rate / (most || 1)) * (top - 22)).toFixed(1)}`,
  );
  if (paced)
    picture.append(
      s("text", { x: 0, y: 14 }, number(most)),
      s("text", { x: 0, y: top - 8 }, "0"),
      s("polyline", {
        points: line.join(" "),
        fill: "none",
        stroke: cssColour("--ink"),
        "stroke-width": 2,
      }),
    );
  for (const one of all) {
    let y = top;
    for (const [name, share] of one.shares) {
      const rect = s("rect", {
        x: x(one.from),
        y,
        width: Math.max(0.5, x(one.to) - x(one.from) - 0.5),
        height: share * tall,
        fill: operationColour(name),
      });
      picture.append(
        hover(
          rect,
          `${shown(name)}: ${percent(share)}\n${paced ? `${number(one.rate)} ${what}/s ` : ""}from ${time(one.from * 1000)} to ${time(one.to * 1000)}`,
        ),
      );
      y += share * tall;
    }
  }
  picture.append(
    s("text", { x: left, y: top + tall + 16 }, time(begin * 1000)),
    s("text", { x: width, y: top + tall + 16, "text-anchor": "end" }, time(end * 1000)),
  );
  return h("div", { class: "wide" }, picture);
};
