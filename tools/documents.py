"""What the tools that measure robots of the corpus share: their files, and pages of the documentation to be written."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from kinema.apps.cli.batch import find_robots

ROOT = Path(__file__).parent.parent
CORPUS = (ROOT / "examples" / "robots", ROOT.parent / "shared" / "assets")


def parse_places(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line with folders and files of robots as `places`, by default the corpus."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("places", nargs="*", type=Path)
    options = parser.parse_args()
    options.places = options.places or [p for p in CORPUS if p.is_dir()]
    return options


def find_named_robots(places: Sequence[Path]) -> list[tuple[str, Path]]:
    """Robot files in folders, with their names relative to the folder; SystemExit if there are none."""
    found = [
        (str(file.relative_to(place)) if place.is_dir() else file.name, file)
        for place in places
        for file in (find_robots(place) if place.is_dir() else [place])
    ]
    if not found:
        raise SystemExit(f"there are no robot files in: {', '.join(map(str, places))}")
    return found


def write_page(page: Path, text: str) -> None:
    """Write a page and move it into its place."""
    temporary = page.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(page)


def replace_section(page: Path, marks: tuple[str, str], lines: Iterable[str]) -> None:
    """Replace the lines between two marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split(marks[0])
    after = rest.split(marks[1])[1]
    write_page(page, "\n".join([before + marks[0], *lines, marks[1] + after]))
