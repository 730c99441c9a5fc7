"""Defines a rule, the exported case that it checks, and the violations that it returns."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._errors import (
    NoVerdictError,
    TagError,
    UsageError,
    gist,
    pass_on,
    raise_if_disk_full,
    refuse_coroutine,
)

if TYPE_CHECKING:
    import onnx

_LIKE = "the like"
_MORE = re.compile(r"and (\d+) more")

Needs = Literal["file", "model", "export"]
NEEDS: tuple[Needs, ...] = get_args(Needs)
"""What a rule may need, the cheapest first."""

Exporter = Callable[[Case, Example, Path], object]
"""Writes the tagged ONNX file of a case's example to a path."""


@dataclass(frozen=True)
class Violation:
    """One place where a case breaks a rule, or fails another check."""

    where: str
    """The node with its tag, the line of source, the file; empty for the model as a whole."""
    expected: str
    found: str
    do: str
    """The next step for the user."""


@dataclass(frozen=True)
class Rule:
    """One numbered promise."""

    id: str
    """`MUST-001`, or what a project calls its own."""
    promise: str
    """The property that holds, in a few words that follow the id."""
    check: Callable[[ExportedCase], Iterable[Violation]]
    """Gives the violations, none where the promise holds; a built-in rule counts those after the first 20."""
    cardinal: bool = False
    """Whether no selection of rules can leave it out."""
    deployed: bool = False
    """Whether it also holds for what the steps after an export make of the file."""
    needs: Needs = "file"
    """What the check needs: the `file` alone, which is cheap to read, a run of the `model`, or another `export`.

    The cheap rules of a model run first, and `--hierexport-fast` runs no others.
    """

    def violations(self, exported: ExportedCase) -> list[Violation]:
        """Return the violations that the check gives.

        Raises:
            NoVerdictError: It runs the model, which was built without weights.
            UsageError: The check of a project's own rule raises an error, or returns something else than violations.
        """
        if self.needs == "model" and exported.weightless:
            raise NoVerdictError(
                f"weights for {self.id}", found="not run: no weights", do="check it on the model with its weights"
            )
        try:
            returned: Any = self.check(exported)
            refuse_coroutine(returned, f"the check of {self.id}")
            is_list = isinstance(returned, Iterable) and not isinstance(returned, str)
            listed: list[Violation] = list(returned) if is_list else []
        except BaseException as error:
            pass_on(error)
            # An error in a check of ours is a fault of ours, whose traceback is needed.
            if _is_ours(self.check):
                raise
            raise_if_disk_full(error)
            expected = f"the check of {self.id} to run without an error"
            raise UsageError(expected, found=gist(error), do="correct the check") from error
        found = next(filter(None, map(_wrong_in, listed)), None) if is_list else _with_type(returned)
        if found is not None:
            raise UsageError(
                f"the check of {self.id} to return a list of Violation, or to yield them",
                found=found,
                do="return [] where the rule holds; for each place that breaks it give "
                "Violation(where=…, expected=…, found=…, do=…), all of them texts",
            )
        return listed


