"""Makes the texts of the files that a project starts with: the manifest and the workflow of its CI system."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path, PurePosixPath

from pytest_hierexport._cases.manifest import parse_manifest
from pytest_hierexport._errors import CollectError, UsageError
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.paths import CONFIGURATIONS, SECTIONS
from pytest_hierexport._files.versions import OWN

MANIFEST = "models.toml"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NOT_IN_UTF_8 = re.compile(r"[\ud800-\udfff]")
"""The lone surrogates by which Python represents bytes of file names that are not in UTF-8."""
_BUILT = re.compile(r"^\[build-system\]", re.MULTILINE)
"""The table of pyproject.toml that says how the project is built."""
_STATED = re.compile(r"^\[project\]", re.MULTILINE)
"""The table of pyproject.toml that lists what the project needs."""


@dataclass(frozen=True)
class Workflow:
    """The workflow for a project's CI system."""

    path: Path
    text: str
    to_do: str = ""
    """What is left to do by hand, so that the CI system runs it."""


def distinct_names(selectors: Iterable[str]) -> dict[str, str]:
    """Return selectors by name: the last part of each, with the parts before it in front where two would be equal.

    >>> distinct_names(["encoder.py::build", "decoder.py::build", "head.py::make"])
    {'encoder.build': 'encoder.py::build', 'decoder.build': 'decoder.py::build', 'make': 'head.py::make'}
    """
    parts = {selector: _parts(selector) for selector in selectors}
    names: dict[str, str] = {}
    for selector, own in parts.items():
        others = [other for known, other in parts.items() if known != selector]
        lengths = (n for n in range(1, len(own) + 1) if own[-n:] not in [other[-n:] for other in others])
        names[".".join(own[-next(lengths, len(own)) :])] = selector
    return names


def _parts(selector: str) -> list[str]:
    """Return the folders and the file or module that a selector names, and its function; a checkpoint has none."""
    file, of_file, function = selector.rpartition("::")
    if of_file:
        return [*PurePosixPath(file).with_suffix("").parts, function]
    module, of_module, function = selector.partition(":")
    return [*module.split("."), function] if of_module else [*PurePosixPath(selector).parts]


def manifest_text(models: Mapping[str, str]) -> str:
    """Return a manifest of models, given their selectors by name.

    Raises:
        UsageError: UTF-8, in which manifests are written, cannot encode a file's name.
    """
    if wrong := [selector for name, selector in models.items() if _NOT_IN_UTF_8.search(name + selector)]:
        raise UsageError("models whose files have names in UTF-8", found=", ".join(wrong), do="rename these files")
    keys = {name: name if _BARE.fullmatch(name) else _quoted(name) for name in models}
    return "\n".join(f"[models.{keys[name]}]\nmodel = {_quoted(selector)}\n" for name, selector in models.items())


def add_models(manifest: Path, models: Mapping[str, str]) -> None:
    """Add models to the end of a manifest, given their selectors by name; what is there stays as it is.

    Raises:
        OSError: It cannot be written.
        UsageError: No table can follow what is there; nothing is written.
    """
    text = manifest.read_bytes().decode()
    end = "" if text.endswith("\n") or not text else "\n"
    added = f"{text}{end}\n{manifest_text(models)}"
    try:
        parse_manifest(manifest, added.removeprefix("\ufeff"))
    except CollectError as error:
        raise UsageError(
            f"a {manifest.name} in which each model is a table [models.NAME]",
            found=f"{error.found}, with the new models at its end",
            do=f"add them by hand, or write its models as such tables: {', '.join(models)}",
        ) from None
    write_atomically(manifest, added)


def _quoted(text: str) -> str:
    """Return a basic string of TOML: a JSON string, with one more character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def workflow_of(project: Path, packages: Sequence[str] = ()) -> Workflow:
    """Return the workflow for a project: GitLab's if only GitLab's file is in the repository, else GitHub's.

    Args:
        project: Its folder.
        packages: What its models need beside the requirements that its files state.
    """
    repository = next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), project)
    below = project.relative_to(repository).as_posix()
    installed = [_address(), *packages, *_requirements(project)]
    values = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "command": " ".join(["python -m uv pip install --system --torch-backend cpu", *installed]),
        "manifest": MANIFEST,
        "folder": "" if below == "." else f"{below}/",
    }
    gitlab = repository / ".gitlab-ci.yml"
    if gitlab.exists() and not (repository / ".github").exists():
        enter = "" if below == "." else f"    - {_quoted(f'cd {shlex.quote(below)}')}\n"
        path = repository / ".gitlab" / "hierexport.yml"
        files = {"report": "hierexport.html", "kept": ".hierexport", "junit": "hierexport.xml"}
        values |= {key: _quoted(f"{values['folder']}{name}") for key, name in files.items()}
        to_do = f"add to {gitlab.name}: include: [.gitlab/{path.name}]"
        return Workflow(path, _template("gitlab.yml").format(**values, enter=enter), to_do)
    defaults = "" if below == "." else f"    defaults:\n      run:\n        working-directory: {_quoted(below)}\n"
    path = repository / ".github" / "workflows" / "hierexport.yml"
    return Workflow(path, _template("github.yml").format(**values, defaults=defaults))


def _template(name: str) -> str:
    """Return a workflow with places for values in braces; braces that stay are written twice."""
    return (resources.files("pytest_hierexport._tools") / "workflows" / name).read_text(encoding="utf-8")


def to_configure(project: Path) -> str:
    """Return what to add so that a plain `pytest` checks the models, and where; empty where pytest's file says which.

    >>> to_configure(Path("a-folder-without-configuration"))
    'hierexport_models = ["models.toml"] to [tool.pytest.ini_options]'
    """
    name, section, text = next(_configurations(project), ("pyproject.toml", SECTIONS["pyproject.toml"][0], ""))
    if "hierexport_models" in text:
        return ""
    stated = json.dumps([MANIFEST]) if name.endswith(".toml") else MANIFEST
    return f"hierexport_models = {stated} to {section}{'' if name == 'pyproject.toml' else f' of {name}'}"


def _configurations(project: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the files of a project that may configure pytest, which reads the first alone: name, section and text."""
    for name in CONFIGURATIONS:
        file, sections = project / name, SECTIONS.get(name, ("[pytest]",))
        if file.is_file():
            text = file.read_text("utf-8", "replace")
            stated = [section for section in sections if section in text]
            # A file of pytest's own counts without any section, too.
            yield from ((name, section, text) for section in stated or (sections if name not in SECTIONS else ()))


def _requirements(project: Path) -> Iterator[str]:
    """Yield the arguments for uv that install what the project's files state."""
    if (project / "requirements.txt").is_file():
        yield "-r requirements.txt"
    stated = project / "pyproject.toml"
    text = stated.read_text(encoding="utf-8", errors="replace") if stated.is_file() else ""
    if _BUILT.search(text) or (project / "setup.py").is_file():
        yield "."
    elif _STATED.search(text):
        # The project may not be a package: only its dependencies are installed, and pytest finds its sources.
        yield "-r pyproject.toml"


def _address() -> str:
    """Return what installs this package elsewhere: the address that it was installed from (PEP 610), else its name."""
    try:
        stated = json.loads(metadata.distribution(OWN).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return OWN
    url, vcs = stated.get("url", ""), stated.get("vcs_info")
    if vcs:
        return f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    # A path of this machine leads nowhere on another one.
    return url if url.startswith("https://") else OWN
