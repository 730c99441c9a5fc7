"""Measures the page of a large run: its size, and the time until a browser shows the table, and a large model.

python -m benchmarks.report_size [--models 400] [--modules 100] [--largest 5000]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from pytest_hierexport._calls.entries import ModuleEntry
from pytest_hierexport._report import as_html, as_json
from pytest_hierexport._report.failures import failure_of
from pytest_hierexport._report.results import SNAPSHOT, Check, Model, Results, RuleText, Status
from pytest_hierexport._rules.base import Violation

_RULES = tuple(RuleText(f"MUST-{number:03}", f"promise number {number}") for number in range(1, 13))
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
_LAYER = (
    ("", "Layer", {"Add": 2}),
    ("norm", "", {"LayerNormalization": 1}),
    ("attention", "Attention", {"MatMul": 2, "Softmax": 1, "Transpose": 4, "Reshape": 4}),
    ("attention.query", "", {"MatMul": 1, "Add": 1}),
    ("attention.key", "", {"MatMul": 1, "Add": 1}),
    ("attention.value", "", {"MatMul": 1, "Add": 1}),
    ("attention.output", "", {"MatMul": 1, "Add": 1}),
    ("feed_forward", "FeedForward", {"Gelu": 1}),
    ("feed_forward.up", "", {"MatMul": 1, "Add": 1}),
    ("feed_forward.down", "", {"MatMul": 1, "Add": 1}),
)


def _modules(number: int, count: int) -> Iterator[ModuleEntry]:
    """Yield the modules of a model, at least so many; no two models have the same names and sizes."""
    package, root = f"project.models.model_{number}", f"/Model{number}"
    yield ModuleEntry("", f"{package}.Model{number}", root, 1, {"Gather": 1}, {"traced": 1})
    yield ModuleEntry("layers", "torch.nn.modules.container.ModuleList")
    for i in range(count // len(_LAYER)):
        for name, cls, operators in _LAYER:
            path = ".".join(filter(None, ("layers", str(i), name)))
            depth = {"": "", "attention": "/Attention", "feed_forward": "/FeedForward"}
            tag = f"{root}/Layer.{i}{depth[name]}" if cls else ""
            held = 0 if cls else 1000 * number + 17 * i
            nodes = sum(operators.values())
            full = f"{package}.{cls}" if cls else "torch.nn.modules.linear.Linear"
            yield ModuleEntry(path, full, tag, 1, operators, {"traced": nodes}, {}, held, 4 * held)


def _model(number: int, count: int) -> Model:
    modules = tuple(_modules(number, count))
    checks = {rule.id: Check(Status.PASSED, seconds=0.1 * number) for rule in _RULES}
    checks[SNAPSHOT] = Check(Status.PASSED, seconds=0.01)
    if number % 10 == 0:
        where = f"node linear_{number} (/Model{number}/Layer.0/Attention)"
        findings = tuple(
            Violation(where, "what is expected " * 4, "what was found " * 4, "to do " * 9) for _ in range(9)
        )
        failure = failure_of(findings, f".hierexport/model_{number}/model.onnx", f"pytest models.toml::model_{number}")
        checks["MUST-004"] = Check(Status.FAILED, "the whole message " * 60, 2.0, failure)
    coverage = {"traced": sum(sum(entry.operators.values()) for entry in modules)}
    lines = "".join(f"{entry.tag}: {', '.join(entry.operators)}\n" for entry in modules[:8])
    return Model(
        name=f"model_{number}",
        source=f"models.toml::model_{number}",
        anchor="models.toml",
        file="models.py",
        checks=checks,
        exporter="dynamo",
        coverage=coverage,
        hierarchy=lines,
        modules=modules,
    )


def _seconds(driver: webdriver.Chrome, address: str, shown: str) -> float:
    """Return how long a page takes until a selector matches and its layout is done, the start of the load included."""
    driver.get("about:blank")
    started = time.perf_counter()
    driver.get(address)
    size = driver.execute_script(f"return document.querySelector('{shown}').getBoundingClientRect().height")
    assert size > 0, shown  # noqa: S101
    return time.perf_counter() - started


def _browser(folder: str) -> webdriver.Chrome:
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS, f"--user-data-dir={folder}/profile"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=400)
    parser.add_argument("--modules", type=int, default=100, help="the modules of each")
    parser.add_argument("--largest", type=int, default=5000, help="the modules of one more model")
    options = parser.parse_args()
    models = [_model(number, options.modules) for number in range(options.models)]
    results = Results(_RULES, (*models, _model(options.models, options.largest)))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        started = time.perf_counter()
        page.write_text(as_html(results), encoding="utf-8")
        figures = {
            "models": len(results.models),
            "modules": sum(len(model.modules) for model in results.models),
            "page_mb": round(page.stat().st_size / 1e6, 2),
            "json_mb": round(len(as_json(results)) / 1e6, 2),
            "written_s": round(time.perf_counter() - started, 2),
        }
        driver = _browser(folder)
        try:
            largest = f"{page.as_uri()}#model_{options.models}"
            for name, address, shown in (
                ("table_s", page.as_uri(), ".matrix tbody tr:last-child"),
                ("largest_s", largest, "[role=treeitem]"),
            ):
                runs = sorted(_seconds(driver, address, shown) for _ in range(5))
                figures[name] = round(runs[2], 2)
            figures |= _used(driver)
        finally:
            driver.quit()
    print(json.dumps(figures, indent=2))


_USE = """
const take = (action) => {
    const started = performance.now();
    action();
    document.querySelector("[role=treeitem]:last-child").getBoundingClientRect();
    return (performance.now() - started) / 1000;
};
const named = (name) => [...document.querySelectorAll("button")].find((button) => button.textContent === name);
const folded = () => [...document.querySelectorAll(".times")].filter((button) => button.textContent.startsWith("×"));
for (const button of folded()) button.click();
const search = document.querySelector("#search");
const typed = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
const [all, rows] = [take(() => named("Expand all").click()), document.querySelectorAll("[role=treeitem]")];
const collapsed = take(() => rows[2].querySelector(".twist").click());
return [rows.length, all, collapsed, take(() => typed("query")), take(() => typed("gelu"))];
"""


def _used(driver: webdriver.Chrome) -> dict[str, float]:
    """Return how long the tree that is shown takes to expand whole, to collapse a branch, and to search."""
    rows, expanded, collapsed, *searched = driver.execute_script(_USE)
    seconds = {"expanded_s": expanded, "collapsed_s": collapsed, "searched_s": max(searched)}
    return {"rows": rows, **{name: round(each, 2) for name, each in seconds.items()}}


if __name__ == "__main__":
    _main()