class ExportedCase:
    """A case and the file that its export gave: all that a rule sees.

    Args:
        case: The case.
        path: The ONNX file, its sidecar beside it.
        example: The case's model and inputs where they are at hand; else the case builds them when a rule asks.
        exporter_name: The capture that served, or `package.module:function` for an exporter of the project's own.
        exporter_source: The file that an exporter of the project's own is written in; found by its name where None.
        exporter: How the case was exported, for rules that do it again; None for the capture of that name.
    """

    def __init__(
        self,
        case: Case,
        path: str | Path,
        example: Example | None = None,
        exporter_name: str = "dynamo",
        exporter_source: str | Path | None = None,
        *,
        exporter: Exporter | None = None,
    ) -> None:
        """Look at nothing yet: the file is read and the model built when a rule asks."""
        self.case = case
        self.path = Path(path)
        self.exporter_name = exporter_name
        self.exporter_source = None if exporter_source is None else Path(exporter_source)
        self._example = example
        self._exporter = exporter

    def __repr__(self) -> str:
        """Return the case's name, its file and its exporter."""
        return f"<export of {self.case.name}: {self.path} by {self.exporter_name}>"

    @classmethod
    def of_file(cls, path: Path, allow_derived: int = 0) -> ExportedCase:
        """Return the case of a file without its model, for rules that need none."""

        def no_model() -> object:
            raise UsageError(
                "a model to run or export again",
                found=f"the file {path.name} alone",
                do="assert it of what the fixture hierexport gives",
            )

        return cls(Case(path.stem, no_model, str(path), allow_derived=allow_derived), path)

    @property
    def example(self) -> Example:
        """The model and its inputs, built once.

        Raises:
            CollectError: The factory fails.
        """
        if self._example is None:
            self._example = self.case.load()
        return self._example

    @cached_property
    def attribution(self) -> Attribution:
        """The tags that the file holds.

        Raises:
            TagError: It holds none, or broken ones.
        """
        from pytest_hierexport._onnx import storage

        return storage.read(self.path)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The file as a message, its external data left where it is.

        Raises:
            UsageError: It is no ONNX file.
        """
        from pytest_hierexport._onnx import storage

        return storage.load_proto(self.path)

    @property
    def weightless(self) -> bool:
        """Whether the model was built without weights.

        Raises:
            UsageError: The file is no ONNX file.
        """
        from pytest_hierexport._onnx.absent import lacks_data

        return lacks_data(self.proto)

    def result_of_step(self, case: Case, path: Path) -> ExportedCase:
        """Return the file that a step made of this one, for the same model and inputs."""
        return ExportedCase(case, path, self._example, self.exporter_name, self.exporter_source)

    def export_again(self, path: Path) -> ExportedCase:
        """Export the example once more as it is now, with the same exporter and options.

        Raises:
            HierexportError: It cannot be exported.
        """
        case, exporter = self._as_exported
        exporter(case, self.example, path)
        return ExportedCase(
            self.case, path, self._example, self.exporter_name, self.exporter_source, exporter=self._exporter
        )

    @property
    def _as_exported(self) -> tuple[Case, Exporter]:
        """The case and its exporter."""
        from pytest_hierexport._cases.exporting import export_case

        if self._exporter is not None:
            return self.case, self._exporter
        # Of `auto`, the capture that served: another one would give another graph.
        return replace(self.case, exporter=self.exporter_name), export_case

    def node(self, key: str) -> str:
        """Return a node's key with its tag, as violations name it."""
        try:
            return f"{key} ({self.attribution.tag(key)})"
        except (KeyError, TagError):
            return f"{key} (untagged)"


def limited(check: Callable[[ExportedCase], Iterator[Violation]]) -> Callable[[ExportedCase], Iterator[Violation]]:
    """Decorate a rule's check: its first violations are named, the others counted."""
    return lambda exported: at_most(check(exported))


def at_most(violations: Iterable[Violation], most: int = 20) -> Iterator[Violation]:
    """Yield the first violations, then one that counts the others."""
    listed = list(violations)
    yield from listed[:most]
    if more := listed[most:]:
        last = listed[most - 1]
        yield Violation(f"and {len(more)} more", last.expected, _LIKE, last.do)


def left_out(violation: Violation) -> int:
    """Return the number of places that a violation of :func:`at_most` counts; 0 for one that names its place.

    It is read from the texts: caches, reports and other processes hold these alone.
    """
    counted = _MORE.fullmatch(violation.where) if violation.found == _LIKE else None
    return int(counted[1]) if counted else 0


def places(violations: Iterable[Violation]) -> str:
    """Return the number of places that break a rule, those included that are counted alone."""
    number = sum(left_out(violation) or 1 for violation in violations)
    return "1 place" if number == 1 else f"{number} places"


def _is_ours(check: Callable[..., object]) -> bool:
    return (getattr(check, "__module__", None) or "").partition(".")[0] == __name__.partition(".")[0]


def _wrong_in(violation: object) -> str | None:
    """Return what keeps an object from being a violation; None where it is one."""
    if not isinstance(violation, Violation):
        return _with_type(violation)
    wrong = ((name, value) for name, value in vars(violation).items() if not isinstance(value, str))
    return next((f"a Violation with {name}={_with_type(value)}" for name, value in wrong), None)


def _with_type(value: object) -> str:
    return repr(value) if value is None else f"{reprlib.repr(value)} ({type(value).__name__})"
