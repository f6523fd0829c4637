"""What reading and checking had to say; a click shows the part that is meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qs

from kinema.foundation import Diagnostic, Severity

from ..about import part_of
from ..exhibit import Exhibit, Part
from ..gate import Gate

PATH = "/kinema/diagnostic"
_COLORS = {Severity.ERROR: "#c92a2a", Severity.WARNING: "#e67700", Severity.NOTE: "#868e96"}
_ORDER = list(_COLORS)


def add_checks(
    gui: Any, exhibits: Sequence[Exhibit], gate: Gate, show: Callable[[Part | None, Severity], None]
) -> None:
    """The list, the worst first."""
    found = [(exhibit, d) for exhibit in exhibits for d in exhibit.diagnostics]
    found.sort(key=lambda item: _ORDER.index(item[1].severity))
    if not found:
        gui.add_html("<div style='padding:.5em .8em'>✓ Nothing is wrong with it.</div>")
    else:
        rows = "".join(_row(i, exhibit, d, len(exhibits) > 1) for i, (exhibit, d) in enumerate(found))
        gui.add_html(f"<div style='max-height:60vh;overflow:auto;font-size:.82em;padding:.3em .6em'>{rows}</div>")

    def asked(query: str) -> None:
        number = parse_qs(query).get("number", [""])[0]
        if number.isdecimal() and int(number) < len(found):
            exhibit, diagnostic = found[int(number)]
            show(part_of(exhibit, diagnostic), diagnostic.severity)

    gate.paths[PATH] = asked


def _row(number: int, exhibit: Exhibit, diagnostic: Diagnostic, named: bool) -> str:
    color = _COLORS[diagnostic.severity]
    hint = f"<div style='opacity:.75'>{escape(diagnostic.hint)}</div>" if diagnostic.hint else ""
    where = f"{exhibit.title}: " if named else ""
    place = f"{where}{diagnostic.origin}".strip()
    return (
        f"<div id='kinema-diagnostic-{number}' onclick=\"fetch('{PATH}?number={number}')\" "
        f"style='cursor:pointer;border-left:4px solid {color};padding:.15em .5em;margin:.35em 0'>"
        f"<b style='color:{color}'>{diagnostic.severity.value}</b> {escape(diagnostic.message)}{hint}"
        f"<div style='opacity:.5'>{escape(place)} [{escape(diagnostic.code)}]</div></div>"
    )
