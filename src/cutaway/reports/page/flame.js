// Flame graph: processes, operations, Python frames, native calls. Click or Enter zooms, arrows walk, Escape goes back to everything.
const FLAME_ROW = 19;

function flameTree(data, together) {
  const made = data.nodes.map(([parent, name, ms]) => ({ parent, name, ms, children: [] }));
  const root = { name: -1, ms: 0, children: [] };
  for (const node of made) (node.parent < 0 ? root : made[node.parent]).children.push(node);
  root.ms = root.children.reduce((sum, node) => sum + node.ms, 0);
  if (together) root.children = mergeFlames(root.children.flatMap((process) => process.children));
  return link(root, 0);
}

// Boxes of one name become one, all the way up.
function mergeFlames(nodes) {
  const byName = new Map();
  for (const node of nodes) {
    const same = byName.get(node.name) || { name: node.name, ms: 0, children: [] };
    same.ms += node.ms;
    same.children = same.children.concat(node.children);
    byName.set(node.name, same);
  }
  return [...byName.values()].map((node) => ({ ...node, children: mergeFlames(node.children) }));
}

function link(node, depth, up) {
  node.up = up || null;
  node.depth = depth;
  node.children.sort((a, b) => b.ms - a.ms);
  node.children.forEach((child) => link(child, depth + 1, node));
  return node;
}

class Flame {
  constructor(data) {
    this.data = data;
    this.found = "";
    this.box = h("div", { class: "flame", tabindex: "0", role: "application", "aria-describedby": "flame-where",
      "aria-label": "Flame graph: arrows move from box to box, Enter zooms, Escape shows everything",
      onkeydown: (event) => this.press(event) });
    this.where = h("p", { class: "soft", id: "flame-where", "aria-live": "polite" });
    this.search = h("input", { type: "search", placeholder: "search functions", "aria-label": "search functions",
      oninput: () => { this.found = this.search.value.toLowerCase(); this.draw(); } });
    this.together(true);
    dark.addEventListener("change", () => this.draw());
  }

  together(yes) {
    this.root = flameTree(this.data, yes);
    this.zoom(this.root);
  }

  label(node) {
    if (node.name < 0) return "everything";
    const [kind, name] = this.data.names[node.name];
    return kind === "operation" ? shown(name) : name || "?";
  }

  colour(node) {
    for (let at = node; at.name >= 0; at = at.up) {
      const [kind, name] = this.data.names[at.name];
      if (kind === "operation") return operationColour(name);
    }
    return cssColour("--none");
  }

  matches(node) {
    return this.found !== "" && node.name >= 0 && this.data.names[node.name][1].toLowerCase().includes(this.found);
  }

  zoom(node) {
    this.top = this.chosen = node;
    this.draw();
  }

  explain(node) {
    const place = node.name >= 0 ? this.data.names[node.name][2] : "";
    const path = place && this.data.names[node.name][0] === "python" ? `\n${place}` : "";
    return `${this.label(node)}${path}\n${time(node.ms)} (${percent(node.ms / this.root.ms)} of all)`;
  }

  draw() {
    const width = 1140, boxes = [];
    let deepest = 0;
    const place = (node, x, w, row) => {
      deepest = Math.max(deepest, row);
      boxes.push([node, x, w, row]);
      let at = x;
      for (const child of node.children) {
        const wide = (child.ms / node.ms) * w;
        if (wide >= 0.7) place(child, at, wide, row + 1);
        at += wide;
      }
    };
    const above = [];
    for (let at = this.top.up; at; at = at.up) above.unshift(at);
    above.forEach((node, row) => boxes.push([node, 0, width, row]));
    place(this.top, 0, width, above.length);
    const picture = s("svg", { viewBox: `0 0 ${width} ${(deepest + 1) * FLAME_ROW}`, role: "img", "aria-label": "flame graph" });
    boxes.forEach(([node, x, w, row]) => picture.append(this.draw_box(node, x, w, row)));
    this.box.replaceChildren(picture);
    this.say();
  }

  draw_box(node, x, w, row) {
    const kind = node.name < 0 ? "root" : this.data.names[node.name][0];
    const strength = { root: 0.25, process: 0.4, operation: 1, python: 0.75, native: 0.45 }[kind];
    const hit = this.matches(node);
    const rect = s("rect", { x, y: row * FLAME_ROW, width: Math.max(0.5, w - 0.7), height: FLAME_ROW - 1.5, rx: 1.5,
      fill: hit ? cssColour("--focus") : this.colour(node), "fill-opacity": hit ? 1 : strength,
      class: node === this.chosen ? "chosen" : "", onclick: () => this.zoom(node) });
    const text = this.label(node), room = Math.floor((w - 6) / 6.4);
    const group = s("g", { class: `box ${kind}` }, hover(rect, this.explain(node)));
    if (room >= 3) group.append(s("text", { x: x + 3, y: row * FLAME_ROW + 13, class: strength > 0.7 ? "inside" : "in" }, clip(text, room)));
    return group;
  }

  say() {
    const parts = [];
    for (let at = this.chosen; at && at.name >= 0; at = at.up) parts.unshift(this.label(at));
    let text = `${parts.join(" › ") || "everything"}: ${time(this.chosen.ms)} (${percent(this.chosen.ms / this.root.ms)})`;
    if (this.found) text += ` · "${this.found}" is in ${percent(this.sum(this.root) / this.root.ms)} of the time`;
    this.where.textContent = text;
  }

  sum(node) {
    return this.matches(node) ? node.ms : node.children.reduce((all, child) => all + this.sum(child), 0);
  }

  press(event) {
    const siblings = this.chosen.up ? this.chosen.up.children : [this.chosen];
    const beside = siblings[siblings.indexOf(this.chosen) + (event.key === "ArrowRight" ? 1 : -1)];
    const moves = { ArrowUp: this.chosen.up, ArrowDown: this.chosen.children[0], ArrowLeft: beside, ArrowRight: beside };
    if (event.key === "Enter") this.zoom(this.chosen);
    else if (event.key === "Escape" || event.key === "0") this.zoom(this.root);
    else if (event.key in moves) { this.chosen = moves[event.key] || this.chosen; this.draw(); }
    else return;
    event.preventDefault();
  }
}

function flameSection() {
  const flame = new Flame(DATA.flame);
  const several = DATA.flame.nodes.filter(([parent]) => parent < 0).length > 1;
  const views = { all: "all processes together", each: "each process" };
  const tools = h("div", { class: "tools" },
    several ? choice("processes", views, "all", (value) => flame.together(value === "all")) : null, flame.search);
  return h("section", { id: "flame" },
    h("h2", {}, "Where the code spends its time: operation, your functions, native calls (click to zoom)"), tools, flame.where, flame.box);
}
