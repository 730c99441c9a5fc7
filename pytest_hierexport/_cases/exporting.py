"""Exports a case to a tagged file, by an exporter of this package or by a function of the project."""

from __future__ import annotations

import inspect
import logging
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.factories import folder_as_found
from pytest_hierexport._errors import ExportError, TagError, UsageError, first_told, gist, pass_on, refuse_coroutine
from pytest_hierexport._export.choices import ExportOptions, is_own
from pytest_hierexport._export.result import Export
from pytest_hierexport._files.atomic import staged
from pytest_hierexport._onnx.sidecar import sidecar_path
from pytest_hierexport._stages import stage

_DEFAULTS = ExportOptions()
_OLD_OPSET = 17
"""An opset below those that torch's exporters write by themselves."""


def export_case(case: Case, example: Example, path: Path, options: ExportOptions = _DEFAULTS) -> Export:
    """Export a case's example with the case's options, and with those that a case does not have.

    A function of the project takes none of the latter.

    Raises:
        HierexportError: It cannot be exported or written.
    """
    from pytest_hierexport._export.pipeline import export_with

    with stage("exporting"), _no_logs():
        if is_own(case.exporter):
            exported = _by_own(case, example, path)
        else:
            options = replace(
                options,
                exporter=case.exporter,
                opset=case.opset,
                dynamic_shapes=example.dynamic_shapes,
                keep=case.keep,
                strict=bool(case.strict),
            )
            exported = export_with(options, example.model, example.args, example.kwargs, path)
    return replace(exported, notes=(*example.notes, *exported.notes))


def _by_own(case: Case, example: Example, path: Path) -> Export:
    """Call a function of the project as `function(model, args, kwargs, path)`, and read the tags that it wrote.

    If the case states an `opset` or `dynamic_shapes`, these are passed by name.
    """
    import torch

    from pytest_hierexport._export.state import WAS_TRAINING, as_found, in_eval_mode, weights_as_found
    from pytest_hierexport._onnx import storage
    from pytest_hierexport._onnx.models import as_ir
    from pytest_hierexport._proof.tensors import copied

    function = own_function(case.exporter)
    stated = {"opset": case.opset, "dynamic_shapes": example.dynamic_shapes}
    options = {name: value for name, value in stated.items() if value is not None}
    _check_signature(case.exporter, function, options)
    model = example.model
    with _landing(path) as made, _no_warnings_between_packages():
        own = running_own(f"{case.exporter} to export {case.name}", "call it on the same model and inputs")
        with as_found(model), weights_as_found(model), in_eval_mode(model) as trained, torch.no_grad(), own:
            # It may run the model, which may write to its inputs, as to a cache of keys and values.
            args, kwargs = copied((example.args, dict(example.kwargs)))
            returned = function(model, args, kwargs, made, **options)
            refuse_coroutine(returned, case.exporter)
        check_written(made, case.exporter, "write the tagged model to the given path")
        proto, attribution = storage.load_proto(made), _tags_of(made, case.exporter)
    return Export(as_ir(proto), attribution, (), case.exporter, (WAS_TRAINING,) if trained else (), path=path)


def _tags_of(path: Path, exporter: str) -> Attribution:
    """Return the tags that a function of the project wrote."""
    from pytest_hierexport._onnx import storage

    try:
        return storage.read(path)
    except TagError as error:
        raise TagError(
            f"{exporter} to write {error.expected}",
            found=error.found.replace(str(path), path.name),
            do=f"{error.do}; pytest_hierexport.save() writes a model with its tags",
        ) from error


@contextmanager
def running_own(expected: str, do: str) -> Iterator[None]:
    """Run a function of the project: tell the user of its error, and restore what it may leave behind in the process.

    These are the working folder and torch's default dtype.
    """
    import torch

    dtype = torch.get_default_dtype()
    try:
        with folder_as_found():
            yield
    except BaseException as error:
        pass_on(error)
        raise ExportError(expected, found=first_told(error), do=f"{do}, and fix the error that it raises") from error
    finally:
        torch.set_default_dtype(dtype)


def check_written(path: Path, who: str, do: str) -> None:
    """Raise an ExportError where a function of the project has not written the file that it was asked for."""
    if not path.is_file():
        raise ExportError(f"{who} to write {path.name}", found="no such file after it returned", do=do)


