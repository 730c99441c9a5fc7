"""Defines the contract between `export()` and a capture: a function (`Capturer`) from a `Request` to a `Capture`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

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
    """The graph before optimization with the call of each node, and the graph that the exporter wrote."""

    calls: tuple[Call, ...]
    """The calls of the forward pass, each after its parent."""
    before: Flat
    """A copy of the graph before optimization: nothing is folded or fused in it."""
    owners: Mapping[Node, tuple[str, ...]]
    """By node of `before`: its call, then the calls whose equal operations were removed; empty where it is unknown."""
    declared: Mapping[str, tuple[str, ...]]
    """The paths of the modules that declare each parameter or buffer, by its name, which its initializer has, too."""
    after: ir.Model
    """The graph that the exporter underneath gives with the options of the request."""
    notes: tuple[str, ...] = ()
    """What the user should know about the capture."""


class CannotCaptureError(Exception):
    """A capture cannot export the model, for the reason in the message; another capture may."""


Capturer: TypeAlias = Callable[[Request], Capture]
"""Exports the request's model and finds the call of every node; leaves the model as it was, also after an error.

It raises a :class:`CannotCaptureError`, or any error of the exporter underneath or of the model.
"""
