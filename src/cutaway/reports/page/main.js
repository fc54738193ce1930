// Puts the page together, the answers first.
function verdictBox() {
  const v = DATA.verdict;
  return h(
    "section",
    { class: v.certain ? "verdict" : "verdict uncertain", id: "verdict" },
    ...v.warnings.map((text) => h("p", { class: "warning" }, text)),
    h("p", {}, h("span", { class: "label" }, v.label), h("strong", {}, v.because)),
    h("p", {}, "Try: ", v.advice, v.expected ? ` (${v.expected})` : "", "."),
    v.then ? h("p", {}, "Then: ", v.then) : null,
  );
}

const tiles = () =>
  h(
    "section",
    { class: "tiles", id: "tiles", "aria-label": "key figures" },
    ...DATA.tiles.map(([value, label]) =>
      h("div", { class: "tile" }, h("b", {}, value), h("span", {}, label)),
    ),
  );

function section(name) {
  const data = DATA.sections[name];
  return h("section", { id: name }, h("h2", {}, data.title), SECTIONS[name](data));
}

// The answers are painted first; what takes longer to lay out follows in the next frame.
function build() {
  const page = document.getElementById("page");
  page.replaceChildren(
    h("header", {}, h("h1", {}, DATA.title), h("span", { class: "soft" }, DATA.meta)),
    verdictBox(),
    tiles(),
    section("bars"),
  );
  document.body.append(tip);
  requestAnimationFrame(() => setTimeout(() => rest(page), 0));
}

function rest(page) {
  const others = Object.keys(DATA.sections).filter((name) => name !== "bars");
  page.append(
    ...others.map(section),
    h(
      "footer",
      {},
      ...DATA.notes.map((line) => h("p", { class: "warn" }, line)),
      ...DATA.footer.map((line) => h("p", {}, line)),
    ),
  );
  if (!DATA.sections.lanes) document.documentElement.dataset.ready = "yes";
}
if (DATA.verdict) build();
else {
  document.body.append(tip);
  document.getElementById("page").append(...Object.keys(DATA.sections).map(section));
  document.documentElement.dataset.ready = "yes";
}
