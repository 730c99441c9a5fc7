"""The fixtures, in tests of a project's own."""

from __future__ import annotations

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"


def test_hierexport_exports_a_model_inside_a_test_as_it_is(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import torch
        from my_model import Tower
        from pytest_hierexport.assertions import assert_checker_passes, assert_no_torch_nn_tags

        def test_it(hierexport):
            tower = Tower()
            before = tower.blocks[0].linear.bias.clone()
            exported = hierexport(tower, torch.ones(2, 4), opset=20)
            assert_no_torch_nn_tags(exported)
            assert_checker_passes(exported)
            assert exported.attribution.coverage()["derived"] == 0
            assert {each.version for each in exported.proto.opset_import if each.domain == ""} == {20}
            assert torch.equal(before, tower.blocks[0].linear.bias)
            assert tower.training
            again = hierexport(tower, (torch.ones(2, 4),))
            assert again.path != exported.path
            assert again.path.exists() and exported.path.exists()
        """,
    )
    project.run("test_own.py").assert_outcomes(passed=1)


def test_failed_export_shows_only_the_line_of_the_test(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import pytest, torch
        from pytest_hierexport import ExportError

        def test_it(hierexport):
            hierexport(torch.nn.Linear(2, 2), torch.ones(1, 3))

        def test_expected(hierexport):
            with pytest.raises(ExportError, match="Linear"):
                hierexport(torch.nn.Linear(2, 2), torch.ones(1, 3))
        """,
    )
    result = project.run("test_own.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [">       hierexport(torch.nn.Linear(2, 2), torch.ones(1, 3))", "E  *ExportError: expected*"]
    )
    assert "fixtures.py:" not in result.stdout.str()


def test_wrong_argument_of_the_fixture_is_refused_in_words(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import torch

        def test_it(hierexport):
            hierexport(torch.nn.Linear(2, 2), torch.ones(1, 2), opset="x")
        """,
    )
    result = project.run("test_own.py")
    result.stdout.fnmatch_lines(["E *expected opset to be a whole number or None; found 'x'"])
    assert "_requests.py:" not in result.stdout.str()


def test_fixture_refuses_a_tolerance_of_no_dtype(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import torch

        def test_it(hierexport):
            hierexport(torch.nn.Linear(2, 2), torch.ones(1, 2), tolerances={"flot32": 1e-3})
        """,
    )
    result = project.run("test_own.py")
    result.stdout.fnmatch_lines(["E *expected a floating dtype*as tolerances of the case Linear; found 'flot32'"])


def test_test_with_case_fixture_runs_once_per_model(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        def test_case(hierexport_case):
            assert hierexport_case.name in ("build", "nested")

        def test_export(hierexport_export, hierexport_case):
            assert hierexport_export.case is hierexport_case
            assert hierexport_export.path.exists()
        """,
    )
    result = project.run(f"{MODELS},nested", "-v", "-k", "test_case or test_export or (MUST-002 and build)")
    assert result.ret == 0
    for test in ("test_case[[]build[]]", "test_case[[]nested[]]", "test_export[[]build[]]", "test_export[[]nested[]]"):
        result.stdout.fnmatch_lines([f"test_own.py::{test} PASSED*"])
    assert project.builds == 1


def test_without_models_such_a_test_is_skipped(project: Project) -> None:
    project.write("test_own.py", "def test_case(hierexport_case): raise AssertionError\n")
    project.run().assert_outcomes(skipped=1)


def test_an_export_that_fails_fails_the_test_with_its_message(project: Project) -> None:
    project.write("my_model.py", "def build(): return None\n")
    project.write("test_own.py", "def test_export(hierexport_export): pass\n")
    result = project.run(MODELS, "-k", "test_export")
    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(["build could not be exported: expected the factory of build*"])
    assert "Traceback" not in result.stdout.str()


def test_a_model_that_its_factory_skips_skips_the_test(project: Project) -> None:
    project.write("my_model.py", "import pytest\n\ndef build(): pytest.skip('no device')\n")
    project.write("test_own.py", "def test_export(hierexport_export): pass\n")
    result = project.run(MODELS, "--hierexport-after=onnxruntime:basic", "-k", "test_export", "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*skipped: no device", "SKIPPED*build could not be exported"])


def test_hierarchy_is_compared_with_a_snapshot_of_the_test(project: Project) -> None:
    own = project.write(
        "tests/test_own.py",
        """
        import torch
        from pytest_hierexport import export

        class Halver(torch.nn.Module):
            def forward(self, x):
                return x + x

        def test_it(hierexport, hierexport_snapshot):
            assert hierexport(Halver(), torch.ones(1)) == hierexport_snapshot
            assert export(Halver().eval(), (torch.ones(1),)) == hierexport_snapshot
        """,
    )
    assert project.run("tests", "--snapshot-update").ret == 0
    folder = own.parent / "__hierexport__" / "test_own"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "test_it.txt": "/Halver: Add 1\n",
        "test_it.1.txt": "/Halver: Add 1\n",
    }
    assert project.run("tests").ret == 0
    own.write_text(own.read_text().replace("x + x", "x + x * x"))
    result = project.run("tests")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["E *~ /Halver: Mul 0 → 1"])


def test_file_without_tags_is_told_to_a_snapshot_s_test(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import onnx
        from onnx import helper

        def test_it(hierexport_snapshot, tmp_path):
            onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), tmp_path / "plain.onnx")
            assert tmp_path / "plain.onnx" == hierexport_snapshot
        """,
    )
    result = project.run("test_own.py")
    result.stdout.fnmatch_lines(["E *ValueError: expected an ONNX model with tags; found none in *; to do: export *"])


def test_tests_of_similar_names_have_snapshots_of_their_own(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import pytest

        @pytest.mark.parametrize("spec", ["1<2", "1>2", "1" * 260, "1" * 261])
        def test_it(hierexport_snapshot, spec):
            assert f"/Net{spec[1:2]}{len(spec)}: Add 1\\n" == hierexport_snapshot
            assert f"/Second{spec[1:2]}{len(spec)}: Add 1\\n" == hierexport_snapshot
        """,
    )
    assert project.run("test_own.py", "--snapshot-update").ret == 0
    assert len(list((project.path / "__hierexport__" / "test_own").iterdir())) == 8
    project.run("test_own.py").assert_outcomes(passed=4)


def test_own_class_with_a_case_has_snapshots_of_its_tests(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        from types import SimpleNamespace

        class TestTower:
            case = SimpleNamespace(name="tower")

            def test_first(self, hierexport_snapshot):
                assert "/First: Add 1\\n" == hierexport_snapshot

            def test_second(self, hierexport_snapshot):
                assert "/Second: Add 1\\n" == hierexport_snapshot
        """,
    )
    assert project.run("test_own.py", "--snapshot-update").ret == 0
    assert sorted(path.name for path in (project.path / "__hierexport__" / "test_own").iterdir()) == [
        "TestTower.test_first.txt",
        "TestTower.test_second.txt",
    ]
    project.run("test_own.py").assert_outcomes(passed=2)
