"""Panels on the model: tree of links, joints and shapes; diagnostics; joint sliders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qs

import numpy as np

from kinema.core import Array, Diagnostic, Severity

from ..authentication import Authenticator
from ..displayed_model import (
    WORLD,
    DisplayedModel,
    ElementRef,
    element_details_html,
    find_diagnosed_element,
    shape_label,
)
from ..mechanism import SliderDof

# --------------------------------------------------------------------------------------------------------- element tree

SELECT_PATH = "/kinema/select"
_ELEMENT_ICONS = {"link": "●", "joint": "⟲", "shape": "▫"}
_ELEMENT_COLORS = {"link": "#2662a0", "joint": "#b06000", "shape": "#777"}


class TreePanel:
    """Element tree with details of the selected element; selection is synchronised with the 3D scene."""

    def __init__(
        self,
        gui: Any,
        models: Sequence[DisplayedModel],
        authenticator: Authenticator,
        select: Callable[[ElementRef], None],
    ) -> None:
        self.models = models
        self.elements: list[ElementRef] = []
        """By number; the tree calls them so."""
        text = "".join(self._model_html(exhibit) for exhibit in models)
        gui.add_html(
            f"<div style='max-height:42vh;overflow:auto;font-size:.82em;line-height:1.5;padding:.3em .8em'>{text}</div>"
        )
        self._style = gui.add_html("")
        self._details = gui.add_html("<div style='padding:.3em .8em;opacity:.7'>Click on a part, here or there.</div>")

        def asked(query: str) -> None:
            number = parse_qs(query).get("part", [""])[0]
            if number.isdecimal() and int(number) < len(self.elements):
                select(self.elements[int(number)])

        authenticator.handlers[SELECT_PATH] = asked

    def show_element(self, element: ElementRef | None) -> None:
        """Highlight an element in the tree and show its details."""
        if element is None or element not in self.elements:
            self._style.content = ""
            return
        number = self.elements.index(element)
        name = f"kinema-part-{number}"
        self._style.content = (
            f"<style>#{name}{{background:#ffd9a0;border-radius:3px}}</style>"
            f"<i id='kinema-selected' data-part='{name}' hidden></i>"  # page.js brings it to sight
        )
        found = element_details_html(self.models[element.model_index], element)
        self._details.content = f"<div style='padding:.3em .8em'>{found}</div>"

    def _element_html(self, element: ElementRef, text: str) -> str:
        self.elements.append(element)
        number = len(self.elements) - 1
        ask = f"event.preventDefault();fetch('{SELECT_PATH}?part={number}')"
        return (
            f"<span id='kinema-part-{number}' style='cursor:pointer;white-space:nowrap' onclick=\"{ask}\">"
            f"<span style='color:{_ELEMENT_COLORS[element.kind]}'>{_ELEMENT_ICONS[element.kind]}</span> "
            f"{escape(text)}</span>"
        )

    def _model_html(self, model: DisplayedModel) -> str:
        rows = [f"<b>{escape(model.title)}</b>"] if len(self.models) > 1 else []
        if model.static_shapes:
            rows.append(self._link_html(model, WORLD, "", []))
        for number, mechanism in enumerate(model.mechanisms):
            edges = mechanism.tree.edges
            roots = [(root, "") for root in mechanism.tree.roots]
            roots += [(e.child, self._joints_html(model, number, e)) for e in edges if e.parent is None]
            rows += [self._subtree_html(model, number, name, joints) for name, joints in roots]
            for joint in mechanism.tree.loops:
                part = ElementRef(model.index, "joint", model.unique_joint(number, joint.name))
                rows.append(f"<div>{self._element_html(part, f'{joint.name} (closes a loop)')}</div>")
        return "".join(rows)

    def _joints_html(self, model: DisplayedModel, mechanism_index: int, edge: Any) -> str:
        lines = (
            self._element_html(
                ElementRef(model.index, "joint", model.unique_joint(mechanism_index, j.name)), f"{j.name} ({j.kind})"
            )
            for j in edge.joints
        )
        return "".join(f"<div>{line}</div>" for line in lines)

    def _subtree_html(self, model: DisplayedModel, mechanism_index: int, name: str, joints: str) -> str:
        below = [
            self._subtree_html(model, mechanism_index, edge.child, self._joints_html(model, mechanism_index, edge))
            for edge in model.mechanisms[mechanism_index].tree.edges
            if edge.parent == name
        ]
        return self._link_html(model, model.unique_link(mechanism_index, name) or name, joints, below)

    def _link_html(self, model: DisplayedModel, name: str, joints: str, below: list[str]) -> str:
        head = self._element_html(ElementRef(model.index, "link", name), name)
        shapes = "".join(
            f"<div>{self._element_html(ElementRef(model.index, 'shape', name, i), shape_label(shape))}</div>"
            for i, shape in enumerate(model.link_shapes(name))
        )
        inner = f"<details style='margin-left:.9em'><summary>shapes</summary>{shapes}</details>" if shapes else ""
        return (
            f"{joints}<details open style='margin-left:.5em;border-left:1px solid #ddd;padding-left:.4em'>"
            f"<summary>{head}</summary>{inner}{''.join(below)}</details>"
        )


# ---------------------------------------------------------------------------------------------------------- diagnostics

DIAGNOSTIC_PATH = "/kinema/diagnostic"
_SEVERITY_HTML_COLORS = {Severity.ERROR: "#c92a2a", Severity.WARNING: "#e67700", Severity.NOTE: "#868e96"}
_SEVERITY_ORDER = list(_SEVERITY_HTML_COLORS)


def add_diagnostics_panel(
    gui: Any,
    models: Sequence[DisplayedModel],
    authenticator: Authenticator,
    show: Callable[[ElementRef | None, Severity], None],
) -> None:
    """Add a list of diagnostics, most severe first; a click shows the element concerned."""
    found = [(exhibit, d) for exhibit in models for d in exhibit.diagnostics]
    found.sort(key=lambda item: _SEVERITY_ORDER.index(item[1].severity))
    if not found:
        gui.add_html("<div style='padding:.5em .8em'>✓ Nothing is wrong with it.</div>")
    else:
        rows = "".join(_diagnostic_html(i, exhibit, d, len(models) > 1) for i, (exhibit, d) in enumerate(found))
        gui.add_html(f"<div style='max-height:60vh;overflow:auto;font-size:.82em;padding:.3em .6em'>{rows}</div>")

    def asked(query: str) -> None:
        number = parse_qs(query).get("number", [""])[0]
        if number.isdecimal() and int(number) < len(found):
            exhibit, diagnostic = found[int(number)]
            show(find_diagnosed_element(exhibit, diagnostic), diagnostic.severity)

    authenticator.handlers[DIAGNOSTIC_PATH] = asked


def _diagnostic_html(number: int, model: DisplayedModel, diagnostic: Diagnostic, show_model_title: bool) -> str:
    color = _SEVERITY_HTML_COLORS[diagnostic.severity]
    hint = f"<div style='opacity:.75'>{escape(diagnostic.hint)}</div>" if diagnostic.hint else ""
    where = f"{model.title}: " if show_model_title else ""
    place = f"{where}{diagnostic.origin}".strip()
    return (
        f"<div id='kinema-diagnostic-{number}' onclick=\"fetch('{DIAGNOSTIC_PATH}?number={number}')\" "
        f"style='cursor:pointer;border-left:4px solid {color};padding:.15em .5em;margin:.35em 0'>"
        f"<b style='color:{color}'>{diagnostic.severity.value}</b> {escape(diagnostic.message)}{hint}"
        f"<div style='opacity:.5'>{escape(place)} [{escape(diagnostic.code)}]</div></div>"
    )


# -------------------------------------------------------------------------------------------------------- joint sliders

_SLIDER_STEPS = 1000


class JointPanel:
    """Joint sliders within the joint limits; a joint that several models have in common moves in all of them."""

    def __init__(self, gui: Any, models: Sequence[DisplayedModel], move: Callable[[str, Array], None]) -> None:
        self.models = models
        self._move = move
        slides = {slide.label: slide for exhibit in reversed(models) for slide in exhibit.sliders()}
        order = dict.fromkeys(slide.label for exhibit in models for slide in exhibit.sliders())
        self.sliders = {label: self._add_slider(gui, slides[label]) for label in order}
        if not self.sliders:
            gui.add_html("<div style='padding:.5em .8em;opacity:.7'>Nothing here moves.</div>")
        self.refresh()

    def _add_slider(self, gui: Any, dof: SliderDof) -> tuple[SliderDof, Any]:
        span = dof.upper - dof.lower
        hint = f"{'rad' if dof.is_angle else 'm'}" + (f", follows {dof.mimicked_joint}" if dof.mimicked_joint else "")
        slider = gui.add_slider(
            dof.label,
            min=dof.lower,
            max=dof.upper if span > 0 else dof.lower + 1e-9,
            step=max(span / _SLIDER_STEPS, 1e-9),
            initial_value=dof.lower,
            hint=hint,
            disabled=bool(dof.mimicked_joint) or span <= 0,
        )

        def moved(event: Any) -> None:
            if event.client is not None:  # else it is we who moved it
                holder = next(e for e in self.models if dof.joint in e.joints)
                values = holder.slider_values()[dof.joint].copy()
                values[dof.index] = slider.value
                self._move(dof.joint, values)

        slider.on_update(moved)
        return dof, slider

    def refresh(self) -> None:
        """Set the sliders to the joint coordinates."""
        values: dict[str, Array] = {}
        for exhibit in reversed(self.models):
            values |= exhibit.slider_values()
        for slide, slider in self.sliders.values():
            value = float(values[slide.joint][slide.index])
            if np.isfinite(value):
                slider.value = min(max(value, slide.lower), slider.max)
