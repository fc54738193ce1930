// Puts the page together, the answers first.
function verdictBox() {
  const v = DATA.verdict;
  return h("section", { class: v.certain ? "verdict" : "verdict uncertain", id: "verdict" },
    ...v.warnings.map((text) => h("p", { class: "warning" }, text)),
    h("p", {}, h("span", { class: "label" }, v.label), h("strong", {}, v.because)),
    h("p", {}, "Try: ", v.advice, v.expected ? ` (${v.expected})` : "", "."),
    v.then ? h("p", {}, "Then: ", v.then) : null);
}

const tiles = () => h("section", { class: "tiles", id: "tiles", "aria-label": "key figures" },
  ...DATA.tiles.map(([value, label]) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, label))));

// The answers are painted first; what takes longer to lay out follows in the next frame.
function build() {
  const page = document.getElementById("page");
  page.replaceChildren(h("header", {}, h("h1", {}, DATA.title), h("span", { class: "soft" }, DATA.meta)),
    verdictBox(), tiles(), barsSection());
  document.body.append(tip);
  dark.addEventListener("change", () => document.getElementById("bars").replaceWith(barsSection()));
  requestAnimationFrame(() => setTimeout(() => rest(page), 0));
}

function rest(page) {
  const parts = [DATA.stretches.length > 1 ? timeSection() : null, DATA.lanes ? lanesSection() : null, DATA.flame ? flameSection() : null,
    h("div", { class: "columns" }, waitsSection(), transitionsSection()),
    hotspotsSection(), treeSection(),
    h("footer", {}, ...DATA.notes.map((line) => h("p", { class: "warn" }, line)), ...DATA.footer.map((line) => h("p", {}, line)))];
  page.append(...parts.filter(Boolean));
  if (!DATA.lanes) document.documentElement.dataset.ready = "yes";
}
if (DATA.bars) build();
else {
  document.body.append(tip);
  if (DATA.flame) document.getElementById("page").append(flameSection());
  document.documentElement.dataset.ready = "yes";
}
