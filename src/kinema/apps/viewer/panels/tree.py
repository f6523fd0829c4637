"""The tree of links, joints and shapes: what is clicked here is highlighted there, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any
from urllib.parse import parse_qs

from ..about import details, shape_name
from ..exhibit import WORLD, Exhibit, Part
from ..gate import Gate

PATH = "/kinema/select"
_ICONS = {"link": "●", "joint": "⟲", "shape": "▫"}
_COLORS = {"link": "#2662a0", "joint": "#b06000", "shape": "#777"}


class TreePanel:
    """The tree, and below it what is known of the part that is selected."""

    def __init__(self, gui: Any, exhibits: Sequence[Exhibit], gate: Gate, select: Callable[[Part], None]) -> None:
        self.exhibits = exhibits
        self.parts: list[Part] = []
        """By number; the tree calls them so."""
        text = "".join(self._exhibit(exhibit) for exhibit in exhibits)
        gui.add_html(
            f"<div style='max-height:42vh;overflow:auto;font-size:.82em;line-height:1.5;padding:.3em .8em'>{text}</div>"
        )
        self._style = gui.add_html("")
        self._details = gui.add_html("<div style='padding:.3em .8em;opacity:.7'>Click on a part, here or there.</div>")

        def asked(query: str) -> None:
            number = parse_qs(query).get("part", [""])[0]
            if number.isdecimal() and int(number) < len(self.parts):
                select(self.parts[int(number)])

        gate.paths[PATH] = asked

    def show(self, part: Part | None) -> None:
        """Mark a part, and say what is known of it."""
        if part is None or part not in self.parts:
            self._style.content = ""
            return
        number = self.parts.index(part)
        name = f"kinema-part-{number}"
        self._style.content = (
            f"<style>#{name}{{background:#ffd9a0;border-radius:3px}}</style>"
            f"<i id='kinema-selected' data-part='{name}' hidden></i>"  # page.js brings it to sight
        )
        found = details(self.exhibits[part.exhibit], part)
        self._details.content = f"<div style='padding:.3em .8em'>{found}</div>"

    def _line(self, part: Part, text: str) -> str:
        self.parts.append(part)
        number = len(self.parts) - 1
        ask = f"event.preventDefault();fetch('{PATH}?part={number}')"
        return (
            f"<span id='kinema-part-{number}' style='cursor:pointer;white-space:nowrap' onclick=\"{ask}\">"
            f"<span style='color:{_COLORS[part.kind]}'>{_ICONS[part.kind]}</span> {escape(text)}</span>"
        )

    def _exhibit(self, exhibit: Exhibit) -> str:
        rows = [f"<b>{escape(exhibit.title)}</b>"] if len(self.exhibits) > 1 else []
        if exhibit.statics:
            rows.append(self._link(exhibit, WORLD, "", []))
        for number, mechanism in enumerate(exhibit.mechanisms):
            edges = mechanism.tree.edges
            roots = [(root, "") for root in mechanism.tree.roots]
            roots += [(e.child, self._joints(exhibit, number, e)) for e in edges if e.parent is None]
            rows += [self._branch(exhibit, number, name, joints) for name, joints in roots]
            for joint in mechanism.tree.loops:
                part = Part(exhibit.number, "joint", exhibit.unique_joint(number, joint.name))
                rows.append(f"<div>{self._line(part, f'{joint.name} (closes a loop)')}</div>")
        return "".join(rows)

    def _joints(self, exhibit: Exhibit, number: int, edge: Any) -> str:
        lines = (
            self._line(Part(exhibit.number, "joint", exhibit.unique_joint(number, j.name)), f"{j.name} ({j.kind})")
            for j in edge.joints
        )
        return "".join(f"<div>{line}</div>" for line in lines)

    def _branch(self, exhibit: Exhibit, number: int, name: str, joints: str) -> str:
        below = [
            self._branch(exhibit, number, edge.child, self._joints(exhibit, number, edge))
            for edge in exhibit.mechanisms[number].tree.edges
            if edge.parent == name
        ]
        return self._link(exhibit, exhibit.unique_link(number, name) or name, joints, below)

    def _link(self, exhibit: Exhibit, name: str, joints: str, below: list[str]) -> str:
        head = self._line(Part(exhibit.number, "link", name), name)
        shapes = "".join(
            f"<div>{self._line(Part(exhibit.number, 'shape', name, i), shape_name(shape))}</div>"
            for i, shape in enumerate(exhibit.shapes(name))
        )
        inner = f"<details style='margin-left:.9em'><summary>shapes</summary>{shapes}</details>" if shapes else ""
        return (
            f"{joints}<details open style='margin-left:.5em;border-left:1px solid #ddd;padding-left:.4em'>"
            f"<summary>{head}</summary>{inner}{''.join(below)}</details>"
        )
