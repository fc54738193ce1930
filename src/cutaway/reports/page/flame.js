// Flame graph: processes, operations, Python frames, native calls, kernels. Click or Enter zooms, arrows walk, Escape shows everything.
// A box of two runs is as wide as their mean, red where the second takes longer, blue where it takes less.
const FLAME_ROW = 19;
const FLAME_STRENGTH = {
  root: 0.25,
  process: 0.4,
  operation: 1,
  python: 0.75,
  native: 0.45,
  kernel: 0.9,
};

function flameTree(data, together, device) {
  const made = data.nodes.map(([parent, name, ms, gpu, a, b]) => ({
    parent,
    name,
    ms,
    gpu,
    a,
    b,
    children: [],
  }));
  const root = { name: -1, ms: 0, gpu: 0, a: 0, b: 0, children: [] };
  for (const node of made) (node.parent < 0 ? root : made[node.parent]).children.push(node);
  for (const key of ["ms", "gpu", "a", "b"])
    root[key] = root.children.reduce((sum, node) => sum + (node[key] || 0), 0);
  if (together) root.children = mergeFlames(root.children.flatMap((process) => process.children));
  return link(root, 0, null, device, data.names);
}

// Boxes of one name become one, all the way down.
function mergeFlames(nodes) {
  const byName = new Map();
  for (const node of nodes) {
    const same = byName.get(node.name) || {
      name: node.name,
      ms: 0,
      gpu: 0,
      a: 0,
      b: 0,
      children: [],
    };
    for (const key of ["ms", "gpu", "a", "b"]) same[key] += node[key] || 0;
    same.children = same.children.concat(node.children);
    byName.set(node.name, same);
  }
  return [...byName.values()].map((node) => ({ ...node, children: mergeFlames(node.children) }));
}

// The same from the other end: below each box stand its callers. Only what a box does itself counts, so widths still add up.
function bottomUp(root, names, device) {
  const top = { name: -1, ms: 0, gpu: 0, a: 0, b: 0, children: [], byName: new Map() };
  const operation = (node) => {
    for (let at = node; at.name >= 0; at = at.up)
      if (names[at.name][0] === "operation") return names[at.name][1];
    return "";
  };
  const add = (to, own) => Object.keys(own).forEach((key) => (to[key] += own[key]));
  const below = (node, name, tint) => {
    let child = node.byName.get(name);
    if (!child) {
      child = { name, tint, ms: 0, gpu: 0, a: 0, b: 0, children: [], byName: new Map() };
      node.byName.set(name, child);
      node.children.push(child);
    } else if (child.tint !== tint) child.tint = "";
    return child;
  };
  const visit = (node) => {
    const own = {};
    for (const key of ["ms", "gpu", "a", "b"])
      own[key] = Math.max(
        0,
        (node[key] || 0) - node.children.reduce((sum, child) => sum + (child[key] || 0), 0),
      );
    if ((device ? own.gpu : own.ms) > 0 && node.name >= 0) {
      const tint = operation(node);
      let to = top;
      add(to, own);
      for (let at = node; at.name >= 0; at = at.up) add((to = below(to, at.name, tint)), own);
    }
    node.children.forEach(visit);
  };
  visit(root);
  return link(top, 0, null, device, names);
}

// Kernels have no thread time: below their launch they share its width by their device time.
function link(node, depth, up, device, names) {
  node.up = up;
  node.depth = depth;
  const kernel = node.name >= 0 && names[node.name][0] === "kernel";
  node.wide = node.ms;
  if (device) node.wide = node.gpu;
  else if (kernel && up.gpu > 0 && !node.byName)
    node.wide = (up.wide * node.gpu) / Math.max(up.gpu, 1e-12);
  node.children.forEach((child) => link(child, depth + 1, node, device, names));
  node.children.sort((a, b) => b.wide - a.wide);
  return node;
}

