"""Composes, writes and reads the sidecar `NAME.hierarchy.json`: the tags of an ONNX file and its module tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._calls.entries import trainable_elements
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._calls.modules import Module, Parameter, element_count
from pytest_hierexport._errors import TagError
from pytest_hierexport._files.paths import sha256
from pytest_hierexport._files.schemas import schema_error
from pytest_hierexport._files.versions import installed_versions
from pytest_hierexport._onnx.codec import (
    FORMAT_VERSION,
    Reader,
    calls_to_json,
    check_format,
    hierarchy_from_json,
    origins_to_json,
)
from pytest_hierexport._onnx.graph import graph_inputs
from pytest_hierexport._onnx.json_text import compact, parse_json, refusing_deep_json

if TYPE_CHECKING:
    import onnx

# The distributions whose versions may change an export.
_DISTRIBUTIONS = ("pytest-hierexport", "torch", "transformers", "onnx", "onnx-ir", "onnxscript")
_SUFFIX = ".onnx"


@dataclass(frozen=True)
class Sidecar:
    """The content of a sidecar."""

    attribution: Attribution
    modules: tuple[Module, ...]
    """Every module instance of the model, called or not, with its own parameters and buffers."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: Mapping[str, str]
    """Distribution → version, of the packages that the export used."""
    sha256: str
    """The SHA-256 of the ONNX file, without its external data, in lower-case hexadecimal."""
    exporter: str
    """The capture that succeeded; empty if it is unknown."""


def sidecar_path(path: str | Path) -> Path:
    """Return the path of an ONNX file's sidecar: `NAME.hierarchy.json` beside `NAME.onnx`."""
    path = Path(path)
    name = path.name[: -len(_SUFFIX)] if path.name.lower().endswith(_SUFFIX) else path.name
    return path.with_name(f"{name}.hierarchy.json")


def compose(
    proto: onnx.ModelProto, sha256: str, attribution: Attribution, modules: Iterable[Module], exporter: str
) -> Sidecar:
    """Return the sidecar of a model, given the SHA-256 of its file."""
    return Sidecar(
        attribution=attribution,
        modules=tuple(modules),
        inputs=tuple(value.name for value in graph_inputs(proto.graph)),
        outputs=tuple(value.name for value in proto.graph.output),
        versions=installed_versions(_DISTRIBUTIONS),
        sha256=sha256,
        exporter=exporter,
    )


def to_text(sidecar: Sidecar) -> str:
    """Return the sidecar as JSON, an entry per line; equal sidecars give equal texts."""
    attribution = sidecar.attribution
    document = {
        "format": FORMAT_VERSION,
        "sha256": sidecar.sha256,
        "exporter": sidecar.exporter,
        "versions": dict(sidecar.versions),
        "inputs": sidecar.inputs,
        "outputs": sidecar.outputs,
        "coverage": attribution.coverage(),
        "keep": sorted(attribution.hierarchy.keep),
        "calls": calls_to_json(attribution.hierarchy),
        "modules": [_module_to_json(module) for module in sidecar.modules],
        "nodes": _origins_to_json(attribution.hierarchy, attribution.nodes),
        "initializers": _origins_to_json(attribution.hierarchy, attribution.initializers),
    }
    return "{\n" + ",\n".join(f"{compact(name)}: {_lines(value)}" for name, value in document.items()) + "\n}\n"


def _lines(value: object) -> str:
    """Return JSON with a line for each entry of a list or object."""
    if isinstance(value, Mapping) and value:
        return "{\n" + ",\n".join(f"{compact(key)}: {compact(entry)}" for key, entry in value.items()) + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(compact, value)) + "\n]"
    return compact(value)


def _origins_to_json(hierarchy: Hierarchy, by_key: Mapping[str, Origins]) -> dict[str, Any]:
    return {
        key: {"tag": hierarchy.tag(origins[0].call) if origins else None, "origins": origins_to_json(origins)}
        for key, origins in by_key.items()
    }


def _module_to_json(module: Module) -> dict[str, Any]:
    return {
        "path": module.path,
        "class": module.cls,
        "parameters": [
            {"name": p.name, "shape": p.shape, "dtype": p.dtype, "trainable": p.trainable}
            | ({} if p.shared is None else {"shared": p.shared})
            for p in module.parameters
        ],
        "count": trainable_elements(module),
    } | ({} if module.shared is None else {"shared": module.shared})


