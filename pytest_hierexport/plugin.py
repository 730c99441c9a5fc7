"""pytest's door to the package: options, fixtures, and nothing else until models are asked for.

It imports pytest and the standard library alone, so that a project which has it installed and unused pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from syrupy.assertion import SnapshotAssertion

    from pytest_hierexport._cases import Case
    from pytest_hierexport._rules.base import ExportedCase


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with its ini twin."""
    group = parser.getgroup("hierexport", "PyTorch to ONNX with every node tagged, held to the MUST rules")
    _list_option(
        parser,
        group,
        "models",
        "SELECTORS",
        "models to export and test, comma-separated: zoo names and globs, family:NAME, all, file.py::factory, "
        "package.module:factory, a manifest (models.toml), a checkpoint folder",
    )
    _list_option(parser, group, "rules", "IDS", "rules to run, comma-separated; the cardinal ones always run")
    _option(parser, group, "exporter", "NAME", "the exporter; auto takes the first that can")
    _option(parser, group, "opset", "N", "the ONNX opset", type=int)
    _option(parser, group, "cache", "FOLDER", "keep exports and verdicts there from run to run")
    _list_option(parser, group, "report", "FILE", "write a report: .html or .json")
    _option(parser, group, "summary", "FILE", "write a summary in Markdown")
    _flag(parser, group, "strict", "fail where auto would fall back to an exporter that records one run of the model")
    _flag(parser, group, "require-snapshots", "a missing snapshot fails, and so does one of a model that is gone")


def _option(parser: pytest.Parser, group: pytest.OptionGroup, name: str, metavar: str, text: str, **more: Any) -> None:
    key = f"hierexport_{name}"
    group.addoption(f"--hierexport-{name}", dest=key, metavar=metavar, default=None, help=text, **more)
    parser.addini(key, text, type="string", default="")


def _list_option(parser: pytest.Parser, group: pytest.OptionGroup, name: str, metavar: str, text: str) -> None:
    key = f"hierexport_{name}"
    group.addoption(
        f"--hierexport-{name}", dest=key, metavar=metavar, action="append", default=None, help=f"{text} (repeatable)"
    )
    parser.addini(key, text, type="linelist", default=[])


def _flag(parser: pytest.Parser, group: pytest.OptionGroup, name: str, text: str) -> None:
    key = f"hierexport_{name.replace('-', '_')}"
    group.addoption(f"--hierexport-{name}", dest=key, action="store_true", default=False, help=text)
    parser.addini(key, text, type="bool", default=False)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hook by which projects add rules."""
    from pytest_hierexport._pytest import hooks

    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Note what the project reads, from the first conftest.py on, where results are kept from run to run."""
    if early_config.known_args_namespace.hierexport_cache or early_config.getini("hierexport_cache"):
        from pytest_hierexport._pytest import session_cache

        session_cache.watch(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the session where models are asked for."""
    config.addinivalue_line("markers", "hierexport: a MUST rule or a snapshot on a model, made by pytest-hierexport")
    if config.getoption("hierexport_models") is None and not config.getini("hierexport_models"):
        return
    from pytest_hierexport._pytest import session

    session.start(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep torch's trace of a capture out of failing tests."""
    from pytest_hierexport._pytest import logs

    logs.quiet_torch_trace(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the project's own that asks for a case, or its export, once per selected model."""
    of_ours = getattr(metafunc.cls, "__module__", "") == "pytest_hierexport._pytest.items"
    if "hierexport_case" not in metafunc.fixturenames or of_ours:
        return
    from pytest_hierexport._pytest import fixtures
    from pytest_hierexport._pytest.ids import escape

    cases = fixtures.selected(metafunc.config)
    metafunc.parametrize("hierexport_case", cases, ids=[escape(case.name) for case in cases], indirect=True)


@pytest.fixture
def hierexport(request: pytest.FixtureRequest) -> Callable[..., ExportedCase]:
    """Give a function that exports a model inside a test: `hierexport(model, args, kwargs)`.

    What it returns has the tagged file (`path`), its `attribution` and `proto`, and is what the assertions of
    `pytest_hierexport.assertions` and the fixture `hierexport_snapshot` take.
    """
    from pytest_hierexport._pytest import fixtures

    return fixtures.exporter(request)


@pytest.fixture
def hierexport_case(request: pytest.FixtureRequest) -> Case:
    """Give each selected model in turn; in the suite's own tests, the model that they are about."""
    case: Case = request.param if hasattr(request, "param") else request.cls.case
    return case


@pytest.fixture
def hierexport_export(hierexport_case: Case, request: pytest.FixtureRequest) -> ExportedCase:
    """Give the export of each selected model in turn; it is made once per run and shared with the rules."""
    from pytest_hierexport._pytest import fixtures

    return fixtures.exported(request.config, hierexport_case)


@pytest.fixture
def hierexport_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Give a snapshot of a hierarchy: `assert exported == hierexport_snapshot`, updated with `--snapshot-update`."""
    from pytest_hierexport._pytest import fixtures

    return fixtures.snapshot(request)
