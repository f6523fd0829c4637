"""Loops over copies: parts of a model that are stepped by the same straight line, each with its own state.

A hundred arms of one kind, or a hundred free bodies, are stepped by the unrolled step of one, which a loop applies to
each of them. Numbers in which they differ, such as masses, are read from a table; all others stay folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kinema.model import Model
from kinema.trace import Place, Recorder, Row, RowCode, Value, record_loop

from ..arrays import BY_NAME, Owner
from ..rigid.straight import Straight
from ..rigid.tree import Inertia, Node, Tree
from ..settings import Settings
from ..step import Step, take
from .components import Component, submodel
from .table_rows import frame_numbers


def record_copies(
    recorder: Recorder,
    model: Model,
    settings: Settings,
    places: Mapping[str, Place],
    parts: Sequence[Component],
    tree: Tree,
) -> None:
    """Step all of some parts, which have the same signature; `tree` is the whole model's."""
    first = parts[0]
    own_model, own_settings = submodel(model, first), replace(settings, roles=1)
    tables = [_numbers(model, settings, tree, part) for part in parts]
    differ = _differing(tables)
    items = {Owner.LINK: [x - first.links[0] for x in first.links]}
    items[Owner.ACTUATOR] = [a - first.actuators[0] for a in first.actuators]

    def body(code: RowCode) -> None:
        def read(array: str, item: int) -> Value:
            info = BY_NAME[array]
            if info.owner in items:  # not all of a range of links or actuators may be its own
                item = items[info.owner][item // info.width] * info.width + item % info.width
            return code.read(array, item)

        own: dict[str, list[Value]] = {}
        for name, which in differ.items():
            pairs = zip(code.numbers(name), tables[0][name], which, strict=True)
            own[name] = [symbol if differs else float(known) for symbol, known, differs in pairs]
        sweeps = Straight(
            own_model, own_settings, read, recorder=code.recorder, own=own, change=lambda node: _with_own(node, own)
        )
        take(Step(sweeps))
        outputs = sweeps.results()
        outputs.pop("phase", None)  # one for all of them
        for array, values in outputs.items():
            code.write(array, values)

    rows = [
        Row("copy", _places(places, part), {name: table[name].tolist() for name in differ})
        for part, table in zip(parts, tables, strict=True)
    ]
    record_loop(recorder, f"copies of a part with {len(first.dofs)} degrees of freedom", rows, body)


def _with_own(node: Node, own: Mapping[str, Sequence[Value]]) -> Node:
    result = node
    if f"position {node.index}" in own:
        result = replace(result, position=list(own[f"position {node.index}"]))
    if f"rotation {node.index}" in own:
        flat = own[f"rotation {node.index}"]
        result = replace(result, rotation=[flat[3 * i : 3 * i + 3] for i in range(3)])
    if f"inertia {node.index}" in own:
        mass, x, y, z, xx, xy, xz, yy, yz, zz = own[f"inertia {node.index}"]
        result = replace(result, inertia=Inertia(mass, (x, y, z), ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))))
    return result


def _numbers(model: Model, settings: Settings, tree: Tree, part: Component) -> dict[str, np.ndarray]:
    """What copies may have their own of."""
    result: dict[str, np.ndarray] = {}
    for i, frame in enumerate(part.frames):
        known = frame_numbers(model, tree.nodes[frame])
        wanted = ["position", "rotation"]
        if not settings.per_env & {"mass_shift", "com_shift"}:
            wanted.append("inertia")
        result |= {f"{name} {i}": np.array(known[name]) for name in wanted}
    for name in ("armature", "damping"):
        result[name] = getattr(model.dofs, name)[part.dofs]
    return result


def _differing(tables: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    differ = {name: np.any([t[name] != tables[0][name] for t in tables], axis=0) for name in tables[0]}
    return {name: which for name, which in differ.items() if which.any()}


def _places(places: Mapping[str, Place], part: Component) -> dict[str, Place]:
    """Where each array starts for one copy."""
    firsts = {Owner.COORDINATE: part.qs, Owner.DOF: part.dofs, Owner.LINK: part.links, Owner.ACTUATOR: part.actuators}
    result: dict[str, Place] = {}
    for array, place in places.items():
        info = BY_NAME.get(array)
        if info is not None:
            own = firsts.get(info.owner)
            result[array] = Place(place.arena, place.row + (info.width * own[0] if own else 0))
    return result
