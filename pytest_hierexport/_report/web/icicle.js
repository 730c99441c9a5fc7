// Shows which share of a model's nodes, parameters or bytes is in which module: a level of modules per line.

const LEVELS = 7;
const NARROWEST = 2.5;

class Icicle {
  constructor(model, select) {
    this.modules = modulesOf(model);
    this.select = select;
    this.metric = "nodes";
    this.focus = this.modules[0];
    this.chosen = null;
    this.name = model.name;
    this.element = h("div", { class: "icicle", role: "img" });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // A module that takes the whole width has no line of its own where it is only passed through.
  draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const above = lineage(this.focus.above);
    const cells = above.map((module, level) => this.cell(module, level, 0, width, "above"));
    const whole = this.focus.all[this.metric];
    const place = (module, level, left, room) => {
      cells.push(this.cell(module, level, left, room, ""));
      if (level + 1 >= above.length + LEVELS) return;
      let at = left;
      for (const child of module.children) {
        const share = (room * child.all[this.metric]) / (module.all[this.metric] || 1);
        if (share >= NARROWEST) place(child, level + 1, at, share);
        at += share;
      }
    };
    if (whole > 0) place(this.focus, above.length, 0, width);
    const deepest = cells.reduce((most, [level]) => Math.max(most, level), 0);
    this.element.setAttribute("aria-label", `Share of ${this.metric} by module; the tree below lists the same`);
    this.element.style.setProperty("--levels", deepest + 1);
    this.element.replaceChildren(...cells.map(([, cell]) => cell));
    if (whole === 0) this.element.replaceChildren(h("p", { class: "empty" }, `no ${this.metric}`));
  }

  cell(module, level, left, width, kind) {
    const text = width < 26 ? "" : module.name || this.name;
    const amount = module.all[this.metric];
    const shown = this.metric === "bytes" ? size(amount) : `${count(amount)} ${this.metric}`;
    const name = module.path || this.name;
    const all = this.modules[0].all[this.metric];
    const cell = h("div", {
      "data-path": module.path, class: ["cell", kind, module.failing ? "failing" : "", module === this.chosen ? "selected" : ""].join(" ").trim(),
      title: `${name}\n${className(module.cls)}\n${shown}, ${percent(amount, all)}`, "--hue": hueOf(module.cls),
      style: { left: `${left}px`, width: `${Math.max(1, width - 1)}px`, top: `${level * 24}px`, paddingInline: width < 26 ? "0" : "6px" },
    }, text);
    cell.addEventListener("click", () => {
      this.zoom(module);
      this.select(module);
    });
    return [level, cell];
  }

  zoom(module) {
    this.focus = module.children.length > 0 ? module : module.above ?? module;
    this.draw();
  }

  choose(module) {
    this.chosen = module;
    if (!lineage(module).includes(this.focus)) this.focus = this.modules[0];
    this.draw();
  }
}

// Equal classes have equal colours.
const hueOf = (cls) => {
  let hash = 7;
  for (let i = 0; i < cls.length && i < 300; i += 1) hash = (hash * 31 + cls.charCodeAt(i)) % 9973;
  return (hash * 47) % 360;
};
