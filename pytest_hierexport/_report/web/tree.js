// Shows the modules of a model as an interactive tree, by the ARIA pattern: one row takes part in the tab order.

const FIRST_ROWS = 32;

class ModuleTree {
  constructor(model, select) {
    this.model = model;
    this.modules = modulesOf(model);
    this.select = select;
    this.open = new Set();
    this.unfolded = new Set();
    this.query = [];
    this.metric = "nodes";
    this.chosen = null;
    this.rows = [];
    this.found = h("span", { class: "dim", id: "found", role: "status" });
    this.body = h("div", { role: "tree", "aria-label": `Modules of ${model.name}` });
    this.body.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.element = h("div", { class: "tree" }, h("div", { class: "tree-head", "aria-hidden": "true" }, ["module", "class", "nodes", "parameters", "bytes"].map((word) => h("span", {}, word))), this.body);
    this.openFirst();
  }

  // Opens levels from the root as long as the rows stay few; the single module of a level always.
  openFirst() {
    let level = [this.modules[0]];
    let rows = 1;
    while (level.length > 0) {
      const below = level.flatMap((module) => this.below(module).map(([child]) => child));
      if (rows + below.length > FIRST_ROWS && level.length > 1) break;
      for (const module of level) this.open.add(module);
      rows += below.length;
      level = below.filter((module) => module.children.length > 0);
      if (rows > FIRST_ROWS) break;
    }
  }

  // The rows below a module: each with how many equal modules it stands for.
  below(module) {
    return module.children
      .filter((child) => child.run[0] === child || this.unfolded.has(child.run))
      .map((child) => [child, this.unfolded.has(child.run) ? 1 : child.run.length]);
  }

  visible() {
    const rows = [];
    const walk = (module, times, position, siblings) => {
      const children = this.query.length ? module.children.filter((child) => this.kept.has(child)).map((child) => [child, 1]) : this.below(module);
      const open = this.query.length ? children.length > 0 : this.open.has(module);
      rows.push({ module, times, open, leaf: children.length === 0, position, siblings });
      if (open) children.forEach(([child, repeated], i) => walk(child, repeated, i + 1, children.length));
    };
    if (!this.query.length || this.kept.has(this.modules[0])) walk(this.modules[0], 1, 1, 1);
    return rows;
  }

  search(text) {
    this.query = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.kept = new Set();
    this.hits = new Set();
    for (const module of this.query.length ? this.modules : []) {
      const haystack = [module.path, module.cls, module.tag, ...Object.keys(module.operators)].join(" ").toLowerCase();
      if (!this.query.every((word) => haystack.includes(word))) continue;
      this.hits.add(module);
      for (const each of lineage(module)) this.kept.add(each);
    }
    this.found.textContent = this.query.length ? `${count(this.hits.size)} of ${plural(this.modules.length, "module")}` : "";
    this.draw();
  }

  // Keeps the rows at both ends that stay as they are: of thousands, a click changes few.
  draw() {
    const had = this.body.contains(document.activeElement);
    const whole = this.modules[0].all[this.metric] || 1;
    const look = `${this.metric} ${this.query.join(" ")}`;
    const [old, rows] = [this.rows, this.visible()];
    const stays = (before, row) => before && row && before.module === row.module && before.times === row.times && before.leaf === row.leaf && this.look === look;
    let start = 0;
    while (stays(old[start], rows[start])) this.keep(old[start], rows[start++]);
    let end = 0;
    const most = Math.min(old.length, rows.length) - start;
    while (end < most && stays(old.at(-1 - end), rows.at(-1 - end))) this.keep(old.at(-1 - end), rows.at(-1 - end++));
    for (const row of old.slice(start, old.length - end)) row.element.remove();
    const made = document.createDocumentFragment();
    for (const row of rows.slice(start, rows.length - end)) made.append(this.rowElement(row, whole));
    this.body.insertBefore(made, end ? rows.at(-end).element : null);
    Object.assign(this, { rows, look });
    this.settle();
    if (had) this.stop?.focus();
  }

  keep(before, row) {
    row.element = before.element;
    if (before.open !== row.open) row.element.setAttribute("aria-expanded", String(row.open));
    row.element.setAttribute("aria-posinset", row.position);
    row.element.setAttribute("aria-setsize", row.siblings);
  }

  // Makes the chosen module's row, or the nearest above it that is shown, the one that the tab key reaches.
  settle() {
    const indices = lineage(this.chosen).reverse().map((module) => this.rows.findIndex((row) => row.module === module));
    this.at = Math.max(0, indices.find((index) => index >= 0) ?? 0);
    this.stop?.setAttribute("aria-selected", "false");
    this.stop?.setAttribute("tabindex", "-1");
    this.stop = this.rows[this.at]?.element;
    this.stop?.setAttribute("aria-selected", String(this.rows[this.at].module === this.chosen));
    this.stop?.setAttribute("tabindex", "0");
  }

