"""The page in a real browser. With HIEREXPORT_PICTURES=1 in the environment, it writes the pictures of the docs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from pytest_hierexport._calls.entries import ModuleEntry
from pytest_hierexport._report import as_html
from pytest_hierexport._report.failures import failure_of
from pytest_hierexport._report.results import SNAPSHOT, Check, Model, Results, Status
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._snapshot.diff import compare
from report_pages import hostile_results, many_models, shown_results, transformer

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

PICTURES = Path(__file__).parents[1] / "docs" / "images"
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--window-size=1280,860", "--force-device-scale-factor=1", "--hide-scrollbars"),
)


class Browser:
    """A page in a browser, and what a user does with it."""

    def __init__(self, driver: webdriver.Chrome, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(self, results: Results, address: str = "") -> None:
        """Write the page of a run, and open it at an address within it."""
        page = self.folder / "report.html"
        page.write_text(as_html(results), encoding="utf-8")
        self.driver.get("about:blank")
        self.driver.get(page.as_uri() + address)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        self.wait(lambda: self.all(selector))
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def labels(self) -> list[str]:
        """Return the names of the rows that the tree shows."""
        script = "return [...document.querySelectorAll('[role=treeitem] .label')].map((e) => e.textContent)"
        labels: list[str] = self.run(script)
        return labels

    def row(self, label: str) -> WebElement:
        return next(
            row for row in self.all("[role=treeitem]") if row.find_element(By.CLASS_NAME, "label").text == label
        )

    def shows(self, selector: str, text: str) -> bool:
        """Wait until an element has a text: an address within the page takes effect after the click on it."""
        self.wait(lambda: self.texts(selector) == [text])
        return True

    def click(self, element: WebElement) -> None:
        """Click on an element that the bar at the top may cover."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def models(self) -> list[str]:
        """Return the names of the models that the table shows."""
        return self.texts(".matrix tbody th")

    def focused(self) -> str:
        """Return the name of the row of the tree that has the focus."""
        return self.driver.switch_to.active_element.find_element(By.CLASS_NAME, "label").text

    def width(self, module: str) -> int:
        """Return the width of a module's share."""
        script = f"return document.querySelector(`.icicle [data-path='{module}']`)?.offsetWidth"
        self.wait(lambda: self.run(script))
        return int(self.run(script))

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def style(self, selector: str, name: str) -> str:
        return str(
            self.run(f"return getComputedStyle(document.querySelector('{selector}')).getPropertyValue('{name}')")
        )

    def wait(self, fits: Callable[[], object]) -> None:
        # What is looked at may be drawn anew meanwhile.
        waiting = WebDriverWait(self.driver, 30, 0.05, ignored_exceptions=[StaleElementReferenceException])
        waiting.until(lambda _: fits())

    def emulate(self, media: str = "", **features: str) -> None:
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": listed})

    def pasted(self) -> str:
        """Return what is in the clipboard, by pasting it."""
        field = self.one("#search, #filter")
        field.clear()
        field.send_keys(Keys.CONTROL, "v")
        return str(field.get_attribute("value"))


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        reason = "no Chromium with its driver: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Browser]:
    """Give a browser, whose console must stay empty: a policy that is broken is logged there, too."""
    driver.set_window_size(1280, 860)
    browser = Browser(driver, tmp_path)
    browser.emulate(prefers_color_scheme="light")
    yield browser
    assert driver.get_log("browser") == []


def test_summary_counts_and_names_what_the_run_was(browser: Browser) -> None:
    browser.open(shown_results())
    tiles = [text.split("\n") for text in browser.texts(".tile")]
    assert ["6", "models"] in tiles
    assert ["2", "failed, in 1 model"] in tiles
    assert ["1", "changed snapshot"] in tiles
    assert ["1:33 min", "for the run"] in tiles
    facts = " ".join(browser.texts(".facts"))
    assert "November 2026" in facts
    assert "commit 3f2c9a1d0b7e" in facts
    assert "torch 2.13.0" in facts
    assert browser.texts(".legend li") == ["traced 542 (97.8 %)", "fused 12 (2.2 %)"]
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


