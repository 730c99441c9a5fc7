"""Skips work of torch's exporter that does not change the graph.

If a release of torch or onnxscript moves or changes a function that a shortcut replaces, the original does the work.
MUST-005 compares each graph with that of the plain exporter.
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

from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._files.paths import PACKAGE


@contextmanager
def shortcuts() -> Iterator[None]:
    """Skip this work while the context lasts."""
    with ExitStack() as stack:
        for (holder, name), shortcut in _SHORTCUTS.items():
            with suppress(ImportError, AttributeError):
                owner = resolve_name(holder)
                stack.enter_context(replaced(owner, name, shortcut(getattr(owner, name))))
        yield


class _Unparsed:
    """Gives the domain of a function of torch's library without parsing its source; any other attribute parses it."""

    def __init__(self, parse: Callable[[Any], Any], function: Any) -> None:
        self._parse, self._function = parse, function
        self.domain = function.opset.domain

    @calls_on
    def __getattr__(self, name: str) -> Any:
        return getattr(self._parse(self._function), name)


def _without_parsing(original: property) -> property:
    """Return a replacement of `function_ir`: each export reads the domains of 500 functions, and nothing else."""
    parse: Any = original.fget

    def function_ir(function: Any) -> Any:
        try:
            return _Unparsed(parse, function)
        except AttributeError:
            return parse(function)

    return property(function_ir)


def _as_kept(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `op_signature_from_function`: each export reads the annotations of 540 functions.

    torch keeps each signature on its function, but looks there only when it calls the function.
    """

    @calls_on
    @functools.wraps(original)
    def signature_of(*args: Any, **options: Any) -> Any:
        with suppress(Exception):
            kept = args[0]._pt_onnx_signature
            if _asked_for(*args, **options) == (kept.domain, kept.name, kept.overload, kept.since_version):
                return kept
        return original(*args, **options)

    return signature_of


def _asked_for(
    function: Any, domain: str, name: str | None = None, overload: str = "", *, since_version: int = 1
) -> tuple[object, ...]:
    return domain, name or function.__name__, overload, since_version


def _once_for_each_change(original: Callable[[], None]) -> Callable[[], None]:
    """Return a replacement of `_materialize_cpp_cia_ops`, which makes attributes of `torch.ops` for 800 operators.

    torch calls it twice for each of some 30 namespaces. Without a new operator there is nothing to do.
    """
    registered: Callable[[str], list[str]] = torch._C._dispatch_get_registrations_for_dispatch_key
    made: list[str] = []

    @calls_on
    @functools.wraps(original)
    def materialize() -> None:
        present = registered("CompositeImplicitAutograd")
        if present != made:
            original()
            made[:] = present

    return materialize


def _without_annotations(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `py_impl`, which each export calls 11,000 times, for kernels of a dispatch key.

    It defines a function, and before Python 3.14 most of its time goes into that function's annotations.
    """
    keys, python = torch._C.DispatchKey, torch._C.DispatchKey.Python

    @calls_on
    @functools.wraps(original)
    def py_impl(operator: Any, key: Any) -> Any:
        if type(key) is not keys or key == python or key in operator.py_kernels:
            return original(operator, key)

        def register(kernel: Any) -> Any:
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()
            return kernel

        return register

    return py_impl


def _root_first(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `try_rewrite`, which tries 20 rules on every node, that tests the pattern's root first.

    onnxscript matches a pattern from its first output node, the root. For a pattern with several outputs, it lists all
    nodes of the graph before it tests the root: the time grows with the square of the number of layers.
    """
    matches_from_root = resolve_name("onnxscript.rewriter._matcher:SimplePatternMatcher")

    @calls_on
    @functools.wraps(original)
    def try_rewrite(*args: Any, **options: Any) -> Any:
        with suppress(Exception):
            rule, _, _, node = args
            root = rule._target_pattern.output_nodes[0]
            fits = root.op.matches(node.op_type) and root.domain.matches(node.domain)
            matcher = rule._matcher
            if type(matcher) is matches_from_root and not (fits and _first_output_fits(matcher, root, node)):
                return None
        return original(*args, **options)

    return try_rewrite


def _first_output_fits(matcher: Any, root: Any, node: Any) -> bool:
    """Whether a node matches the first output node of a pattern; True for a pattern with one output node."""
    if matcher.pattern.has_single_output_node:
        return True
    matcher._tracer, matcher._graph = None, node.graph
    matcher._init_match(0)
    return bool(matcher._match_node(root, node))


_INNER = tuple(f"{folder}{os.sep}" for folder in (Path(torch.__file__).parent, PACKAGE))
"""The folders of torch and of this package."""


def _without_inner_frames(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of `_extract_symbolized_tb` without the frames of torch and of this package.

    torch records the Python stack of every operation and reads the source of each frame. Most frames are of these two
    packages, and the stacks do not get into the file. The frames of the model remain: they say in an error which line
    of the model failed. (Frames of the zoo's models are lost: the zoo is in this package.)
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
    ("onnxscript.rewriter._rewrite_rule:RewriteRule", "try_rewrite"): _root_first,
    ("torch._ops:OperatorBase", "py_impl"): _without_annotations,
    ("torch._export.utils", "_materialize_cpp_cia_ops"): _once_for_each_change,
    ("torch.onnx._internal.exporter._schemas", "op_signature_from_function"): _as_kept,
    ("torch.utils._traceback", "_extract_symbolized_tb"): _without_inner_frames,
}
"""The replaced functions, as owner and attribute, each with the function that makes its replacement."""
