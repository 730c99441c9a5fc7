// Shows the run: the summary, and the table of models and rules with its filters.

const filters = { text: "", status: "all", sort: "", down: false };

const MARKS = {
  passed: ["passed", "✓"], failed: ["failed", "✕"], "known failure": ["known", "!"], skipped: ["skipped", "∅"],
  "not run": ["none", "·"], "does not apply": ["none", ""],
};

const markOf = (model, column) => {
  const [status, seconds] = model.checks[column];
  const word = data.statuses[status];
  const [kind, sign] = MARKS[word];
  const title = `${data.columns[column]}: ${word}${seconds === undefined ? "" : `, ${duration(seconds)}`}`;
  const mark = h("span", { class: `mark ${kind}`, role: "img", "aria-label": word, title }, sign);
  return status === FAILED || status === KNOWN ? h("a", { href: link(model, undefined, data.columns[column]) }, mark) : mark;
};

const coverageCard = (coverage) => {
  const kinds = EVIDENCE.filter((kind) => coverage[kind]);
  const all = sum(kinds.map((kind) => coverage[kind]));
  const text = kinds.map((kind) => `${kind} ${count(coverage[kind])} (${percent(coverage[kind], all)})`);
  const meter = h("div", { style: { marginTop: "0.6rem" } }, [
    h("div", { class: "meter", role: "img", "aria-label": `Nodes by evidence: ${text.join(", ")}` }, kinds.map((kind) =>
      h("i", { style: { width: `${(100 * coverage[kind]) / all}%`, background: `var(--${kind})` } }))),
    h("ul", { class: "legend" }, kinds.map((kind, i) => h("li", {}, h("i", { style: { background: `var(--${kind})` } }), text[i]))),
  ]);
  return Object.keys(coverage).length > 0 && h("section", { class: "card" }, h("h2", {}, "How nodes got their tags"), meter);
};

const changed = (model) => model.checks[SNAPSHOT][0] === FAILED && differences(model.checks[SNAPSHOT][3]) > 0;

const STATUSES = [
  ["all", "All", () => true],
  ["failing", "Failing", (model) => model.failures > 0],
  ["changed", "Changed snapshot", changed],
  ["warned", "Known or warned", (model) => model.warnings.length > 0 || model.checks.some(([status]) => status === KNOWN)],
  ["passing", "Passing", (model) => !model.failures],
];

const tiles = (choose) => {
  const checks = data.models.flatMap((model) => model.checks.map(([status]) => data.statuses[status]));
  const having = (word) => checks.filter((each) => each === word).length;
  const failing = data.models.filter((model) => model.failures).length;
  const moved = data.models.filter(changed).length;
  const tile = (figure, label, kind, filter) => h(
    filter ? "button" : "div",
    { class: `card tile ${kind}`, type: filter ? "button" : null, title: filter ? "Show these models" : null, onclick: filter ? () => choose(filter) : null },
    h("span", { class: "figure" }, figure), h("span", { class: "label" }, label),
  );
  return h("div", { class: "tiles" }, [
    tile(count(data.models.length), data.models.length === 1 ? "model" : "models", "", "all"),
    tile(count(having("passed")), "checks passed", "good"),
    tile(count(having("failed")), failing ? `failed, in ${plural(failing, "model")}` : "failed", failing ? "bad" : "", "failing"),
    tile(count(moved), moved === 1 ? "changed snapshot" : "changed snapshots", moved ? "warn" : "", "changed"),
    having("known failure") > 0 && tile(count(having("known failure")), "known failures", "warn", "warned"),
    having("not run") + having("skipped") > 0 && tile(count(having("not run") + having("skipped")), "not run or skipped", ""),
    tile(brief(sum(data.models.map((model) => model.nodes))), "nodes", ""),
    tile(duration(data.run.ended - data.run.started), "for the run", ""),
  ]);
};