  rowElement(row, whole) {
    const { module, times } = row;
    const last = module.run?.at(-1);
    const name = times > 1 ? `${module.name} … ${last.name}` : module.name || this.model.name;
    const guess = module.evidence.derived > 0;
    const sums = (key) => times * module.all[key];
    const amount = (key, text) => h("span", { class: `amount ${key === this.metric ? "share" : ""}`, "--share": `${(100 * sums(key)) / whole}%` }, sums(key) ? text(sums(key)) : "");
    const spoken = [
      name, className(module.cls), module.calls > 1 && `${count(module.calls)} calls`, times > 1 && `${count(times)} equal modules`, plural(sums("nodes"), "node"),
      module.failing && "a check failed here", guess && "some of its nodes are derived",
    ];
    row.element = h("div", {
      role: "treeitem", class: this.hits?.has(module) ? "hit" : "", "aria-level": module.level, "aria-posinset": row.position, "aria-setsize": row.siblings,
      "aria-label": spoken.filter(Boolean).join(", "), "aria-selected": "false", tabindex: "-1", "aria-expanded": row.leaf ? null : String(row.open), "--level": module.level, title: module.path || null,
    }, [
      h("span", { class: "name" }, [
        h("span", { class: "twist", "aria-hidden": "true", style: { visibility: row.leaf ? "hidden" : "visible" } }, "▸"),
        h("span", { class: "label" }, this.marked(name)),
        (times > 1 || this.unfolded.has(module.run)) && module.run[0] === module && h("button", { type: "button", class: "times", tabindex: "-1", title: times > 1 ? "Show each of them (x)" : "Show equal ones as one row (x)" }, times > 1 ? `×${count(times)}` : "fold"),
        module.calls > 1 && h("span", { class: "calls" }, `${count(module.calls)} calls`),
        module.failing && h("span", { class: "dot", title: "A check failed here" }),
        guess && h("span", { class: "dot guess", title: "Some of its nodes are derived" }),
      ]),
      h("span", { class: "class" }, this.marked(className(module.cls))),
      amount("nodes", brief), amount("parameters", brief), amount("bytes", size),
    ]);
    return row.element;
  }

  // The parts of a text, with the first place of a searched word marked.
  marked(text) {
    const lower = text.toLowerCase();
    const word = this.query.find((each) => lower.includes(each));
    if (word === undefined || lower.length !== text.length) return [text];
    const start = lower.indexOf(word);
    return [text.slice(0, start), h("mark", {}, text.slice(start, start + word.length)), text.slice(start + word.length)];
  }

  click(event) {
    const element = event.target.closest('[role="treeitem"]');
    const row = this.rows.find((each) => each.element === element);
    if (!row) return;
    if (event.target.closest(".times")) this.unfold(row);
    else if (event.target.closest(".twist")) this.toggle(row);
    else {
      if (row.module === this.chosen) this.toggle(row);
      this.choose(row.module);
    }
  }

  // Shows each of the equal modules of a row; or all as one row again.
  unfold(row) {
    const { run } = row.module;
    if (!(run?.length > 1) || this.query.length) return;
    if (row.times > 1) this.unfolded.add(run);
    else {
      this.unfolded.delete(run);
      if (run.includes(this.chosen)) [this.chosen] = run;
    }
    this.draw();
  }

  toggle(row, open = !row.open) {
    if (row.leaf || this.query.length) return;
    if (open) this.open.add(row.module);
    else this.open.delete(row.module);
    this.draw();
    say(open ? "expanded" : "collapsed");
  }

  choose(module) {
    this.chosen = module;
    this.select(module);
    this.settle();
    this.stop?.focus({ preventScroll: true });
  }

  // Opens and unfolds what is above a module, chooses it, and scrolls to it.
  reveal(module) {
    for (const each of lineage(module)) {
      if (each !== module) this.open.add(each);
      if (each.run && each.run[0] !== each) this.unfolded.add(each.run);
    }
    this.chosen = module;
    this.draw();
    this.select(module);
    this.rows[this.at]?.element.scrollIntoView({ block: "center" });
  }

  all(open) {
    this.open = new Set(open ? this.modules : [this.modules[0]]);
    if (!open) this.unfolded.clear();
    this.draw();
  }

  press(event) {
    const row = this.rows[this.at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = (at) => {
      const target = this.rows[Math.min(Math.max(at, 0), this.rows.length - 1)];
      this.choose(target.module);
      target.element.scrollIntoView({ block: "nearest" });
    };
    const keys = {
      ArrowDown: () => move(this.at + 1),
      ArrowUp: () => move(this.at - 1),
      Home: () => move(0),
      End: () => move(this.rows.length - 1),
      ArrowRight: () => (row.leaf ? null : row.open ? move(this.at + 1) : this.toggle(row, true)),
      ArrowLeft: () => (row.open && !row.leaf && !this.query.length ? this.toggle(row, false) : this.up(row, move)),
      Enter: () => this.toggle(row),
      " ": () => this.toggle(row),
      "*": () => this.siblings(row),
      x: () => this.unfold(row),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  up(row, move) {
    if (row.module.above) move(this.rows.findIndex((each) => each.module === row.module.above));
  }

  siblings(row) {
    for (const each of row.module.above?.children ?? [row.module]) this.open.add(each);
    this.draw();
  }
}
