"""Loops over copies: parts of a model that are stepped by the same straight line, each with its own state.

A hundred arms of one kind, or a hundred free bodies, are stepped by the unrolled step of one, which a loop applies to
each of them. Numbers in which they differ, such as masses, are read from a table; all others stay folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.model import Model
from kinema.trace import Loop, Place, Row, Turn, Value, make_loop

from .components import Component, submodel
from .inputs import Inputs
from .programs import step_outputs
from .settings import Settings
from .tree import Inertia, Node, Tree

OF_COORDINATES = ("qpos", "stage_qpos")
OF_DOFS = ("vel", "command", "ctrl_mode", "kp", "kv", "armature", "damping")
OF_STAGES = ("stage_vel", "stage_shift", "stage_sum_vel", "stage_sum_acc")
OF_LINKS = {"mass_shift": 1, "com_shift": 3, "cfrc_applied_ang": 3, "cfrc_applied_vel": 3}
"""Arrays by what their items belong to; those of links with the numbers to each."""


@dataclass(frozen=True, slots=True, eq=False)
class CopyInputs(Inputs):
    """The numbers of one copy: its own where copies differ, else the first one's."""

    own: Mapping[str, Sequence[Value]]

    def of_dofs(self, name: str) -> list[Value]:
        """A parameter of all degrees of freedom."""
        if name in self.own and name not in self.settings.per_env:
            return list(self.own[name])
        return Inputs.of_dofs(self, name)

    def tree(self) -> Tree:
        """The moving frames, with this copy's placements and masses."""
        tree = Inputs.tree(self)
        return Tree([_with_own(node, self.own) for node in tree.nodes], tree.model)


def _with_own(node: Node, own: Mapping[str, Sequence[Value]]) -> Node:
    result = node
    if f"position {node.index}" in own:
        result = replace(result, position=list(own[f"position {node.index}"]))
    if f"rotation {node.index}" in own:
        flat = own[f"rotation {node.index}"]
        result = replace(result, rotation=[flat[3 * i : 3 * i + 3] for i in range(3)])
    if f"inertia {node.index}" in own:
        result = replace(result, inertia=unpacked_inertia(own[f"inertia {node.index}"]))
    return result


def packed_inertia(inertia: Inertia) -> list[Value]:
    """Ten numbers: mass, moment, and the upper half of the matrix."""
    half = [inertia.matrix[i][j] for i in range(3) for j in range(i, 3)]
    return [inertia.mass, *inertia.moment, *half]


def unpacked_inertia(numbers: Sequence[Value]) -> Inertia:
    """The inertia of ten numbers."""
    mass, x, y, z, xx, xy, xz, yy, yz, zz = numbers
    return Inertia(mass, (x, y, z), ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))


def copies_loop(
    model: Model, settings: Settings, places: Mapping[str, Place], parts: Sequence[Component], tree: Tree
) -> Loop:
    """Step all of some parts, which have the same signature; `tree` is the whole model's."""
    first = parts[0]
    own_model = submodel(model, first)
    control = None if settings.control is None else tuple(settings.control[d] for d in first.dofs)
    own_settings = replace(settings, control=control, roles=1)
    tables = [_numbers(model, settings, tree, part) for part in parts]
    differ = _differing(tables)
    links = [link - first.links[0] for link in first.links]
    actuators = [a - first.actuators[0] for a in first.actuators]

    def body(turn: Turn) -> None:
        def read(array: str, item: int) -> Value:
            if array == "ctrl":
                item = actuators[item]
            elif array in OF_LINKS:
                width = OF_LINKS[array]
                item = links[item // width] * width + item % width
            return turn.read(array, item)

        own: dict[str, list[Value]] = {}
        for name, which in differ.items():
            pairs = zip(turn.numbers(name), tables[0][name], which, strict=True)
            own[name] = [symbol if differs else float(known) for symbol, known, differs in pairs]
        outputs = step_outputs(CopyInputs(own_model, own_settings, read, own))
        outputs.pop("phase", None)  # one for all of them
        for array, values in outputs.items():
            turn.write(array, values)

    rows = [
        Row("copy", _places(places, part), {name: table[name].tolist() for name in differ})
        for part, table in zip(parts, tables, strict=True)
    ]
    return make_loop(f"copies of a part with {len(first.dofs)} degrees of freedom", rows, body)


def _numbers(model: Model, settings: Settings, tree: Tree, part: Component) -> dict[str, np.ndarray]:
    """What copies may have their own of."""
    result: dict[str, np.ndarray] = {}
    for i, frame in enumerate(part.frames):
        node = tree.nodes[frame]
        result[f"position {i}"] = np.array(node.position)
        result[f"rotation {i}"] = np.array(node.rotation).ravel()
        if not settings.per_env & {"mass_shift", "com_shift"}:
            result[f"inertia {i}"] = np.array(packed_inertia(node.inertia))
    for name in ("kp", "kv", "armature", "damping"):
        result[name] = getattr(model.dofs, name)[part.dofs]
    return result


def _differing(tables: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    differ = {name: np.any([t[name] != tables[0][name] for t in tables], axis=0) for name in tables[0]}
    return {name: which for name, which in differ.items() if which.any()}


def _places(places: Mapping[str, Place], part: Component) -> dict[str, Place]:
    """Where each array starts for one copy."""
    result: dict[str, Place] = {}
    for array, place in places.items():
        if array in OF_COORDINATES:
            shift = part.qs[0]
        elif array in OF_DOFS or array in OF_STAGES:
            shift = part.dofs[0]
        elif array in OF_LINKS:
            shift = OF_LINKS[array] * part.links[0] if part.links else 0
        else:
            shift = part.actuators[0] if array == "ctrl" and part.actuators else 0
        result[array] = Place(place.arena, place.row + shift)
    return result
