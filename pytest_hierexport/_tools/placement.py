"""Assigns the nodes of modules to a device, in the two ways that ONNX Runtime has.

- By name: a node goes to the device of the longest pattern that is a part of its name. The model is not changed.
- By annotation: a node goes to the device of the rule for its metadata entry `layer_ann`.

A session takes one of the two settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import onnx

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.models import Model
from pytest_hierexport._onnx.proto_tags import clear_entries
from pytest_hierexport._tools.selection import OriginChoice, Selection, find_nodes
from pytest_hierexport._tools.tagged_file import described

if TYPE_CHECKING:
    import onnx_ir as ir

_BY_NAME = "session.name_based_layer_assignment"
_BY_ANNOTATION = "session.layer_assignment_settings"
_ANNOTATION = "layer_ann"
_MOST_BYTES = 8192
"""ONNX Runtime's limit for a configuration value of a session."""
_SYNTAX = frozenset("(),;")
"""The characters at which ONNX Runtime splits a setting."""


def place_nodes(
    model: Model,
    patterns: str | Sequence[str],
    device: str,
    *,
    attribution: Attribution | None = None,
    origins: OriginChoice = "primary",
) -> dict[str, str]:
    """Return the entry of an ONNX Runtime session that assigns the nodes of some modules to a device, by their names.

    Args:
        model: A tagged ONNX file, a `ModelProto` or an onnx_ir model; it is not changed.
        patterns: The modules; see :func:`select_nodes`.
        device: `cpu`, `gpu`, `npu`, … or an execution provider's name.
        attribution: The origins of the nodes; None reads the tags in the model.
        origins: As for :func:`select_nodes`. By default only the primary counts: a node runs on one device, so two
            selections must not share it.

    Raises:
        UsageError: No part of a name distinguishes these nodes from the others, or the setting is too long.
        TagError: The model has no tags.
    """
    return named_placement(find_nodes(*described(model, attribution), patterns, origins), device)


def annotate_nodes(
    model: onnx.ModelProto | ir.Model,
    patterns: str | Sequence[str],
    device: str,
    *,
    attribution: Attribution | None = None,
    origins: OriginChoice = "primary",
) -> dict[str, str]:
    """Annotate the nodes of some modules for a device, in place; return the entry for the session's options.

    Args:
        model: A tagged model; only the metadata `layer_ann` of the nodes changes.
        patterns: The modules; see :func:`select_nodes`.
        device: `cpu`, `gpu`, `npu`, … or an execution provider's name.
        attribution: The origins of the nodes; None reads the tags in the model.
        origins: As for :func:`select_nodes`.

    Raises:
        UsageError: A pattern matches no module or a module without nodes, or the device's name cannot be written.
        TagError: The model has no tags.
    """
    return annotated_placement(find_nodes(*described(model, attribution), patterns, origins), device)


def named_placement(selection: Selection, device: str) -> dict[str, str]:
    """Return the entry that assigns the selected nodes by name; see :func:`place_nodes`."""
    # A node of onnx_ir may have no name at all.
    others = "\0".join(node.name or "" for node in selection.others)
    _check_device(device)
    parts = _parts_of_names(selection.names(), others)
    _check_writable("names", "place the nodes by layer_ann, which needs no names", *parts)
    return _entry(_BY_NAME, device, parts)


def annotated_placement(selection: Selection, device: str) -> dict[str, str]:
    """Annotate the selected nodes, and return the entry; see :func:`annotate_nodes`."""
    _check_device(device)
    annotation = f"hierexport.{device}"
    for node in selection.nodes.values():
        _annotate(node, annotation)
    # `=` matches the whole annotation; without it, the rule for `gpu:1` would match the annotation of `gpu:10`.
    return _entry(_BY_ANNOTATION, device, [f"={annotation}"])


def _parts_of_names(names: Iterable[str], others: str) -> list[str]:
    """Return, for each name, its shortest beginning up to a slash that is in no name of `others`."""
    parts: dict[str, None] = {}
    refused: set[str] = set()
    for name in names:
        for part in (*(name[: i + 1] for i, character in enumerate(name) if i and character == "/"), name):
            if part in parts:
                break
            if part not in refused and part not in others:
                parts[part] = None
                break
            refused.add(part)
        else:
            raise UsageError(
                "names that are no part of another node's",
                found=f"{name!r}, which is",
                do="rename the nodes by hierexport rename or rename_nodes(), or place them by layer_ann",
            )
    return list(parts)


def _check_device(device: str) -> None:
    _check_writable("a device", "name one, such as cpu, gpu or npu, or an execution provider", device)


def _check_writable(what: str, do: str, *texts: str) -> None:
    for text in texts:
        if not text or text != text.strip() or text.startswith("=") or _SYNTAX.intersection(text):
            raise UsageError(
                f"{what} without ( ) , ; and without = or space at an end, which ONNX Runtime's setting cannot hold",
                found=repr(text),
                do=do,
            )


def _entry(option: str, device: str, rules: Sequence[str]) -> dict[str, str]:
    value = f"{device}({','.join(rules)})"
    if (size := len(value.encode())) > _MOST_BYTES:
        raise UsageError(
            f"a setting of at most {_MOST_BYTES:,} bytes, ONNX Runtime's limit",
            found=f"{size:,}",
            do="name the nodes after their modules by hierexport rename, or place them by layer_ann",
        )
    return {option: value}


def _annotate(node: Any, annotation: str) -> None:
    if not isinstance(node, onnx.NodeProto):
        node.metadata_props[_ANNOTATION] = annotation
        return
    clear_entries(node, lambda key: key == _ANNOTATION)
    node.metadata_props.add(key=_ANNOTATION, value=annotation)