class Flame {
  constructor(data) {
    this.data = data;
    this.change = data.nodes.some((node) => node.length > 4);
    this.found = "";
    this.merged = true;
    this.order = "down";
    this.device = false;
    this.box = h("div", {
      class: "flame",
      tabindex: "0",
      role: "application",
      "aria-describedby": "flame-where",
      "aria-label":
        "Flame graph: arrows move from box to box, Enter zooms, Escape shows everything",
      onkeydown: (event) => this.press(event),
    });
    this.where = h("p", { class: "soft", id: "flame-where", "aria-live": "polite" });
    this.search = h("input", {
      type: "search",
      placeholder: "search functions",
      "aria-label": "search functions",
      oninput: () => {
        this.found = this.search.value.toLowerCase();
        this.draw();
      },
    });
    this.view();
    dark.addEventListener("change", () => this.draw());
    // As wide as there is room, so that text keeps its size.
    new ResizeObserver(([box]) => {
      const width = Math.round(box.contentRect.width);
      if (width && width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.box);
  }

  view(changes) {
    Object.assign(this, changes);
    this.root = flameTree(this.data, this.merged, this.device);
    if (this.order === "up") this.root = bottomUp(this.root, this.data.names, this.device);
    this.zoom(this.root);
  }

  kind(node) {
    return node.name < 0 ? "root" : this.data.names[node.name][0];
  }

  label(node) {
    if (node.name < 0) return "everything";
    const name = this.data.names[node.name][1];
    return this.kind(node) === "operation" ? shown(name) : name || "?";
  }

  colour(node) {
    if (this.change && this.unchanged(node)) return cssColour("--none");
    if (this.change) return cssColour(node.b > node.a ? "--grew" : "--shrank");
    if (this.kind(node) === "kernel") return LAYER_COLOURS.kernel;
    if (node.byName) return node.tint ? operationColour(node.tint) : cssColour("--none");
    for (let at = node; at.name >= 0; at = at.up) {
      if (this.kind(at) === "operation") return operationColour(this.data.names[at.name][1]);
    }
    return cssColour("--none");
  }

  // How strong a colour is: by kind, or by how much of the largest change a box explains.
  strength(node) {
    if (!this.change) return FLAME_STRENGTH[this.kind(node)];
    if (this.unchanged(node)) return 1;
    const most = this.largest();
    return 0.06 + 0.94 * Math.sqrt(Math.min(1, Math.abs(node.b - node.a) / most));
  }

  largest() {
    return Math.max(...this.root.children.map((child) => Math.abs(child.b - child.a)), 1e-9);
  }

  // A change that nobody would see in colour.
  unchanged(node) {
    return Math.abs(node.b - node.a) < 0.01 * this.largest();
  }

  matches(node) {
    return (
      this.found !== "" &&
      node.name >= 0 &&
      this.data.names[node.name][1].toLowerCase().includes(this.found)
    );
  }

  zoom(node) {
    this.top = this.chosen = node;
    this.draw();
  }

  amount(node) {
    if (this.change) {
      const change = node.b - node.a;
      const said = Math.abs(change) < 1e-4 * Math.max(node.a, node.b) ? "no change" : "";
      const amount = said || `${change < 0 ? "−" : "+"}${time(Math.abs(change))}`;
      return `${time(node.a)} → ${time(node.b)} per ${DATA.unit} (${amount})`;
    }
    if (this.kind(node) === "kernel") return `${time(node.gpu)} on the device`;
    const device = node.gpu ? `; launched ${time(node.gpu)} of device work` : "";
    return `${time(node.ms)} (${percent(node.ms / this.root.ms)} of all)${device}`;
  }

  explain(node) {
    const path = this.kind(node) === "python" ? `\n${this.data.names[node.name][2]}` : "";
    return `${this.label(node)}${path}\n${this.amount(node)}`;
  }

  draw() {
    const width = this.width || 1140,
      boxes = [];
    let deepest = 0;
    const place = (node, x, w, row) => {
      deepest = Math.max(deepest, row);
      boxes.push([node, x, w, row]);
      let at = x;
      for (const child of node.children) {
        const wide = node.wide ? (child.wide / node.wide) * w : 0;
        if (wide >= 0.7) place(child, at, wide, row + 1);
        at += wide;
      }
    };
    const above = [];
    for (let at = this.top.up; at; at = at.up) above.unshift(at);
    above.forEach((node, row) => boxes.push([node, 0, width, row]));
    place(this.top, 0, width, above.length);
    const picture = s("svg", {
      viewBox: `0 0 ${width} ${(deepest + 1) * FLAME_ROW}`,
      role: "img",
      "aria-label": "flame graph",
    });
    boxes.forEach(([node, x, w, row]) => picture.append(this.drawBox(node, x, w, row)));
    this.box.replaceChildren(picture);
    this.say();
  }

  drawBox(node, x, w, row) {
    const strength = this.strength(node),
      hit = this.matches(node);
    const rect = s("rect", {
      x,
      y: row * FLAME_ROW,
      width: Math.max(0.5, w - 0.7),
      height: FLAME_ROW - 1.5,
      rx: 1.5,
      fill: hit ? cssColour("--focus") : this.colour(node),
      "fill-opacity": hit ? 1 : strength,
      class: node === this.chosen ? "chosen" : "",
      onclick: () => this.zoom(node),
    });
    const text = this.label(node),
      room = Math.floor((w - 6) / 6.8);
    const group = s("g", { class: `box ${this.kind(node)}` }, hover(rect, this.explain(node)));
    if (room >= 3)
      group.append(
        s(
          "text",
          {
            x: x + 3,
            y: row * FLAME_ROW + 13,
            class: strength > 0.7 && !this.change ? "inside" : "in",
          },
          clip(text, room),
        ),
      );
    return group;
  }

  say() {
    const parts = [];
    for (let at = this.chosen; at && at.name >= 0; at = at.up) parts.unshift(this.label(at));
    let text = `${parts.join(" › ") || "everything"}: ${this.amount(this.chosen)}`;
    if (this.found)
      text += ` · "${this.found}" is in ${percent(this.sum(this.root) / Math.max(this.root.wide, 1e-12))} of the time`;
    if (this.kind(this.chosen) === "python") text += ` · ${this.data.names[this.chosen.name][2]}`;
    this.where.textContent = text;
  }

  sum(node) {
    return this.matches(node)
      ? node.wide
      : node.children.reduce((all, child) => all + this.sum(child), 0);
  }

  press(event) {
    const siblings = this.chosen.up ? this.chosen.up.children : [this.chosen];
    const beside = siblings[siblings.indexOf(this.chosen) + (event.key === "ArrowRight" ? 1 : -1)];
    const moves = {
      ArrowUp: this.chosen.up,
      ArrowDown: this.chosen.children[0],
      ArrowLeft: beside,
      ArrowRight: beside,
    };
    if (event.key === "Enter") this.zoom(this.chosen);
    else if (event.key === "Escape" || event.key === "0") this.zoom(this.root);
    else if (event.key in moves) {
      this.chosen = moves[event.key] || this.chosen;
      this.draw();
    } else return;
    event.preventDefault();
  }
}

SECTIONS.flame = (data) => {
  const flame = new Flame(data);
  const several = data.nodes.filter(([parent]) => parent < 0).length > 1;
  const views = { all: "all processes together", each: "each process" };
  const orders = { down: "callers on top", up: "called functions on top" };
  const times = { thread: "thread time", device: "device time" };
  const tools = h(
    "div",
    { class: "tools" },
    several
      ? choice("processes", views, "all", (value) => flame.view({ merged: value === "all" }))
      : null,
    flame.root.gpu && !flame.change
      ? choice("times", times, "thread", (value) => flame.view({ device: value === "device" }))
      : null,
    choice("order", orders, "down", (value) => flame.view({ order: value })),
    flame.search,
    flame.change
      ? h(
          "span",
          { class: "legend" },
          key("takes longer in B", cssColour("--grew")),
          key("takes less", cssColour("--shrank")),
        )
      : null,
  );
  return h("div", {}, tools, flame.where, flame.box);
};