def read_sidecar(path: str | Path) -> Sidecar:
    """Read the sidecar of an ONNX file.

    Args:
        path: The ONNX file; neither its tags nor its external data are read.

    Raises:
        TagError: There is no sidecar, it belongs to another file, has an unknown format, or violates the schema.
    """
    sidecar = sidecar_beside(path)
    check_fits(path, sidecar)
    return sidecar


def sidecar_beside(path: str | Path) -> Sidecar:
    """Read the sidecar of an ONNX file; it is not checked whether it belongs to this version of the file.

    Raises:
        TagError: There is no sidecar, it has an unknown format, or violates the schema.
    """
    beside = sidecar_path(path)
    try:
        return parse(beside.read_text(encoding="utf-8"), str(beside))
    except OSError as error:
        raise _missing(path, error) from None
    except UnicodeDecodeError as error:
        raise _broken(str(beside), str(error)) from None


def check_fits(path: str | Path, sidecar: Sidecar) -> None:
    """Check that a sidecar belongs to an ONNX file.

    Raises:
        TagError: It belongs to another file.
    """
    try:
        found = sha256(Path(path))
    except OSError as error:
        raise _missing(path, error) from None
    if found != sidecar.sha256:
        raise TagError(
            f"{sidecar_path(path).name} to be the sidecar of {path}, whose SHA-256 is {found}",
            found=f"the sidecar of a file whose SHA-256 is {sidecar.sha256}",
            do="export the model again: one of the two files was changed or replaced without the other",
        )


def _missing(path: str | Path, error: OSError) -> TagError:
    return TagError(
        f"the ONNX file {path} with its sidecar beside it",
        found=f"{error.strerror}: {error.filename}",
        do="export the model, which writes both, or keep the two files together",
    )


def parse(text: str, where: str = "the sidecar") -> Sidecar:
    """Parse the text that :func:`to_text` returns.

    Raises:
        TagError: The text is not JSON, has an unknown format, violates the schema, or contradicts itself.
    """
    document = parse_json(text, where)
    with refusing_deep_json(where):
        if isinstance(document, dict) and "format" in document:
            check_format(document["format"])
        if (found := schema_error("sidecar", document)) is not None:
            raise _broken(where, found)
        reader = Reader(hierarchy_from_json(document["calls"], document["keep"]))
        return Sidecar(
            attribution=_attribution(document, reader, where),
            modules=tuple(_module(module, where) for module in document["modules"]),
            inputs=tuple(document["inputs"]),
            outputs=tuple(document["outputs"]),
            versions=document["versions"],
            sha256=document["sha256"],
            exporter=document["exporter"],
        )


def _attribution(document: Mapping[str, Any], reader: Reader, where: str) -> Attribution:
    nodes, initializers = (
        {key: reader.from_json(entry["origins"], entry["tag"]) for key, entry in document[part].items()}
        for part in ("nodes", "initializers")
    )
    attribution = Attribution(reader.hierarchy, nodes, initializers)
    if attribution.coverage() != document["coverage"]:
        raise _broken(where, f"the coverage {compact(document['coverage'])}, which is not that of its nodes")
    return attribution


def _module(module: Mapping[str, Any], where: str) -> Module:
    parameters = tuple(_parameter(parameter, where) for parameter in module["parameters"])
    return Module(module["path"], module["class"], parameters, module.get("shared"))


def _parameter(parameter: Mapping[str, Any], where: str) -> Parameter:
    # JSON Schema also accepts 2.0 and 1e300 as integers.
    shape = tuple(int(dimension) for dimension in parameter["shape"])
    try:
        element_count(shape)
    except ValueError as error:
        raise _broken(where, f"{error}, in the parameter {parameter['name']!r}"[:300]) from None
    return Parameter(parameter["name"], shape, parameter["dtype"], parameter["trainable"], parameter.get("shared"))


def _broken(where: str, found: str) -> TagError:
    return TagError(f"{where} to follow the format", found=found, do="export the model again: the sidecar was changed")
