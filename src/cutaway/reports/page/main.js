// Brings the page to life: draws what is zoomed or searched, folds, links, tips. Everything else is markup already.

// Draws a section the first time that somebody can see it.
function drawIn(box) {
  for (const place of box.querySelectorAll("[data-draw]")) {
    const name = place.dataset.draw;
    place.removeAttribute("data-draw");
    if (name in DATA.sections) place.replaceChildren(SECTIONS[name](DATA.sections[name]));
  }
}

function openAll() {
  for (const box of document.querySelectorAll("details.section")) {
    box.open = true;
    drawIn(box);
  }
}

// A link to a folded section opens it.
function follow() {
  const box = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!box) return;
  if (box.tagName === "DETAILS") box.open = true;
  box.scrollIntoView();
}

// Pictures with several views get a switch; without a script all views stand below each other.
function addSwitch(box) {
  const views = [...box.querySelectorAll(":scope > [data-view]")];
  const titles = Object.fromEntries(views.map((view) => [view.dataset.view, view.dataset.title]));
  const show = (chosen) => views.forEach((view) => (view.hidden = view.dataset.view !== chosen));
  const buttons = choice(box.dataset.label, titles, views[0].dataset.view, show);
  box.prepend(h("div", { class: "tools" }, buttons));
}

// Titles of shapes at once, and where there is no mouse by a tap.
function explainShapes() {
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const explain = (event) => {
    const about = event.target.closest?.("[data-tip]");
    if (about) showTip(event, about.dataset.tip);
    else if (!event.target.closest?.(".lanes, .flame, .tree")) hideTip();
  };
  document.addEventListener("mousemove", explain);
  document.addEventListener("click", explain);
}

function start() {
  document.body.append(tip);
  document.querySelectorAll(".views").forEach(addSwitch);
  document.querySelectorAll("table").forEach(sortable);
  explainShapes();
  for (const box of document.querySelectorAll("details.section"))
    box.addEventListener("toggle", () => box.open && drawIn(box));
  const button = document.getElementById("open-all");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", openAll);
  }
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", openAll);
  // What stands above is painted first; what takes longer to lay out follows in the next frame.
  requestAnimationFrame(() =>
    setTimeout(() => {
      document.documentElement.dataset.ready = "yes";
      document.querySelectorAll("main > section").forEach(drawIn);
      follow();
    }, 0),
  );
}
start();