def test_table_filters_by_text_and_status_and_sorts(browser: Browser) -> None:
    browser.open(shown_results())
    assert len(browser.models()) == 6
    browser.one("#filter").send_keys("dec")
    assert browser.models() == ["decoder"]
    assert browser.one("#shown").text == "1 of 6 models"
    browser.one("#filter").clear()
    browser.one("#filter").send_keys(" ")
    browser.one("[data-value=failing]").click()
    assert browser.models() == ["encoder"]
    browser.one("[data-value=all]").click()
    heading = next(cell for cell in browser.all(".matrix thead th") if cell.text == "nodes")
    heading.find_element(By.TAG_NAME, "button").click()
    assert browser.models()[:2] == ["encoder", "vision"]
    assert heading.get_attribute("aria-sort") == "descending"


def test_failing_cell_leads_to_its_failure(browser: Browser) -> None:
    browser.open(shown_results())
    browser.one(".matrix td a .failed").click()
    browser.wait(lambda: browser.all(".failure:focus"))
    section = browser.one(".failure:focus")
    assert section.find_element(By.TAG_NAME, "h2").text == "MUST-007: the tags are proven"
    assert "a call whose nodes" in section.find_element(By.CSS_SELECTOR, ".expected").text
    assert "where_1" in section.find_element(By.CSS_SELECTOR, ".found").text
    section.find_element(By.CSS_SELECTOR, "a.place").click()
    assert browser.shows(".detail h3", "layers.7.attention")
    assert browser.one("[aria-selected=true] .label").text == "attention"


def test_summary_lists_what_failed_and_where(browser: Browser) -> None:
    browser.open(shown_results())
    assert [text.split("\n") for text in browser.texts("#failed li")] == [
        ["encoder", "MUST-007", "call layers.7.attention (/Encoder/Layer.7/Attention)"],
        ["encoder", "snapshot", "6 changes"],
    ]


def test_checks_that_found_the_same_are_one_failure(browser: Browser) -> None:
    failure = failure_of(
        (Violation("", "encoder to be exported", "ValueError: no", "read traceback.txt"),), "nothing", "pytest"
    )
    results = shown_results()
    broken = {check: Check(Status.FAILED, "", 0.1, failure) for check in results.columns}
    model = Model("encoder", "models.py::encoder", "models.toml", "models.py", 1, broken)
    browser.open(replace(results, models=(model,)), "#encoder?MUST-004")
    assert browser.texts(".failure h2") == [f"11 checks: {', '.join(results.columns)}"]
    assert browser.driver.switch_to.active_element == browser.one(".failure")
    assert browser.all("#modules") == []


