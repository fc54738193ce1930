// Who waits for whom, call sites, transitions: tables with a bar in each row.
function meter(share, colour) {
  const node = h("div", { class: "meter" });
  node.style.width = Math.max(0.5, share * 100) + "%";
  node.style.background = colour;
  return h("td", { class: "bar" }, node);
}
const op = (text) => h("td", { class: "op", title: text }, text);
const who = (name, before = "") => h("td", { class: "op", title: name }, before + middle(name, 13));
const num = (text) => h("td", { class: "n" }, text);
function table(titles, rows) {
  const head = titles.map(([text, kind]) =>
    text
      ? h("th", { class: kind, scope: "col" }, text)
      : h("th", { class: "bar", scope: "col" }, h("span", { class: "unseen" }, "bar")),
  );
  return h(
    "div",
    { class: "scroll", tabindex: rows.length > 12 ? "0" : null },
    h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
  );
}
const filled = (empty, rows, titles) =>
  rows.length ? table(titles, rows) : h("p", { class: "soft" }, empty);

SECTIONS.waits = (data) => {
  const most = Math.max(...data.rows.map((w) => w.ms), 1e-9);
  const rows = data.rows.map((w) =>
    h(
      "tr",
      {},
      who(w.who),
      who(w.whom, "→ "),
      op(shown(w.operation)),
      meter(w.ms / most, operationColour(w.operation)),
      num(time(w.ms)),
      num(percent(w.share)),
    ),
  );
  return table([["who"], ["waits for"], ["in"], [""], ["time", "n"], ["of its life", "n"]], rows);
};

SECTIONS.callsites = (data) => {
  const most = Math.max(...data.rows.map((w) => w.ms), 1e-9);
  const rows = data.rows.map((spot) =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        h("code", {}, spot.function),
        h("br", {}),
        h("span", { class: "soft code" }, spot.place),
        spot.source ? h("code", { class: "source" }, spot.source) : null,
      ),
      op(shown(spot.operation)),
      meter(spot.ms / most, operationColour(spot.operation)),
      num(time(spot.ms)),
      num(String(spot.count)),
    ),
  );
  return filled(data.empty, rows, [
    ["function, called from"],
    ["in"],
    [""],
    ["time", "n"],
    ["calls", "n"],
  ]);
};

SECTIONS.memory = (data) => {
  const most = Math.max(...data.rows.map((line) => line.bytes), 1e-9);
  const rows = data.rows.map((line) =>
    h(
      "tr",
      {},
      h("td", {}, h("code", {}, line.place)),
      op(shown(line.operation)),
      who(line.process),
      meter(line.bytes / most, operationColour(line.operation)),
      num(line.keeps),
      num("± " + line.error),
      num(line.grows),
    ),
  );
  return table(
    [
      ["allocated at"],
      ["in"],
      ["process"],
      [""],
      ["keeps", "n"],
      ["error", "n"],
      ["per hour", "n"],
    ],
    rows,
  );
};

SECTIONS.device_memory = (data) => {
  const most = Math.max(...data.rows.map((line) => line.bytes), 1e-9);
  const rows = data.rows.map((line) =>
    h(
      "tr",
      {},
      h("td", {}, h("code", {}, line.place)),
      op(shown(line.operation)),
      who(line.on),
      meter(line.bytes / most, operationColour(line.operation)),
      num(line.held),
      num(line.peak),
      num(line.reserved),
      num(line.kept),
    ),
  );
  const heads = [
    ["allocated at"],
    ["during"],
    ["on"],
    [""],
    ["at peak", "n"],
    ["peak", "n"],
    ["reserved", "n"],
    ["kept", "n"],
  ];
  const notes = data.notes.map((note) => h("p", {}, note));
  return h("div", {}, ...(rows.length ? [table(heads, rows)] : []), ...notes);
};

SECTIONS.transitions = (data) => {
  const most = Math.max(...data.rows.map((t) => t.per), 1e-9);
  const rows = data.rows.map((t) =>
    h(
      "tr",
      {},
      op(shown(t.operation)),
      h("td", {}, `${LAYER_NAMES[t.from] || t.from} → ${LAYER_NAMES[t.to] || t.to}`),
      meter(t.per / most, operationColour(t.operation)),
      num(number(t.per)),
    ),
  );
  return filled("No transitions were recorded.", rows, [
    ["operation"],
    ["from → to"],
    [""],
    ["count", "n"],
  ]);
};
