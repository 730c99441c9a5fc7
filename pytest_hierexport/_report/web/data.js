// Unpacks what the page shows: the modules of a model, when it is opened, with their sums and their equal siblings.

const data = JSON.parse(document.getElementById("data").textContent);
const EVIDENCE = ["traced", "merged", "fused", "folded", "derived", "untagged"];
const FAILED = data.statuses.indexOf("failed");
const KNOWN = data.statuses.indexOf("known failure");
const SNAPSHOT = data.columns.length - 1;

const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

// What the rule of a column promises; undefined for the snapshot.
const promiseOf = (column) => data.rules.find((rule) => rule.id === column)?.promise;

// The sum of the counts by name that each item has under a key.
const added = (items, key) => {
  const counts = Object.create(null); // an operator may be called `constructor`
  for (const item of items) for (const [name, number] of Object.entries(item[key])) counts[name] = (counts[name] ?? 0) + number;
  return counts;
};

data.models.forEach((model, index) => {
  model.index = index;
  model.nodes = sum(Object.values(model.coverage));
  model.failures = model.checks.filter(([status]) => status === FAILED).length;
});

const profiles = new Map();

const profileOf = (number) => {
  if (!profiles.has(number)) {
    const pairs = (flat) => {
      const counts = Object.create(null);
      for (let i = 0; i < flat.length; i += 2) counts[data.strings[flat[i]]] = flat[i + 1];
      return counts;
    };
    profiles.set(number, data.profiles[number].map(pairs));
  }
  return profiles.get(number);
};

// The modules of a model in their order, each with what it holds alone (`own`) and with all below it (`all`).
const modulesOf = (model) => {
  if (model.modules) return model.modules;
  const { tree } = model;
  const modules = tree.parent.map((parent, row) => {
    const [operators, evidence, coOwned] = profileOf(tree.profile[row]);
    const own = { nodes: sum(Object.values(operators)), parameters: tree.parameters[row], bytes: tree.bytes[row] };
    const above = parent < 0 ? null : parent;
    const name = data.strings[tree.name[row]];
    return { row, above, name, cls: data.strings[tree.class[row]], calls: tree.calls[row], operators, evidence, coOwned, own, all: { ...own }, children: [] };
  });
  for (const module of modules) {
    const parent = module.above === null ? null : modules[module.above];
    module.above = parent;
    module.path = parent?.path ? `${parent.path}.${module.name}` : module.name;
    module.level = parent ? parent.level + 1 : 1;
    const tag = data.strings[tree.tag[module.row]];
    module.tag = tag && !tag.startsWith("/") ? `${parent.holder}/${tag}` : tag;
    module.holder = module.tag || (parent ? parent.holder : "");
    parent?.children.push(module);
  }
  for (const module of [...modules].reverse()) {
    for (const key of Object.keys(module.all)) if (module.above) module.above.all[key] += module.all[key];
  }
  model.modules = modules;
  model.byPath = new Map(modules.map((module) => [module.path, module]));
  model.byTag = new Map(modules.filter((module) => module.tag).map((module) => [module.tag, module]));
  for (const module of placesOf(model)) module.failing = true;
  fold(modules);
  return modules;
};

// Gives runs of equal siblings, whose names count up, one `run` that all of them share. Evidence may differ.
const fold = (modules) => {
  const kinds = new Map();
  const number = (text) => {
    if (!kinds.has(text)) kinds.set(text, kinds.size);
    return kinds.get(text);
  };
  for (const module of [...modules].reverse()) {
    const below = module.children.map((child) => `${child.name}\u0000${child.kind}`).join("\u0001");
    const own = [module.calls, module.own.parameters, module.own.bytes, module.failing === true, ...Object.entries(module.operators).flat()];
    module.kind = number(`${module.cls}\u0002${own.join(" ")}\u0002${below}`);
  }
  for (const module of modules) {
    let run = [];
    for (const child of module.children) {
      const last = run.at(-1);
      const follows = last && last.kind === child.kind && /^\d{1,9}$/.test(child.name) && Number(child.name) === Number(last.name) + 1;
      if (!follows) run = [];
      run.push(child);
      child.run = run;
    }
  }
};

// The module that a tag names: `@1` in it counts calls, and `{0..2}` stands for equal siblings.
const moduleOfTag = (model, tag) => {
  modulesOf(model);
  const first = tag.replace(/@(\d+|\{\d+\.\.\d+\})(?=\/|$)/g, "").replace(/\{(\d+)\.\.\d+\}/g, "$1");
  return model.byTag.get(tag) ?? model.byTag.get(first) ?? null;
};

// The tags that a folded one stands for: `Layer.{0..1}` gives `Layer.0` and `Layer.1`.
const members = (tag) => {
  const [, start, first, last, end] = /^(.*?[^@])\{(\d{1,9})\.\.(\d{1,9})\}(.*)$/s.exec(tag) ?? [];
  if (start === undefined) return [tag];
  const numbers = Array.from({ length: Math.min(Math.max(last - first + 1, 0), 1000) }, (_, i) => String(Number(first) + i).padStart(first.length, "0"));
  return numbers.flatMap((number) => members(`${start}${number}${end}`));
};

// The module that a finding is about: its place ends with a tag in parentheses.
const moduleOfPlace = (model, where) => {
  const start = where.indexOf("(/");
  const end = where.lastIndexOf(")");
  return start < 0 || end < start ? null : moduleOfTag(model, where.slice(start + 1, end));
};

const placesOf = (model) => {
  const places = model.checks.filter(([status]) => status === FAILED).flatMap(([, , , failure]) => {
    if (!failure) return [];
    const tags = [...failure.changes.map(({ tag }) => tag), ...failure.renames.flatMap((each) => each.tags), ...failure.moves.map(({ tag }) => tag)];
    const changed = tags.flatMap((tag) => members(tag).map((each) => moduleOfTag(model, each)));
    return [...failure.findings.map(({ where }) => moduleOfPlace(model, where)), ...changed];
  });
  return places.filter(Boolean);
};

// How much differs from the snapshot: changed modules, renamed classes and moved modules.
const differences = (failure) => (failure ? failure.changes.length + failure.renames.length + failure.moves.length : 0);

const lineage = (module) => (module ? [...lineage(module.above), module] : []);

const className = (cls) => cls.slice(cls.lastIndexOf(".") + 1);

const link = (model, path, check) => {
  const start = `#${encodeURIComponent(model.name)}`;
  if (check !== undefined) return `${start}?${encodeURIComponent(check)}`;
  return path === undefined ? start : `${start}/${encodeURIComponent(path)}`;
};
