"""Connects pytest to the package: options, fixtures, a filter of torch's logs, and no more until models are selected.

It imports pytest and the standard library alone, so that it costs nothing where it is installed and unused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._pytest.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from syrupy.assertion import SnapshotAssertion

    from pytest_hierexport._cases import Case
    from pytest_hierexport._rules.base import ExportedCase, Rule


class Hooks:
    """The hooks that projects may implement, in a conftest or a plugin."""

    @staticmethod
    @pytest.hookspec
    def pytest_hierexport_rules(config: pytest.Config) -> list[Rule]:
        """Return rules of the project's own; they run on every selected model, after the built-in ones of its group.

        A rule's `check` takes an :class:`~pytest_hierexport.ExportedCase` and returns its violations. Import what it
        needs inside it: the hook is called while tests are collected.
        """
        raise NotImplementedError  # a specification: pluggy never calls it

    @staticmethod
    @pytest.hookspec
    def pytest_hierexport_models(config: pytest.Config) -> list[Case]:
        """Return models that the project defines in code, each a :class:`~pytest_hierexport.Case`.

        They are selected like those of the configuration file, or by their names in `--hierexport-models`. The hook
        is called as pytest starts: a case's factory is called later, so import what it needs inside the factory.
        """
        raise NotImplementedError


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with its ini twin."""
    group = parser.getgroup("hierexport", "PyTorch to ONNX with every node tagged, checked against the MUST rules")
    for option in OPTIONS:
        option.declare(parser, group)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks by which projects add rules and models."""
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Note what the project reads, from the first conftest.py on, where results are kept from run to run."""
    if early_config.known_args_namespace.hierexport_cache or early_config.getini("hierexport_cache"):
        from pytest_hierexport._pytest import session_cache

        session_cache.watch(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the session where models are asked for."""
    config.addinivalue_line("markers", "hierexport: a MUST rule or a snapshot on a model, made by pytest-hierexport")
    in_code = config.hook.pytest_hierexport_models.get_hookimpls()
    if config.getoption("hierexport_models") is None and not config.getini("hierexport_models") and not in_code:
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
    from pytest_hierexport._pytest.run import RUN
    from pytest_hierexport._text import escape

    run = metafunc.config.stash.get(RUN, None)
    cases = () if run is None else run.plan.cases
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
