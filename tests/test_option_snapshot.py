"""Snapshots from a user's side: made, held, updated, removed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"
UPDATE = ("--snapshot-update", "-k", "snapshot")


FULL_DISK = """
import resource

import pytest

def pytest_collection_modifyitems(items):
    items.reverse()  # another test exports, while there is room

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if item.name == "test_snapshot":
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        return (yield)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
"""
"""A conftest under which no file can grow beyond ten bytes while a snapshot is checked."""


@pytest.fixture
def held(project: Project) -> Project:
    """Give a project whose model has a snapshot."""
    assert project.run(MODELS, *UPDATE).ret == 0
    return project


def change(project: Project, old: str, new: str) -> pytest.RunResult:
    model = project.path / "my_model.py"
    assert old in model.read_text()
    model.write_text(model.read_text().replace(old, new))
    return project.run(MODELS, "-k", "snapshot")


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("Block", "Brick", ["*= renamed Block → Brick (3 instances, operators equal)"]),
        ("range(3)", "range(2)", ["*- /Tower/Block.2: Gemm 1, Relu 1"]),
        ("            x = block(x)", "            x = block(x)\n        x = x * 2", ["*~ /Tower: Mul 0 → 1"]),
    ],
    ids=["a class is renamed", "a submodule is dropped", "an operation is added"],
)
def test_a_change_of_the_hierarchy_fails_with_what_changed(
    held: Project, old: str, new: str, difference: list[str]
) -> None:
    result = change(held, old, new)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["the hierarchy of build has changed", *difference])
    result.stdout.fnmatch_lines([f"  to do *: pytest {MODELS} my_model.py::build::test_snapshot --snapshot-update"])


@pytest.mark.parametrize(
    "edit", [str.rstrip, lambda text: text + text, lambda text: text.replace("Gemm 1, Relu 1", "Relu 1, Gemm 1")]
)
def test_edited_snapshot_of_the_same_hierarchy_is_told(held: Project, edit: Callable[[str], str]) -> None:
    file = held.path / "__hierexport__" / "build.txt"
    written = file.read_text()
    file.write_text(edit(written))
    result = held.run(MODELS, "-k", "snapshot")
    result.stdout.fnmatch_lines(["the text of the snapshot of build has changed", "  found *the same modules*"])
    result.stdout.no_fnmatch_line("*the hierarchy of build has changed*")
    assert held.run(MODELS, *UPDATE).ret == 0
    assert file.read_text() == written


def test_changed_numbers_and_value_names_change_no_snapshot(held: Project) -> None:
    assert change(held, "torch.nn.Linear(4, 4)", "torch.nn.Linear(4, 4, bias=True)").ret == 0
    assert change(held, "self.linear", "self.projection").ret == 0


def test_an_update_writes_the_change_and_nothing_else_does(held: Project) -> None:
    snapshot = held.path / "__hierexport__" / "build.txt"
    before = snapshot.read_text()
    change(held, "Block", "Brick")
    assert snapshot.read_text() == before
    held.run(MODELS, *UPDATE)
    assert snapshot.read_text() == before.replace("Block", "Brick")


def test_a_missing_file_in_a_folder_that_is_there_fails(held: Project) -> None:
    (held.path / "__hierexport__" / "build.txt").rename(held.path / "__hierexport__" / "other.txt")
    result = held.run(MODELS, "-k", "snapshot")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["build has no snapshot", "*to do *write it: pytest *"])


def test_missing_snapshot_names_none_of_another_manifest(project: Project) -> None:
    project.write("models.toml", ONE)
    assert project.run("--hierexport-models=models.toml", *UPDATE).ret == 0
    project.write("other.toml", ONE.replace("models.high", "models.tall"))
    missing = "--hierexport-models=other.toml", "-k", "snapshot"
    project.run(*missing).stdout.fnmatch_lines(["tall has no snapshot", "*found *no such file", "*to do *write it: *"])
    (project.path / "models.toml").unlink()
    project.run(*missing).stdout.fnmatch_lines(["*found *high.txt of no selected model, with the same hierarchy"])


def test_missing_snapshot_names_the_one_of_the_former_name(project: Project) -> None:
    project.write("models.toml", ONE)
    snapshots = "--hierexport-models=models.toml", "-k", "snapshot"
    assert project.run(*snapshots, *UPDATE).ret == 0
    project.write("models.toml", ONE.replace("models.high", "models.tall"))
    found = "*no such file, but *high.txt of no selected model, with {} hierarchy"
    to_do = "*rename *high.txt if the model was renamed, else write it: pytest *"
    project.run(*snapshots).stdout.fnmatch_lines(["tall has no snapshot", found.format("the same"), to_do])
    (project.path / "__hierexport__" / "high.txt").write_text("/Other: Neg 1\n")
    project.run(*snapshots, "-m", "hierexport").stdout.fnmatch_lines([found.format("another"), to_do])
    # Which of two was it?
    project.write("__hierexport__/low.txt", "/Other: Neg 2\n")
    assert "of no selected model" not in project.run(*snapshots).stdout.str()


def test_a_missing_folder_fails_where_snapshots_are_required(project: Project) -> None:
    assert project.run(MODELS, "-k", "snapshot").ret == 0
    assert project.run(MODELS, "-k", "snapshot", "--hierexport-require-snapshots").ret == 1
    project.write("pytest.ini", "[pytest]\nhierexport_require_snapshots = true\n")
    assert project.run(MODELS, "-k", "snapshot").ret == 1


TWO = "[models.low]\nmodel = 'my_model.py::build'\n[models.high]\nmodel = 'my_model.py::build'\n"
ONE = "[models.high]\nmodel = 'my_model.py::build'\n"


@pytest.fixture
def two(project: Project) -> Project:
    """Give a project that stated two models, made their snapshots, and now states one."""
    project.write("models.toml", TWO)
    assert project.run("--hierexport-models=models.toml", *UPDATE[:1], "-m", "hierexport", "-k", "snapshot").ret == 0
    project.write("models.toml", ONE)
    # Only this rule and the cardinal ones: some others need a process of their own, and none decides about a snapshot.
    project.options = ("--hierexport-rules=MUST-002",)
    return project


def snapshots(project: Project) -> set[str]:
    return {path.name for path in (project.path / "__hierexport__").glob("*.txt")}


def test_complete_update_removes_snapshots_of_deselected_models(two: Project) -> None:
    assert snapshots(two) == {"low.txt", "high.txt"}
    result = two.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport")
    assert snapshots(two) == {"high.txt"}
    result.stdout.fnmatch_lines(["removed snapshots of models that are no longer selected: low"])


def test_an_update_with_a_failure_removes_none(two: Project) -> None:
    two.options = ("--hierexport-rules=MUST-009",)
    two.write("failing.toml", ONE + "exporter = 'broken:export'\n")
    two.write(
        "broken.py",
        """
        import pytest_hierexport

        def export(model, args, kwargs, path):
            pytest_hierexport.export(model, args, kwargs, path)
            path.with_name("model.hierarchy.json").unlink()
        """,
    )
    (two.path / "models.toml").unlink()
    result = two.run("--hierexport-models=failing.toml", "--snapshot-update", "-m", "hierexport")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["  to do  *remove their snapshots, once no other check fails: pytest *"])
    assert "low.txt" in snapshots(two)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hierexport-models=models.toml", "--snapshot-update", "-k", "snapshot"],
        ["--hierexport-models=models.toml", "--snapshot-update", "models.toml::high::test_snapshot"],
        ["--hierexport-models=models.toml", "--snapshot-update", "--snapshot-no-cleanup", "-m", "hierexport"],
        ["--hierexport-models=models.toml", "-m", "hierexport"],
        ["--hierexport-models=sequential", "--snapshot-update"],
        [MODELS, "--snapshot-update", "-m", "hierexport"],
        ["--hierexport-models=other.toml", "--snapshot-update", "-m", "hierexport"],
        ["--hierexport-models=models.toml", "--snapshot-update", "--deselect=models.toml::high"],
        ["--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport and not slow"],
        ["--hierexport-models=models.toml::high", "--snapshot-update", "-m", "hierexport"],
        ["--hierexport-models=new=models.toml::high", "--snapshot-update", "-m", "hierexport"],
        ["--hierexport-models=models.toml", "--snapshot-update", "-k", "snapshot", "-n2"],
        ["--hierexport-models=models.toml", "--snapshot-update", "--hierexport-shard=2/2"],
        ["--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport", "--lf"],
    ],
    ids=[
        "filtered",
        "by id",
        "no cleanup",
        "no update",
        "a choice of the zoo's",
        "a factory",
        "another manifest",
        "deselected",
        "by marker",
        "one model of a manifest",
        "one model of a manifest by a new name",
        "filtered on workers",
        "a shard without models",
        "what failed last",
    ],
)
def test_any_other_run_removes_none(two: Project, arguments: list[str]) -> None:
    two.write("other.toml", ONE)
    if "other.toml" not in str(arguments):
        (two.path / "other.toml").unlink()
    two.write(".pytest_cache/v/cache/lastfailed", '{"models.toml::high::test_snapshot": true}')
    two.run(*arguments)
    assert "low.txt" in snapshots(two)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hierexport-models=models.toml::high"],
        ["--hierexport-models=models.toml", "--hierexport-after=onnxruntime:all"],
    ],
    ids=["one model", "another step"],
)
def test_steps_of_a_manifest_make_no_complete_selection(two: Project, arguments: list[str]) -> None:
    two.write("models.toml", TWO + "after = ['onnxruntime:basic']\n")
    update = ("--snapshot-update", "-m", "hierexport", "--hierexport-rules=MUST-002")
    assert two.run("--hierexport-models=models.toml", *update).ret == 0
    held = snapshots(two)
    assert held == {"low.txt", "high.txt", "high@onnxruntime%3Abasic.txt"}
    assert two.run(*arguments, *update).ret == 0
    assert snapshots(two) >= held


def test_selection_without_the_models_of_a_hook_is_not_complete(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        from my_model import build
        from pytest_hierexport import Case

        def pytest_hierexport_models(config):
            return [Case("tower", build)]
        """,
    )
    project.write("pytest.ini", "[pytest]\npythonpath = .\nhierexport_models = my_model.py::build\n")
    update = ("--snapshot-update", "-m", "hierexport", "--hierexport-rules=MUST-002")
    assert project.run(*update).ret == 0
    assert snapshots(project) == {"build.txt", "tower.txt"}
    assert project.run(MODELS, *update).ret == 0
    assert snapshots(project) == {"build.txt", "tower.txt"}


