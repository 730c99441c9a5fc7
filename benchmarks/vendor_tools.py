"""The tools of hardware vendors that tags are carried through: NVIDIA's, Intel's and Qualcomm's.

Their packages hold others at older versions, so they are installed without what they require, in an environment that
`make` made: `pip install --no-deps -r benchmarks/vendor_tools.txt`.
"""

from __future__ import annotations

import logging
from typing import Any

import onnx

from benchmarks.foreign_tools import Job, Tool, bare, loaded

__all__ = ["VENDOR_TOOLS"]


def _polygraphy(job: Job) -> None:
    from polygraphy.backend.onnx import fold_constants

    onnx.save(fold_constants(loaded(job)), job.after)


def _graphsurgeon(job: Job) -> None:
    import onnx_graphsurgeon

    graph: Any = onnx_graphsurgeon.import_onnx(loaded(job))
    onnx.save(onnx_graphsurgeon.export_onnx(graph.fold_constants().cleanup().toposort()), job.after)


def _modelopt_int8(job: Job) -> None:
    from modelopt.onnx.quantization import quantize

    quantize(
        str(bare(job)),
        calibration_data=dict(job.feeds),
        calibration_eps=["cpu"],
        high_precision_dtype="fp32",
        log_level="ERROR",
        output_path=str(job.after),
    )


def _modelopt_autocast(job: Job) -> None:
    from modelopt.onnx.autocast import convert_to_f16

    onnx.save(convert_to_f16(loaded(job, with_types=False)), job.after)


def _nncf(job: Job) -> None:
    import nncf

    nncf.set_log_level(logging.ERROR)
    quantized = nncf.quantize(loaded(job, with_types=False), nncf.Dataset([dict(job.feeds)]), subset_size=1)
    onnx.save(quantized, job.after)


def _aimet(job: Job) -> None:
    from aimet_onnx.quantsim import QuantizationSimModel

    simulated = QuantizationSimModel(loaded(job, with_types=False), providers=["CPUExecutionProvider"])
    simulated.compute_encodings([dict(job.feeds)])
    onnx.save(simulated.to_onnx_qdq(), job.after)


VENDOR_TOOLS = {
    tool.name: tool
    for tool in (
        Tool("polygraphy", _polygraphy, package="polygraphy"),
        Tool("graphsurgeon", _graphsurgeon, package="onnx_graphsurgeon"),
        Tool("modelopt-int8", _modelopt_int8, "quantized", "modelopt"),
        Tool("modelopt-autocast", _modelopt_autocast, package="modelopt"),
        Tool("nncf", _nncf, "quantized", "nncf"),
        Tool("aimet", _aimet, "quantized", "aimet_onnx"),
    )
}
