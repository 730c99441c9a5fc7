"""Draw one optimized graph under torch's tags and under ours, where common subexpression elimination merged a mask.

    python -m benchmarks.merged_mask docs/images/merged-mask.svg

The graphs, the tags and the verdicts come from an export and a proof of the model below.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from benchmarks.attribution import torch_attribution
from pytest_hierexport import Attribution, Example, Proof, export, prove, walk

if TYPE_CHECKING:
    import onnx_ir as ir

WIDTH, HEIGHT, PANEL = 860, 470, 210
BOX = (92, 34)
COLORS = {"layers.0": "#2f6db5", "layers.1": "#c4630e"}
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .op { fill: #fff; font-weight: 600; text-anchor: middle }
  .input { font-style: italic; text-anchor: middle }
  .small { font-size: 12px; fill: #59636e }
  .wrong { fill: #b3261e; font-weight: 600 }
  .right { fill: #1a7f37; font-weight: 600 }
  path { fill: none; stroke: #59636e; stroke-width: 1.5 }
  marker path { stroke-dasharray: none }
  path.wrong { stroke: #b3261e; stroke-width: 2.5; stroke-dasharray: 6 4 }
"""
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">
<title>The same ONNX graph under two ways of tagging. {title}.</title>
<style>{style}</style>
<defs>
<linearGradient id="both"><stop offset="50%" stop-color="{first}"/>
<stop offset="50%" stop-color="{second}"/></linearGradient>
<marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8"/></marker>
</defs>
<rect width="{width}" height="{height}" rx="10" fill="#fbfbf9" stroke="#d1d9e0"/>"""


class Layer(nn.Module):
    """A layer that computes its own bias from the mask, as the layers of most transformers do."""

    def __init__(self) -> None:
        """Hold a projection."""
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Project, add the bias, normalize."""
        bias = torch.where(mask, 0.0, -1e4)
        return torch.softmax(self.proj(x) + bias, -1)


class Net(nn.Module):
    """Two layers under one mask."""

    def __init__(self) -> None:
        """Hold the layers."""
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Run both layers."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


@dataclass(frozen=True)
class Panel:
    """A graph under one way of tagging: operators, edges, owning layers and graph inputs by node; and the proof."""

    title: str
    operators: Mapping[str, str]
    edges: Sequence[tuple[str, str]]
    owners: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, str]
    proof: Proof

    @property
    def wrong(self) -> set[tuple[str, str]]:
        """The edges between two layers whose value one of them lacks: it is the value of an unproven verdict."""
        values = {verdict.value for verdict in self.proof.unproven.values()}
        return {
            (one, other)
            for one, other in self.edges
            if one in values and not set(self.owners[one]) & set(self.owners[other])
        }


def panels() -> tuple[Panel, Panel]:
    """Export the model with torch alone and with this package, and prove the tags of both."""
    torch.manual_seed(0)
    example = Example(Net().eval(), (torch.randn(3, 4), torch.rand(3, 4) > 0.5))
    ours = export(example.model, example.args)
    plain: Any = torch.onnx.export(example.model, example.args, dynamo=True, verbose=False)
    theirs = torch_attribution(plain.model, ours.attribution.hierarchy)
    return (
        _panel("torch.onnx: each node has one scope", plain.model, theirs, example),
        _panel("pytest-hierexport: a node has every call that it comes from", ours.model, ours.attribution, example),
    )


def _panel(title: str, model: ir.Model, attribution: Attribution, example: Example) -> Panel:
    nodes = dict(walk(model))
    producers = {value.name: key for key, node in nodes.items() for value in node.outputs}
    edges = [
        (producers[value.name], key)
        for key, node in nodes.items()
        for value in node.inputs
        if value is not None and value.name in producers
    ]
    within = attribution.hierarchy.within
    owners = {
        key: tuple(layer for layer in COLORS if any(within(origin.call, layer) for origin in origins))
        for key, origins in attribution.nodes.items()
    }
    operators = {key: node.op_type for key, node in nodes.items()}
    inputs = {
        key: value.name
        for key, node in nodes.items()
        for value in node.inputs
        if value is not None and value.name and value.is_graph_input() and not value.is_initializer()
    }
    return Panel(title, operators, edges, owners, inputs, prove(example, model, attribution))


