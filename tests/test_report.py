from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from markdown_it import MarkdownIt

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.schemas import schema_error
from pytest_hierexport._report import as_ctrf, as_html, as_json, as_lines, as_markdown
from pytest_hierexport._report.data import read_report
from pytest_hierexport._report.failures import failure_of
from pytest_hierexport._report.packing import packed
from pytest_hierexport._report.results import Check, Model, Part, Results, RuleText, Status, cardinal_line
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._text import one_line
from report_pages import many_models, shown_results
from schemas import strict_schema

if TYPE_CHECKING:
    from markdown_it.token import Token

RULES = (RuleText("MUST-001", "no hardcoded names", cardinal=True), RuleText("MUST-004", "the checker passes"))


def model(name: str, **checks: Status) -> Model:
    made = {check.replace("_", "-"): Check(verdict, "why | <b>") for check, verdict in checks.items()}
    return Model(name, name, "anchor", "file", checks=made, exporter="dynamo", coverage={"traced": 4})


def page_data(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(text)
    return data


def test_table_has_word_for_every_verdict_in_aligned_columns() -> None:
    results = Results(
        RULES,
        (
            model("a", MUST_001=Status.PASSED, MUST_004=Status.FAILED, snapshot=Status.SKIPPED),
            model("longer", MUST_001=Status.PASSED, MUST_004=Status.KNOWN),
        ),
    )
    assert as_lines(results) == [
        "model   exporter  nodes  MUST-001  004    snapshot",
        "a       dynamo    4      pass      FAIL   skip",
        "longer  dynamo    4      pass      known  -",
    ]


def test_wide_letters_keep_the_columns_aligned() -> None:
    lines = as_lines(Results(RULES, (model("模型", MUST_001=Status.PASSED), model("abcd", MUST_001=Status.PASSED))))
    assert [line.partition("dynamo")[0] for line in lines[1:3]] == ["模型   ", "abcd   "]


def test_table_shows_ids_of_own_rules_whole() -> None:
    own = (RuleText("ACME-006", "one"), RuleText("ACME-007", "two"))
    assert as_lines(Results((*RULES, *own), ()))[0].split()[3:] == [
        "MUST-001",
        "004",
        "ACME-006",
        "ACME-007",
        "snapshot",
    ]


def test_cardinal_rules_that_did_not_run_are_named_by_model() -> None:
    ran, left = model("ran", MUST_001=Status.PASSED), model("left", MUST_004=Status.PASSED)
    assert cardinal_line(Results(RULES, (ran,))) == ""
    assert cardinal_line(Results(RULES, (ran, left))) == "cardinal rules not run: MUST-001 on left"
    many = tuple(model(f"m{i}", MUST_004=Status.PASSED) for i in range(9))
    assert cardinal_line(Results(RULES, many)) == "cardinal rules not run: MUST-001 on all 9 models"
    assert cardinal_line(Results(RULES, (ran, *many))).endswith("m0, m1, m2, m3, m4 and 4 more")
    others = (replace(RULES[0], id="MUST-002"), *RULES)
    mixed = (model("step", MUST_002=Status.PASSED), *many)
    assert cardinal_line(Results(others, mixed)).startswith("cardinal rules not run: step (MUST-001), m0 (MUST-002, ")


def test_skipped_rule_is_a_note_with_its_reason() -> None:
    results = Results(RULES, (model("a", MUST_001=Status.PASSED, MUST_004=Status.SKIPPED),))
    note = "a: MUST-004 is neither kept nor broken: why | <b>"
    assert as_lines(results)[2] == note
    assert note in as_markdown(results).replace("`", "")
    assert note in packed(results)["run"]["remarks"]


def test_rules_skipped_for_one_reason_share_a_note() -> None:
    both = model("a", MUST_001=Status.SKIPPED, MUST_004=Status.SKIPPED, snapshot=Status.PASSED)
    lines = as_lines(Results(RULES, (both,)))
    assert lines[2:] == ["a: MUST-001, MUST-004 are neither kept nor broken: why | <b>"]


def test_model_skipped_whole_has_one_note() -> None:
    whole = model("a", MUST_001=Status.SKIPPED, MUST_004=Status.SKIPPED, snapshot=Status.SKIPPED)
    assert as_lines(Results(RULES, (whole,)))[2:] == ["a: why | <b>"]


def test_equal_notes_of_several_models_are_one_line() -> None:
    noted = tuple(replace(model(name, MUST_001=Status.PASSED), notes=("it was in training mode",)) for name in "ab")
    lines = as_lines(Results(RULES, noted))
    assert [line for line in lines if "training" in line] == ["a, b: it was in training mode"]


def test_json_report_follows_its_schema_and_reads_back(tmp_path: Path) -> None:
    results = Results(
        RULES,
        (model("a", MUST_001=Status.PASSED, snapshot=Status.SKIPPED), replace(model("b"), inapplicable=("MUST-001",))),
        ("gone.txt",),
        versions={"torch": "2.13.0"},
        part=Part(2, 3, ("a", "b", "c")),
    )
    (tmp_path / "report.json").write_text(as_json(results))
    assert read_report(tmp_path / "report.json") == results


def test_json_report_keeps_modules_failures_and_the_commit(tmp_path: Path) -> None:
    jsonschema.validate(json.loads(as_json(shown_results())), strict_schema("report"))
    (tmp_path / "report.json").write_text(as_json(shown_results()))
    assert read_report(tmp_path / "report.json") == shown_results()


def test_report_with_keys_of_a_later_release_is_read(tmp_path: Path) -> None:
    content = json.loads(as_json(shown_results()))
    checks = [check for each in content["models"] for check in each["checks"].values()]
    failures = [check["failure"] for check in checks if "failure" in check]
    parts = [content, *content["rules"], *content["models"], *checks, *failures]
    parts += [entry for each in content["models"] for entry in each["modules"]]
    parts += [part for failure in failures for kind in ("findings", "changes", "renames") for part in failure[kind]]
    for part in parts:
        part["later"] = {"any": "thing"}
    (tmp_path / "report.json").write_text(json.dumps(content))
    assert read_report(tmp_path / "report.json") == shown_results()


def test_report_without_modules_is_read_as_before(tmp_path: Path) -> None:
    content = json.loads(as_json(Results(RULES, (model("a", MUST_001=Status.FAILED),))))
    del content["models"][0]["modules"]
    (tmp_path / "report.json").write_text(json.dumps(content))
    (read,) = read_report(tmp_path / "report.json").models
    assert (read.modules, read.checks["MUST-001"].failure) == ((), None)


@pytest.mark.parametrize(
    "entry",
    [
        {"class": "no path"},
        {"path": 1},
        {"path": "", "calls": -1},
        {"path": "", "calls": True},
        {"path": "", "operators": {"Add": "1"}},
        "",
    ],
)
def test_wrong_module_is_refused_as_the_schema_says(tmp_path: Path, entry: object) -> None:
    content = json.loads(as_json(Results(RULES, (model("a"),))))
    content["models"][0]["modules"] = [entry]
    assert schema_error("report", content) is not None
    (tmp_path / "report.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"\$\.models\[0\]\.modules\[0\]"):
        read_report(tmp_path / "report.json")


def test_page_loads_nothing_and_runs_its_own_script_alone() -> None:
    page = as_html(shown_results())
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    policy = re.search(r'content="(default-src .*?)">', page)
    assert policy is not None
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; script-src 'sha256-{digest}';" in policy[1]


def test_page_without_scripts_names_the_failures() -> None:
    (text,) = re.findall(r"<noscript>(.*?)</noscript>", as_html(shown_results()))
    assert "63 passed, 2 failed" in text
    assert "<li>encoder: MUST-007</li><li>encoder: snapshot</li>" in text


def test_large_run_stays_a_small_page() -> None:
    page = as_html(many_models(400, 12))
    assert len(page) < 10_000_000
    assert len(page_data(page)["models"]) == 400


def test_failure_lists_its_first_places_and_counts_the_others() -> None:
    finding = Violation("where", "expected", "found", "do")
    failure = failure_of([finding] * 103)
    assert (len(failure["findings"]), failure["more"]) == (100, 3)


def test_ctrf_report_follows_its_schema() -> None:
    checks = {status.name: status for status in (Status.PASSED, Status.FAILED, Status.KNOWN, Status.SKIPPED)}
    rules = tuple(RuleText(name, "promise") for name in [*checks, "OTHER", "NONE"])
    models = (replace(model("a/b", **checks), inapplicable=("NONE",)),)
    report = json.loads(as_ctrf(Results(rules, models, started=1.5, ended=2.0, unreported=("b",))))
    schema = json.loads((Path(__file__).parent / "data" / "ctrf-schema-0.0.json").read_text())
    jsonschema.validate(report, schema)
    counts = {"tests": 7, "passed": 1, "failed": 2, "skipped": 1, "pending": 2, "other": 1, "start": 1500, "stop": 2000}
    assert report["results"]["summary"] == counts
    names = [test["name"] for test in report["results"]["tests"]]
    assert [*names[:2], names[-1]] == ["a/b: PASSED", "a/b: FAILED", "b: reported by a shard"]
    assert report["results"]["tests"][0]["testId"] == "anchor::a%2Fb::test_must[PASSED]"


def test_names_and_messages_are_data_in_markdown_and_html() -> None:
    results = Results(RULES, (model("<script>|", MUST_001=Status.FAILED),))
    markdown, page = as_markdown(results), as_html(results)
    assert "| `<script>\\|` |" in markdown
    assert "<summary><code>&lt;script&gt;|</code>: MUST-001</summary>" in markdown
    assert page.count("<script>") == 1
    assert page_data(page)["models"][0]["name"] == "<script>|"
    assert page_data(page)["models"][0]["checks"][0][2] == "why | <b>"


HOSTILE = [
    "[x](http://evil.example)",
    "![x](http://evil.example/pixel.png)",
    "http://evil.example",
    "www.evil.example",
    "<http://evil.example>",
    "somebody@evil.example",
    "@team",
    "*bold* __bold__",
    "`[x](http://evil.example)",
    "``[x](http://evil.example)`",
    "a|b\\|c",
    "a\n\n[x]: http://evil.example",
    "<b>&amp;",
    "# heading",
    "\x1b[31m",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_model_name_is_plain_text_in_markdown(name: str) -> None:
    failed = replace(model(name, MUST_001=Status.FAILED), notes=(f"{name} was exported",))
    markdown = as_markdown(Results(RULES, (failed,)))
    tokens = list(_flat(MarkdownIt("commonmark").enable("table").parse(markdown)))
    assert not {token.type for token in tokens} & {"link_open", "image", "html_inline", "strong_open", "em_open"}
    # What is not in code, GitHub looks through for addresses, mentions and references.
    assert not any(re.search(r"[@#<>]|www\.|://", token.content) for token in tokens if token.type == "text")
    assert sum(token.type == "th_open" for token in tokens) == sum(token.type == "td_open" for token in tokens)
    code = [token.content for token in tokens if token.type == "code_inline"]
    assert code[0] == one_line(name)
    summary = next(line for line in markdown.splitlines() if line.startswith("<details>"))
    assert f"<code>{html.escape(one_line(name))}</code>" in summary


def test_equal_failures_of_a_model_are_one_block_in_markdown() -> None:
    failed = dict.fromkeys(("MUST_001", "MUST_004", "snapshot"), Status.FAILED)
    markdown = as_markdown(Results(RULES, (model("a", **failed),)))
    assert markdown.count("why | <b>") == 1
    assert "<summary>a: MUST-001, MUST-004, snapshot</summary>" in markdown


def test_changed_snapshot_is_a_tree_in_markdown_and_json(tmp_path: Path) -> None:
    old = "/Net\n/Net/Layer.{0..1} ×2: Add 1\n/Net/Layer.{0..1}/```: Relu 1\n/Net/Tail: Exp 1\n"
    changed = replace(
        model("a", snapshot=Status.FAILED), hierarchy=old.replace("```: Relu 1", "```: Tanh 1"), committed=old
    )
    results = Results(RULES, (changed,))
    (tmp_path / "report.json").write_text(as_json(results))
    for shown in (results, read_report(tmp_path / "report.json")):
        (fence,) = (
            token.content
            for token in MarkdownIt("commonmark").parse(as_markdown(shown))
            if token.type == "fence" and token.info == "diff"
        )
        assert fence.splitlines() == [
            " /Net",
            "   Layer.{0..1} ×2: Add 1",
            "-    ```: Relu 1",
            "+    ```: Tanh 1",
            "   … 1 unchanged",
        ]


def test_markdown_of_many_failures_is_short_enough_for_a_comment() -> None:
    rules = tuple(RuleText(f"MUST-{i:03}", "promise") for i in range(12))
    checks = {rule.id: Check(Status.FAILED, f"{rule.id} " + "`<b>\n" * 3000) for rule in rules}
    models = [replace(model(f"model_{i}"), checks=checks if i > 395 else {}, notes=(f"note {i}",)) for i in range(400)]
    markdown = as_markdown(Results(rules, tuple(models)))
    assert len(markdown) < 65_536
    shown = [line for line in markdown.splitlines() if line.startswith("| model_")]
    assert all("❌" in line for line in shown[:4])
    assert f"… and {400 - len(shown)} more models, of which 0 fail" in markdown
    blocks = markdown.count("<details>")
    assert blocks == markdown.count("</details>") >= 5
    assert f"… and {48 - blocks} more failures" in markdown
    assert "- … and 360 more remarks" in markdown


LONG = tuple(
    replace(model(f"{i}{'x' * 3000}", snapshot=Status.FAILED), notes=(f"note {i}",), warnings=("it fell back",))
    for i in range(45)
)


@pytest.mark.parametrize(
    "results",
    [
        Results(RULES, (), missing_shards=tuple(f"{i}/9999" for i in range(1, 10_000))),
        Results(RULES, LONG),
        Results(RULES, tuple(replace(each, notes=("`" * 400,)) for each in LONG)),
    ],
    ids=["shards", "names", "backticks"],
)
def test_markdown_has_at_most_60_000_characters(results: Results) -> None:
    assert len(as_markdown(results)) <= 60_000


@pytest.mark.parametrize("name", ["tower", "bert_dynamic", "MUST-001", "Modell für alle"])
def test_an_ordinary_name_stands_in_markdown_as_it_is(name: str) -> None:
    markdown = as_markdown(Results(RULES, (model(name, MUST_001=Status.FAILED),)))
    assert f"| {name} |" in markdown
    assert f"<summary>{name}: MUST-001</summary>" in markdown


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or ())


@pytest.mark.parametrize("name", ["\x1b]0;x\x07", "\u202eevil", "\ud800", "a\nb"])
def test_reports_hold_any_name_and_json_keeps_it(name: str) -> None:
    results = Results(RULES, (model(name, MUST_001=Status.FAILED),))
    for text in (as_json(results), as_html(results), as_markdown(results), *as_lines(results)):
        text.encode("utf-8")
        assert all(character.isprintable() for line in text.split("\n") for character in line)
    assert json.loads(as_json(results))["models"][0]["name"] == name
    assert page_data(as_html(results))["models"][0]["name"] == one_line(name)
    assert len(as_lines(results)) == 2


def test_fence_in_message_does_not_end_its_block() -> None:
    broken = Model("a", "a", "anchor", "file", checks={"MUST-001": Check(Status.FAILED, "```\ncode\n```")})
    assert "````text\n```\ncode\n```\n````" in as_markdown(Results(RULES, (broken,)))
