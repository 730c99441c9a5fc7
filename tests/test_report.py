from __future__ import annotations

from pytest_hierexport.report import as_html, as_lines, as_markdown
from pytest_hierexport.report.results import Check, Model, Results, RuleText, Verdict, cardinal_line

RULES = (RuleText("MUST-001", "no hardcoded names", cardinal=True), RuleText("MUST-004", "the checker passes"))


def model(name: str, **checks: Verdict) -> Model:
    made = {check.replace("_", "-"): Check(verdict, "why | <b>") for check, verdict in checks.items()}
    return Model(name, name, "anchor", "file", checks=made, exporter="dynamo", coverage={"traced": 4})


def test_the_table_has_a_word_for_every_verdict_in_aligned_columns() -> None:
    results = Results(
        RULES,
        (
            model("a", MUST_001=Verdict.PASSED, MUST_004=Verdict.FAILED, snapshot=Verdict.SKIPPED),
            model("longer", MUST_001=Verdict.PASSED, MUST_004=Verdict.KNOWN),
        ),
    )
    assert as_lines(results) == [
        "model   exporter  nodes  MUST-001  004    snapshot",
        "a       dynamo    4      pass      FAIL   skip",
        "longer  dynamo    4      pass      known  -",
    ]


def test_cardinal_rules_that_did_not_run_are_named_by_model() -> None:
    ran, left = model("ran", MUST_001=Verdict.PASSED), model("left", MUST_004=Verdict.PASSED)
    assert cardinal_line(Results(RULES, (ran,))) == ""
    assert cardinal_line(Results(RULES, (ran, left))) == "cardinal rules not run: MUST-001 on left"
    many = tuple(model(f"m{i}", MUST_004=Verdict.PASSED) for i in range(9))
    assert cardinal_line(Results(RULES, many)) == "cardinal rules not run: MUST-001 on all 9 models"
    assert cardinal_line(Results(RULES, (ran, *many))).endswith("m0, m1, m2, m3, m4 and 4 more")


def test_names_and_messages_are_data_in_markdown_and_html() -> None:
    results = Results(RULES, (model("<script>|", MUST_001=Verdict.FAILED),))
    markdown, page = as_markdown(results), as_html(results)
    assert "&lt;script>\\|" in markdown
    assert "<script>" not in page
    assert "why | &lt;b&gt;" in page


def test_a_fence_in_a_message_does_not_end_the_block_that_shows_it() -> None:
    broken = Model("a", "a", "anchor", "file", checks={"MUST-001": Check(Verdict.FAILED, "```\ncode\n```")})
    assert "````text\n```\ncode\n```\n````" in as_markdown(Results(RULES, (broken,)))
