"""Defines the contract between `export()` and an exporter: the request, the capture and the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._export.choices import ExportOptions

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch

    from pytest_hierexport._carry.flat import Flat, Node


@dataclass(frozen=True)
class Request:
    """A model, its example inputs and the options of its export."""

    model: torch.nn.Module | torch.export.ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: ExportOptions


@dataclass(frozen=True)
class Capture:
    """A graph as it was first captured, the calls behind it, and what the exporter made of it."""

    calls: tuple[Call, ...]
    """Every call after the one that made it."""
    before: Flat
    """A copy of the graph as captured: nothing merged, folded or fused yet."""
    nodes: Mapping[Node, str | None]
    """The call of every node of `before`; None where the capture does not know."""
    owners: Mapping[str, tuple[str, ...]]
    """The paths of the modules that own each initializer of `before` which is a parameter, buffer or constant."""
    after: ir.Model
    """The graph that the exporter underneath gives, with the very options of the request."""
    also: Mapping[Node, tuple[str, ...]] = field(default_factory=dict)
    """Further calls that computed the same as a node, and were dropped for it before there was a graph."""
    notes: tuple[str, ...] = ()
    """What people should know of how the graph was captured."""


class CannotCaptureError(Exception):
    """A capture that cannot serve a request says why; the next one is tried."""


class Capturer(Protocol):
    """A way to get an ONNX graph out of a model together with the call of every operation."""

    def __call__(self, request: Request) -> Capture:
        """Capture the request's model and leave it as it was, whatever happens.

        Raises:
            CannotCaptureError: It cannot serve this request.
            Exception: What the exporter underneath or the model raised.
        """
