"""Exports a model under other names: the graph must be the same, with the other names in its tags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from pickle import PicklingError
from typing import Any, TypeAlias

import onnx

from pytest_hierexport._calls.attribution import Origin, Origins
from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._cases.exporting import with_other_options
from pytest_hierexport._errors import HierexportError, NoVerdictError, chain, raise_if_disk_full
from pytest_hierexport._export.modules import written_class
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._onnx.codec import entries_of
from pytest_hierexport._onnx.difference import content_of
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._rules.base import ExportedCase, Violation
from pytest_hierexport._rules.decisions.watch import Watch
from pytest_hierexport._rules.renaming import CannotRenameError, Renaming, renamed

_Pairs: TypeAlias = "Sequence[tuple[tuple[str, Any], tuple[str, Any]]]"
"""Nodes, initializers or values of both exports, each with its key."""
_OfKeys: TypeAlias = "Mapping[str, Origins]"
_END = ("the end of the graph", None)
_DO = "find what decides by a name: the exporter, its own option, or code of the model that asks for names or types"
_RENAMED = "after all classes, modules and parameters were renamed"


def renaming_violations(exported: ExportedCase, files: Sequence[Path]) -> Iterator[Violation]:
    """Rename every class and attribute of the case's model, export it again, and yield what is not just renamed.

    Args:
        exported: The case and its file.
        files: The exporter's own source: where a name of the model decides in it is a violation.

    Raises:
        NoVerdictError: Under its own names, too, the model's second export gives another graph, or it is pickled.
    """
    watch = Watch(files, exported.example.model) if files else None
    # A model may look itself up by what its class prints, and torch.compile may not trace code that is watched: neither
    # says anything of the exporter.
    tries = ((True, True), (True, False), *([(False, False)] if watch else ()))
    for watching, printed in tries:
        is_final, violations = _compared(exported, watch, watching=watching, printed=printed)
        if is_final:
            break
    if watch:
        _watch_options(exported, watch, printed=printed)
        yield from watch.violations
    if not is_final and not (watch and watch.violations):
        _check_repetition(exported)
    yield from violations


def _check_repetition(exported: ExportedCase) -> None:
    """Raise an error where the graph changes from export to export, as by the time: that says nothing of names."""
    with temporary_folder() as folder:
        try:
            again = exported.export_again(Path(folder) / exported.path.name)
            changed = _change(exported, _Sides(exported, again))
            found = f"differs, first at {changed.where}" if changed else ""
        except HierexportError as error:
            raise_if_disk_full(error)
            found = f"fails: {error.found}"
    if found:
        raise NoVerdictError(
            "a model that is exported to the same graph twice",
            found=f"not run: under the same names, too, the second export {found}",
            do="look for what depends on the time, on random numbers, or on what an earlier export left behind",
        )


def _watch_options(exported: ExportedCase, watch: Watch, *, printed: bool) -> None:
    """Watch the exporter with the options that it takes and the case leaves out, for which it may have code of its own.

    Nothing is compared: with other options it gives another graph, or none.
    """
    case = replace(exported.case, exporter=exported.exporter_name)
    for other, example in with_other_options(case, exported.example):
        again = ExportedCase(other, exported.path, example, case.exporter)
        try:
            with temporary_folder() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _export_renamed(again, folder, watch, printed=printed)
            break
        except HierexportError as error:
            raise_if_disk_full(error)


def _export_renamed(
    exported: ExportedCase, folder: str, watch: Watch | None, *, printed: bool
) -> tuple[ExportedCase, Renaming]:
    """Return the export under other names, and these."""
    with (
        renamed(exported.example.model, printed=printed, note=watch.asked if watch else None) as renaming,
        watch.watching(renaming.names) if watch else nullcontext(),
    ):
        return exported.export_again(Path(folder) / exported.path.name), renaming


def _compared(
    exported: ExportedCase, watch: Watch | None, *, watching: bool, printed: bool
) -> tuple[bool, list[Violation]]:
    """Return whether no other try is needed (the graph is the same, or cannot be renamed), and the violations."""
    with temporary_folder() as folder:
        try:
            again, renaming = _export_renamed(exported, folder, watch if watching else None, printed=printed)
        except CannotRenameError as error:
            return True, [Violation("the model under other names", error.expected, error.found, error.do)]
        except HierexportError as error:
            raise_if_disk_full(error)
            if any(isinstance(each, PicklingError) for each in chain(error)) and not (watch and watch.violations):
                expected = "an exporter that does not pickle the model, whose renamed classes are in no module"
                raise NoVerdictError(expected, found=error.found, do="export it in the same process") from error
            found = f"none {_RENAMED}: expected {error.expected}; found {error.found}"
            return False, [Violation("the model under other names", "the same export", found, _DO)]
        sides = _Sides(exported, again)
        if changed := _change(exported, sides):
            return False, [changed]
        return True, list(_Comparison(exported, again, renaming).violations(sides))


class _Sides:
    """Two exports side by side."""

    def __init__(self, before: ExportedCase, after: ExportedCase) -> None:
        """Pair nodes by their order, and all else by its uses: the order of initializers says nothing."""
        old, new = inventory_proto(before.proto), inventory_proto(after.proto)
        self._folders = before.path.parent, after.path.parent
        self.nodes: _Pairs = list(zip_longest(old.nodes, new.nodes, fillvalue=_END))
        self.outputs = [
            tuple([value.name for value in graph.output] for graph in pair)
            for pair in zip(old.graphs, new.graphs, strict=False)
        ]
        """The names of the outputs of each graph."""
        both = [(a, b) for (_, a), (_, b) in self.nodes if a is not None and b is not None]
        uses = [pair for a, b in both for pair in ((a.input, b.input), (a.output, b.output))]
        self.names: dict[str, str] = {}
        """The name after of each value, at the first place where it is used."""
        for name, other in (names for pair in (*uses, *self.outputs) for names in zip(*pair, strict=False)):
            self.names.setdefault(name, other)
        self.tensors = _paired(old.initializers, new.initializers, self.names)
        self.values = _paired(_values(old.graphs), _values(new.graphs), self.names)

    def same_values(self, old: Sequence[str], new: Sequence[str]) -> bool:
        """Whether names of both graphs stand for the same values, in order."""
        return [*map(self.names.get, old)] == [*new]

    def same_content(self, old: onnx.TensorProto, new: onnx.TensorProto) -> bool:
        """Whether two tensors are equal, in the files or beside them, where the order of others decides the place."""
        one, other = map(content_of, (old, new), self._folders)
        return one == other


def _values(graphs: Sequence[onnx.GraphProto]) -> list[tuple[str, onnx.ValueInfoProto]]:
    return [(v.name, v) for graph in graphs for v in (*graph.input, *graph.output, *graph.value_info)]


def _paired(old: Sequence[tuple[str, Any]], new: Sequence[tuple[str, Any]], names: Mapping[str, str]) -> _Pairs:
    """Pair what has names in two graphs, given the new name of each old one; what is unused, in order."""
    left: dict[str, list[tuple[str, Any]]] = {}
    for each in new:
        left.setdefault(each[1].name, []).append(each)
    same = [left.get(names.get(held.name, ""), []) for _, held in old]
    pairs = [(each, found.pop(0) if found else None) for each, found in zip(old, same, strict=True)]
    unused = iter([each for several in left.values() for each in several])
    return [*((each, found or next(unused, _END)) for each, found in pairs), *((_END, each) for each in unused)]


def _change(before: ExportedCase, sides: _Sides) -> Violation | None:
    """Return the first place where two graphs differ in more than names."""
    for (key, a), (_, b) in sides.nodes:
        if a is None or b is None or not _is_same_node(a, b, sides):
            expected = "no node" if a is None else f"{a.op_type} as before"
            found = "no node" if b is None else f"{b.op_type}({', '.join(b.input)})"
        elif changed := _changed_attributes(a, b):
            expected, found = f"{a.op_type} with the same {changed}", f"another {changed}"
        else:
            continue
        return Violation(before.node(key), expected, f"{found}, {_RENAMED}", _DO)
    for old, new in sides.outputs:
        if not sides.same_values(old, new):
            return Violation("outputs of the graph", ", ".join(old), f"{', '.join(new)}, {_RENAMED}", _DO)
    for (key, a), (_, b) in sides.tensors:
        if a is None or b is None or not sides.same_content(a, b):
            return Violation(f"initializer {key}", "the same tensor", f"another, {_RENAMED}", _DO)
    return None


def _is_same_node(a: onnx.NodeProto, b: onnx.NodeProto, sides: _Sides) -> bool:
    """Whether two nodes do the same to the same values, whatever these are called."""
    if (a.domain, a.op_type, len(a.input)) != (b.domain, b.op_type, len(b.input)):
        return False
    return sides.same_values((*a.input, *a.output), (*b.input, *b.output))


def _changed_attributes(a: onnx.NodeProto, b: onnx.NodeProto) -> str:
    """Return the names of the attributes that differ between two nodes.

    Texts, which may spell names, are left out, and graphs, whose nodes are compared anyway.
    """

    def numbers(node: onnx.NodeProto) -> dict[str, tuple[object, ...]]:
        held = (a for a in node.attribute if not (a.s or a.strings or a.graphs or a.HasField("g") or a.t.string_data))
        return {a.name: (a.i, str(a.f), a.ints, str(a.floats), content_of(a.t)) for a in held}

    one, other = numbers(a), numbers(b)
    return ", ".join(name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name))


class _Comparison:
    """The attribution of a model, and that of the model under other names, with the model's own names put back."""

    def __init__(self, before: ExportedCase, after: ExportedCase, renaming: Renaming) -> None:
        self._before, self._renaming = before, renaming
        self._old, self._written = before.attribution, after.attribution
        name = written_class(before.example.model).__name__
        calls = self._old.hierarchy.values()
        self._root = next((call.path for call in calls if call.class_name == name), ROOT)
        """The path of the model: below the root where the exporter wraps it."""
        try:
            self._found = renaming.under_own_names(self._written)
        except ValueError:
            # A mixture of old and new names can map two calls to one name.
            self._found = self._written

    def violations(self, sides: _Sides) -> Iterator[Violation]:
        """Yield what is not just renamed: origins, then calls, then the exporter's own metadata."""
        old, found, written = self._old, self._found, self._written
        yield from self._origins("node", sides.nodes, old.nodes, found.nodes, written.nodes)
        tensors = old.initializers, found.initializers, written.initializers
        yield from self._origins("initializer", sides.tensors, *tensors)
        for name in dict.fromkeys((*old.hierarchy, *found.hierarchy)):
            expected, call = old.hierarchy.get(name), found.hierarchy.get(name)
            if expected != call:
                yield Violation(f"call {name!r} of the model under other names", _shown(expected), _shown(call), _DO)
        for kind, pairs in (("node", sides.nodes), ("initializer", sides.tensors), ("value", sides.values)):
            yield from self._entries(kind, pairs)

    def _origins(self, kind: str, pairs: _Pairs, old: _OfKeys, found: _OfKeys, written: _OfKeys) -> Iterator[Violation]:
        """Yield each node or initializer whose origins are not those of before, renamed."""
        for (key, _), (new, _) in pairs:
            was, now = (_text(old.get(key, ()), self._old.hierarchy), _text(found.get(new, ()), self._found.hierarchy))
            is_stale = any(self._is_stale(origin.call) for origin in written.get(new, ()))
            if is_stale or was != now:
                expected = f"{was} under its new name" if is_stale else was
                yield Violation(self._where(kind, key), expected, f"{now}, {_RENAMED}", _DO)

    def _is_stale(self, call: str) -> bool:
        """Return whether a call below the model still has an old name; a wrapper of the exporter's does not count."""
        below = f"{self._root}." if self._root else ""
        return call.startswith(below) and self._renaming.is_renamed(call.removeprefix(below))

    def _entries(self, kind: str, pairs: _Pairs) -> Iterator[Violation]:
        """Yield the metadata of the exporter's own that some elements have only under the model's names.

        An entry, or a text of a node, may hold a name, or what is computed from all names, such as a position in their
        order. A decision shows where elements lose an entry under other names, or all take one value that others have.
        """
        ours = ("hierexport.", "pkg.")
        found = [(key, _entries_of(a), _entries_of(b)) for (key, a), (_, b) in pairs]
        for entry in sorted({name for _, a, b in found for name in (*a, *b) if not name.startswith(ours)}):
            values = [(key, a.get(entry), b.get(entry)) for key, a, b in found]
            changed = [each for each in values if each[1] != each[2]]
            taken = {value for _, _, value in changed}
            if len(taken) == 1 and (None in taken or any(a == b and b in taken for _, a, b in values)):
                key, expected, other = changed[0]
                yield Violation(self._where(kind, key), f"{entry} = {expected!r}", f"{other!r}, {_RENAMED}", _DO)

    def _where(self, kind: str, key: str) -> str:
        return f"{kind} {self._before.node(key) if kind == 'node' else key}"


def _entries_of(element: Any) -> dict[str, str]:
    """Return the metadata entries of an element; of a node, its texts, too, which are no numbers to compare."""
    if element is None:
        return {}
    held = ((a.name, [a.s] if a.s else [*a.strings, *a.t.string_data]) for a in getattr(element, "attribute", ()))
    texts = {f"attribute {name}": b"\n".join(each).decode("utf-8", "replace") for name, each in held if each}
    return {**entries_of(element), **texts}


def _text(origins: Sequence[Origin], hierarchy: Hierarchy) -> str:
    # Two calls may have one tag, as modules of torch.nn share that of the module around them.
    tags = (hierarchy.tag(origin.call) if origin.call in hierarchy else "no tag" for origin in origins)
    shown = (f"call {o.call!r}, {tag} ({o.evidence.value})" for o, tag in zip(origins, tags, strict=True))
    return "; ".join(shown) or "no origin"


def _shown(call: Call | None) -> str:
    return "no such call" if call is None else f"a call of {call.cls} by {call.parent!r}"
