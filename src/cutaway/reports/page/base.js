// Small things everything else uses. All text reaches the document as text nodes: a name in a trace is never markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
// What draws each section: a function of its data that returns what stands below its title. A file NAME.js adds SECTIONS.NAME.
const SECTIONS = {};
const SVG = "http://www.w3.org/2000/svg";
// VOCABULARY is drawn() of cutaway/vocabulary.py.
const part = (table, key) =>
  Object.fromEntries(
    Object.entries(table)
      .filter(([, one]) => one[key])
      .map(([name, one]) => [name, one[key]]),
  );
const LAYER_NAMES = part(VOCABULARY.layers, "title"),
  LAYER_COLOURS = part(VOCABULARY.layers, "colour");

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}
const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  put(document.createElementNS(SVG, tag), attributes, children);

function swatch(colour, strength) {
  const node = h("span", { class: "swatch" });
  node.style.background = colour;
  node.style.opacity = strength === undefined ? 1 : strength;
  return node;
}
const key = (text, colour, strength) => h("span", { class: "key" }, swatch(colour, strength), text);
const cssColour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const operationColour = (name) =>
  DATA.colours[name] || cssColour(name === "(waiting)" ? "--wait" : "--none");
const shown = (name) => name || "(none)";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function number(value) {
  if (!value) return "0";
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 0.1) return value.toFixed(2);
  return value.toFixed(3);
}
function time(ms) {
  if (!ms) return "0 s";
  if (ms >= 1000) return number(ms / 1000) + " s";
  return ms >= 1 ? number(ms) + " ms" : number(ms * 1000) + " µs";
}
const percent = (share) =>
  (share >= 0.0005 && share < 0.0095 ? (share * 100).toFixed(1) : (share * 100).toFixed(0)) + " %";

const tip = h("div", { class: "tip", role: "status", hidden: "" });
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - 300) + "px";
  tip.style.top = event.clientY + 16 + "px";
}
const hideTip = () => {
  tip.hidden = true;
};
const hover = (node, text) =>
  put(node, { onmousemove: (e) => showTip(e, text), onmouseleave: hideTip }, []);

// A row of buttons of which one is pressed; arrows and Tab reach them like any button.
function choice(label, options, chosen, changed) {
  const group = h("span", { role: "group", "aria-label": label });
  const buttons = Object.entries(options).map(([value, text]) =>
    h("button", { type: "button", "data-value": value, onclick: () => press(value) }, text),
  );
  function press(value) {
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.dataset.value === value));
    changed(value);
  }
  buttons.forEach((button) => group.append(button, " "));
  press(chosen);
  return group;
}

// base64 of deflated bytes → Uint8Array, without a request.
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Shortens a name in the middle, because workers differ in the number at its end.
function middle(text, most) {
  if (text.length <= most) return text;
  const numbered = text.match(/[^\w\s]*\d+\W?$/);
  const end =
    numbered && numbered[0].length <= most / 2
      ? numbered[0]
      : text.slice(text.length - Math.floor(most / 3));
  return text.slice(0, Math.max(1, most - 1 - end.length)) + "…" + end;
}
const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
