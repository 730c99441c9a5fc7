"""Leaves out work of torch's exporter that does not change the graph.

Where a release of torch or onnxscript has moved or changed what a shortcut builds on, that work is done again. MUST-005
compares each graph with that of the plain exporter.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

import pytest_hierexport
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.state import replaced


@contextmanager
def shortcuts() -> Iterator[None]:
    """Leave this work out while the context lasts."""
    with ExitStack() as stack:
        for (holder, name), shortcut in _SHORTCUTS.items():
            with suppress(ImportError, AttributeError):
                found = resolve_name(holder)
                stack.enter_context(replaced(found, name, shortcut(getattr(found, name))))
        yield


class _Unparsed:
    """Has the domain of a function of torch's library at hand; parses the function's source for all else."""

    def __init__(self, parse: Callable[[Any], Any], function: Any) -> None:
        self._parse, self._function = parse, function
        self.domain = function.opset.domain

    @calls_on
    def __getattr__(self, name: str) -> Any:
        return getattr(self._parse(self._function), name)


def _without_parsing(original: property) -> property:
    """Return a replacement of `function_ir`: torch asks 500 functions for their domains whenever it exports."""
    parse: Any = original.fget

    def function_ir(function: Any) -> Any:
        try:
            return _Unparsed(parse, function)
        except AttributeError:
            return parse(function)

    return property(function_ir)


def _where_the_root_fits(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `try_rewrite`, which tries 20 rules on every node.

    A pattern is matched from its first output node on. For one with several outputs, onnxscript lists all nodes of the
    graph before it looks whether that node fits: the time grows with the square of the number of layers.
    """
    from_the_root = resolve_name("onnxscript.rewriter._matcher:SimplePatternMatcher")

    @calls_on
    @functools.wraps(original)
    def try_rewrite(*args: Any, **options: Any) -> Any:
        with suppress(Exception):
            rule, _, _, node = args
            root = rule._target_pattern.output_nodes[0]
            fits = root.op.matches(node.op_type) and root.domain.matches(node.domain)
            matcher = rule._matcher
            if type(matcher) is from_the_root and not (fits and _first_output_fits(matcher, root, node)):
                return None
        return original(*args, **options)

    return try_rewrite


def _first_output_fits(matcher: Any, root: Any, node: Any) -> bool:
    """Whether a node fits the first output of a pattern with several outputs, as every match of it needs."""
    if matcher.pattern.has_single_output_node:
        return True
    matcher._tracer, matcher._graph = None, node.graph
    matcher._init_match(0)
    return bool(matcher._match_node(root, node))


_INNER = tuple(f"{Path(file).parent}{os.sep}" for file in (torch.__file__, pytest_hierexport.__file__))


def _of_the_model(original: Callable[..., Any]) -> Callable[..., Any]:
    """Leave torch's frames and ours out of the Python stack that torch writes down for every operation.

    They are most of it, torch reads their source, and it is not kept. What is left tells where in the model's own code
    a capture fails, but for a model of our zoo.
    """

    @calls_on
    @functools.wraps(original)
    def extract(*args: Any, **options: Any) -> Any:
        with suppress(Exception):
            frames, skip = args
            args = ([frame for frame in frames[skip:] if not frame["filename"].startswith(_INNER)], 0)
        return original(*args, **options)

    return extract


_SHORTCUTS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("onnxscript._internal.values:TracedOnnxFunction", "function_ir"): _without_parsing,
    ("onnxscript.rewriter._rewrite_rule:RewriteRule", "try_rewrite"): _where_the_root_fits,
    ("torch.utils._traceback", "_extract_symbolized_tb"): _of_the_model,
}