def draw(shown: Sequence[Panel]) -> str:
    """Return the figure as SVG."""
    described = "; ".join(f"{panel.title}: {_verdict(panel)}" for panel in shown)
    first, second = COLORS.values()
    parts = [HEAD.format(title=escape(described), style=STYLE, first=first, second=second, width=WIDTH, height=HEIGHT)]
    for number, panel in enumerate(shown):
        parts += [f'<g transform="translate(0 {8 + number * (PANEL + 6)})">', *_draw_panel(panel), "</g>"]
    return "\n".join([*parts, *_legend(), "</svg>", ""])


def _draw_panel(panel: Panel) -> list[str]:
    places = _places(panel)
    verdict = "wrong" if panel.proof.unproven else "right"
    parts = [
        f'<text x="28" y="34" class="title">{escape(panel.title)}</text>',
        f'<text x="28" y="56" class="{verdict}">{escape(_verdict(panel))}</text>',
    ]
    for edge in panel.edges:
        (x0, y0), (x1, y1) = (places[node] for node in edge)
        wide, high = BOX[0] / 2, BOX[1] / 2
        line = f"M{x0 + wide} {y0}H{x1 - wide}" if y0 == y1 else f"M{x0} {y0 + high}L{x1} {y1 - high}"
        kind = ' class="wrong"' if edge in panel.wrong else ""
        parts.append(f'<path d="{line}"{kind} marker-end="url(#end)"/>')
    for node, (x, y) in places.items():
        owners = panel.owners[node]
        fill = "url(#both)" if len(owners) > 1 else COLORS[owners[0]]
        left, top = x - BOX[0] / 2, y - BOX[1] / 2
        parts += [
            f'<rect x="{left}" y="{top}" width="{BOX[0]}" height="{BOX[1]}" rx="6" fill="{fill}"/>',
            f'<text x="{x}" y="{y + 5}" class="op">{escape(panel.operators[node])}</text>',
            f'<text x="{x}" y="{y - 23}" class="input">{escape(panel.inputs.get(node, ""))}</text>',
        ]
    return parts


def _places(panel: Panel) -> dict[str, tuple[float, float]]:
    """Put the chain of nodes on a line, and what several nodes consume above it, between its consumers."""
    consumers = {node: [other for one, other in panel.edges if one == node] for node in panel.operators}
    chain = [node for node in panel.operators if len(consumers[node]) < 2]
    step = (WIDTH - 2 * 28 - BOX[0]) / (len(chain) - 1)
    places = {node: (28 + BOX[0] / 2 + step * place, 170.0) for place, node in enumerate(chain)}
    for node in panel.operators.keys() - places.keys():
        above = [places[other][0] for other in consumers[node]]
        places[node] = (sum(above) / len(above), 100.0)
    return {node: (round(x, 1), y) for node, (x, y) in places.items()}


def _verdict(panel: Panel) -> str:
    counts = panel.proof.counts()
    text = f"{counts['proven']} of {sum(counts.values())} module calls proven"
    unproven = sorted(panel.proof.unproven)
    return f"{text}; {' and '.join(unproven)} unproven" if unproven else text


def _legend() -> list[str]:
    shown = [*COLORS.items(), ("both layers", "url(#both)")]
    parts = []
    for place, (name, fill) in enumerate(shown):
        x = 28 + 130 * place
        parts += [
            f'<rect x="{x}" y="{HEIGHT - 30}" width="22" height="14" rx="3" fill="{fill}"/>',
            f'<text x="{x + 30}" y="{HEIGHT - 18}" class="small">{name}</text>',
        ]
    remark = "dashed: a value that enters a layer to which nothing gave it"
    return [*parts, f'<text x="{28 + 130 * len(shown)}" y="{HEIGHT - 18}" class="small">{remark}</text>']


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the figure to the file that is named."""
    (target,) = sys.argv[1:] if arguments is None else arguments
    Path(target).write_text(draw(panels()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
