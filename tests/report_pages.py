"""Results to make pages of: a transformer with a changed snapshot and a broken rule, and models of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_hierexport._calls.entries import ModuleEntry
from pytest_hierexport._calls.names import encode, encode_operator
from pytest_hierexport._report.failures import failure_of
from pytest_hierexport._report.results import SNAPSHOT, Check, Model, Results, RuleText, Status
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._snapshot.diff import Change, Difference, compare, diff
from pytest_hierexport._snapshot.renames import Move, Rename

__all__ = ["RULES", "hostile_results", "many_models", "shown_results", "transformer"]

RULES = (
    RuleText("MUST-001", "no hardcoded names", cardinal=True),
    RuleText("MUST-002", "no torch.nn class in a tag", cardinal=True),
    RuleText("MUST-003", "universal: every node has an origin", cardinal=True),
    RuleText("MUST-004", "the ONNX checker passes and ONNX Runtime loads the file"),
    RuleText("MUST-005", "the graph is untouched"),
    RuleText("MUST-006", "the numbers agree"),
    RuleText("MUST-007", "the tags are proven"),
    RuleText("MUST-008", "exports repeat"),
    RuleText("MUST-009", "file and sidecar agree"),
    RuleText("MUST-010", "nothing leaks"),
)


def transformer(layers: int, width: int = 768) -> tuple[ModuleEntry, ...]:
    """Return the modules of an encoder, eight for each layer, and five more."""
    return tuple(_modules(layers, width))


def _modules(layers: int, width: int) -> Iterator[ModuleEntry]:
    yield _module("", "model.Encoder", "/Encoder")
    yield _module(
        "embeddings", "model.Embeddings", "/Encoder/Embeddings", {"Add": 1, "Gather": 2}, tensor=30522 * width
    )
    yield _module("mask", "model.Mask", "/Encoder/Mask", {"Where": 1, "Cast": 1}, evidence="fused")
    yield ModuleEntry("layers", "torch.nn.modules.container.ModuleList")
    for i in range(layers):
        path, tag = f"layers.{i}", f"/Encoder/Layer.{i}"
        yield replace(_module(path, "model.Layer", tag, {"Add": 2}), co_owned={"merged": 1} if i else {})
        yield _module(f"{path}.attention", "model.Attention", f"{tag}/Attention", {"MatMul": 2, "Softmax": 1})
        for name in ("query", "key", "value"):
            yield _linear(f"{path}.attention.{name}", width, width)
        yield _module(f"{path}.up", "model.Up", f"{tag}/Up", {"Gelu": 1})
        yield _linear(f"{path}.up.dense", width, 4 * width)
        yield _linear(f"{path}.down", 4 * width, width)
    yield _module("pooler", "model.Pooler", "/Encoder/Pooler", {"Tanh": 1, "Gemm": 1}, tensor=width * width)


def _module(
    path: str, cls: str, tag: str, operators: dict[str, int] | None = None, *, tensor: int = 0, evidence: str = "traced"
) -> ModuleEntry:
    nodes = operators or {}
    counted = {evidence: sum(nodes.values())} if nodes else {}
    return ModuleEntry(path, cls, tag, 1, nodes, counted, parameters=tensor, bytes=4 * tensor)


def _linear(path: str, inner: int, outer: int) -> ModuleEntry:
    return _module(path, "torch.nn.modules.linear.Linear", "", {"MatMul": 1, "Add": 1}, tensor=(inner + 1) * outer)


def _named(name: str, entries: tuple[ModuleEntry, ...], checks: dict[str, Check], *, layers: str = "") -> Model:
    coverage = {"traced": 0, "merged": 0, "fused": 0, "folded": 0, "derived": 0, "untagged": 0}
    for entry in entries:
        for kind, number in entry.evidence.items():
            coverage[kind] += number
    source = f"project/models.py::{name}"
    passed = {rule.id: Check(Status.PASSED, seconds=round(0.3 + 0.2 * i, 1)) for i, rule in enumerate(RULES)}
    every = {**passed, SNAPSHOT: Check(Status.PASSED, seconds=0.1), **checks}
    return Model(
        name,
        source,
        "models.toml",
        "project/models.py",
        12,
        every,
        exporter="dynamo",
        coverage=coverage,
        hierarchy=layers,
        stages={"exporting": 2.4, "checking MUST-001": 3.0, "comparing the snapshot": 0.1},
        modules=entries,
    )


COMMITTED = (
    "/Encoder\n/Encoder/Mask: Cast 1, Where 1\n/Encoder/Embedder: Add 1, Gather 2\n"
    "/Encoder/Layer.{0..11} ×12: Add 2\n/Encoder/Layer.{0..11}/Attention: MatMul 2, Softmax 1\n"
    "/Encoder/Layer.{0..11}/Up: Gelu 1\n/Encoder/Head\n/Encoder/Head/Scale: Mul 1\n"
)
PRESENT = (
    "/Encoder\n/Encoder/Embeddings: Add 1, Gather 2\n/Encoder/Mask: Cast 1, Where 1\n"
    "/Encoder/Layer.{0..4} ×5: Add 2\n/Encoder/Layer.{0..4}/Attention: MatMul 2, Softmax 1\n"
    "/Encoder/Layer.{0..4}/Up: Gelu 1\n/Encoder/Layer.5: Add 2\n/Encoder/Layer.5/Attention: MatMul 2, Softmax 1\n"
    "/Encoder/Layer.5/Up: Relu 1\n/Encoder/Layer.{6..11} ×6: Add 2\n"
    "/Encoder/Layer.{6..11}/Attention: MatMul 2, Softmax 1\n/Encoder/Layer.{6..11}/Up: Gelu 1\n"
    "/Encoder/Pooler: Gemm 1, Tanh 1\n"
)


def shown_results() -> Results:
    """Return the run that the tests of the page look at, and that its pictures show."""
    repeat = "pytest --hierexport-models=models.toml --hierexport-cache=.cache models.toml::encoder::"
    proof = Violation(
        "call layers.7.attention (/Encoder/Layer.7/Attention)",
        "a call whose nodes turn its inputs into its outputs",
        "a value of another call enters: where_1 (/Encoder/Mask)",
        "find what moved the value to another call, and carry origins through it; docs/proof.md says what is shown",
    )
    drift = Violation(
        "",
        "__hierexport__/encoder.txt",
        "(- gone, + new, ~ other operators)",
        f"read the change; where it is meant: {repeat}test_snapshot --snapshot-update",
    )
    broken = {
        "MUST-007": Check(
            Status.FAILED,
            "MUST-007 the tags are proven: encoder breaks it in 1 place",
            4.2,
            failure_of((proof,), ".hierexport/encoder/model.onnx", f"{repeat}'test_must[MUST-007]'"),
        ),
        SNAPSHOT: Check(
            Status.FAILED,
            "\n".join(["the hierarchy of encoder has changed", *diff(COMMITTED, PRESENT)]),
            0.4,
            failure_of(
                (drift,), ".hierexport/encoder/model.onnx", f"{repeat}test_snapshot", compare(COMMITTED, PRESENT)
            ),
        ),
    }
    known = {"MUST-006": Check(Status.KNOWN, "known failure until 2027-03-01: float16 overflows", 1.1)}
    names = ("decoder", "detector", "speech", "translator", "vision")
    models = (
        _named("encoder", transformer(12), broken, layers=PRESENT),
        *(_named(name, transformer(2 + i), known if name == "speech" else {}) for i, name in enumerate(names)),
    )
    warned = replace(models[2], warnings=("exported by TorchScript, which records one run of the model",))
    versions = {"pytest-hierexport": "0.1.0", "torch": "2.13.0", "onnx": "1.23.2", "onnxruntime": "1.31.1"}
    return Results(
        RULES,
        (*models[:2], warned, *models[3:]),
        versions=versions,
        started=1795341600,
        ended=1795341693,
        commit="3f2c9a1d0b7e4c6f8a5d2e1b9c0f7a6e4d3b2c1a",
    )


def many_models(models: int, layers: int) -> Results:
    """Return a run of that many models, each with as many layers."""
    return Results(RULES, tuple(_named(f"model_{i}", transformer(layers), {}) for i in range(models)))


def hostile_results(names: tuple[str, ...]) -> Results:
    """Return a run whose models, modules, classes, tags and messages have these names."""

    def model(name: str) -> Model:
        encoded = encode(name)
        root, child = f"/{encoded}", f"/{encoded}/{encoded}"
        entries = (
            ModuleEntry("", encoded, root, 1),
            ModuleEntry(encoded, encoded, child, 1, {encode_operator("", name): 1}),
        )
        difference = Difference(
            (Rename(name, name, 1, True, (name, child)),),
            (Change(child, None, {name: 1}), Change(name, {name: 1}, None)),
            (Move(name, name), Move(f"{child}/{name}", name, after=True)),
        )
        failure = failure_of((Violation(f"{name} ({root})", name, name, name),), name, name, difference)
        check = {"MUST-002": Check(Status.FAILED, name, 0.1, failure)}
        return replace(_named(name, entries, check, layers=name), notes=(name,), warnings=(name,))

    return Results(RULES, tuple(map(model, names)), (*names,), {"torch": names[0]}, commit=names[0])