REQUIRE = "--hierexport-require-snapshots"
ORPHAN = "snapshots of models that are gone: __hierexport__/low.txt"


@pytest.fixture
def dropped(two: Project) -> Project:
    """Give a project with an orphan in which the snapshot test is the only one that runs, with nothing filtered."""
    two.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            items[:] = [item for item in items if "must" not in item.name]
        """,
    )
    two.options = ()
    return two


def test_an_orphan_is_named_with_the_command_that_removes_it(dropped: Project) -> None:
    result = dropped.run("--hierexport-models=models.toml")
    assert result.ret == 0
    command = "pytest --hierexport-models=models.toml -m hierexport --snapshot-update"
    result.stdout.fnmatch_lines([ORPHAN, f"  to do  *: {command}"])
    assert snapshots(dropped) == {"low.txt", "high.txt"}
    assert dropped.run(*command.split()[1:]).ret == 0
    assert snapshots(dropped) == {"high.txt"}


@pytest.fixture
def unlisted(dropped: Project) -> Project:
    """Give a project with an orphan that no list names, as before there were lists."""
    (dropped.path / "__hierexport__" / ".hierexport.json").unlink(missing_ok=True)
    return dropped


KEEPS = (
    "  to do  an update keeps __hierexport__/low.txt, because .hierexport.json does not name the selection: delete *"
)


def test_an_orphan_that_no_list_names_is_named(unlisted: Project) -> None:
    result = unlisted.run("--hierexport-models=models.toml")
    assert result.ret == 0
    result.stdout.fnmatch_lines([ORPHAN, KEEPS])
    assert "remove their snapshots: pytest" not in result.stdout.str()


def test_an_unlisted_orphan_fails_where_snapshots_are_required(unlisted: Project) -> None:
    result = unlisted.run("--hierexport-models=models.toml", REQUIRE, "--hierexport-report=out.json")
    assert (result.ret, result.parseoutcomes()) == (1, {"passed": 1})
    assert json.loads((unlisted.path / "out.json").read_text())["orphaned_snapshots"] == ["__hierexport__/low.txt"]
    (unlisted.path / "__hierexport__" / "low.txt").unlink()
    assert unlisted.run("--hierexport-models=models.toml", REQUIRE).ret == 0


def test_an_update_keeps_an_unlisted_orphan_and_names_it(unlisted: Project) -> None:
    for _ in range(2):
        result = unlisted.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport")
        assert snapshots(unlisted) == {"low.txt", "high.txt"}
        result.stdout.fnmatch_lines([ORPHAN, KEEPS])


def test_a_snapshot_copied_into_the_folder_is_named(dropped: Project) -> None:
    dropped.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport")
    text = (dropped.path / "__hierexport__" / "high.txt").read_text()
    dropped.write("__hierexport__/copied.txt", text)
    result = dropped.run("--hierexport-models=models.toml", REQUIRE)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["snapshots of models that are gone: __hierexport__/copied.txt"])


def test_an_unlisted_orphan_of_another_configuration_goes_with_its_update(unlisted: Project) -> None:
    unlisted.write("other.ini", "[pytest]\nhierexport_models = other.toml\n")
    unlisted.write("other.toml", "[models.low]\nmodel = 'my_model.py::build'\n")
    assert unlisted.run("--hierexport-models=models.toml", REQUIRE).ret == 1
    assert unlisted.run("-c", "other.ini", "--snapshot-update", "-m", "hierexport").ret == 0
    assert unlisted.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport").ret == 0
    assert unlisted.run("--hierexport-models=models.toml", REQUIRE).ret == 0
    assert snapshots(unlisted) == {"low.txt", "high.txt"}


def test_an_orphan_whose_only_configuration_is_gone_is_removed(dropped: Project) -> None:
    dropped.write("old.ini", "[pytest]\nhierexport_models = my_model.py::build\n")
    assert dropped.run("-c", "old.ini", "--snapshot-update", "-m", "hierexport").ret == 0
    arguments = ("--hierexport-models=models.toml", "-m", "hierexport", REQUIRE)
    dropped.run(*arguments, "--snapshot-update")
    assert snapshots(dropped) == {"high.txt", "build.txt"}
    assert dropped.run(*arguments).ret == 0
    (dropped.path / "old.ini").unlink()
    assert dropped.run(*arguments).ret == 1
    assert dropped.run(*arguments, "--snapshot-update").ret == 0
    assert snapshots(dropped) == {"high.txt"}


def test_orphan_of_a_file_that_pytest_left_is_removed(dropped: Project) -> None:
    dropped.write("tox.ini", "[tox]\n[pytest]\nhierexport_models = my_model.py::build\n")
    assert dropped.run("--snapshot-update", "-m", "hierexport").ret == 0
    arguments = ("--hierexport-models=models.toml", "-m", "hierexport", "--snapshot-update")
    assert dropped.run(*arguments).ret == 0
    assert snapshots(dropped) == {"high.txt", "build.txt"}
    dropped.write("tox.ini", "[tox]\n")
    dropped.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    assert dropped.run(*arguments).ret == 0
    assert snapshots(dropped) == {"high.txt"}


def test_an_ini_without_own_models_still_names_its_orphans(dropped: Project) -> None:
    ini = dropped.write("pytest.ini", "[pytest]\nhierexport_models = my_model.py::build, sub/models.toml\n")
    dropped.write("sub/models.toml", ONE.replace("my_model.py", "../my_model.py"))
    assert dropped.run("--snapshot-update", "-m", "hierexport").ret == 0
    ini.write_text("[pytest]\nhierexport_models = sub/models.toml\n")
    result = dropped.run(REQUIRE)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["snapshots of models that are gone: __hierexport__/build.txt"])


def test_an_orphan_fails_a_complete_run_that_requires_snapshots(dropped: Project) -> None:
    reports = ("--hierexport-report=out.json", "--hierexport-report=out.html", "--hierexport-summary=out.md")
    result = dropped.run("--hierexport-models=models.toml", REQUIRE, *reports)
    assert (result.ret, result.parseoutcomes()) == (1, {"passed": 1})
    result.stdout.fnmatch_lines([ORPHAN])
    assert json.loads((dropped.path / "out.json").read_text())["orphaned_snapshots"] == ["__hierexport__/low.txt"]
    assert all(ORPHAN in (dropped.path / name).read_text() for name in ("out.html", "out.md"))


def test_orphan_fails_under_workers_if_snapshots_are_required(dropped: Project) -> None:
    dropped.write("pytest.ini", "[pytest]\nhierexport_models = models.toml\nhierexport_require_snapshots = true\n")
    assert dropped.run("-n1").ret == 1


def test_a_model_that_is_there_fails_nothing(dropped: Project) -> None:
    dropped.write("models.toml", TWO)
    result = dropped.run("--hierexport-models=models.toml", REQUIRE)
    assert result.ret == 0
    assert "that are gone" not in result.stdout.str()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hierexport-models=models.toml", "-k", "snapshot"],
        ["--hierexport-models=models.toml", "models.toml::high::test_snapshot"],
        ["--hierexport-models=models.toml", "--deselect", "models.toml::high::test_snapshot", "my_model.py"],
        ["--hierexport-models=models.toml", "--snapshot-disable-unused"],
        [MODELS, "-m", "hierexport"],
    ],
    ids=["filtered", "by id", "deselected", "unused are not asked for", "a factory"],
)
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "not listed"])
def test_a_run_that_is_not_complete_names_no_orphan(dropped: Project, arguments: list[str], is_listed: bool) -> None:
    dropped.run(MODELS, "-k", "snapshot", "--snapshot-update")
    if not is_listed:
        (dropped.path / "__hierexport__" / ".hierexport.json").unlink(missing_ok=True)
    result = dropped.run(*arguments, REQUIRE)
    assert result.ret in {0, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert "that are gone" not in result.stdout.str()


def test_a_complete_run_of_another_configuration_names_no_orphan(dropped: Project) -> None:
    dropped.run(MODELS, "-k", "snapshot", "--snapshot-update")
    dropped.write("other.ini", "[pytest]\nhierexport_models = my_model.py::build\n")
    result = dropped.run("-c", "other.ini", REQUIRE)
    assert result.ret == 0
    assert "that are gone" not in result.stdout.str()


def test_snapshot_is_beside_a_manifest_outside_the_root(two: Project) -> None:
    two.write("configs/pytest.ini", "[pytest]\nhierexport_models = ../models.toml\n")
    result = two.run("-c", "configs/pytest.ini", "-m", "hierexport", "-k", "snapshot", REQUIRE)
    result.assert_outcomes(passed=1)
    assert two.run("-c", "configs/pytest.ini", "-m", "hierexport", "--snapshot-update").ret == 0
    assert snapshots(two) == {"high.txt"}
    assert not (two.path / "configs" / "__hierexport__").exists()


def test_another_configuration_in_the_folder_keeps_its_snapshots(dropped: Project) -> None:
    dropped.write("models.toml", TWO)
    dropped.write("all.ini", "[pytest]\nhierexport_models = models.toml\n")
    dropped.write("other.ini", "[pytest]\nhierexport_models = my_model.py::build\n")
    assert dropped.run("-c", "other.ini", "--snapshot-update").ret == 0
    assert snapshots(dropped) == {"low.txt", "high.txt", "build.txt"}


def test_one_of_the_ini_models_is_no_complete_selection(two: Project) -> None:
    two.write("pytest.ini", "[pytest]\nhierexport_models = models.toml\n")
    two.run(MODELS, "--snapshot-update", "-m", "hierexport")
    assert {"low.txt", "high.txt"} <= snapshots(two)


def test_an_update_leaves_text_files_that_are_no_snapshots(two: Project) -> None:
    notes = two.write("__hierexport__/notes.txt", "read me\n")
    unlisted = two.write("__hierexport__/unlisted.txt", "/Tower\n")
    result = two.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport")
    assert "that are gone" not in result.stdout.str()
    assert snapshots(two) == {"high.txt", "notes.txt", "unlisted.txt"}
    assert (notes.read_text(), unlisted.read_text()) == ("read me\n", "/Tower\n")


def test_a_listed_snapshot_that_became_something_else_stays(two: Project) -> None:
    two.write("__hierexport__/low.txt", "my notes\n")
    two.run("--hierexport-models=models.toml", "--snapshot-update", "-m", "hierexport")
    assert snapshots(two) == {"high.txt", "low.txt"}


def test_each_configuration_removes_its_own_snapshots_alone(project: Project) -> None:
    update = ("--snapshot-update", "-m", "hierexport", "--hierexport-rules=MUST-002", "-c")
    project.write("other.py", "from my_model import build as second, build as third\n")
    project.write("a.ini", "[pytest]\npythonpath = .\nhierexport_models = my_model.py::build\n")
    project.write("b.ini", "[pytest]\npythonpath = .\nhierexport_models = other:second, other:third\n")
    for file in ("a.ini", "b.ini"):
        assert project.run(*update, file).ret == 0
    assert snapshots(project) == {"build.txt", "second.txt", "third.txt"}
    project.write("b.ini", "[pytest]\npythonpath = .\nhierexport_models = other:second\n")
    result = project.run(*update, "b.ini")
    result.stdout.fnmatch_lines(["removed snapshots of models that are no longer selected: third"])
    assert snapshots(project) == {"build.txt", "second.txt"}


def test_a_snapshot_of_two_configurations_goes_with_the_last(project: Project) -> None:
    update = ("--snapshot-update", "-m", "hierexport", "--hierexport-rules=MUST-002", "-c")
    project.write("other.py", "from my_model import build as second\n")
    both = "[pytest]\npythonpath = .\nhierexport_models = my_model.py::build, other:second\n"
    for file in ("a.ini", "b.ini"):
        project.write(file, both)
        assert project.run(*update, file).ret == 0
    for file, left in (("a.ini", {"build.txt", "second.txt"}), ("b.ini", {"build.txt"})):
        project.write(file, both.replace(", other:second", ""))
        assert project.run(*update, file).ret == 0
        assert snapshots(project) == left


def test_an_update_writes_over_no_file_that_is_no_snapshot(project: Project) -> None:
    notes = project.write("__hierexport__/build.txt", "read me\n")
    result = project.run(MODELS, *UPDATE)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["the snapshot of build was not written", "*found *build.txt: * did not write it*"])
    assert notes.read_text() == "read me\n"


def test_merge_conflict_is_told_and_resolved_by_an_update(held: Project) -> None:
    snapshot = held.path / "__hierexport__" / "build.txt"
    text = snapshot.read_text()
    snapshot.write_text(f"<<<<<<< HEAD\n{text}=======\n/Other\n>>>>>>> other\n")
    result = held.run(MODELS, "-k", "snapshot")
    result.stdout.fnmatch_lines(["the snapshot of build cannot be read", "*found *the conflict markers of a merge"])
    result.stdout.no_fnmatch_line("*~ /*")
    assert held.run(MODELS, *UPDATE).ret == 0
    assert snapshot.read_text() == text


def test_snapshot_in_another_encoding_is_told_and_rewritten(held: Project) -> None:
    snapshot = held.path / "__hierexport__" / "build.txt"
    text = snapshot.read_text()
    snapshot.write_bytes(text.encode("utf-16"))
    result = held.run(MODELS, "-k", "snapshot")
    result.stdout.fnmatch_lines(
        ["the snapshot of build cannot be read", "*found *not UTF-8 text", "*to do *delete it, then *--snapshot-update"]
    )
    assert "Traceback" not in result.stdout.str()
    assert held.run(MODELS, *UPDATE).ret == 0
    assert snapshot.read_text() == text


@pytest.mark.parametrize("arguments", [("-k", "snapshot"), UPDATE], ids=["compared", "updated"])
def test_folder_in_the_place_of_a_snapshot_is_told(project: Project, arguments: tuple[str, ...]) -> None:
    (project.path / "__hierexport__" / "build.txt").mkdir(parents=True)
    result = project.run(MODELS, *arguments)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["the snapshot of build cannot be read", "*found *a folder", "*to do *delete it, *"])
    assert "Traceback" not in result.stdout.str()


def test_a_full_disk_leaves_the_old_snapshot_whole(held: Project) -> None:
    snapshot = held.path / "__hierexport__" / "build.txt"
    snapshot.write_text("/Tower\n/Tower/Other: Add 1\n")
    held.write("conftest.py", FULL_DISK)
    result = held.run(MODELS, "--snapshot-update", "-k", "MUST-002 or snapshot")
    assert snapshot.read_text() == "/Tower\n/Tower/Other: Add 1\n"
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["the snapshot of build was not written", "*found *File too large*"])
    assert "Traceback" not in result.stdout.str()


def test_snapshots_of_the_project_s_own_tests_are_left_alone(held: Project) -> None:
    held.write("test_own.py", "def test_it(snapshot): assert snapshot == 1\n")
    held.run("--snapshot-update")
    assert (held.path / "__snapshots__" / "test_own.ambr").exists()
    assert held.run(MODELS, "--snapshot-update", "-m", "hierexport").ret == 0
    assert (held.path / "__snapshots__" / "test_own.ambr").exists()
    held.run("--snapshot-update")
    assert (held.path / "__hierexport__" / "build.txt").exists()
    assert held.run("-m", "not hierexport").ret == 0


def test_without_syrupy_the_snapshot_says_so(held: Project) -> None:
    result = held.process("-p", "no:syrupy", MODELS, "-k", "snapshot")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*drop -p no:syrupy*"])


def test_listing_tests_says_nothing_of_unused_snapshots(held: Project) -> None:
    held.write("test_own.py", "def test_it(snapshot): assert snapshot == 1\n")
    held.run("test_own.py", "--snapshot-update")
    result = held.run(MODELS, "test_own.py", "--co", "-q")
    assert result.ret == 0
    assert "snapshot report" not in result.stdout.str()


def test_syrupy_still_warns_of_an_option_that_the_user_sets(held: Project) -> None:
    result = held.run(MODELS, "--co", "-q", "--snapshot-disable-unused")
    result.stdout.fnmatch_lines(["*--snapshot-disable-unused*"])


@pytest.mark.parametrize("changed", ["Block.{0..2} ×3: Exp 1, Gemm 1", "Piece.{0..2} ×3: Gemm 1, Relu 1"])
def test_changed_module_is_located_in_model_and_source(project: Project, changed: str) -> None:
    project.write("__hierexport__/build.txt", f"/Tower\n/Tower/{changed}\n")
    result = project.run(MODELS, "-k", "snapshot")
    line = (project.path / "my_model.py").read_text().splitlines().index("class Block(torch.nn.Module):") + 1
    result.stdout.fnmatch_lines([f"  where     blocks.0: Block, my_model.py line {line}"])


def test_more_changed_modules_than_are_located_are_counted(project: Project) -> None:
    blocks = "\n".join(f"/Tower/Block.{i}: Exp 1, Gemm {i + 2}" for i in range(7))
    project.write("my_model.py", (project.path / "my_model.py").read_text().replace("range(3)", "range(7)"))
    project.write("__hierexport__/build.txt", f"/Tower\n{blocks}\n")
    result = project.run(MODELS, "-k", "snapshot")
    result.stdout.fnmatch_lines(
        ["  where     blocks.0: Block, *", "            blocks.4: *", "            … and 2 more"]
    )


def test_class_of_torch_has_no_line(project: Project) -> None:
    model = "import torch\ndef build():\n    return torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(2),)\n"
    project.write("my_model.py", model)
    assert project.run(MODELS, "-k", "snapshot", "--snapshot-update").ret == 0
    project.write("my_model.py", model.replace("ReLU", "Sigmoid"))
    result = project.run(MODELS, "-k", "snapshot")
    result.stdout.fnmatch_lines(["  where     the model itself: Sequential"])
