"""One case of `benchmarks/replay.py`: what it keeps of an export, and what today's code makes of that."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import onnxruntime
import torch

# All that the net touches of the package stands here: a change of one of these names changes this file only.
from benchmarks import libraries
from benchmarks.model_types import all_types
from benchmarks.replay_formats import Blobs, fx_from_json, fx_to_json, pack, unpack
from pytest_hierexport._calls.attribution import Attribution, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._carry import Attributed, Flat, carry_flat, flat_copy
from pytest_hierexport._cases import Case, Example, select
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.capture import Capture, Request
from pytest_hierexport._export.captures import capture_with
from pytest_hierexport._export.choices import ExportOptions
from pytest_hierexport._export.dynamo import capturer as dynamo
from pytest_hierexport._export.dynamo.dropped import noting_dropped
from pytest_hierexport._export.dynamo.node_stacks import stacks
from pytest_hierexport._export.torchscript import capturer as torchscript
from pytest_hierexport._export.traced import attribute_before
from pytest_hierexport._proof import prove

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Observed", "all_names", "carrying", "case_of", "check", "needs_capture", "proving", "record"]

Observed = dict[str, dict[str, Any]]
"""What the code gave, by section (`origins after`, `verdicts`) and there by node, initializer or call."""
Notes = dict[str, list[list[str]]]
_NOTED = "noted for dropped nodes"
_CALLS_OF_A_SEED = 60
_LIBRARIES = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime")


def all_names(seeds: int) -> list[str]:
    """Return the names of all cases that can be recorded: the zoo, seeds from 0 on, types and libraries."""
    types = all_types()
    # Any part of a run stands for all.
    Random(0).shuffle(types)
    zoo = [case.name for case in select(["all"], Path())]
    of_libraries = [name.replace("/", ".", 1) for name in libraries.models() if find_spec(name.partition("/")[0])]
    kinds = {"zoo": zoo, "seed": range(seeds), "type": types, "library": of_libraries}
    return [f"{kind}/{key}" for kind, keys in kinds.items() for key in keys]


def case_of(name: str) -> Case:
    """Return the case of a name: `zoo/bert`, `seed/17`, `type/bert`, `library/monai.VNet`."""
    kind, _, key = name.partition("/")
    if kind == "zoo":
        return select([key], Path())[0]
    if kind == "seed":
        from architectures import generate

        return generate(Random(int(key)), _CALLS_OF_A_SEED).case(source=name)
    if kind == "library":
        return Case(key, partial(libraries.build, key.replace(".", "/", 1)), name)
    from benchmarks.tiny_types import build

    return Case(key, partial(build, key), name)


@dataclass(frozen=True)
class _Captured:
    """A capture, as it is stored."""

    exporter: str
    calls: list[list[Any]]
    """Path, index, class and parent of each."""
    nodes: list[list[Any]]
    """Key, call and further calls of each node of the graph before, in order."""
    owners: dict[str, list[str]]
    before: bytes
    after: bytes
    drops: list[dict[str, Any]]
    """The fx graphs of which torch dropped something."""
    noted: Notes
    """What the capture noted on their nodes."""

    def again(self, blobs: Blobs) -> Capture:
        """Return what the package's capture gave.

        Raises:
            ValueError: The stored graph has other nodes for the package than it had.
        """
        before = flat_copy(unpack(self.before, blobs))
        keys = [key for key, *_ in self.nodes]
        if [node.key for node in before.nodes] != keys:
            raise ValueError("the nodes of the graph before have other keys, or another order")
        return Capture(
            calls=tuple(Call(*parts) for parts in self.calls),
            before=before,
            owners={
                node: () if calls[0] is None else tuple(calls)
                for node, (_, *calls) in zip(before.nodes, self.nodes, strict=True)
            },
            declared={name: tuple(paths) for name, paths in self.owners.items()},
            after=unpack(self.after, blobs),
        )


def _capture(case: Case, example: Example) -> tuple[Capture, str]:
    """Capture an example with its case's options; return the capture and the exporter that served."""
    options = ExportOptions(exporter=case.exporter, opset=case.opset, dynamic_shapes=example.dynamic_shapes)
    served = capture_with(Request(example.model, example.args, example.kwargs, options))
    return served.capture, served.exporter


def _watched_capture(case: Case, example: Example, blobs: Blobs) -> tuple[Capture, _Captured]:
    """Capture an example; return the capture and what is stored of it and of what it was given."""
    with _watching(blobs) as (graphs, drops):
        capture, exporter = _capture(case, example)
    return capture, _Captured(
        exporter,
        [[call.path, call.index, call.cls, call.parent] for call in capture.calls],
        [[node.key, *(capture.owners[node] or (None,))] for node in capture.before.nodes],
        {name: list(paths) for name, paths in capture.declared.items()},
        next(data for flat, data in graphs if flat is capture.before),
        pack(capture.after, blobs),
        [json.loads(text) for text in drops],
        {f"graph {i} {name}": also for i, noted in enumerate(drops.values()) for name, also in noted.items()},
    )


