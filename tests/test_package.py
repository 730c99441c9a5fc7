"""The package as users get it: its public names, its distributions, and what it does not do."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import pytest_hierexport
from projects import Project

ROOT = Path(__file__).parents[1]

_LOOK_UP = """
import importlib, itertools, sys, types

def look_up(name):
    package = importlib.import_module("pytest_hierexport")
    found = getattr(package, name)
    assert not isinstance(found, types.ModuleType), f"{name} gives {found}"
    assert getattr(package, name) is found, f"{name} gives two things"

name, *modules = sys.argv[1:]
for order in itertools.permutations([name, *modules]):
    for loaded in [key for key in sys.modules if key.partition(".")[0] == "pytest_hierexport"]:
        del sys.modules[loaded]
    for step in order:
        look_up(name) if step == name else importlib.import_module(step)
    look_up(name)
"""


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(pytest_hierexport.__path__)]


def test_no_module_of_the_package_bears_a_public_name() -> None:
    assert set(_modules()) & set(pytest_hierexport.__all__) == set()


@pytest.mark.parametrize("name", pytest_hierexport.__all__)
def test_a_public_name_gives_one_object_in_every_import_order(name: str) -> None:
    # A module can take the place of a name by having it, with or without an underscore, or by defining it.
    modules = [module for module in _modules() if module.strip("_") == name or module == pytest_hierexport._HOME[name]]
    command = [sys.executable, "-c", _LOOK_UP, name, *(f"pytest_hierexport.{module}" for module in modules)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_public_name_is_listed() -> None:
    assert dir(pytest_hierexport) == sorted(pytest_hierexport.__all__)
    assert set(pytest_hierexport._HOME) == set(pytest_hierexport.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pytest_hierexport.no_such_name


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    if not (ROOT / "pytest_hierexport").is_dir() or not (find_spec("build") and find_spec("hatchling")):
        pytest.skip("the package's source, build and hatchling are needed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def source() -> set[str]:
    files = (ROOT / "pytest_hierexport").rglob("*")
    return {str(file.relative_to(ROOT)) for file in files if file.is_file() and file.suffix != ".pyc"}


def test_the_wheel_holds_the_package_and_nothing_else(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        stated = archive.read(entry_points).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert names == source()
    assert "pytest_hierexport/py.typed" in names
    assert "hierexport = pytest_hierexport.plugin" in stated
    assert "hierexport = pytest_hierexport.cli:main" in stated


def test_the_sdist_holds_what_its_tests_read(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert source() <= names
    tests = {
        str(file.relative_to(ROOT)) for folder in ("tests", "musts", "docs") for file in (ROOT / folder).rglob("*.*")
    }
    assert {name for name in tests if "__pycache__" not in name} <= names
    assert {"README.md", "pyproject.toml", "conftest.py", "__hierexport__/bert.txt", "constraints-oldest.txt"} <= names
    assert {name for name in names if name.startswith(".")} <= {".gitignore", ".pre-commit-hooks.yaml"}


def test_the_installed_wheel_runs_away_from_its_source(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = "import pytest_hierexport as package; print(package.__file__, package.export)"
    for arguments, told in (("-m", "pytest_hierexport", "--version"), "hierexport "), (("-c", where), str(site)):
        run = [sys.executable, *arguments]
        ran = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.stdout.startswith(told), ran.stdout + ran.stderr


OFFLINE = """
import sys

def deny(event, arguments):
    if event == "socket.getaddrinfo":
        address = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        address = arguments[1]
    else:
        return
    with open(r"{log}", "a") as file:
        print(event, address, sys.argv, file=file)
    raise OSError(f"no network in this test: {{address}}")

sys.addaudithook(deny)
"""


@pytest.fixture
def network_log(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that tells which processes reached for the network; none of them gets there."""
    log = project.path / "network.log"
    project.write("offline/sitecustomize.py", OFFLINE.format(log=log))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project.path / "offline"), *sys.path]))
    return log


def test_a_run_with_every_rule_reaches_for_no_network(project: Project, network_log: Path) -> None:
    reports = ("--hierexport-report=report.html", "--hierexport-summary=summary.md")
    result = project.process("--hierexport-models=my_model.py::build", "--snapshot-update", "-n1", *reports)
    assert result.ret == 0
    assert not network_log.exists()


def test_the_network_log_sees_a_connection(network_log: Path) -> None:
    code = "import socket; socket.create_connection(('localhost', 9), timeout=1)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "no network in this test" in ran.stderr
    assert "localhost" in network_log.read_text()
