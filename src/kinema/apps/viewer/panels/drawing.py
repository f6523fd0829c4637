"""How richly the page is drawn: automatic, full or fast."""

from __future__ import annotations

from html import escape
from typing import Any

from ..quality import CHOICES, FULL, Quality

_HINT = "fast: no shadows, no mirrored light, floor as lines, coarse crowds"


class DrawingPanel:
    """The choice, and what came of it."""

    def __init__(self, gui: Any, quality: Quality) -> None:
        self._quality = quality
        choice = gui.add_dropdown("Drawing", CHOICES, initial_value=quality.choice, hint=_HINT)
        self._text = gui.add_html("")
        self.say()

        def chosen(_: Any) -> None:
            quality.choose(choice.value)
            self.say()

        choice.on_update(chosen)

    def say(self) -> None:
        """Tell how it is drawn, and why."""
        text = "Drawn fast" if self._quality.fast else "Drawn with shadows and mirrored light"
        text += f": {self._quality.why}." if self._quality.why else "."
        if self._quality.choice == FULL:
            text += " Without a GPU, edges are smooth when the page is loaded again."
        self._text.content = f"<div style='padding:0 .8em;opacity:.75;font-size:.85em'>{escape(text)}</div>"
