"""Defines the options of an export and the form of its inputs. Importing it imports neither torch nor onnx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import UsageError

if TYPE_CHECKING:
    from pytest_hierexport._calls.attribution import Primary
    from pytest_hierexport._onnx.codec import Tags
    from pytest_hierexport._onnx.node_names import NameStyle

EXPORTERS = ("auto", "dynamo", "transformers", "torchscript")
"""`auto`, and the names of `captures.CAPTURES` in their order, without an import of torch.

`auto` takes the first of the others that can export the model.
"""
_OLDEST_OPSET = 7
"""The oldest opset that torch's exporters write."""


@dataclass(frozen=True)
class ExportOptions:
    """The options of :func:`pytest_hierexport.export`, which describes them."""

    exporter: str = "auto"
    opset: int | None = None
    dynamic_shapes: Any = None
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    optimize: bool = True
    tags: Tags = "both"
    keep: Sequence[str] = ()
    external_data: bool | None = None
    primary: Primary = "first"
    strict: bool = False
    node_names: NameStyle | None = None

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names that inputs and outputs of the graph shall have."""
        return (*(self.input_names or ()), *(self.output_names or ()))


def is_own(exporter: str) -> bool:
    """Whether an exporter is a function of the user's project, `package.module:function`."""
    return ":" in exporter


def check_opset(opset: int | None) -> int | None:
    """Return a valid opset unchanged; None stands for the exporter's default.

    Raises:
        UsageError: The installed onnx does not define the opset, or no exporter of torch writes it.
    """
    if opset is None:
        return None
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if _OLDEST_OPSET <= opset <= newest:
        return opset
    raise UsageError(
        f"an opset from {_OLDEST_OPSET} to {newest}, the newest that the installed onnx defines",
        found=str(opset),
        do="ask for an opset in that range, or for none, which leaves it to the exporter",
    )


def check_value_names(names: Sequence[str]) -> None:
    """Check that each name for an input or output of a graph stands for one value.

    Raises:
        UsageError: A name is empty or given twice: the graph would not be valid, or torch would change the name.
    """
    refuse_names(name for name in names if not name or names.count(name) > 1)


def refuse_names(wrong: Iterable[str]) -> None:
    """Raise an error if there is a name that cannot be that of an input or output."""
    if found := ", ".join(map(repr, dict.fromkeys(wrong))):
        raise UsageError(
            "names that no other input, output or initializer of the graph has",
            found=found,
            do="give others in input_names and output_names",
        )


def as_inputs(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword inputs of example inputs as users write them.

    `args` is a tuple or list of positional inputs, a mapping of keyword inputs, or a single input.
    """
    if isinstance(args, Mapping):
        return (), {**args, **(kwargs or {})}
    return (tuple(args) if isinstance(args, (tuple, list)) else (args,)), dict(kwargs or {})
