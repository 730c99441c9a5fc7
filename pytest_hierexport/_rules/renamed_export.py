"""MUST-001's second half: under other names a model exports to the same graph with the other names in its tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Origin, Origins
from pytest_hierexport._errors import HierexportError, raise_if_disk_full
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._rules.base import ExportedCase, Violation
from pytest_hierexport._rules.old_names import Watch
from pytest_hierexport._rules.renaming import CannotRenameError, Renaming, renamed
from pytest_hierexport._rules.source import shown

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._calls.hierarchy import Call, Hierarchy

__all__ = ["renaming_violations"]

_DO = "find what looks at the names: the exporter, or code of the model's own that finds its parts by name"


class _ChangedError(Exception):
    """The graph itself is another one under other names."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.found)
        self.violation = violation


def renaming_violations(exported: ExportedCase, files: Iterable[Path] = ()) -> Iterator[Violation]:
    """Rename every class and attribute of the case's model, export it again, and yield what is not just renamed.

    Args:
        exported: The case and its file.
        files: The exporter's own source: where it asks for an old name is a violation.
    """
    watch = Watch(files, exported.example.model) if files else None
    try:
        violations = list(_compared(exported, watch, printed=True))
    except _ChangedError:
        # A model may look itself up by what its class prints, which says nothing of the exporter.
        try:
            violations = list(_compared(exported, watch, printed=False))
        except _ChangedError as changed:
            violations = [changed.violation]
    for asked in sorted(watch.asked) if watch else ():
        yield Violation(
            f"{shown(asked.path)}:{asked.line}",
            "code that asks the model for no module or parameter by a name of its own",
            f"{asked.name!r}, asked for while the model was exported under other names",
            "walk the modules as they come, or let the user name what is special",
        )
    yield from violations


def _compared(exported: ExportedCase, watch: Watch | None, *, printed: bool) -> Iterator[Violation]:
    note = None if watch is None else watch.note
    with temporary_folder() as folder:
        try:
            with renamed(exported.example.model, printed=printed, note=note) as renaming:
                again = exported.export_again(Path(folder) / exported.path.name)
        except CannotRenameError as error:
            yield Violation("the model under other names", error.expected, error.found, error.do)
            return
        except HierexportError as error:
            raise_if_disk_full(error)
            found = f"{error.expected} was expected; found {error.found}"
            raise _ChangedError(Violation("the model under other names", "the same export", found, _DO)) from error
        # A generator keeps the folder until its last difference is out.
        yield from _compare(exported, again, renaming)


def _compare(before: ExportedCase, after: ExportedCase, renaming: Renaming) -> Iterator[Violation]:
    from pytest_hierexport._onnx.graph import inventory_proto

    old, new = inventory_proto(before.proto), inventory_proto(after.proto)
    same: dict[str, str] = {}
    for (key, a), (_, b) in zip_longest(old.nodes, new.nodes, fillvalue=("the end of the graph", None)):
        if a is None or b is None or not _is_same_node(a, b, same):
            found = "no node" if b is None else f"{b.op_type}({', '.join(b.input)})"
            expected = "no node" if a is None else f"{a.op_type} as before"
            raise _ChangedError(Violation(before.node(key), f"{expected}, for only names were changed", found, _DO))
    nodes = [(a, b) for (a, _), (b, _) in zip(old.nodes, new.nodes, strict=True)]
    tensors = [(a, b) for (a, _), (b, _) in zip(old.initializers, new.initializers, strict=True)]
    pair = _Pair(before, after, renaming)
    yield from pair.compare("node", nodes, before.attribution.nodes, after.attribution.nodes)
    yield from pair.compare("initializer", tensors, before.attribution.initializers, after.attribution.initializers)
    yield from pair.calls()


def _is_same_node(a: onnx.NodeProto, b: onnx.NodeProto, same: dict[str, str]) -> bool:
    """Whether two nodes do the same to the same values, whatever these are called."""
    if (a.domain, a.op_type, len(a.input), len(a.output)) != (b.domain, b.op_type, len(b.input), len(b.output)):
        return False
    values = zip((*a.input, *a.output), (*b.input, *b.output), strict=True)
    return all(same.setdefault(x, y) == y for x, y in values)


class _Pair:
    """The attribution of a model, and that of the model under other names."""

    def __init__(self, before: ExportedCase, after: ExportedCase, renaming: Renaming) -> None:
        self._case, self._renaming = before, renaming
        self._old = before.attribution.hierarchy
        self._expected = renaming.hierarchy(self._old)
        self._found = after.attribution.hierarchy

    def compare(
        self, kind: str, keys: list[tuple[str, str]], before: Mapping[str, Origins], after: Mapping[str, Origins]
    ) -> Iterator[Violation]:
        """Yield each node or initializer whose origins are not those of before, renamed."""
        for old, new in keys:
            was, found = before.get(old, ()), after.get(new, ())
            expected = tuple(Origin(self._renaming.call_name(origin.call), origin.evidence) for origin in was)
            if _tagged(expected, self._expected) != _tagged(found, self._found):
                # Two calls may have one tag, as modules of torch.nn share that of the module around them.
                text = _text if _text(expected, self._expected) != _text(found, self._found) else _text_of_calls
                yield Violation(
                    f"{kind} {self._case.node(old) if kind == 'node' else old}",
                    f"under other names {text(expected, self._expected)}, for {text(was, self._old)}",
                    f"{text(found, self._found)}{self._once(found, text)}",
                    "make the exporter take classes and modules as they come, whatever they are called",
                )

    def _once(self, found: Origins, text: Callable[[Sequence[Origin], Hierarchy], str]) -> str:
        """Return the same origins under the model's own names."""
        renaming = self._renaming.reverse
        try:
            hierarchy = renaming.hierarchy(self._found)
        except ValueError:
            # A mixture of old and new names can map two calls to one name.
            return ""
        return f", for {text([Origin(renaming.call_name(o.call), o.evidence) for o in found], hierarchy)}"

    def calls(self) -> Iterator[Violation]:
        """Yield the calls that are not those of the original under other names."""
        for name in dict.fromkeys((*self._expected, *self._found)):
            expected, found = self._expected.get(name), self._found.get(name)
            if expected != found:
                yield Violation(f"call {name!r} of the model under other names", _shown(expected), _shown(found), _DO)


def _tagged(origins: Sequence[Origin], hierarchy: Hierarchy) -> list[tuple[Origin, str | None]]:
    return [(origin, hierarchy.tag(origin.call) if origin.call in hierarchy else None) for origin in origins]


def _text(origins: Sequence[Origin], hierarchy: Hierarchy) -> str:
    tags = (f"{tag or origin.call} ({origin.evidence.value})" for origin, tag in _tagged(origins, hierarchy))
    return ", ".join(tags) or "no origin"


def _text_of_calls(origins: Sequence[Origin], hierarchy: Hierarchy) -> str:
    return ", ".join(f"call {origin.call!r}, {_text([origin], hierarchy)}" for origin in origins) or "no origin"


def _shown(call: Call | None) -> str:
    return "no such call" if call is None else f"a call of {call.cls} by {call.parent!r}"
