"""Nothing is lost: a file with every element and attribute of the format, each with a value of its own.

The elements come from the specification that libsdformat installs; every value must be found again somewhere in the
description, and nothing in the file may be called unknown.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from kinema.core import Diagnostics

from .sdf_support import read_world

_VERSIONS = ("1.4", "1.5", "1.6", "1.7", "1.8", "1.9")
_REFERENCES = {"relative_to", "attached_to", "canonical_link", "placement_frame", "expressed_in", "frame"}
_NORMALISED = {"xyz"}
"""A direction is stored with length one."""
_WRITTEN_BY_HAND = {"parent", "child", "gearbox_ratio", "gearbox_reference_body", "thread_pitch", "include"}
_LEFT_OUT = {"model_state.sdf", "light_state.sdf", "frame.sdf"}


def _specification(version: str) -> Path:
    found = sorted(Path("/usr/share").glob(f"sdformat*/{version}"))
    if not found:
        pytest.skip("the specification files of libsdformat are not installed")
    return found[-1]


class _Kitchen:
    """Writes the file with everything, and remembers which value stands where."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.tokens: dict[str, str] = {}

    def element(self, specification: ElementTree.Element, path: str = "") -> str:
        name = specification.get("name", "")
        path = f"{path}/{name}"
        attributes, body = "", ""
        for part in specification:
            if part.tag == "attribute":
                attributes += self._attribute(part, name, path)
            elif part.tag == "include":
                body += self._include(part.get("filename", ""), name, path)
            elif part.tag == "element" and not part.get("copy_data"):
                body += self._child(part, name, path)
        return f"<{name}{attributes}>{self._value(specification, path)}{body}</{name}>\n"

    def _child(self, part: ElementTree.Element, owner: str, path: str) -> str:
        name = part.get("name", "")
        if name == "child" and owner == "joint":
            return "<parent>world</parent><child>LINK</child>"
        if name in _WRITTEN_BY_HAND or (name == "model" and owner == "model"):
            return ""
        return self.element(part, path)

    def _include(self, file: str, owner: str, path: str) -> str:
        if file == "geometry.sdf":
            return "<geometry><box><size>1 1 1</size></box></geometry>"
        wanted = (self.folder / file).exists() and file not in _LEFT_OUT and (file != "model.sdf" or owner == "world")
        if not wanted or (owner == "world" and file == "joint.sdf"):
            return ""
        return self.element(ElementTree.parse(self.folder / file).getroot(), path)

    def _attribute(self, part: ElementTree.Element, owner: str, path: str) -> str:
        name = part.get("name", "")
        if name in _REFERENCES:
            return ""
        fixed = {("joint", "type"): "universal", ("light", "type"): "spot", ("pose", "rotation_format"): "euler_rpy"}
        if (owner, name) == ("link", "name") and path == "/world/model/link":
            return ' name="LINK"'
        value = fixed.get((owner, name)) or self._value(part, f"{path}/@{name}") or "false"
        return f' {name}="{value}"'

    def _value(self, part: ElementTree.Element, path: str) -> str:
        self.count += 1
        number = f"0.{30000 + self.count}1"
        name = path.rpartition("/")[2]
        match part.get("type"):
            case "double" | "float":
                token = text = number
            case "int" | "unsigned int":
                token = text = str(30000 + self.count)
            case "string" if name in ("roughness", "metalness"):  # they are numbers all the same
                token = text = number
            case "string":
                token = text = f"text{self.count}x"
            case "vector3":
                token, text = number, f"0 {number} 0.5"
            case "vector2d":
                token, text = number, f"1 {number}"
            case "color":
                token, text = number, f"{number} 0.1 0.1 1"
            case "bool":
                return "false" if part.get("default") == "true" else "true"
            case _:
                return ""
        if name not in _NORMALISED:
            self.tokens[token] = path
        return text


def _values(node: Any, seen: set[int]) -> list[str]:
    """All texts and numbers anywhere in a description."""
    if isinstance(node, str):
        return [node]
    if isinstance(node, bool) or node is None:
        return []
    if isinstance(node, int | float):
        return [repr(node)]
    if isinstance(node, np.ndarray):
        return [repr(float(x)) for x in node.flat]
    if id(node) in seen or isinstance(node, Diagnostics):
        return []
    seen.add(id(node))
    if isinstance(node, dict):
        return [v for pair in node.items() for x in pair for v in _values(x, seen)]
    if isinstance(node, list | tuple):
        return [v for x in node for v in _values(x, seen)]
    if dataclasses.is_dataclass(node):
        return [v for f in dataclasses.fields(node) for v in _values(getattr(node, f.name), seen)]
    return []


@pytest.mark.parametrize("version", _VERSIONS)
def test_every_element_of_the_specification_is_found_again(tmp_path: Path, version: str) -> None:
    """As a typed value, as an attribute, or word for word."""
    folder = _specification(version)
    kitchen = _Kitchen(folder)
    body = kitchen.element(ElementTree.parse(folder / "world.sdf").getroot())
    diagnostics = Diagnostics()
    described = read_world(tmp_path, f'<sdf version="{version}">{body}</sdf>', diagnostics)
    everything = "\n".join(_values(described, set()))
    lost = {path for token, path in kitchen.tokens.items() if token not in everything}
    assert len(kitchen.tokens) > 500
    assert lost == set()
    said = {d.code for d in diagnostics if d.severity != "note"}
    assert said <= {"sdf.population", "sdf.missing-texture"}
