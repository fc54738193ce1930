// What an engine decoded over time: one area for each value and process, each with its own height and its own stretch of time.
SECTIONS.tail = (data) => {
  const left = 60,
    width = 1140,
    tall = 90,
    step = 140;
  const several = new Set(data.rows.map((row) => row.process)).size > 1;
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${data.rows.length * step}`,
    role: "img",
    "aria-label": `${data.title}. ${data.says}`,
  });
  data.rows.forEach((row, index) => {
    const top = index * step + 20,
      bottom = top + tall;
    const x = (i) => left + (i / row.means.length) * (width - left);
    const y = (value) => bottom - (value / (row.most || 1)) * tall;
    const points = [`${left},${bottom}`];
    row.means.forEach((value, i) => {
      points.push(`${x(i).toFixed(1)},${y(value).toFixed(1)}`);
      points.push(`${x(i + 1).toFixed(1)},${y(value).toFixed(1)}`);
    });
    points.push(`${width},${bottom}`);
    const area = s("polygon", { points: points.join(" "), fill: operationColour("decode") });
    const label = (at, text, end) =>
      s("text", { x: at, y: bottom + 15, class: "soft", "text-anchor": end ? "end" : null }, text);
    picture.append(
      s("text", { x: left, y: top - 6 }, several ? `${row.title}, ${row.process}` : row.title),
      s("text", { x: 0, y: top + 10 }, String(+row.most.toPrecision(3))),
      s("text", { x: 0, y: bottom }, "0"),
      s("line", {
        x1: left,
        x2: width,
        y1: top,
        y2: top,
        stroke: cssColour("--line"),
        "stroke-dasharray": "3 3",
      }),
      hover(area, `${row.title}: at most ${number(row.most)}`),
      label(left, time(row.from * 1000)),
      label(width, time(row.to * 1000), true),
    );
  });
  return h("div", {}, h("p", {}, data.says), h("div", { class: "wide" }, picture));
};
