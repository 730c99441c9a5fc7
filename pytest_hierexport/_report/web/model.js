// Shows a model: its checks, its failures, and its modules as an icicle and a tree with the details of one.

const bars = (counts, order) => {
  const names = order ? order.filter((name) => counts[name]) : Object.keys(counts).sort((a, b) => counts[b] - counts[a] || (a < b ? -1 : 1));
  const most = Math.max(...Object.values(counts), 1);
  return h("ul", { class: "bars" }, names.map((name) => h("li", { "--share": `${(100 * counts[name]) / most}%` }, h("span", { class: "code" }, name), h("span", {}, count(counts[name])))));
};

const withBelow = (module) => [module, ...module.children.flatMap(withBelow)];

const detailOf = (model, module) => {
  const every = withBelow(module);
  const rows = [
    ["class", module.cls && h("span", { class: "code" }, module.cls)],
    ["tag", module.holder && h("span", { class: "code" }, module.holder)],
    ["calls", count(module.calls)],
    ["equal siblings", module.run?.length > 1 && count(module.run.length)],
    ["nodes", module.own.nodes === module.all.nodes ? count(module.all.nodes) : `${count(module.all.nodes)}, ${count(module.own.nodes)} of its own`],
    ["parameters", count(module.all.parameters)],
    ["bytes in the file", size(module.all.bytes)],
    ["modules below", count(every.length - 1)],
  ];
  const operators = added(every, "operators");
  const evidence = added(every, "evidence");
  return [
    h("h3", {}, module.path || model.name),
    h("dl", {}, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    Object.keys(operators).length > 0 && [h("h4", {}, "Operators"), bars(operators)],
    Object.keys(evidence).length > 0 && [h("h4", {}, "Evidence"), bars(evidence, EVIDENCE)],
    Object.keys(module.coOwned).length > 0 && [h("h4", { title: "Nodes that belong to another module first" }, "Co-owned nodes"), bars(module.coOwned, EVIDENCE)],
    h("p", {}, copyButton("Copy link", () => location.href.split("#")[0] + link(model, module.path))),
  ];
};

const modulesSection = (model) => {
  const detail = h("aside", { class: "detail", "aria-label": "The selected module" });
  const show = (module) => {
    detail.replaceChildren(h("div", {}, detailOf(model, module)));
    history.replaceState(null, "", link(model, module.path));
  };
  const tree = new ModuleTree(model, (module) => {
    icicle.choose(module);
    show(module);
  });
  const icicle = new Icicle(model, (module) => tree.reveal(module));
  const search = h("input", { type: "search", id: "search", placeholder: "Find a module, class or operator", "aria-label": "Find a module, class or operator" });
  search.addEventListener("input", () => tree.search(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && tree.rows.length > 0) {
      event.preventDefault();
      tree.rows[tree.at].element.focus();
    }
  });
  const metric = choices("Size by", [["nodes", "Nodes"], ["parameters", "Parameters"], ["bytes", "Bytes"]], "nodes", (name) => {
    icicle.metric = tree.metric = name;
    icicle.draw();
    tree.draw();
  });
  const button = (text, open) => h("button", { type: "button", class: "quiet", onclick: () => tree.all(open) }, text);
  const section = h("section", { class: "card", id: "modules" }, [
    h("h2", {}, "Modules"),
    h("div", { class: "tools" }, search, tree.found, h("span", { class: "grow" }), metric, button("Expand all", true), button("Collapse all", false)),
    icicle.element,
    h("div", { class: "modules" }, tree.element, detail),
  ]);
  const root = tree.modules[0];
  tree.chosen = root;
  tree.draw();
  detail.replaceChildren(h("div", {}, detailOf(model, root)));
  return [section, (path) => {
    const module = model.byPath.get(path);
    if (module) {
      search.value = "";
      tree.search("");
      tree.reveal(module);
    }
    return Boolean(module);
  }];
};

// The seconds of each stage, in the order in which the stages came.
const stagesSection = (stages) => {
  const most = Math.max(...stages.map(([, seconds]) => seconds), 0.001);
  const rows = stages.map(([name, seconds]) => h("li", { "--share": `${(100 * seconds) / most}%` }, h("span", {}, name), h("span", {}, duration(seconds))));
  return h("section", { class: "card", id: "stages" }, h("h2", {}, "Where the time went"), h("ul", { class: "bars" }, rows));
};

const modelView = (model) => {
  const fact = (label, value) => value && h("span", {}, label && `${label} `, h("b", { class: "code" }, value));
  const head = h("header", {}, [
    h("h1", { tabindex: "-1" }, model.name),
    h("p", { class: "facts" }, [fact("", model.source), model.place !== model.source.split("::")[0] && fact("in", model.place), fact("exporter", model.exporter), fact("nodes", model.nodes > 0 && count(model.nodes)), fact("time", duration(model.seconds))]),
    h("ul", { class: "checks", "aria-label": "Checks" }, data.columns.map((column, i) => data.statuses[model.checks[i][0]] !== "does not apply" && h("li", { title: promiseOf(column) }, markOf(model, i), column))),
    model.warnings.map((warning) => h("p", { class: "note warning" }, warning)),
    model.notes.map((note) => h("p", { class: "note" }, note)),
  ]);
  const skipped = data.columns.map((column, i) => [column, model.checks[i]]).filter(([, [status, , message]]) => data.statuses[status] === "skipped" && message);
  const [section, reveal] = model.tree.parent.length > 0 ? modulesSection(model) : [null, () => false];
  const view = h("article", { id: "model" }, [
    head,
    skipped.map(([column, check]) => h("p", { class: "note" }, h("b", {}, `${column}: `), check[2])),
    equalChecks(model, FAILED).map((columns) => failureBox(model, columns)),
    coverageCard(model.coverage),
    section,
    model.stages.length > 0 && stagesSection(model.stages),
    equalChecks(model, KNOWN).map((columns) => failureBox(model, columns)),
    model.text && h("section", { class: "card" }, h("details", {}, h("summary", {}, "The hierarchy as text, as in the snapshot"), copyButton("Copy", model.text), h("pre", {}, model.text))),
  ]);
  return [view, reveal];
};
