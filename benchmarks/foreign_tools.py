"""The tools of other projects that tags are carried through: each writes a transformed copy of an ONNX file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

__all__ = ["TOOLS", "Job", "Tool", "bare", "loaded"]


@dataclass(frozen=True)
class Job:
    """A file to transform, and where to."""

    before: Path
    after: Path
    feeds: Mapping[str, Any]
    """The elements of the graph's inputs, to calibrate with."""
    example: Any
    """The model and its inputs, for the tools that export."""


@dataclass(frozen=True)
class Tool:
    """A tool, with what can be shown of the graph that it writes."""

    name: str
    run: Callable[[Job], None]
    proof: str = "values"
    """`values`: it keeps them. `part`: those of a part of the model. `half`, `quantized`: it computes others."""
    package: str = "onnxruntime"
    exporter: str | None = None
    """The exporter that the graph before must come from, for a tool that exports by itself."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_installed(self) -> bool:
        """Whether the package that holds the tool is there."""
        return find_spec(self.package) is not None


def loaded(job: Job, *, with_types: bool = True) -> onnx.ModelProto:
    """Return the file, with or without the types of intermediate values."""
    model = onnx.load(job.before)
    if not with_types:
        # Inferred types of intermediate values contradict what the quantizers infer after they transpose weights.
        del model.graph.value_info[:]
    return model


def bare(job: Job) -> Path:
    """Return the path of a copy without the types of intermediate values, which quantizers want to infer."""
    path = job.after.with_name("bare.onnx")
    onnx.save(loaded(job, with_types=False), path)
    return path


def _runtime(level: str) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(job.after)
        options.log_severity_level = 3
        onnxruntime.InferenceSession(str(job.before), options, providers=["CPUExecutionProvider"])

    return run


def _find_modules_of_transformers() -> None:
    """Let the modules of `onnxruntime.transformers` find each other: its import puts its folder on `sys.path`, once."""
    import onnxruntime.transformers

    folder = str(Path(onnxruntime.transformers.__file__).parent)
    if folder not in sys.path:
        sys.path.append(folder)


def _transformers_optimizer(level: int) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        _find_modules_of_transformers()
        from onnxruntime.transformers import optimizer

        optimizer.optimize_model(str(job.before), opt_level=level).save_model_to_file(str(job.after))

    return run


def _quantize_dynamic(job: Job) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(bare(job), job.after)


def _quantize_static(form: str) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Once(CalibrationDataReader):  # type: ignore[misc]  # the package is not typed
            def __init__(self) -> None:
                self.left: Iterator[Mapping[str, Any]] = iter([job.feeds])

            def get_next(self) -> Any:
                return next(self.left, None)

        quantize_static(bare(job), job.after, Once(), quant_format=getattr(QuantFormat, form))

    return run


def _quant_pre_process(job: Job) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(str(bare(job)), str(job.after))


def _matmul_nbits(job: Job) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(loaded(job), block_size=32, is_symmetric=True)
    quantizer.process()
    onnx.save(quantizer.model.model, job.after)


def _float16_runtime(job: Job) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(loaded(job, with_types=False), keep_io_types=True), job.after)


def _float16_common(job: Job) -> None:
    from onnxconverter_common.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(loaded(job, with_types=False), keep_io_types=True), job.after)


def _onnxoptimizer(job: Job) -> None:
    import onnxoptimizer

    passes = onnxoptimizer.get_fuse_and_elimination_passes()
    onnx.save(onnxoptimizer.optimize(loaded(job), passes), job.after)


def _onnxslim(job: Job) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(loaded(job)), job.after)


def _onnxsim(job: Job) -> None:
    import onnxsim

    onnx.save(onnxsim.simplify(loaded(job))[0], job.after)


def _version_converter(job: Job) -> None:
    from onnx import version_converter

    model = loaded(job)
    own = next(each.version for each in model.opset_import if not each.domain)
    onnx.save(version_converter.convert_version(model, own + 1), job.after)


def _onnxscript(name: str) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        import onnxscript.optimizer
        import onnxscript.rewriter
        from onnxscript.rewriter import ort_fusions

        model = ir.load(job.before)
        if name == "optimizer":
            onnxscript.optimizer.optimize(model)
        elif name == "rewriter":
            model = onnxscript.rewriter.rewrite(model)
        else:
            model, _ = ort_fusions.optimize_for_ort(model)
        ir.save(model, job.after)

    return run


def _middle(model: onnx.ModelProto) -> str:
    """Return a value by which the graph falls in two: each later node that depends on an input does so through it."""
    graph = model.graph
    constants = {each.name for each in graph.initializer}
    varying = {each.name for each in graph.input}
    last: dict[str, int] = {each.name: len(graph.node) for each in graph.output}
    for i, node in enumerate(graph.node):
        last.update(dict.fromkeys(node.input, i))
        if any(name in varying for name in node.input):
            varying.update(node.output)
    cuts = []
    for i, node in enumerate(graph.node[:-1]):
        alive = [n for before in graph.node[: i + 1] for n in before.output if n in varying and last.get(n, -1) > i]
        inputs = [n.name for n in graph.input if last.get(n.name, -1) > i]
        if len(alive) == 1 and not inputs and alive[0] in node.output and alive[0] not in constants:
            cuts.append((abs(i - len(graph.node) / 2), alive[0]))
    if not cuts:
        return str(graph.node[len(graph.node) // 2].output[0])
    return str(min(cuts)[1])


def _extract_model(job: Job) -> None:
    """Cut out what the model computes up to its middle."""
    model = onnx.load(job.before)
    value = _middle(model)
    onnx.utils.extract_model(job.before, job.after, [each.name for each in model.graph.input], [value])


def _compose(job: Job) -> None:
    """Prefix all names of the model, and merge it with one that puts its first output through an activation."""
    from onnx import TensorProto, compose, helper

    model = compose.add_prefix(loaded(job), "served/")
    output = model.graph.output[0]
    rank = len(output.type.tensor_type.shape.dim)
    given, typed = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * rank) for n in ("logits", "scores"))
    graph = helper.make_graph([helper.make_node("Sigmoid", ["logits"], ["scores"])], "head", [given], [typed])
    head = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    outputs = [each.name for each in model.graph.output]
    merged = compose.merge_models(
        model, head, [(output.name, "logits")], outputs=[*outputs, "after/scores"], prefix2="after/"
    )
    onnx.save(merged, job.after)


def _transformers_exporter(**options: Any) -> Callable[[Job], None]:
    def run(job: Job) -> None:
        import torch

        exporters: Any = import_module("transformers.exporters")
        given = {**options}
        if given.pop("quantized", False):
            dynamic = exporters.OnnxRuntimeDynamicConfig()
            given["quantizer"] = exporters.OnnxRuntimeQuantizer(dynamic)
        # transformers takes all inputs by name.
        inputs = dict(job.example.kwargs)
        with torch.no_grad():
            exported = exporters.OnnxExporter().export(job.example.model, inputs, exporters.OnnxConfig(**given))
        ir.save(exported.program, job.after)

    return run


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("onnxruntime-basic", _runtime("BASIC")),
        Tool("onnxruntime-extended", _runtime("EXTENDED")),
        Tool("onnxruntime-all", _runtime("ALL")),
        Tool("onnxruntime.transformers-0", _transformers_optimizer(0)),
        Tool("onnxruntime.transformers-1", _transformers_optimizer(1)),
        Tool("onnxruntime.transformers-2", _transformers_optimizer(2)),
        Tool("quantize_dynamic", _quantize_dynamic, "quantized"),
        Tool("quantize_static-qdq", _quantize_static("QDQ"), "quantized"),
        Tool("quantize_static-qoperator", _quantize_static("QOperator"), "quantized"),
        Tool("quant_pre_process", _quant_pre_process),
        Tool("MatMulNBits", _matmul_nbits, "quantized"),
        Tool("float16", _float16_runtime),
        Tool("float16-common", _float16_common, "half", "onnxconverter_common"),
        Tool("onnxoptimizer", _onnxoptimizer, package="onnxoptimizer"),
        Tool("onnxslim", _onnxslim, package="onnxslim"),
        Tool("onnxsim", _onnxsim, package="onnxsim"),
        Tool("version_converter", _version_converter),
        Tool("onnxscript-optimizer", _onnxscript("optimizer")),
        Tool("onnxscript-rewriter", _onnxscript("rewriter")),
        Tool("onnxscript-optimize_for_ort", _onnxscript("ort")),
        Tool("extract_model", _extract_model, "part"),
        Tool("compose", _compose),
        Tool(
            "transformers-fusions", _transformers_exporter(ort_fusions="cpu"), "values", "transformers", "transformers"
        ),
        Tool(
            "transformers-quantizer",
            _transformers_exporter(quantized=True),
            "quantized",
            "transformers",
            "transformers",
        ),
    )
}
