from __future__ import annotations

import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"


def rules(result: pytest.RunResult) -> list[str]:
    return [line.partition("[")[2].rstrip("]") for line in result.outlines if "test_must[" in line]


def test_named_rules_and_cardinal_rules_run(project: Project) -> None:
    result = project.run(MODELS, "--hierexport-rules=MUST-004", "--co", "-q")
    assert rules(result) == ["MUST-002", "MUST-003", "MUST-004", "MUST-001"]


def test_rules_option_overrides_the_ini(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_rules = MUST-004, MUST-005\n")
    cardinal = {"MUST-001", "MUST-002", "MUST-003"}
    assert {*rules(project.run(MODELS, "--co", "-q"))} - cardinal == {"MUST-004", "MUST-005"}
    assert {*rules(project.run(MODELS, "--hierexport-rules=MUST-005", "--co", "-q"))} - cardinal == {"MUST-005"}


def test_snapshot_then_cheap_rules_then_those_that_export(project: Project) -> None:
    lines = [line for line in project.run(MODELS, "--co", "-q").outlines if "::" in line]
    assert lines[0].endswith("::test_snapshot")
    cheap, run, again = ["002", "003", "004", "009", "010"], ["006", "007"], ["001", "005", "008"]
    assert [line[-4:-1] for line in lines[1:]] == [*cheap, *run, *again]


def test_fast_run_names_the_cardinal_rule_left_out(project: Project) -> None:
    result = project.run(MODELS, "--hierexport-fast", "--snapshot-update")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["cardinal rules not run: MUST-001 on build"])
    assert project.builds == 1


def test_commands_of_a_fast_run_are_fast(project: Project) -> None:
    make = project.run(MODELS, "--hierexport-fast")
    make.stdout.fnmatch_lines([f"*to make them: pytest {MODELS} --hierexport-fast -m hierexport --snapshot-update*"])
    project.write("__hierexport__/build.txt", "/Other: Neg 2\n")
    failed = project.run(MODELS, "--hierexport-fast", "-k", "snapshot")
    failed.stdout.fnmatch_lines([f"  repeat *pytest {MODELS} --hierexport-fast my_model.py::build::test_snapshot"])


def test_project_rule_fails_like_ours(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        from pytest_hierexport._rules.base import Rule, Violation

        def no_towers(exported):
            for key in exported.attribution.nodes:
                if "Tower" in exported.attribution.tag(key):
                    yield Violation(exported.node(key), "no tower", "a tower", "build lower")

        def pytest_hierexport_rules(config):
            return [Rule("OWN-001", "no towers", no_towers)]
        """,
    )
    result = project.run(MODELS, "-k", "OWN-001")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(
        [
            "OWN-001 no towers: build breaks it in 6 places",
            "  where     * (/Tower/Block.0)",
            "  expected  no tower",
            "  found     a tower",
            "  to do     build lower",
            "  repeat    pytest --hierexport-models=my_model.py::build 'my_model.py::build::test_must[[]OWN-001[]]'",
        ]
    )
    result.stdout.fnmatch_lines(["FAILED *OWN-001* - 6 places, *"])
    assert "Traceback" not in result.stdout.str()
    assert "conftest.py:" not in result.stdout.str()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("exported.path.nam", "AttributeError: *'nam'"),
        ('yield Violation("here", "this", "that")', "TypeError: *'do'"),
        ("raise SystemExit(2)", "SystemExit: 2"),
    ],
)
def test_error_in_a_project_rule_is_told_without_traceback(project: Project, statement: str, found: str) -> None:
    project.write(
        "conftest.py",
        f"""
        from pytest_hierexport import Rule, Violation

        def check(exported):
            {statement}

        def pytest_hierexport_rules(config):
            return [Rule("OWN-001", "no towers", check)]
        """,
    )
    result = project.run(MODELS, "-k", "OWN-001")
    result.stdout.fnmatch_lines(
        [
            "build: OWN-001 could not be checked",
            "  expected  the check of OWN-001 to run without an error",
            f"  found     {found} (conftest.py, line 5)",
            "  to do     correct the check",
            "  kept      *.hierexport/build/traceback-OWN-001.txt",
            "  repeat    pytest *",
        ]
    )
    assert "base.py" not in result.stdout.str()
    kept = (project.path / ".hierexport" / "build" / "traceback-OWN-001.txt").read_text()
    assert 'conftest.py", line 5, in check' in kept


def test_unknown_rule_tells_that_the_project_has_none(project: Project) -> None:
    project.write("conftest.py", "def pytest_hierexport_rule(config):\n    return []\n")
    result = project.run(MODELS, "--hierexport-rules=TEAM-1")
    told = "*found 'TEAM-1', and no rule of the project: no hook pytest_hierexport_rules gives one*"
    result.stderr.fnmatch_lines([told])


def test_rule_without_a_verdict_is_skipped_with_a_note(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        from pytest_hierexport._errors import NoVerdictError
        from pytest_hierexport._rules.base import Rule

        def compare(exported):
            raise NoVerdictError("a peer", found="no plain peer: it failed", do="nothing")

        def pytest_hierexport_rules(config):
            return [Rule("OWN-001", "equal to its peer", compare)]
        """,
    )
    result = project.run(MODELS, "-k", "OWN-001")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["build: OWN-001 is neither kept nor broken: no plain peer: it failed"])


