// The process tree with a strip of utilisation for each process: darker is busier.
SECTIONS.tree = (data) => {
  const body = h("div", { class: "tree", role: "group", "aria-label": "process tree" });
  const strips = [];
  for (const process of data.rows) {
    const indent = "\u2003".repeat(process.depth) + (process.depth ? "└ " : "");
    const canvas = h("canvas", {
      role: "img",
      "aria-label": `${process.name}: busy ${process.cpu}`,
    });
    strips.push([canvas, process.strip]);
    const device = process.exit === "device";
    const group = process.pid === null;
    const about = aboutProcess(process, device, group);
    body.append(
      hover(
        h(
          "span",
          { class: "name" },
          indent,
          middle(process.name, 30),
          h("span", { class: "soft" }, ` ${process.role}`),
        ),
        about,
      ),
      hover(canvas, about),
      h("span", { class: "n" }, process.cpu),
    );
  }
  const paint = () => strips.forEach(([canvas, strip]) => paintStrip(canvas, strip));
  dark.addEventListener("change", paint);
  requestAnimationFrame(paint);
  return h("div", { class: "scroll", tabindex: data.rows.length > 20 ? "0" : null }, body);
};

function aboutProcess(process, device, group) {
  if (group)
    return `${process.name} ${process.role}\nmedian: CPU ${process.cpu} of one core\nthe odd ones out stand below`;
  if (device) return `${process.name}: busy ${process.cpu} of the time`;
  const role = process.role || "no role";
  const exit = process.exit || "still running";
  return `${process.name} (pid ${process.pid})\n${role}, ${exit}\nCPU ${process.cpu} of one core`;
}

function paintStrip(canvas, strip) {
  canvas.width = Math.max(1, strip.length);
  canvas.height = 1;
  const pen = canvas.getContext("2d"),
    heat = cssColour("--heat"),
    ground = cssColour("--none");
  for (let i = 0; i < strip.length; i++) {
    if (strip[i] === " ") continue;
    pen.globalAlpha = 1;
    pen.fillStyle = ground;
    pen.fillRect(i, 0, 1, 1);
    pen.globalAlpha = (strip.charCodeAt(i) - 48) / 10;
    pen.fillStyle = heat;
    pen.fillRect(i, 0, 1, 1);
  }
}
