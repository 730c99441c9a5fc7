"""The items: known failures, what a failure shows."""

from __future__ import annotations

import json
import shlex

import pytest

from projects import Project

RULE = """
from pytest_hierexport._rules.base import Rule, Violation

def pytest_hierexport_rules(config):
    return [
        Rule("OWN-BROKEN", "never kept", lambda exported: [Violation("here", "this", "that", "fix it")]),
        Rule("OWN-KEPT", "always kept", lambda exported: []),
        Rule("OWN-MANY", "broken everywhere", lambda exported: [
            Violation(f"place {i}", "this", "that" if i < 8 else f"that {i}", "fix it") for i in range(40)
        ]),
        Rule("OWN-LOST", "not checked", not_checked),
    ]

def not_checked(exported):
    from pytest_hierexport._errors import TagError
    raise TagError("tags", found="none", do="export again")
"""


@pytest.fixture
def stated(project: Project) -> Project:
    """Give a project with rules of its own and a manifest without known failures."""
    project.write("conftest.py", RULE)
    project.write("models.toml", "[models.tower]\nmodel = 'my_model.py::build'\n")
    return project


def known(project: Project, rule: str, until: str) -> None:
    manifest = project.path / "models.toml"
    entry = f"[[models.tower.known_failures]]\nrule = '{rule}'\nuntil = {until}\nreason = 'their bug 17'\n"
    manifest.write_text(manifest.read_text() + entry)


def run(project: Project, rule: str) -> pytest.RunResult:
    return project.run("--hierexport-models=models.toml", f"models.toml::tower::test_must[{rule}]", "-rx")


def test_a_known_failure_is_expected(stated: Project) -> None:
    known(stated, "OWN-BROKEN", "2999-01-01")
    result = run(stated, "OWN-BROKEN")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*known failure until 2999-01-01: their bug 17*"])
    result.stdout.fnmatch_lines(["tower *known*"])


def test_known_failure_of_unknown_rule_is_refused_before_the_run(stated: Project) -> None:
    known(stated, "OWN-BROKN", "2999-01-01")
    result = run(stated, "OWN-KEPT")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*found 'OWN-BROKN' at models.tower.known_failures.0.rule in *models.toml"])
    result.stderr.fnmatch_lines(["*perhaps OWN-BROKEN*"])


def test_all_known_failures_of_unknown_rules_are_told_at_once(stated: Project) -> None:
    known(stated, "OWN-BROKN", "2999-01-01")
    manifest = (stated.path / "models.toml").read_text()
    more = manifest[manifest.index("[[") :].replace("OWN-BROKN", "MUST-44")
    stated.write("models.toml", manifest + more)
    told = run(stated, "OWN-KEPT").stderr.str()
    assert "'OWN-BROKN' at models.tower.known_failures.0.rule in " in told
    assert "'MUST-44' at models.tower.known_failures.1.rule in " in told
    assert "for OWN-BROKN perhaps OWN-BROKEN; for MUST-44 perhaps MUST-004" in told


def test_a_known_failure_that_passes_fails(stated: Project) -> None:
    known(stated, "OWN-KEPT", "2999-01-01")
    result = run(stated, "OWN-KEPT")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["tower: the known failure of OWN-KEPT is over", "*to do *remove *models.toml"])


def test_a_known_failure_that_expired_fails_and_says_when(stated: Project) -> None:
    known(stated, "OWN-BROKEN", "2020-02-29")
    result = run(stated, "OWN-BROKEN")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the known failure (their bug 17) expired on 2020-02-29"])


def test_expired_known_failure_whose_rule_holds_is_said(stated: Project) -> None:
    known(stated, "OWN-KEPT", "2020-02-29")
    result = run(stated, "OWN-KEPT")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["tower: the known failure of OWN-KEPT expired on 2020-02-29, and the rule holds: *"])


def test_failure_that_several_tests_share_is_shown_once(project: Project) -> None:
    project.write("bad.py", "def make():\n    raise ValueError('no weights')\n")
    report = project.path / "report.json"
    result = project.run("--hierexport-models=bad.py::make", f"--hierexport-report={report}")
    assert (result.ret, result.parseoutcomes()) == (1, {"failed": 1, "unchecked": 10})
    assert sum("no weights" in line for line in result.outlines) == 1
    assert sum(line.startswith("FAILED ") for line in result.outlines) == 1
    checks = json.loads(report.read_text())["models"][0]["checks"]
    assert all("no weights" in check["message"] for check in checks.values())


