"""A slider for every joint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinema.foundation import Array

from ..coordinates import Slide
from ..exhibit import Exhibit

_STEPS = 1000


class JointPanel:
    """Sliders within the joints' limits; those of several files that have a joint in common move it in all of them."""

    def __init__(self, gui: Any, exhibits: Sequence[Exhibit], move: Callable[[str, Array], None]) -> None:
        self.exhibits = exhibits
        self._move = move
        slides = {slide.label: slide for exhibit in reversed(exhibits) for slide in exhibit.slides()}
        order = dict.fromkeys(slide.label for exhibit in exhibits for slide in exhibit.slides())
        self.sliders = {label: self._add(gui, slides[label]) for label in order}
        if not self.sliders:
            gui.add_html("<div style='padding:.5em .8em;opacity:.7'>Nothing here moves.</div>")
        self.refresh()

    def _add(self, gui: Any, slide: Slide) -> tuple[Slide, Any]:
        span = slide.upper - slide.lower
        hint = f"{'rad' if slide.is_angle else 'm'}" + (f", follows {slide.follows}" if slide.follows else "")
        slider = gui.add_slider(
            slide.label,
            min=slide.lower,
            max=slide.upper if span > 0 else slide.lower + 1e-9,
            step=max(span / _STEPS, 1e-9),
            initial_value=slide.lower,
            hint=hint,
            disabled=bool(slide.follows) or span <= 0,
        )

        def moved(event: Any) -> None:
            if event.client is not None:  # else it is we who moved it
                holder = next(e for e in self.exhibits if slide.joint in e.joints)
                values = holder.values()[slide.joint].copy()
                values[slide.index] = slider.value
                self._move(slide.joint, values)

        slider.on_update(moved)
        return slide, slider

    def refresh(self) -> None:
        """Put the sliders where the joints are."""
        values: dict[str, Array] = {}
        for exhibit in reversed(self.exhibits):
            values |= exhibit.values()
        for slide, slider in self.sliders.values():
            value = float(values[slide.joint][slide.index])
            if np.isfinite(value):
                slider.value = min(max(value, slide.lower), slider.max)
