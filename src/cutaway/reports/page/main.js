// Puts the page together: the verdict, the picture that proves it, what to change; everything else folded below.
function verdictBox() {
  const v = DATA.verdict;
  return h(
    "section",
    {
      class: v.certain ? "verdict" : "verdict uncertain",
      id: "verdict",
      "aria-label": "verdict",
    },
    ...v.warnings.map((text) => h("p", { class: "warning" }, text)),
    h("p", { class: "said" }, h("span", { class: "label" }, v.label), v.because),
    h("p", { class: "links" }, "Evidence: ", linkTo(v.look)),
  );
}

// What to change, with what it could gain: the largest words of the page after the verdict.
function changeBox() {
  const v = DATA.verdict;
  return h(
    "section",
    { class: "change", id: "change", "aria-label": "what to change" },
    h("h2", {}, v.certain ? "What to change" : "What to change, if it holds"),
    h("p", { class: "said" }, `${v.advice[0].toUpperCase()}${v.advice.slice(1)}.`),
    v.expected ? h("p", { class: "gain" }, v.expected) : null,
    v.then ? h("p", { class: "soft" }, "Then: ", v.then) : null,
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

// The title without what stands in brackets, which says how to use the picture.
const shortTitle = (name) => DATA.sections[name].title.replace(/ \([^)]*\)$/, "");
const linkTo = (name) => h("a", { href: `#${name}` }, shortTitle(name));

// The picture of the verdict stands open at the top.
function proofBox(name) {
  const data = DATA.sections[name];
  return h(
    "section",
    { class: "proof", id: name },
    h("h2", {}, data.title),
    DATA.verdict.caption ? h("p", { class: "soft" }, DATA.verdict.caption) : null,
    SECTIONS[name](data),
  );
}

// Any other section is folded, and drawn when it is first opened.
function folded(name) {
  const data = DATA.sections[name];
  const body = h("div", { class: "body" });
  const box = h(
    "details",
    { class: "section", id: name },
    h("summary", {}, h("h2", {}, data.title)),
    body,
  );
  box.addEventListener("toggle", () => box.open && drawOnce(body, name));
  return box;
}

function drawOnce(body, name) {
  if (!body.childElementCount) body.append(SECTIONS[name](DATA.sections[name]));
}

function openAll() {
  for (const box of document.querySelectorAll("details.section")) {
    box.open = true;
    drawOnce(box.querySelector(".body"), box.id);
  }
}

// A link to a folded section opens it.
function follow() {
  const box = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!box) return;
  if (box.tagName === "DETAILS") box.open = true;
  box.scrollIntoView();
}

// The answers are painted first; what takes longer to lay out follows in the next frame.
function build() {
  const page = document.getElementById("page");
  page.replaceChildren(
    h("header", {}, h("h1", {}, DATA.title), h("span", { class: "soft" }, DATA.meta)),
    verdictBox(),
    proofBox(DATA.verdict.picture),
    changeBox(),
    tiles(),
  );
  document.body.append(tip);
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", openAll);
  requestAnimationFrame(() => setTimeout(() => rest(page), 0));
}

function rest(page) {
  const others = Object.keys(DATA.sections).filter((name) => name !== DATA.verdict.picture);
  page.append(
    h(
      "nav",
      { class: "tools", "aria-label": "sections" },
      h("h2", {}, "Everything else"),
      h("button", { type: "button", onclick: openAll }, "open all"),
    ),
    ...others.map(folded),
    h(
      "footer",
      {},
      ...DATA.notes.map((line) => h("p", { class: "warn" }, line)),
      ...DATA.footer.map((line) => h("p", {}, line)),
    ),
  );
  follow();
  if (DATA.verdict.picture !== "lanes") document.documentElement.dataset.ready = "yes";
}

// Pages of diff and compare bring their own markup; sections follow it, open.
function append() {
  document.body.append(tip);
  for (const [name, data] of Object.entries(DATA.sections)) {
    const box = h("section", { id: name }, h("h2", {}, data.title));
    box.append(SECTIONS[name](data));
    document.getElementById("page").append(box);
  }
  document.documentElement.dataset.ready = "yes";
}
if (DATA.verdict) build();
else append();