def test_repeated_failures_fail_for_all_but_the_terminal(project: Project) -> None:
    project.write("bad.py", "def make():\n    raise ValueError('no weights')\n")
    bad = "--hierexport-models=bad.py::make"
    result = project.run(bad, "-n2", "-v", "--junitxml=junit.xml", "-k", "snapshot or MUST-002 or MUST-003")
    assert (result.ret, result.parseoutcomes()) == (1, {"failed": 1, "unchecked": 2})
    assert sum(" UNCHECKED " in line for line in result.outlines) == 2
    assert 'failures="3"' in (project.path / "junit.xml").read_text()
    assert "see       test_snapshot, which failed with the same message" in (project.path / "junit.xml").read_text()
    assert project.run(bad, "-x").parseoutcomes() == {"failed": 1}


def test_short_summary_names_the_change_within_its_width(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    project.write("__hierexport__/build.txt", "/Tower\n/Tower/Block.{0..2} ×3: Gelu 1, Gemm 1\n")
    result = project.run("--hierexport-models=my_model.py::build", "-k", "snapshot")
    assert result.outlines[-2] == "FAILED my_model.py::build::test_snapshot - ~ …/Block.{0..2}: Gelu 1 → 0, Relu..."


def test_short_summary_names_the_place_of_a_broken_rule(stated: Project) -> None:
    result = stated.run("--hierexport-models=models.toml", "-k", "OWN-BROKEN or OWN-MANY")
    result.stdout.fnmatch_lines(["FAILED *OWN-BROKEN* - here: that", "FAILED *OWN-MANY* - 40 places, place 0*"])


def test_short_summary_tells_why_a_model_was_not_exported(project: Project) -> None:
    project.write("bad.py", "def make():\n    raise ValueError('no weights')\n")
    result = project.run("--hierexport-models=bad.py::make", "-k", "snapshot")
    assert " - could not be exported: ValueError" in result.outlines[-2]


def test_equal_failures_of_two_models_are_both_shown(project: Project) -> None:
    project.write("bad.py", "def one():\n    raise ValueError('no weights')\n\ntwo = one\n")
    result = project.run("--hierexport-models=bad.py::one,bad.py::two", "-k", "snapshot")
    assert sum("no weights" in line for line in result.outlines) == 2


def test_known_failure_excuses_only_the_rule_finding(stated: Project) -> None:
    known(stated, "OWN-LOST", "2999-01-01")
    result = run(stated, "OWN-LOST")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["tower: OWN-LOST could not be checked", "*to do *export again"])
    (stated.path / "my_model.py").write_text("def build(): return None\n")
    known(stated, "OWN-BROKEN", "2999-01-01")
    run(stated, "OWN-BROKEN").assert_outcomes(failed=1)


def test_equal_findings_are_listed_once_and_their_number_is_bounded(stated: Project) -> None:
    result = run(stated, "OWN-MANY")
    text = result.stdout.str()
    result.stdout.fnmatch_lines(["OWN-MANY broken everywhere: tower breaks it in 40 places", "  where     place 0"])
    assert "… and 3 more\n" in text
    assert "  … and 23 more places" in text
    assert text.count("  expected  this") == 10


def test_a_failure_survives_the_way_from_a_worker(stated: Project) -> None:
    result = stated.process("--hierexport-models=models.toml", "-n", "1", "-k", "OWN-BROKEN")
    result.stdout.fnmatch_lines(
        ["OWN-BROKEN never kept: tower breaks it in 1 place", "  kept      .hierexport/tower/*"]
    )
    result.stdout.fnmatch_lines(["tower *FAIL*"])
    assert "Traceback" not in result.stdout.str()


def test_crash_with_parameters_of_a_fixture_is_told(stated: Project) -> None:
    stated.write(
        "conftest.py",
        """
        import os
        import pytest
        from pytest_hierexport import Rule

        @pytest.fixture(autouse=True, params=["cpu", "cuda"])
        def device(request): pass

        def pytest_hierexport_rules(config):
            return [Rule("OWN-1", "nothing", lambda exported: os._exit(7))]
        """,
    )
    result = stated.run("--hierexport-models=models.toml", "-k", "OWN-1", "-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*worker gw0 ended with exit code 7 in test_must[[]OWN-1-cpu]*"])
    assert stated.builds == 1


def test_parameters_of_a_fixture_for_all_tests_give_more_tests(stated: Project) -> None:
    device = "import pytest\n@pytest.fixture(autouse=True, params=['cpu', 'cuda'])\ndef device(request): pass\n"
    stated.write("conftest.py", device + RULE)
    stated.write("__hierexport__/tower.txt", "/Other\n")
    result = stated.run("--hierexport-models=models.toml", "-k", "OWN-BROKEN or OWN-KEPT or snapshot")
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["unchecked"], outcomes["passed"]) == (3, 1, 2)
    repeats = [line.strip() for line in result.outlines if line.strip().startswith("repeat")]
    assert len(repeats) == 3
    for line in repeats:
        stated.run(*shlex.split(line)[2:]).assert_outcomes(failed=1)
