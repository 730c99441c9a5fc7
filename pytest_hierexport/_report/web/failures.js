// Shows the failed checks of a model: places, expected and found side by side, changes as a tree, the next steps.

const operatorChanges = (before, after) => {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].sort();
  return names.flatMap((name) => {
    const [old, now] = [before, after].map((counts) => (counts && Object.hasOwn(counts, name) ? counts[name] : 0));
    if (!before) return h("ins", {}, `${name} ${now}`);
    if (!after) return h("del", {}, `${name} ${old}`);
    if (old === now) return [];
    return [h(now > old ? "ins" : "del", {}, `${name} ${old} → ${now}`)];
  });
};

const KINDS = {
  gone: ["−", "gone"], new: ["+", "new"], changed: ["~", "other operators"], renamed: ["=", "renamed"], moved: [">", "moved"], same: ["", "unchanged"],
};

// The changed tags as a tree: each segment once, below the segments before it. A module may differ in several ways:
// its operators give its sign, else its place.
const diffTree = (model, { changes, renames, moves }) => {
  const root = { below: new Map() };
  const nodeOf = (tag) => {
    let at = root;
    let path = "";
    for (const segment of tag.startsWith("/") ? tag.slice(1).split("/") : [tag]) {
      path = tag.startsWith("/") ? `${path}/${segment}` : segment;
      if (!at.below.has(segment)) at.below.set(segment, { segment, tag: path, kind: "same", notes: [], below: new Map() });
      at = at.below.get(segment);
    }
    return at;
  };
  const noted = (tag, kind, note) => {
    const node = nodeOf(tag);
    node.kind = kind;
    node.notes.push(note);
  };
  for (const { before, tags } of renames) for (const tag of tags) noted(tag, "renamed", `was ${before}`);
  for (const { tag, neighbour, after } of moves) noted(tag, "moved", `now ${after ? "after" : "before"} ${neighbour.slice(neighbour.lastIndexOf("/") + 1)}`);
  for (const { tag, before = null, after = null } of changes) Object.assign(nodeOf(tag), { before, after, kind: before === null ? "new" : after === null ? "gone" : "changed" });
  const list = (nodes, depth) => h("ul", {}, [...nodes.values()].map((node) => {
    const [sign, word] = KINDS[node.kind];
    const module = node.kind === "gone" ? null : moduleOfTag(model, node.tag);
    const text = node.segment || "/";
    return h("li", {}, [
      h("div", { class: `line ${node.kind}`, "--depth": depth }, [
        h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", { class: "unseen" }, word),
        module ? h("a", { class: "segment", href: link(model, module.path), title: node.tag }, text) : h("span", { class: "segment", title: node.tag }, text),
        node.kind !== "same" && h("span", { class: "operators" }, operatorChanges(node.before, node.after), node.notes.join(", ")),
      ]),
      node.below.size > 0 && list(node.below, depth + 1),
    ]);
  }));
  const classes = renames.map(({ before, after, instances }) => h("p", { class: "renames" }, `= renamed ${before} → ${after} (${plural(instances, "instance")})`));
  return h("div", { class: "diff" }, classes, list(root.below, 0));
};

// A command at the end of a text gets a line of its own, to be copied.
const todoParts = (todo) => {
  const [, text, command] = /^(.*?): (pytest .*)$/s.exec(todo) ?? [null, todo, ""];
  return [h("p", {}, command ? `${text}:` : text), command && commandLine(command)];
};

const commandLine = (command, label) => h("div", { class: "command" }, label && h("span", { class: "dim" }, label), h("code", {}, command), copyButton("Copy", command));

const findingBox = (model, { where, expected, found, do: todo }, isDiff) => {
  const module = moduleOfPlace(model, where);
  return h("div", { class: "finding" }, [
    where && h("div", { class: "where" }, [
      h("span", { class: "code" }, where),
      module && h("a", { class: "place", href: link(model, module.path) }, "Show in the tree"),
    ]),
    !isDiff && h("div", { class: "sides" }, [
      h("div", { class: "expected" }, h("h4", {}, "Expected"), h("p", {}, expected)),
      h("div", { class: "found" }, h("h4", {}, "Found"), h("p", {}, found)),
    ]),
    todo && h("div", { class: "do" }, h("h4", {}, "To do"), todoParts(todo)),
  ]);
};

// The checks of a status, those together that found the same: a failed export fails every check.
const equalChecks = (model, status) => {
  const groups = new Map();
  model.checks.forEach(([each, , message, failure], column) => {
    if (each !== status) return;
    const found = failure?.findings.length ? JSON.stringify([failure.findings, failure.changes, failure.renames, failure.moves]) : message;
    groups.set(found, [...(groups.get(found) ?? []), column]);
  });
  return [...groups.values()];
};

const titleOf = (columns) => {
  const [check] = columns.map((column) => data.columns[column]);
  const promise = promiseOf(check);
  if (columns.length > 1) return `${plural(columns.length, "check")}: ${columns.map((column) => data.columns[column]).join(", ")}`;
  return promise ? `${check}: ${promise}` : "The snapshot of the hierarchy";
};

const failureBox = (model, columns) => {
  const [column] = columns;
  const [status, , message, failure] = model.checks[column];
  const seconds = sum(columns.map((each) => model.checks[each][1]));
  const findings = failure?.findings ?? [];
  const differs = differences(failure) > 0;
  const few = 5;
  const more = findings.slice(few);
  return h("section", { class: `card failure ${status === KNOWN ? "known" : ""}`, "data-checks": columns.join(" "), tabindex: "-1" }, [
    h("header", {}, h("h2", {}, titleOf(columns)), h("span", { class: "dim" }, `${data.statuses[status]}, ${duration(seconds)}`), h("a", { class: "dim", href: link(model, undefined, data.columns[column]) }, "Link to this")),
    differs && diffTree(model, failure),
    findings.slice(0, few).map((finding) => findingBox(model, finding, differs)),
    more.length > 0 && h("details", { class: "note" }, h("summary", {}, plural(more.length, "more place")), more.map((finding) => findingBox(model, finding))),
    failure?.more > 0 && h("p", { class: "dim" }, `${plural(failure.more, "more place")} are not listed in this report.`),
    failure?.kept && h("p", { class: "facts" }, "kept ", h("b", { class: "code" }, failure.kept)),
    failure?.repeat && commandLine(failure.repeat, "repeat"),
    findings.length ? h("details", { class: "note" }, h("summary", {}, "The whole message"), h("pre", {}, message)) : h("pre", {}, message),
  ]);
};
