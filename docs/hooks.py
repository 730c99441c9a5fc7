"""MkDocs hooks: pages and files from outside docs/, names of shown files, a site that loads nothing from a network.

The pages link to one another as files of the repository, so that they can be read without the site. A link that
leads out of docs/ is followed here: to a page of the site, or to a copy of the file below `source/`.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site that lie outside docs/: the path in the repository, and the path in the site.
PAGES = {"CHANGELOG.md": "changelog.md", "benchmarks/README.md": "measuring.md", "README.md": "index.md"}
SOURCES = {site: repository for repository, site in PAGES.items() if site != "index.md"}
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
# A file of an example: tests/pages.py writes it, and the site shows its name as a title, in place of a line above it.
SHOWN_FILE = re.compile(r"(?:^`\S+`:\n\n)?(<!-- file: (\S+) -->\n```\w+)\n", re.MULTILINE)
EXTERNAL = re.compile(r"^(?:https?:)?//")
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and a copy of every other file that a page links to."""
    for site, repository in SOURCES.items():
        files.append(File.generated(config, site, abs_src_path=str(ROOT / repository)))
    for page in files.documentation_pages():
        for _, path, _ in LINK.findall(page.content_string):
            target = _target(page.src_uri, path)
            if target.startswith("source/") and target not in files.src_uris:
                source = ROOT / target.removeprefix("source/")
                if source.is_file():
                    files.append(File.generated(config, target, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Point links between files of the repository at their places in the site, and title the files of examples."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        before, path, after = link.groups()
        return f"{before}{posixpath.relpath(_target(here, path), posixpath.dirname(here))}{after}"

    return SHOWN_FILE.sub(r'\1 title="\2"\n', LINK.sub(moved, markdown))


def _target(page: str, path: str) -> str:
    """Return where in the site a link of a page leads."""
    folder = posixpath.dirname(SOURCES.get(page, f"docs/{page}"))
    target = posixpath.normpath(posixpath.join(folder, path))
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return PAGES.get(target, f"source/{target}")


class _Assets(HTMLParser):
    """Collects what a browser loads for a page without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.external: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") not in {"canonical", "next", "prev", "alternate"}:
            self._note(given.get("href", ""))
        for name in ("src", "srcset", "poster", "data"):
            self._note(given.get(name, ""))

    def _note(self, address: str) -> None:
        if EXTERNAL.match(address):
            self.external.append(address)


def on_post_build(config: MkDocsConfig) -> None:
    """Fail where a page or style sheet loads anything from another server: readers are not told to one."""
    found = []
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        assets = _Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        found += [f"{page.relative_to(site)} loads {address}" for address in assets.external]
    for sheet in site.rglob("*.css"):
        addresses = STYLE.findall(sheet.read_text(encoding="utf-8"))
        found += [f"{sheet.relative_to(site)} loads {address}" for address in addresses]
    if found:
        raise PluginError("\n".join(["the site must load nothing from a network:", *found]))
