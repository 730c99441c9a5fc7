"""What `If`, `Loop` and `Scan` run, and on what: each asks the run one question and feeds its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.helper import make_node, make_tensor_value_info

from pytest_hierexport._proof.bodies import body_of
from pytest_hierexport._proof.values import Array

__all__ = ["CONTROL", "Control", "Feed", "Question", "control"]


@dataclass(frozen=True)
class Question:
    """A value that tells what a node ran, and how to get it."""

    value: str
    extra: tuple[onnx.NodeProto, ...] = ()
    """Nodes that make the value."""
    instead: onnx.NodeProto | None = None
    """The node that makes the value besides all that the node itself makes."""


@dataclass(frozen=True)
class Feed:
    """What one input of a body is bound to."""

    value: str
    makers: tuple[onnx.NodeProto, ...] = ()
    """The nodes that make it, where nothing in the graph does."""


@dataclass(frozen=True)
class Control:
    """A node that runs a body of its own, once or many times.

    Attributes:
        node: The node.
        name: The name of one of its outputs, in front of the names that are made up for it.
    """

    node: onnx.NodeProto
    name: str

    def question(self) -> Question:
        """Return what must be known of a run before the body can be entered."""
        raise NotImplementedError

    def body(self, answer: Array) -> str:  # noqa: ARG002  # an If's depends on it
        """Return the attribute that holds the body which ran."""
        return "body"

    def times(self, answer: Array) -> int | None:
        """Return how often it ran; None where it cannot run more than once."""
        raise NotImplementedError

    def feeds(self, place: str, time: int, before: Sequence[str]) -> list[Feed]:
        """Return what the body's inputs are bound to.

        Args:
            place: What names of new values begin with.
            time: Which iteration it is.
            before: What the body gave in the iteration before; empty in the first.
        """
        raise NotImplementedError


class _If(Control):
    def question(self) -> Question:
        value = f"{self.name}//condition"
        return Question(value, (make_node("Identity", [self.node.input[0]], [value]),))

    def body(self, answer: Array) -> str:
        return "then_branch" if answer.all() else "else_branch"

    def times(self, answer: Array) -> None:  # noqa: ARG002
        return None

    def feeds(self, place: str, time: int, before: Sequence[str]) -> list[Feed]:  # noqa: ARG002
        return []


class _Loop(Control):
    def question(self) -> Question:
        """Let the loop give the number of each iteration besides what it gives."""
        value = f"{self.name}//iterations"
        counted = onnx.NodeProto()
        counted.CopyFrom(self.node)
        body = body_of(counted, "body")
        counted.output.extend(f"{self.name}//{i}" for i in range(len(counted.output), len(body.output) - 1))
        counted.output.append(value)
        body.node.append(make_node("Identity", [body.input[0].name], [value]))
        body.output.append(make_tensor_value_info(value, onnx.TensorProto.INT64, _shape(body.input[0])))
        return Question(value, instead=counted)

    def times(self, answer: Array) -> int:
        return int(answer.shape[0])

    def feeds(self, place: str, time: int, before: Sequence[str]) -> list[Feed]:
        body = body_of(self.node, "body")
        number = _constant(f"{place}{body.input[0].name}", np.full(_shape(body.input[0]), time, np.int64))
        going_on = _constant(f"{place}{body.input[1].name}", np.full(_shape(body.input[1]), fill_value=True))
        carried = before[1:] if before else self.node.input[2:]
        return [number, going_on, *map(Feed, carried[: len(body.input) - 2])]


class _Scan(Control):
    def question(self) -> Question:
        value = f"{self.name}//shape"
        return Question(value, (make_node("Shape", [self._scanned[0]], [value]),))

    def times(self, answer: Array) -> int:
        return int(answer[self._setting("scan_input_axes", 0)])

    def feeds(self, place: str, time: int, before: Sequence[str]) -> list[Feed]:
        states = len(self.node.input) - len(self._scanned)
        carried = before or self.node.input
        slices = [self._slice(f"{place}{i}", i, value, time) for i, value in enumerate(self._scanned)]
        return [*map(Feed, carried[:states]), *slices]

    @property
    def _scanned(self) -> Sequence[str]:
        count = next(attribute.i for attribute in self.node.attribute if attribute.name == "num_scan_inputs")
        return list(self.node.input[-count:])

    def _setting(self, name: str, i: int) -> int:
        values = next((attribute.ints for attribute in self.node.attribute if attribute.name == name), None)
        return values[i] if values else 0

    def _slice(self, name: str, i: int, value: str, time: int) -> Feed:
        backwards = self._setting("scan_input_directions", i)
        index = _constant(f"{name}/index", np.array(-1 - time if backwards else time, np.int64))
        axis = self._setting("scan_input_axes", i)
        return Feed(name, (*index.makers, make_node("Gather", [value, index.value], [name], axis=axis)))


_KINDS: Mapping[str, type[Control]] = {"If": _If, "Loop": _Loop, "Scan": _Scan}
CONTROL = frozenset(_KINDS)
"""The operators whose bodies are entered."""
_OLDEST_SCAN = 9
"""Before this operator version Scan ran over batches."""


def control(node: onnx.NodeProto, opset: int, name: str) -> Control | None:
    """Return what is known of a node that runs a body; None for any other node."""
    kind = _KINDS.get(node.op_type) if node.domain in {"", "ai.onnx"} else None
    return None if kind is None or (kind is _Scan and opset < _OLDEST_SCAN) else kind(node, name)


def _constant(name: str, array: Array) -> Feed:
    return Feed(name, (make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)),))


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape that a body declares for its counter or its condition: of one element in any case."""
    kind: Any = value.type.tensor_type
    return (1,) * len(kind.shape.dim)
