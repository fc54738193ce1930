// What an engine decoded over time: one area for each value and process, each with its own height.
SECTIONS.tail = (data) => {
  const left = 60,
    width = 1140,
    tall = 70,
    gap = 34;
  const picture = s("svg", {
    viewBox: `0 0 ${width} ${data.rows.length * (tall + gap) + 20}`,
    role: "img",
    "aria-label": `${data.title}. ${data.says}`,
  });
  data.rows.forEach((row, index) => {
    const top = index * (tall + gap) + 18;
    const x = (i) => left + (i / row.means.length) * (width - left);
    const y = (value) => top + tall - (value / (row.most || 1)) * tall;
    const points = [`${left},${top + tall}`];
    row.means.forEach((value, i) => {
      points.push(`${x(i).toFixed(1)},${y(value).toFixed(1)}`);
      points.push(`${x(i + 1).toFixed(1)},${y(value).toFixed(1)}`);
    });
    points.push(`${width},${top + tall}`);
    const area = s("polygon", { points: points.join(" "), fill: operationColour("decode") });
    picture.append(
      s("text", { x: left, y: top - 5 }, `${row.title}, ${row.process}`),
      s("text", { x: 0, y: top + 10 }, number(row.most)),
      s("text", { x: 0, y: top + tall }, "0"),
      s("line", {
        x1: left,
        x2: width,
        y1: top,
        y2: top,
        stroke: cssColour("--line"),
        "stroke-dasharray": "3 3",
      }),
      hover(area, `${row.title}: at most ${number(row.most)}`),
    );
  });
  const bottom = data.rows.length * (tall + gap) + 12;
  picture.append(
    s("text", { x: left, y: bottom }, time(data.from * 1000)),
    s("text", { x: width, y: bottom, "text-anchor": "end" }, time(data.to * 1000)),
  );
  const around = document.createElement("div");
  const says = document.createElement("p");
  says.textContent = data.says;
  around.append(says, picture);
  return around;
};