@contextlib.contextmanager
def _watching(blobs: Blobs) -> Iterator[tuple[list[tuple[Flat, bytes]], dict[str, Notes]]]:
    """Collect the graphs that captures copy before torch changes them, and fx graphs before something is dropped.

    Raises:
        Exception: What went wrong here, at the end: inside an export it would make another capture serve.
    """
    graphs: list[tuple[Flat, bytes]] = []
    drops: dict[str, Notes] = {}
    failures: list[Exception] = []

    def copying(model: ir.Model) -> Flat:
        flat = flat_copy(model)
        with _collected(failures):
            graphs.append((flat, pack(model, blobs)))
        return flat

    def dropping(original: Any) -> Any:
        noting = noting_dropped(original)

        def eliminate_dead_code(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> bool:
            if all(node.users for node in graph.nodes if node.op == "call_function"):
                return bool(noting(graph, *args, **kwargs))
            text = ""
            with _collected(failures):
                text = json.dumps(fx_to_json(graph))
            had = {node: len(stacks(node)) for node in graph.nodes}
            dropped: bool = noting(graph, *args, **kwargs)
            drops[text] = {node.name: also for node in graph.nodes if (also := _ends(stacks(node)[had[node] :]))}
            return dropped

        return eliminate_dead_code

    with (
        mock.patch.object(dynamo, flat_copy.__name__, copying),
        mock.patch.object(torchscript, flat_copy.__name__, copying),
        mock.patch.object(dynamo, noting_dropped.__name__, dropping),
    ):
        yield graphs, drops
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _collected(failures: list[Exception]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # raised by who collects it
        failures.append(error)


def record(name: str, case: Case, folder: Path) -> str:
    """Export a case, keep what the captures and carry were given, and what the code makes of it.

    Returns:
        What people should know of the record: nodes that the replay places otherwise than the export did.
    """
    started = time.perf_counter()
    example, blobs = _built(case, folder)
    capture, captured = _watched_capture(case, example, blobs)
    seconds = time.perf_counter() - started
    exported = {_NOTED: captured.noted, **_origins(capture, *_carried(capture))}
    example, blobs = _built(case, folder)  # an export may leave something on its model
    observed = _observe(case, example, blobs, captured)
    path = folder / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as stored:
        fields = {field: value for field, value in vars(captured).items() if not isinstance(value, bytes)}
        stored.writestr("captured.json", json.dumps(fields))
        stored.writestr("observed.json", json.dumps(observed | _seen(capture, captured.exporter), indent=0))
        stored.writestr("before.onnx", captured.before)
        stored.writestr("after.onnx", captured.after)
    part.rename(path)
    size = f"{len(captured.nodes)} nodes, {len(captured.drops)} fx graphs, {path.stat().st_size >> 10} KiB"
    unlike = len(list(_differences(exported, {section: observed[section] for section in exported})))
    return f"{captured.exporter}, {size}, {seconds:.1f} s" + f", {unlike} origins unlike the export's" * (unlike > 0)


def check(name: str, case: Case, folder: Path, *, capture: bool) -> list[str]:
    """Run today's code on what is kept of a case; return a line for each node and verdict that differs.

    Args:
        name: The case's name in the folder.
        case: The case itself; its model is built again for the proof.
        folder: Where it was recorded.
        capture: Whether to capture the model again as well, unwatched: watching must change nothing either.
    """
    captured, recorded = _stored(name, folder)
    example, blobs = _built(case, folder)
    observed = _observe(case, example, blobs, captured)
    if capture:
        observed |= _seen(*_capture(case, example))
    return list(_differences(recorded, json.loads(json.dumps(observed))))


def carrying(name: str, folder: Path) -> Callable[[], Observed]:
    """Return a function that carries a stored case, and returns the origins."""
    captured, _ = _stored(name, folder)
    _, blobs = _built(case_of(name), folder)

    def carry_again() -> Observed:
        capture = captured.again(blobs)
        return _origins(capture, *_carried(capture))

    return carry_again


def proving(name: str, folder: Path) -> Callable[[], str]:
    """Return a function that proves a stored case with the origins of today's code, and returns the proof as a text."""
    captured, _ = _stored(name, folder)
    case = case_of(name)
    example, blobs = _built(case, folder)
    capture = captured.again(blobs)
    _, attribution = _carried(capture)

    def prove_again() -> str:
        try:
            return repr(vars(prove(example, capture.after, attribution, tolerances=case.tolerances)))
        except HierexportError as error:
            return str(error)

    return prove_again


def _stored(name: str, folder: Path) -> tuple[_Captured, Observed]:
    with zipfile.ZipFile(folder / f"{name}.zip") as stored:
        fields = json.loads(stored.read("captured.json"))
        captured = _Captured(**fields, before=stored.read("before.onnx"), after=stored.read("after.onnx"))
        return captured, json.loads(stored.read("observed.json"))


def needs_capture(name: str, folder: Path) -> bool:
    """Whether a case is to be captured again: the zoo, a tenth of the seeds, and all that TorchScript captured."""
    kind, _, key = name.partition("/")
    if kind != "type":
        return kind != "seed" or int(key) % 10 == 0
    with zipfile.ZipFile(folder / f"{name}.zip") as stored:
        return bool(json.loads(stored.read("captured.json"))["exporter"] == "torchscript")


def _built(case: Case, folder: Path) -> tuple[Example, Blobs]:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    onnxruntime.set_seed(0)
    example = case.load()
    example.model.eval()
    return example, Blobs(folder / "blobs", example.model)


def _observe(case: Case, example: Example, blobs: Blobs, captured: _Captured) -> Observed:
    """Return what the code makes of a stored capture."""
    capture = captured.again(blobs)
    before, attribution = _carried(capture)
    return {
        "version": {library: version(library) for library in _LIBRARIES},
        _NOTED: dict(_noted(captured.drops)),
        **_origins(capture, before, attribution),
        **_proven(case, example, capture.after, attribution),
    }


def _origins(capture: Capture, before: Attributed, attribution: Attribution) -> Observed:
    return {
        "origins before": _numbered((node.key, _plain(before.nodes[node])) for node in capture.before.nodes),
        "initializers before": {name: _plain(origins) for name, origins in before.initializers.items()},
        "origins after": {key: _plain(origins) for key, origins in attribution.nodes.items()},
        "initializers after": {name: _plain(origins) for name, origins in attribution.initializers.items()},
    }


def _carried(capture: Capture) -> tuple[Attributed, Attribution]:
    before = attribute_before(capture, Hierarchy(capture.calls))
    return before, carry_flat(before, flat_copy(capture.after))


def _seen(capture: Capture, exporter: str) -> Observed:
    """Return what a capture itself gave."""
    nodes = capture.before.nodes
    return {
        "capture": {"exporter": exporter},
        "captured calls": {str(i): [c.path, c.index, c.cls, c.parent] for i, c in enumerate(capture.calls)},
        "captured nodes": _numbered((n.key, list(capture.owners[n] or (None,))) for n in nodes),
        "captured owners": {name: list(paths) for name, paths in capture.declared.items()},
    }


def _noted(drops: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the module stacks that the code notes on the nodes that stay, where torch drops others."""
    for i, drop in enumerate(drops):
        graph, nodes = fx_from_json(drop)
        noting_dropped(_dropping_nothing)(graph)
        for name, node in nodes.items():
            if also := _ends(stacks(node)[1:]):
                yield f"graph {i} {name}", also


def _ends(also: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the innermost entry of each module stack."""
    return [list(stack)[-1:] for stack in also]


def _dropping_nothing(_graph: torch.fx.Graph) -> bool:
    return False


def _proven(case: Case, example: Example, model: ir.Model, attribution: Attribution) -> Observed:
    """Return the verdicts, without the sentences that explain them: they may be said in other words."""
    try:
        proof = prove(example, model, attribution, tolerances=case.tolerances)
    except HierexportError:
        return {"proof": {"runs": False}}
    verdicts = {
        call: [verdict.kind.value, *((verdict.value,) if call in proof.unproven else ())]
        for call, verdict in proof.verdicts.items()
    }
    return {"verdicts": verdicts, "contaminated": dict.fromkeys(proof.contaminated, True)}


def _plain(origins: Iterable[Origin]) -> list[list[str]]:
    return [[origin.call, origin.evidence.value] for origin in origins]


def _numbered(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by key with its place: a function's node has one key in all its calls."""
    return {f"{key} #{i}": value for i, (key, value) in enumerate(items)}


def _differences(recorded: Observed, observed: Observed) -> Iterator[str]:
    """Yield a line for all that differs; what a check did not look at is left out."""
    looked_at = [section for section in recorded if section in observed or not section.startswith("capture")]
    for section in dict.fromkeys((*looked_at, *observed)):
        was, now = recorded.get(section, {}), observed.get(section, {})
        for key in dict.fromkeys((*was, *now)):
            if was.get(key) != now.get(key):
                yield f"{section}: {key or 'root'}: {json.dumps(was.get(key))} became {json.dumps(now.get(key))}"