def test_project_rule_with_our_id_is_a_usage_error(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        from pytest_hierexport._rules.base import Rule

        def pytest_hierexport_rules(config):
            return [Rule("MUST-001", "mine", lambda exported: [])]
        """,
    )
    result = project.run(MODELS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*MUST-001*"])


def test_a_rule_that_returns_no_violations_fails_with_one_paragraph(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        from pytest_hierexport._rules.base import Rule

        def pytest_hierexport_rules(config):
            return [
                Rule("OWN-001", "returns nothing", lambda exported: None),
                Rule("OWN-002", "returns texts", lambda exported: ["a tower"]),
            ]
        """,
    )
    result = project.run(MODELS, "-k", "OWN")
    assert result.parseoutcomes()["failed"] == 2
    result.stdout.fnmatch_lines(
        [
            "build: OWN-001 could not be checked",
            "  expected  the check of OWN-001 to return a list of Violation, or to yield them",
            "  found     None",
            "  to do     return [[][]] where the rule holds; *",
            "build: OWN-002 could not be checked",
            "  found     'a tower' (str)",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "pytest_hierexport/" not in result.stdout.str()


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("RULE", "*found Rule(id='OWN-001'*, not in a list"),
        ("[RULE.check]", "*found <function *"),
        ("'OWN-001'", "*found 'OWN-001'"),
    ],
)
def test_a_hook_that_returns_no_rules_is_a_usage_error(project: Project, returned: str, found: str) -> None:
    project.write(
        "conftest.py",
        f"""
        from pytest_hierexport._rules.base import Rule

        RULE = Rule("OWN-001", "mine", lambda exported: [])

        def pytest_hierexport_rules(config):
            return {returned}
        """,
    )
    result = project.run(MODELS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*expected pytest_hierexport_rules to return a list of Rule;" + found])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("1, 'mine', list", "id of the rule 1 to be a text; found 1"),
        ("'OWN-001', 'mine', 3", "check of the rule OWN-001 to be a function; found 3"),
        ("'OWN-001', 'mine', list, needs='x'", "needs of the rule OWN-001 to be file, model or export; found 'x'"),
        ("'snapshot', 'mine', list", "an id of its own for each rule; found 'snapshot'"),
    ],
    ids=["id", "check", "needs", "id of the snapshot"],
)
def test_rule_with_a_wrong_field_is_a_usage_error(project: Project, fields: str, told: str) -> None:
    conftest = f"""
        from pytest_hierexport import Rule

        def pytest_hierexport_rules(config):
            return [Rule({fields})]
        """
    project.write("conftest.py", conftest)
    result = project.run(MODELS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*expected {told}"])
