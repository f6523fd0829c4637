"""The documentation holds together: every page is in the contents, links lead somewhere, names of commands are true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kinema as km
from kinema.dynamics import BroadPhase
from kit.assets import ROOT

DOCS = ROOT / "docs"
PAGES = [*(ROOT / n for n in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")), *DOCS.rglob("*.md")]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _contents(part: Any) -> Iterator[str]:
    """The pages of a part of the site's contents."""
    if isinstance(part, str):
        yield part
    else:
        for below in part.values() if isinstance(part, dict) else part:
            yield from _contents(below)


def _site() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def _anchors(page: Path) -> set[str]:
    """What headings of a page are called in addresses."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


def test_every_page_is_in_the_contents_once() -> None:
    listed = list(_contents(_site()["nav"]))
    assert sorted(listed) == sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


def test_code_in_tables_has_no_escaped_pipe() -> None:
    """The site shows the backslash, where GitHub does not; `&#124;` in `<code>` is a pipe in both."""
    escaped = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
    assert [page.name for page in PAGES if escaped.search(_FENCE.sub("", page.read_text()))] == []


def test_the_site_takes_nothing_from_elsewhere() -> None:
    """No fonts or scripts of others: the theme's highlighter would be fetched, so it is off."""
    site = _site()
    assert site["theme"]["name"] == "readthedocs"
    assert site["theme"]["highlightjs"] is False
    assert "extra_javascript" not in site
    assert all((DOCS / sheet).exists() for sheet in site["extra_css"])
    assert "url(" not in "".join((DOCS / sheet).read_text() for sheet in site["extra_css"])


def test_warnings_end_the_build() -> None:
    """`--quiet` hides warnings from mkdocs' own count, so that `--strict` would accept them."""
    build = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "mkdocs build" in line)
    assert "--strict" in build
    assert "--quiet" not in build


def test_values_of_the_broad_phase_are_those_of_the_code() -> None:
    section = (DOCS / "contacts.md").read_text().partition("## Broad phase")[2].partition("\n## ")[0]
    assert set(re.findall(r'^\| `"(\w+)"`', section, re.MULTILINE)) == {value.value for value in BroadPhase}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: there is no {link}"
        if page.is_relative_to(DOCS):
            assert target.is_relative_to(DOCS), f"{page.name}: {link} is not part of the site"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{page.name}: {target.name} has no heading #{anchor}"


def test_the_reference_has_every_public_name() -> None:
    text = (DOCS / "reference.md").read_text()
    missing = [name for name in km.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing


def test_the_reference_names_what_exists() -> None:
    """What mkdocstrings is told to describe, and each of the members that it is told to pick."""
    import importlib

    for path, rest in re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", (DOCS / "reference.md").read_text(), re.MULTILINE):
        module, _, name = path.rpartition(".")
        home = getattr(importlib.import_module(module), name, None) or importlib.import_module(path)
        listed = re.search(r"members: \[(.*)\]", rest)
        for member in listed[1].split(", ") if listed else ():
            assert hasattr(home, member), f"{path} has no {member}"
