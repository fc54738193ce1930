// Small things everything else uses. All text reaches the document as text nodes: a name in a trace is never markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const LAYER_NAMES = { python: "Python", native: "native library", simulator: "simulator", backend: "ML backend", accelerator_api: "accelerator API",
  wait: "wait", kernel: "GPU kernel", memcpy: "GPU copy", memset: "GPU memset", collective: "GPU collective", "": "" };
const LAYER_COLOURS = { python: "#edc948", native: "#bab0ac", simulator: "#4e79a7", backend: "#59a14f", accelerator_api: "#b07aa1",
  kernel: "#e15759", memcpy: "#f28e2b", memset: "#9c755f", collective: "#76b7b2" };
const LAYER_STRENGTH = { python: 1, native: 0.9, simulator: 0.8, backend: 0.62, accelerator_api: 0.46, wait: 0.22,
  kernel: 0.34, memcpy: 0.3, memset: 0.28, collective: 0.26 };
const RESOURCE_NAMES = { cpu: "CPU only", "cpu+gpu": "CPU and GPU", gpu: "GPU only", idle: "neither" };
const RESOURCE_STRENGTH = { cpu: 1, "cpu+gpu": 0.65, gpu: 0.4, idle: 0.15 };

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
const s = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

function swatch(colour, strength) {
  const node = h("span", { class: "swatch" });
  node.style.background = colour;
  node.style.opacity = strength === undefined ? 1 : strength;
  return node;
}
const key = (text, colour, strength) => h("span", { class: "key" }, swatch(colour, strength), text);
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const operationColour = (name) => DATA.colours[name] || cssColour("--none");
const shown = (name) => name || "(none)";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function number(value) {
  if (!value) return "0";
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
}
function time(ms) {
  if (ms >= 1000) return number(ms / 1000) + " s";
  return ms >= 1 ? number(ms) + " ms" : number(ms * 1000) + " µs";
}
const percent = (share) => (share >= 0.0005 && share < 0.0095 ? (share * 100).toFixed(1) : (share * 100).toFixed(0)) + " %";

const tip = h("div", { class: "tip", role: "status", hidden: "" });
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - 300) + "px";
  tip.style.top = event.clientY + 16 + "px";
}
const hideTip = () => { tip.hidden = true; };
const hover = (node, text) => put(node, { onmousemove: (e) => showTip(e, text), onmouseleave: hideTip }, []);

// A row of buttons of which one is pressed; arrows and Tab reach them like any button.
function choice(label, options, chosen, changed) {
  const group = h("span", { role: "group", "aria-label": label });
  const buttons = Object.entries(options).map(([value, text]) =>
    h("button", { type: "button", "data-value": value, onclick: () => press(value) }, text));
  function press(value) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
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
