from __future__ import annotations

from pytest_hierexport._report.annotations import error_commands
from pytest_hierexport._report.results import Check, Model, Results, RuleText, Status

RULES = (RuleText("MUST-001", "no hardcoded names"), RuleText("MUST-002", "no torch.nn"))


def results(**checks: Check) -> Results:
    return Results(
        RULES, (Model("a,b:c", "s", "anchor", "dir/m.py", 3, {k.replace("_", "-"): v for k, v in checks.items()}),)
    )


def test_failure_is_one_command_with_place_and_message() -> None:
    (line,) = error_commands(
        results(MUST_001=Check(Status.FAILED, "50% of it:\nbad, bad"), MUST_002=Check(Status.PASSED))
    )
    assert line == "::error file=dir/m.py,line=3,title=a%2Cb%3Ac%3A MUST-001::50%25 of it:%0Abad, bad"


def test_checks_that_failed_with_the_same_words_are_one_annotation() -> None:
    failures = {
        name: Check(Status.FAILED, f"could not be exported\n  repeat    pytest {name}")
        for name in ("MUST_001", "MUST_002")
    }
    assert len(list(error_commands(results(**failures)))) == 1


def test_what_did_not_fail_is_no_annotation() -> None:
    others = results(MUST_001=Check(Status.KNOWN, "known"), MUST_002=Check(Status.SKIPPED, "skipped"))
    assert list(error_commands(others)) == []