@contextmanager
def _landing(path: Path) -> Iterator[Path]:
    """Give a path for a new file; at the end it and the files beside and below it replace the old ones atomically."""
    with staged(path) as stage:
        made = stage.folder / path.name
        yield made
        sidecar_path(path).unlink(missing_ok=True)
        files = [file for file in stage.folder.rglob("*") if file.is_file()]
        files.sort(key=lambda file: (file == sidecar_path(made), file == made, file))
        stage.land([str(file.relative_to(stage.folder)) for file in files])


def own_function(name: str) -> Callable[..., object]:
    """Return the function that `package.module:function` names.

    Raises:
        UsageError: There is none.
    """
    try:
        found: Any = pkgutil.resolve_name(name)
    except BaseException as error:  # the import runs code of the project
        pass_on(error)
        raise UsageError(
            f"a function {name}",
            found=gist(error),
            do="name a function of a module that Python can import",
        ) from error
    if not callable(found):
        raise UsageError(f"{name} to be a function", found=f"a {type(found).__name__}", do="name a function")
    return found  # type: ignore[no-any-return]  # any callable


def module_of(function: Callable[..., object]) -> str:
    """Return the name of the module that a function is written in; empty where it has none."""
    return str(getattr(_unwrapped(function), "__module__", None) or "")


def _unwrapped(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function inside of decorators and partials."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    return function


def own_source(name: str) -> Path | None:
    """Return the file in which a function of the project is written, or the class of a callable object.

    Raises:
        UsageError: There is no such function.
    """
    function = _unwrapped(own_function(name))
    for each in (function, type(function)):
        # What is written in another language has no source.
        with suppress(TypeError):
            path = inspect.getsourcefile(each)
            return None if path is None else Path(path)
    return None


def with_other_options(case: Case, example: Example) -> Iterator[tuple[Case, Example]]:
    """Yield a case with options that its exporter, a function of the project, takes and the case does not state.

    The first has all of them. Others follow with each alone, for one may keep the function from its code for another.
    """
    try:
        function = own_function(case.exporter)
    except UsageError:
        return
    opset = _OLD_OPSET if case.opset is None and _takes(function, "opset") else None
    takes_shapes = example.dynamic_shapes is None and _takes(function, "dynamic_shapes")
    shapes = _any_batch(example) if takes_shapes else None
    tries = [(opset, shapes)] if opset is None or shapes is None else [(opset, shapes), (opset, None), (None, shapes)]
    for each, dynamic in tries:
        if each is not None or dynamic is not None:
            stated = replace(example, dynamic_shapes=dynamic or example.dynamic_shapes)
            yield replace(case, opset=each or case.opset), stated


def _any_batch(example: Example) -> dict[str, Any] | None:
    """Return shapes with dynamic first dimensions, by the names of the inputs; None where they have no such form."""
    from torch import Tensor
    from torch.export import Dim
    from torch.utils._pytree import tree_map

    dimensions = {0: Dim.AUTO}
    try:
        given = inspect.signature(example.model.forward).bind(*example.args, **example.kwargs).arguments
        shapes: Any = tree_map(lambda x: dimensions if isinstance(x, Tensor) and x.ndim else None, dict(given))
    except Exception:  # noqa: BLE001  # a class of inputs may take tensors alone, and a forward may have no signature
        return None
    return shapes  # type: ignore[no-any-return]  # of the form of the inputs


def _takes(function: Callable[..., object], option: str) -> bool:
    with suppress(TypeError, ValueError):
        _bind(function, {option: None})
        return True
    return False


def _bind(function: Callable[..., object], options: Mapping[str, Any]) -> None:
    inspect.signature(function).bind(*("model", "args", "kwargs", "path"), **options)


def _check_signature(name: str, function: Callable[..., object], options: Mapping[str, Any]) -> None:
    try:
        _bind(function, options)
    except TypeError as error:
        taken = ", ".join(["model, args, kwargs, path", *(f"{option}=" for option in options)])
        raise UsageError(
            f"{name} to take ({taken})",
            found=str(error),
            do="add these parameters, or leave out the options that it does not support",
        ) from None
    except ValueError:
        return  # a function without a signature; calling it shows whether it takes them


@contextmanager
def _no_warnings_between_packages() -> Iterator[None]:
    """Silence what torch and ONNX's packages warn each other of; warnings that name a line of the project stay.

    torch copies trees of a class that it deprecates, of which it warns in `copyreg`.
    """
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", category=category, module=r"(copyreg|torch|onnx\w*)(\.|$)")
        yield


@contextmanager
def _no_logs() -> Iterator[None]:
    """Silence logging: torch logs tracebacks of errors that this package reports."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