const runFacts = () => {
  const { run } = data;
  const fact = (label, value) => h("span", {}, `${label} `, h("b", { class: "code" }, value));
  const versions = Object.entries(run.versions);
  return [
    h("p", { class: "facts" }, [
      run.started > 0 && h("span", {}, h("time", { datetime: new Date(1000 * run.started).toISOString() }, new Date(1000 * run.started).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" }))),
      run.commit && fact("commit", run.commit.replace(/[0-9a-f]{40}/g, (commit) => commit.slice(0, 12))),
      run.shard && fact("shard", run.shard),
    ]),
    versions.length > 0 && h("p", { class: "facts", id: "versions" }, versions.map(([name, version]) => fact(name, version))),
  ];
};

const texts = (title, lines, open) => lines.length > 0 && h("details", { class: "note", open }, h("summary", {}, `${title} (${count(lines.length)})`), h("ul", { class: "lines" }, lines.map((line) => h("li", {}, line))));

const matrix = () => {
  const families = data.columns.map((column) => column.slice(0, column.lastIndexOf("-")));
  const heading = (column, i) => (i && families[i] && families[i] === families[i - 1] ? column.slice(families[i].length + 1) : column);
  const sorts = { model: (m) => m.name.toLowerCase(), exporter: (m) => m.exporter, nodes: (m) => m.nodes, seconds: (m) => m.seconds };
  data.columns.forEach((_, i) => (sorts[`check ${i}`] = (m) => (m.checks[i][0] === FAILED ? -1 : m.checks[i][0])));

  const rows = new Map();
  const rowOf = (model) => {
    if (!rows.has(model)) {
      rows.set(model, h("tr", {}, [
        h("th", { scope: "row" }, h("a", { href: link(model), title: model.name }, model.name)),
        h("td", { class: "word" }, model.exporter || "–"),
        h("td", { class: "number" }, model.nodes ? count(model.nodes) : "–"),
        data.columns.map((_, i) => h("td", {}, markOf(model, i))),
        h("td", { class: "number" }, model.seconds ? duration(model.seconds) : "–"),
      ]));
    }
    return rows.get(model);
  };

  const body = h("tbody");
  const empty = h("p", { class: "empty", hidden: true }, "No model fits. Clear the filters to see all.");
  const shown = h("span", { class: "dim", id: "shown", role: "status" });
  const cells = new Map();
  const draw = () => {
    const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = STATUSES.find(([name]) => name === filters.status)[2];
    const haystack = (model) => `${model.name} ${model.exporter} ${model.source} ${model.place}`.toLowerCase();
    let models = data.models.filter((model) => fits(model) && words.every((word) => haystack(model).includes(word)));
    if (filters.sort) {
      const key = sorts[filters.sort];
      const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.index - b.index);
      models = [...models].sort((a, b) => (filters.down ? -order(a, b) : order(a, b)));
    }
    body.replaceChildren(...models.map(rowOf));
    empty.hidden = models.length > 0;
    shown.textContent = models.length === data.models.length ? "" : `${count(models.length)} of ${plural(data.models.length, "model")}`;
    for (const [name, cell] of cells) {
      cell.setAttribute("aria-sort", name === filters.sort ? (filters.down ? "descending" : "ascending") : "none");
      cell.firstChild.classList.toggle("on", name === filters.sort);
    }
  };
  const sortable = (name, text, title, kind) => {
    const button = h("button", { type: "button", title }, text);
    button.addEventListener("click", () => {
      const largest = name === "nodes" || name === "seconds";
      filters.down = filters.sort === name ? !filters.down : largest;
      filters.sort = name;
      draw();
    });
    cells.set(name, h("th", { scope: "col", class: kind, "aria-sort": "none" }, button));
    return cells.get(name);
  };
  const head = h("thead", {}, h("tr", {}, [
    sortable("model", "model", "Sort by name", ""), sortable("exporter", "exporter", "Sort by exporter", "word"), sortable("nodes", "nodes", "Sort by nodes", "number"),
    data.columns.map((column, i) => sortable(`check ${i}`, heading(column, i), `${column}: ${promiseOf(column) ?? "the committed hierarchy"}. Sort: failures first`, "")),
    sortable("seconds", "time", "Sort by time", "number"),
  ]));
  const spent = (i) => sum(data.models.map((model) => model.checks[i][1] ?? 0));
  const foot = h("tfoot", {}, h("tr", {}, [
    h("th", { scope: "row" }, "time"), h("td"), h("td"), data.columns.map((_, i) => h("td", {}, spent(i) ? duration(spent(i)) : "")),
    h("td", { class: "number" }, duration(sum(data.models.map((model) => model.seconds)))),
  ]));
  const table = h("table", { class: "matrix" }, h("caption", { class: "unseen" }, "Models and rules"), head, body, foot);
  const search = h("input", { type: "search", id: "filter", placeholder: "Filter models", "aria-label": "Filter models", value: filters.text });
  search.addEventListener("input", () => {
    filters.text = search.value;
    draw();
  });
  const options = STATUSES.filter(([name, , fits]) => name === "all" || name === filters.status || data.models.some(fits));
  const status = choices("Show models", options.map(([name, text]) => [name, text]), filters.status, (name) => {
    filters.status = name;
    draw();
  });
  draw();
  const parts = [h("div", { class: "tools" }, search, status, shown), h("div", { class: "card wide" }, table, empty)];
  const choose = (name) => {
    if (!options.some(([option]) => option === name)) return;
    status.choose(name);
    status.scrollIntoView({ block: "nearest" });
  };
  return [parts, choose];
};

// The failed checks, each with its first place; checks of a model that found the same are one.
const whatFailed = (choose) => {
  const most = 8;
  const failed = data.models.filter((model) => model.failures).flatMap((model) => equalChecks(model, FAILED).map((columns) => [model, columns]));
  if (!failed.length) return null;
  const line = ([model, columns]) => {
    const [, , message, failure] = model.checks[columns[0]];
    const changes = differences(failure) > 0 ? plural(differences(failure), "change") : "";
    const finding = failure?.findings[0];
    const text = changes || (finding ? finding.where || finding.found : message.split("\n")[0]);
    return h("li", {}, [
      h("b", {}, h("a", { href: link(model) }, model.name)),
      h("a", { href: link(model, undefined, data.columns[columns[0]]) }, columns.length > 1 ? plural(columns.length, "check") : data.columns[columns[0]]),
      h("span", { class: "code" }, text),
    ]);
  };
  return h("section", { class: "card", id: "failed" }, [
    h("h2", {}, "What failed"), h("ul", { class: "failed-list" }, failed.slice(0, most).map(line)),
    failed.length > most && h("button", { type: "button", onclick: () => choose("failing") }, `Show all ${count(failed.length)} in the table`),
  ]);
};

const overview = () => {
  const [table, choose] = matrix();
  const rules = h("details", { class: "note" }, h("summary", {}, `The rules (${count(data.rules.length)})`), h("ul", { class: "lines" }, data.rules.map((rule) => h("li", {}, h("b", {}, rule.id), ` ${rule.promise}${rule.cardinal ? " (cardinal)" : ""}`))));
  return h("div", { id: "overview" }, [
    h("h1", { tabindex: "-1" }, "Module tags of the exported models"),
    runFacts(),
    tiles(choose),
    whatFailed(choose),
    coverageCard(added(data.models, "coverage")),
    data.run.warnings.map((warning) => h("p", { class: "note warning" }, warning)),
    table,
    texts("Notes", data.run.remarks, data.run.remarks.length < 4),
    rules,
  ]);
};
