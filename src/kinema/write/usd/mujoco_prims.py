"""Sites, tendons and actuators, as MuJoCo's schemas for USD have them. Their numbers are MuJoCo's own, in radians."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence

from kinema.description import (
    SCOPE,
    Actuator,
    Assembly,
    Frame,
    Shape,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
)
from kinema.words import mjc, newton, ours, usd

from ..bookkeeping import missed_settings
from ..report import Action
from .draft import PrimDraft
from .geometry import NoGeometry, author_geometry, solid_of
from .joint_settings import author_solver
from .names import author_name, give_back, report_kept
from .placing import place_on_link
from .plan import RobotPlan
from .record_values import keep_table
from .writing import Writing

_DOT = 0.005
"""Radius [m] of the ball that a frame without a marker is drawn as."""
_SETTINGS = {"group": (mjc.GROUP, "int"), "actearly": (mjc.ACT_EARLY, "bool"), "actdim": (mjc.ACT_DIM, "int")}


class MujocoPrims:
    """The sites, tendons and actuators of one robot or world."""

    def __init__(self, writing: Writing, assembly: Assembly, robots: Sequence[RobotPlan], home: str) -> None:
        self._writing = writing
        self._assembly = assembly
        self._home = home
        self._joints = {j.name: p.joints[id(j)] for p in robots for j in p.robot.joints if id(j) in p.joints}
        self._links = {name: path for p in robots for name, path in p.links.items()}
        self._shapes = {
            s.name: writing.plan.shapes[id(s)]
            for s in (*writing.plan.scenery, *(s for p in robots for link in p.robot.links for s in link.shapes))
            if s.name and id(s) in writing.plan.shapes
        }
        self._frames: ChainMap[str, str] = ChainMap({}, writing.frames)
        """Own ones first: several robots may have a frame of one name."""
        self._tendons: ChainMap[str, str] = ChainMap({}, writing.tendons)

    def author_frames(self) -> None:
        """The sites."""
        for frame in self._assembly.frames:
            self._know(self._frames, frame, self._frame(frame))

    def author_tendons(self) -> None:
        """The tendons, when all sites are there; those that go by something that has no prim are lost."""
        for tendon in self._assembly.tendons:
            self._tendon(tendon)

    def author_actuators(self) -> None:
        """The actuators, when all tendons are there; those that pull on something that has no prim are lost."""
        for actuator in self._assembly.actuators:
            self._actuator(actuator)

    def _know(self, known: ChainMap[str, str], node: Frame | Tendon, prim: PrimDraft) -> None:
        own, others = known.maps
        own[node.name] = prim.path
        others.setdefault(node.name, prim.path)
        others[f"{self._assembly.name}{SCOPE}{node.name}"] = prim.path

    def _scope(self, name: str) -> str:
        return self._writing.draft.scope(f"{self._home}/{name}")

    # -- sites --------------------------------------------------------------------------------------------------

    def _frame(self, frame: Frame) -> PrimDraft:
        writing = self._writing
        marker = Shape(name=frame.name, geometry=frame.marker, collision=False) if frame.marker is not None else None
        try:
            solid = None if marker is None else solid_of(writing, marker, moves=False)
        except NoGeometry:
            solid = None
        kind = usd.SPHERE if solid is None else solid.prim_type
        prim = place_on_link(writing, self._assembly, frame, kind, scale=None if solid is None else solid.scale)
        prim.apply(newton.SITE_API, mjc.SITE_API)
        prim.set(usd.PURPOSE, "token", "guide", uniform=True)
        if solid is not None and marker is not None:
            author_geometry(writing, marker, solid, prim)
        else:
            prim.set(usd.RADIUS, "double", _DOT)
            prim.keep(ours.NO_MARKER, True)
        if frame.color is not None:
            prim.set(usd.DISPLAY_COLOR, "color3f[]", [frame.color[:3]])
            prim.set(usd.DISPLAY_OPACITY, "float[]", [frame.color[3]])
        give_back(writing, prim, frame)
        writing.lose(Action.EXTENSION, frame, "the frame", "it is a site, which Newton and MuJoCo know")
        return prim

    # -- tendons ------------------------------------------------------------------------------------------------

    def _tendon(self, tendon: Tendon) -> None:
        steps = [(item, self._step(item)) for item in tendon.path if item.kind is not TendonPathKind.PULLEY]
        if any(path is None for _, path in steps):
            self._writing.lose(Action.DROPPED, tendon, "the tendon", "it goes by something that is not in the file")
            return
        prim = self._new(tendon, "Tendons", mjc.TENDON)
        self._know(self._tendons, tendon, prim)
        prim.set(mjc.TENDON_TYPE, "token", "fixed" if tendon.is_fixed else "spatial", uniform=True)
        self._path(tendon, [(item, path) for item, path in steps if path is not None], prim)
        _range(prim, mjc.RANGE, mjc.LIMITED, (tendon.lower, tendon.upper))
        _range(prim, mjc.ACTUATOR_FORCE_RANGE, mjc.ACTUATOR_FORCE_LIMITED, tendon.force_range)
        for name, value in (
            (mjc.STIFFNESS, tendon.stiffness),
            (mjc.DAMPING, tendon.damping),
            (mjc.FRICTION_LOSS, tendon.friction),
            (mjc.ARMATURE, tendon.armature),
        ):
            if value:
                prim.set(name, "double", value, uniform=True)
        if tendon.spring_length is not None:
            prim.set(mjc.SPRING_LENGTH, "double[]", tendon.spring_length, uniform=True)
        prim.set(mjc.WIDTH, "double", tendon.width, uniform=True)
        prim.set(mjc.COLOR, "color4f", tendon.color, uniform=True)
        author_solver(prim, tendon.limit_solver, mjc.LIMIT_SOLVER)
        author_solver(prim, tendon.friction_solver, mjc.FRICTION_SOLVER)
        give_back(self._writing, prim, tendon)
        self._writing.lose(Action.EXTENSION, tendon, "the tendon", "it is an MjcTendon, which MuJoCo knows")

    def _step(self, item: TendonPathItem) -> str | None:
        known: dict[TendonPathKind, Mapping[str, str]] = {
            TendonPathKind.JOINT: self._joints,
            TendonPathKind.SITE: self._frames,
            TendonPathKind.WRAP: self._shapes,
        }
        return known[item.kind].get(item.target)

    def _path(self, tendon: Tendon, steps: Sequence[tuple[TendonPathItem, str]], prim: PrimDraft) -> None:
        """Each target once, and the steps as numbers of targets; pulleys divide the path into segments."""
        targets = list(dict.fromkeys(path for _, path in steps))
        prim.relate(mjc.PATH, targets)
        prim.set(mjc.PATH_INDICES, "int[]", [targets.index(path) for _, path in steps], uniform=True)
        if tendon.is_fixed:
            prim.set(mjc.PATH_COEFFICIENTS, "double[]", [item.coefficient for item, _ in steps], uniform=True)
        pulleys = [item for item in tendon.path if item.kind is TendonPathKind.PULLEY]
        if pulleys:
            prim.set(mjc.PATH_SEGMENTS, "int[]", _segments(tendon.path), uniform=True)
            prim.set(mjc.PATH_DIVISORS, "double[]", [1.0, *(p.coefficient for p in pulleys)], uniform=True)
        side_of = {path: self._frames.get(item.side, "") for item, path in steps if item.side}
        sides = list(dict.fromkeys(side for side in side_of.values() if side))
        if sides:
            prim.relate(mjc.SIDE_SITES, sides)
            numbers = [sides.index(side_of[t]) if side_of.get(t) else -1 for t in targets]
            prim.set(mjc.SIDE_SITE_INDICES, "int[]", numbers, uniform=True)

    # -- actuators ----------------------------------------------------------------------------------------------

    def _actuator(self, actuator: Actuator) -> None:
        known: dict[Transmission, Mapping[str, str]] = {
            Transmission.JOINT: self._joints,
            Transmission.JOINT_IN_PARENT: self._joints,
            Transmission.TENDON: self._tendons,
            Transmission.SITE: self._frames,
            Transmission.SLIDER_CRANK: self._frames,
            Transmission.BODY: self._links,
        }
        target = known.get(actuator.transmission, {}).get(actuator.target)
        if target is None:
            how = f"what it pulls on ({actuator.transmission.value} {actuator.target!r}) has no prim"
            self._writing.lose(Action.DROPPED, actuator, "the actuator", how)
            return
        prim = self._new(actuator, "Actuators", mjc.ACTUATOR)
        prim.relate(mjc.TARGET, [target])
        self._reference(actuator, prim)
        if actuator.transmission is Transmission.JOINT_IN_PARENT:
            prim.set(mjc.JOINT_IN_PARENT, "bool", True, uniform=True)
        for law, kind, name, numbers in (
            (actuator.gain_type, mjc.GAIN_TYPE, mjc.GAIN_PARAMETERS, actuator.gain),
            (actuator.bias_type, mjc.BIAS_TYPE, mjc.BIAS_PARAMETERS, actuator.bias),
            (actuator.dynamics_type, mjc.DYNAMICS_TYPE, mjc.DYNAMICS_PARAMETERS, actuator.dynamics),
        ):
            prim.set(kind, "token", law, uniform=True)
            prim.set(name, "double[]", numbers, uniform=True)
        prim.set(mjc.GEAR, "double[]", actuator.gear, uniform=True)
        if actuator.crank_length:
            prim.set(mjc.CRANK_LENGTH, "double", actuator.crank_length, uniform=True)
        _range(prim, mjc.CONTROL_RANGE, mjc.CONTROL_LIMITED, actuator.control_range)
        _range(prim, mjc.FORCE_RANGE, mjc.FORCE_LIMITED, actuator.force_range)
        _range(prim, mjc.ACTIVATION_RANGE, mjc.ACTIVATION_LIMITED, actuator.activation_range)
        if any(actuator.length_range):
            _ends(prim, mjc.LENGTH_RANGE, actuator.length_range)
        self._settings(actuator, prim)
        give_back(self._writing, prim, actuator)
        self._writing.lose(Action.EXTENSION, actuator, "the actuator", "it is an MjcActuator, which MuJoCo knows")

    def _reference(self, actuator: Actuator, prim: PrimDraft) -> None:
        site = self._frames.get(actuator.reference)
        if site is not None:
            slides = actuator.transmission is Transmission.SLIDER_CRANK
            prim.relate(mjc.SLIDER_SITE if slides else mjc.REFERENCE_SITE, [site])
        elif actuator.reference:
            self._writing.lose(Action.DROPPED, actuator, f"its reference {actuator.reference!r}", "it has no prim")

    def _settings(self, actuator: Actuator, prim: PrimDraft) -> None:
        rest = {name: value for name, value in actuator.settings.items() if name not in _SETTINGS}
        for name in actuator.settings.keys() & _SETTINGS.keys():
            prim.set(_SETTINGS[name][0], _SETTINGS[name][1], actuator.settings[name], uniform=True)
        kept = keep_table(prim, ours.SETTINGS, rest)
        lost = missed_settings(name for name in rest if name not in kept)
        if lost:
            self._writing.lose(Action.DROPPED, actuator, f"settings: {', '.join(lost)}", "MjcActuator has none of them")
        report_kept(self._writing, actuator, missed_settings(kept))

    def _new(self, node: Tendon | Actuator, scope: str, kind: str) -> PrimDraft:
        path = self._writing.plan.names.child(self._scope(scope), node.name, kind.lower())
        prim = self._writing.draft.prim(path, kind)
        author_name(self._writing, prim, node)
        if node.order is not None:
            prim.keep(ours.PLACE, node.order)
        return prim


def _segments(path: Sequence[TendonPathItem]) -> list[int]:
    """For each step which part of the path it is in."""
    segments: list[int] = []
    segment = 0
    for item in path:
        if item.kind is TendonPathKind.PULLEY:
            segment += 1
        else:
            segments.append(segment)
    return segments


def _range(prim: PrimDraft, name: str, flag: str, ends: tuple[float, float]) -> None:
    if math.isinf(ends[0]) and math.isinf(ends[1]):
        return
    prim.set(flag, "token", "true", uniform=True)
    _ends(prim, name, ends)


def _ends(prim: PrimDraft, name: str, ends: tuple[float, float]) -> None:
    for attribute, end in zip(mjc.ends(name), ends, strict=True):
        prim.set(attribute, "double", end, uniform=True)
