"""What `benchmarks/everything.py` shows: for each part its figures beside peer and budget, and plots."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FIGURES", "plots", "table"]

_REPEATABLE: Any = {"svg.hashsalt": "benchmarks", "svg.fonttype": "none"}
"""Makes matplotlib write the same file for the same figures."""


@dataclass(frozen=True)
class Figure:
    """A line of the table."""

    what: str
    found: str
    peer: str
    budget: str


def _overhead(report: Any) -> Iterable[Figure]:
    models = len(report["models"])
    yield Figure(
        f"`export()`, processor time, {models} models: median ratio, largest",
        f"{report['median_cpu_ratio']:.2f}, {report['largest_cpu_ratio']:.2f}",
        "`torch.onnx.export`",
        "≤ 1.00, ≤ 1.10",
    )


def _layers(report: Any) -> Iterable[Figure]:
    ratios = ", ".join(f"{each['model']}: {each['cpu_ratio']:.2f}" for each in report["models"])
    yield Figure("the same for one encoder, by layers", ratios, "`torch.onnx.export`", "flat")


def _idle(report: Any) -> Iterable[Figure]:
    ours, *others = report
    cost = report[ours]
    peers = ", ".join(f"{each}: {len(report[each]['import_ms'])}, {report[each]['total_ms']:.0f} ms" for each in others)
    found = f"{len(cost['import_ms'])}, {cost['total_ms']:.1f} ms"
    yield Figure("plugin installed and unused: modules, time to import", found, peers, "≤ 25, ≤ 10 ms")


def _rules(report: Any) -> Iterable[Figure]:
    median = statistics.median(sum(row["rules"].values()) for row in report)
    what = f"all rules but MUST-008, {len(report)} models: median, in bare exports"
    yield Figure(what, f"{median:.2f}", "`torch.onnx.export`", "≤ 4")


def _zoo(report: Any) -> Iterable[Figure]:
    cold = {each["workers"]: each for each in report if not each["is_warm"]}
    for warm in (each for each in report if each["is_warm"]):
        what = f"a run with nothing changed, {warm['models']} models, `-n {warm['workers']}`"
        first = f"the first run: {cold[warm['workers']]['seconds']:.0f} s"
        heavy = ", ".join(warm["heavy"]) or "no heavy import"
        yield Figure(what, f"{warm['seconds']:.1f} s, {heavy}", first, "≤ 8 s for 60 models, no torch")


def _tags(report: Any) -> Iterable[Figure]:
    for step, each in report.items():
        found = f"{each['seconds']:.3f} s, {each['megabytes']:.0f} MB"
        yield Figure(f"tags of 20,000 nodes, 256 MiB of external data: {step}", found, "", "≤ 0.15 s, ≤ 120 MB")


def _memory(report: Any) -> Iterable[Figure]:
    for each in (each for each in report if "error" not in each):
        what = (
            f"Llama-3-70B without weights, {each['layers']} layers, all stages: by the clock, of the processor, memory"
        )
        wall, processor = (sum(spent[i] for spent in each["stages"].values()) for i in range(2))
        found = f"{wall:.0f} s, {processor:.0f} s, {each['peak_gb']:.2f} GB"
        yield Figure(what, found, "", "≤ 120 s, ≤ 4 GB for 80 layers")


def _carry(report: Any) -> Iterable[Figure]:
    for each in report:
        what = f"`carry`, {each['nodes']:,} nodes, processor time"
        budget = "≤ 10 s" if each["nodes"] >= 100_000 else "linear"
        yield Figure(what, f"{each['carry']:.3f} s", f"the optimizer: {each['optimizer']:.3f} s", budget)


def _proof(report: Any) -> Iterable[Figure]:
    shares = {way: [row["ways"][way]["share"] for row in report if way in row["ways"]] for way in ("ours", "torch")}
    ours, torch = (f"{100 * statistics.fmean(shares[way]):.1f} %" if shares[way] else "" for way in ("ours", "torch"))
    yield Figure(f"calls proven, mean of {len(shares['ours'])} models", ours, f"torch's metadata: {torch}", "≥ 99.95 %")


FIGURES: Mapping[str, Callable[[Any], Iterable[Figure]]] = {
    "overhead": _overhead,
    "layers": _layers,
    "idle": _idle,
    "rules": _rules,
    "zoo": _zoo,
    "tags": _tags,
    "memory": _memory,
    "carry": _carry,
    "proof": _proof,
}
"""By part: what its JSON tells."""


def table(found: Mapping[str, Any], commands: Mapping[str, str]) -> str:
    """Return the figures of all parts that were measured as a Markdown table."""
    rows = ["| what | found | beside | budget | `python -m` |", "|---|---|---|---|---|"]
    for name, report in found.items():
        lines = FIGURES[name](report)
        rows += [f"| {each.what} | {each.found} | {each.peer} | {each.budget} | `{commands[name]}` |" for each in lines]
    return "\n".join(rows) + "\n"


def plots(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the plots of the parts that were measured into a folder; return their files."""
    import matplotlib as mpl

    mpl.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    with mpl.rc_context(_REPEATABLE):
        if "overhead" in found:
            models = sorted(found["overhead"]["models"], key=lambda each: float(each["cpu_ratio"]))
            values = [each["cpu_ratio"] for each in models]
            drawn.append(_bars([each["model"] for each in models], values, folder / "export_overhead.svg"))
        if "carry" in found:
            drawn.append(_growth(found["carry"], folder / "carry_growth.svg"))
    return drawn


def _bars(names: list[str], ratios: list[float], path: Path) -> Path:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 0.2 * len(names) + 1), layout="constrained")
    axes = canvas.subplots()
    axes.barh(names, ratios, color="#4c78a8")
    axes.axvline(1.0, color="#888", linewidth=1)
    axes.set_xlabel("export() ÷ torch.onnx.export, processor time")
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.01)
    canvas.savefig(path, metadata={"Date": None})
    return path


def _growth(report: Any, path: Path) -> Path:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 4), layout="constrained")
    axes = canvas.subplots()
    nodes = [each["nodes"] for each in report]
    for key, label in (("carry", "carry"), ("optimizer", "the optimizer that changed the graph")):
        axes.loglog(nodes, [max(each[key], 1e-4) for each in report], marker="o", label=label)
    axes.set_xlabel("nodes")
    axes.set_ylabel("processor seconds")
    axes.legend()
    canvas.savefig(path, metadata={"Date": None})
    return path
