"""Tags through the real tools of other projects; `python -m benchmarks.tools` measures them on more models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tools
from benchmarks.foreign_tools import TOOLS
from pytest_hierexport._cases import select
from pytest_hierexport._cases.exporting import export_case

MODELS = ("bert", "llama", "convnext")
# On these models the higher levels of the same tools do all that these do.
LOWER_LEVELS = {"onnxruntime-basic", "onnxruntime-extended", "onnxruntime.transformers-1"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="the zoo needs transformers")
    folder = tmp_path_factory.mktemp("files")
    for case in select(MODELS, Path.cwd()):
        (folder / case.name).mkdir()
        export_case(case, case.load(), folder / case.name / "model.onnx")
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [name for name in TOOLS if name not in LOWER_LEVELS])
def test_tags_survive_the_tool(name: str, model: str, files: Path) -> None:
    tool = TOOLS[name]
    if not tool.is_installed:
        pytest.skip(f"{tool.package} is not installed: pip install pytest-hierexport[tools]")
    (case,) = select([model], Path.cwd())
    (row,) = tools._measure_case(case, [tool], files)
    assert (row.error, row.untagged, row.derived, dict(row.unproven)) == ("", 0, 0, {})
    assert row.nodes > 0
    assert row.proven == row.counted > 0
    assert row.loose == 0


def test_benchmark_prints_figures_of_tools_and_models(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tools.main([MODELS[0], "--tool", "version_converter", "--files", str(files)]) == 0
    assert "version_converter" in capsys.readouterr().out