def test_command_is_copied(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder")
    (button, *_) = browser.all(".failure > .command .copy")
    button.click()
    browser.wait(lambda: button.text == "Copied")
    assert browser.pasted() == (
        "pytest --hierexport-models=models.toml --hierexport-cache=.cache models.toml::encoder::'test_must[MUST-007]'"
    )


def test_changed_snapshot_is_a_coloured_tree(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder")
    lines = {line.find_element(By.CLASS_NAME, "segment").text: line for line in browser.all(".diff .line:not(.same)")}
    assert [line.get_attribute("class") for line in lines.values()] == [
        "line moved", "line changed", "line gone", "line gone", "line new",
    ]  # fmt: skip
    assert "Gelu 1 → 0" in lines["Up"].find_element(By.TAG_NAME, "del").text
    assert "Relu 0 → 1" in lines["Up"].find_element(By.TAG_NAME, "ins").text
    colours = {line.value_of_css_property("background-color") for line in lines.values()}
    assert len(colours) == 4
    lines["Up"].find_element(By.TAG_NAME, "a").click()
    assert browser.shows(".detail h3", "layers.5.up")


def test_names_keep_their_zeros_and_operators_any_name(browser: Browser) -> None:
    entries = [ModuleEntry("", "m.Net", "/Net", 1)]
    entries += [ModuleEntry(f"block.{i:02}", "m.Block", f"/Net/Block.{i:02}", 1, {"constructor": 2}) for i in (9, 10)]
    old = "/Net\n/Net/Block.{09..10} ×2: Add 2\n"
    failure = failure_of((), difference=compare(old, old.replace("Add", "constructor")))
    checks = {SNAPSHOT: Check(Status.FAILED, "", 0.1, failure)}
    model = Model("net", "m.py::net", "m.py", "m.py", 4, checks, modules=tuple(entries))
    browser.open(replace(shown_results(), models=(model,)), "#net")
    assert browser.one(".diff .line.changed").text.endswith("Add 2 → 0constructor 0 → 2")
    assert "constructor\n4" in browser.one(".detail").text
    marked = [cell.get_attribute("data-path") for cell in browser.all(".icicle .cell.failing")]
    assert marked == ["09", "10"]


def test_renamed_class_and_moved_module_are_said_in_the_tree(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder")
    assert browser.texts(".diff .renames") == ["= renamed Embedder → Embeddings (1 instance)"]
    (line,) = browser.all(".diff .line.moved")
    assert line.text.split("\n")[-1] == "was Embedder, now before Mask"
    line.find_element(By.TAG_NAME, "a").click()
    assert browser.shows(".detail h3", "embeddings")


def test_renames_and_moves_alone_are_a_changed_snapshot(browser: Browser) -> None:
    old, new = "/Net\n/Net/Old: Add 1\n/Net/B\n/Net/C\n", "/Net\n/Net/New: Add 1\n/Net/C\n/Net/B\n"
    failure = failure_of((), difference=compare(old, new))
    model = Model("net", "m.py::net", "m.py", "m.py", checks={SNAPSHOT: Check(Status.FAILED, "", 0.1, failure)})
    browser.open(replace(shown_results(), models=(model,)), "#net")
    assert [line.text.replace("\n", " ") for line in browser.all(".diff .line:not(.same)")] == [
        "= renamed New was Old",
        "> moved C now before B",
    ]
    browser.open(replace(shown_results(), models=(model,)))
    assert ["1", "changed snapshot"] in [text.split("\n") for text in browser.texts(".tile")]


def test_model_tells_the_seconds_of_each_stage(browser: Browser) -> None:
    browser.open(shown_results(), "#vision")
    assert [text.split("\n") for text in browser.texts("#stages li")] == [
        ["exporting", "2.4 s"],
        ["checking MUST-001", "3.0 s"],
        ["comparing the snapshot", "0.1 s"],
    ]


def test_equal_siblings_are_one_row_until_unfolded(browser: Browser) -> None:
    browser.open(shown_results(), "#vision")
    assert "0 … 5" in browser.labels()
    browser.one(".times").click()
    assert "0 … 5" not in browser.labels()
    assert {"0", "1", "2", "3", "4", "5"} <= set(browser.labels())
    browser.one(".times").click()
    assert "0 … 5" in browser.labels()


def test_branch_collapses_and_expands(browser: Browser) -> None:
    browser.open(shown_results(), "#vision")
    row = browser.row("layers")
    assert row.get_attribute("aria-expanded") == "true"
    row.find_element(By.CLASS_NAME, "twist").click()
    assert browser.row("layers").get_attribute("aria-expanded") == "false"
    assert browser.labels() == ["vision", "embeddings", "mask", "layers", "pooler"]
    browser.row("layers").find_element(By.CLASS_NAME, "twist").click()
    assert "0 … 5" in browser.labels()


def test_search_finds_modules_classes_and_operators(browser: Browser) -> None:
    browser.open(shown_results(), "#vision")
    search = browser.one("#search")
    search.send_keys("query")
    assert browser.one("#found").text == "6 of 53 modules"
    assert browser.labels().count("query") == 6
    assert browser.texts("mark") == ["query"] * 6
    search.clear()
    search.send_keys("softmax")
    assert len(browser.all("[role=treeitem].hit")) == 6
    search.clear()
    search.send_keys("no such thing")
    assert browser.labels() == []


def test_address_of_a_module_opens_it(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder/layers.3.attention.key")
    assert browser.shows("h1", "encoder")
    assert browser.shows(".detail h3", "layers.3.attention.key")
    assert browser.one("[aria-selected=true] .label").text == "key"
    assert "/Encoder/Layer.3/Attention" in browser.one(".detail dl").text
    browser.row("layers").click()
    assert browser.driver.current_url.endswith("#encoder/layers")
    browser.driver.get(browser.driver.current_url.split("#")[0] + "#encoder/gone")
    assert browser.shows("[role=alert]", "encoder has no module gone.")


def test_unknown_model_is_said_above_the_table(browser: Browser) -> None:
    browser.open(shown_results(), "#gone/layers")
    assert browser.shows("[role=alert]", "This report has no model gone.")
    assert len(browser.models()) == 6


def test_place_in_a_later_call_leads_to_its_module(browser: Browser) -> None:
    entries = (
        ModuleEntry("", "m.Net", "/Net", 1),
        ModuleEntry("layer", "m.Layer", "/Net/Layer", 3),
        ModuleEntry("layer.inner", "m.Inner", "/Net/Layer/Inner", 3, {"Add": 3}),
    )
    failure = failure_of((Violation("node add_2 (/Net/Layer@2/Inner)", "one", "another", "look"),))
    checks = {"MUST-003": Check(Status.FAILED, "", 0.1, failure)}
    model = Model("net", "m.py::net", "m.py", "m.py", 1, checks, modules=entries)
    browser.open(replace(shown_results(), models=(model,)), "#net")
    browser.one("a.place").click()
    assert browser.shows(".detail h3", "layer.inner")
    assert "3 calls" in browser.row("layer").text


def test_details_tell_evidence_operators_and_co_owned_nodes(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder/layers.1")
    detail = browser.one(".detail").text
    assert "nodes\n16, 2 of its own" in detail
    assert "MatMul\n7" in detail
    assert "traced\n16" in detail
    assert "Co-owned nodes\nmerged\n1" in detail


def test_icicle_shows_shares_and_leads_to_modules(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder")
    assert browser.width("layers.0") == pytest.approx(browser.width("") * 16 / 199, abs=3)
    browser.one("[data-value=parameters]").click()
    assert browser.width("embeddings") == pytest.approx(browser.width("") * 23440896 / 101961216, rel=0.02)
    browser.run("""document.querySelector(".icicle [data-path='layers.2']").click()""")
    assert browser.shows(".detail h3", "layers.2")
    assert browser.width("layers.2") == pytest.approx(browser.width(""), abs=2)


def test_tree_is_used_by_keys_alone(browser: Browser) -> None:
    browser.open(shown_results(), "#vision")
    browser.press("/")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "search"
    browser.press(Keys.ARROW_DOWN)
    assert browser.focused() == "vision"
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert browser.focused() == "layers"
    browser.press(Keys.ARROW_LEFT)
    assert browser.row("layers").get_attribute("aria-expanded") == "false"
    browser.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.focused() == "0 … 5"
    browser.press("x")
    assert browser.focused() == "0"
    browser.press(Keys.END)
    assert browser.focused() == "pooler"
    browser.press(Keys.HOME)
    assert browser.focused() == "vision"
    assert len(browser.all("[role=treeitem][tabindex='0']")) == 1


def test_screen_readers_get_roles_levels_and_names(browser: Browser) -> None:
    browser.open(shown_results(), "#encoder")
    tree = browser.one("[role=tree]")
    assert tree.accessible_name == "Modules of encoder"
    row = browser.row("layers")
    assert row.aria_role == "treeitem"
    assert [row.get_attribute(f"aria-{name}") for name in ("level", "posinset", "setsize")] == ["2", "3", "4"]
    assert browser.row("pooler").accessible_name == "pooler, Pooler, 2 nodes, a check failed here"
    browser.open(shown_results())
    cell = browser.one(".matrix tbody td a")
    assert cell.accessible_name == "failed"
    assert browser.one(".meter").aria_role in {"img", "image"}
    unnamed = [each for each in browser.all("button, a, input") if each.is_displayed() and not each.accessible_name]
    assert unnamed == []


def test_colours_follow_the_system_and_the_button(browser: Browser) -> None:
    browser.open(shown_results())
    light = browser.style("body", "background-color")
    browser.emulate(prefers_color_scheme="dark")
    browser.wait(lambda: browser.style("body", "background-color") != light)
    browser.open(shown_results())
    assert browser.style("body", "color-scheme") == "dark"
    browser.one("#theme").click()
    assert browser.style("body", "background-color") == light
    browser.run("localStorage.clear()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser: Browser, scheme: str) -> None:
    browser.emulate(prefers_color_scheme=scheme)
    for address in ("", "#encoder"):
        browser.open(shown_results(), address)
        assert browser.driver.execute_script(_CONTRASTS) == []


def test_print_shows_tables_and_trees_without_controls(browser: Browser) -> None:
    browser.emulate(prefers_color_scheme="dark")
    browser.open(shown_results(), "#encoder")
    browser.emulate("print", prefers_color_scheme="dark")
    assert browser.style(".icicle", "display") == "none"
    assert browser.style("#search", "display") != "none"
    assert not browser.one("#search").is_displayed()
    assert browser.one(".finding .expected").is_displayed()
    assert browser.style("body", "color") == "rgb(31, 35, 40)"


HOSTILE = (
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eevil\u2066",
    "a" * 10_000,
    "a.b/c#d?e%41&amp;'\"`${1}",
    "]]><!--",
    "\ud800",
    "__proto__",
    "حقيقي",
)


def test_hostile_names_are_shown_and_do_nothing(browser: Browser) -> None:
    browser.driver.set_window_size(900, 860)
    browser.open(hostile_results(HOSTILE))
    assert browser.driver.title == "hierexport"
    links = browser.all(".matrix tbody th a")
    assert len(links) == len(HOSTILE)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    addresses = [str(link.get_attribute("href")) for link in links]
    for name, address in zip(HOSTILE, addresses, strict=True):
        browser.driver.get("about:blank")
        browser.driver.get(address)
        shown = browser.one("h1").text
        assert shown.startswith(name[:20]) or "\\" in shown
        assert "pwned" not in browser.driver.title.split(" · ")[-1]
        assert browser.all("main img, main script") == []
        assert len(browser.labels()) == 2
        browser.all("[role=treeitem]")[1].click()
        browser.driver.get(browser.driver.current_url)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert not any(mark in browser.one("main").text for mark in "\x1b\u202e\u2066")


def test_large_model_opens_and_expands_whole(browser: Browser) -> None:
    results = many_models(1, 620)
    assert len(transformer(620)) == 4965
    browser.open(results, "#model_0/layers.619.down")
    assert browser.shows(".detail h3", "layers.619.down")
    browser.click(next(button for button in browser.all("button") if button.text == "Expand all"))
    assert len(browser.labels()) > 4900


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_of_the_docs_can_be_taken_anew(browser: Browser, scheme: str) -> None:
    folder = PICTURES if os.environ.get("HIEREXPORT_PICTURES") == "1" else browser.folder
    browser.driver.set_window_size(1280, 1120)
    browser.emulate(prefers_color_scheme=scheme)
    for name, address, selector in (
        ("summary", "", "h1"),
        ("failure", "#encoder", "h1"),
        ("modules", "#encoder/layers.7.attention", "#modules"),
    ):
        browser.open(shown_results(), address)
        browser.run(f"document.querySelector('{selector}').scrollIntoView()")
        picture = folder / f"report-{name}-{scheme}.png"
        assert browser.driver.save_screenshot(str(picture))
        assert (PICTURES / picture.name).exists()


# Finds the texts whose contrast is below 4.5, or 3 where they are large: https://www.w3.org/TR/WCAG22/#contrast-minimum
_CONTRASTS = """
const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parts = (colour) => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data];
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour[3] > 250) return colour;
  }
  return [255, 255, 255];
};
const light = ([r, g, b]) => {
  const linear = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const low = new Set();
for (const element of document.querySelectorAll("main *, .top *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest(".unseen, .above")) continue;
  const style = getComputedStyle(element);
  const [a, b] = [light(parts(style.color)), light(behind(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) {
    low.add(`${element.tagName}.${element.className}: ${element.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
  }
}
return [...low];
"""
