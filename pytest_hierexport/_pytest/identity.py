"""What tells one export, and one rule, from another of the same name."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import platform
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_hierexport
from pytest_hierexport._cases.factories import find_module
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._files.paths import digest

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._rules.base import Rule

__all__ = ["export_identity", "key_of", "rule_identity"]

_PACKAGE = Path(pytest_hierexport.__file__)
_SHAPED_BY = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "transformers")


def key_of(case: Case) -> str:
    """Return the digest of a case and of how it is exported."""
    known: dict[str, object] = {
        "case": [case.name, case.source, str(case.anchor), _shape_of(case.factory)],
        "options": [case.exporter, case.opset, repr(case.dynamic_shapes), case.randomise, case.keep, case.strict],
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]


def export_identity(case: Case) -> str:
    """Return the digest of what exports a case: this package, an exporter of the project's own, what lies beneath."""
    known = [_package_digest(), _versions(), _own_exporter_digest(case.exporter)]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _shape_of(factory: object) -> list[str]:
    """Describe a factory without addresses: a partial's function and arguments, a function's name."""
    if isinstance(factory, partial):
        inner = [part for value in factory.args for part in (_shape_of(value) if callable(value) else [repr(value)])]
        return [*_shape_of(factory.func), *inner, repr(sorted(factory.keywords.items()))]
    return [f"{getattr(factory, '__module__', '')}.{getattr(factory, '__qualname__', type(factory).__name__)}"]


def rule_identity(rule: Rule, case: Case) -> str | None:
    """Return what a verdict rests on beside the export; None where the rule's source is out of reach."""
    try:
        source = inspect.getsourcefile(rule.check)
    except TypeError:
        return None
    if source is None:
        return None
    return f"{rule.id} {digest(Path(source))} {case.allow_derived} {sorted(case.tolerances.items())}"


@cache
def _package_digest() -> str:
    """Return the digest of this package's own code."""
    return _digest_of(_PACKAGE)


@cache
def _own_exporter_digest(exporter: str) -> str:
    """Return the digest of the package, or the file, that an exporter of the project's own is written in."""
    if not is_own(exporter):
        return ""
    found = find_module(exporter.partition(":")[0].partition(".")[0], Path.cwd())
    return "" if found is None or found.file is None else _digest_of(found.file)


def _digest_of(module: Path) -> str:
    """Return the digest of a file; of a package's `__init__.py`, of the package."""
    files = sorted(module.parent.rglob("*.py")) if module.name == "__init__.py" else [module]
    summed = hashlib.sha256()
    for path in files:
        summed.update(os.fsencode(path.relative_to(module.parent)) + b"\0" + path.read_bytes() + b"\0")
    return summed.hexdigest()


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _SHAPED_BY:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = ""
    return versions
