"""Sites, tendons and actuators in the USD schemas of MuJoCo."""

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
from kinema.tokens import kinema_usd, mjc, newton, usd

from ..loss_report import Action, reportable_settings
from .context import UsdContext, author_stored_fields, define_placed_prim, report_preserved, write_preserved
from .joints import author_solver_parameters
from .layer_builder import PrimBuilder, set_custom_json
from .prim_paths import RobotPaths
from .shapes import UnsupportedGeometryError, author_geometry, gprim_spec

_DEFAULT_SITE_RADIUS = 0.005
"""Radius [m] of the sphere of frames without marker."""
_ACTUATOR_ATTRIBUTES = {
    "group": (mjc.GROUP, "int"),
    "actearly": (mjc.ACT_EARLY, "bool"),
    "actdim": (mjc.ACT_DIM, "int"),
}


class MujocoPrims:
    """Writer of sites, tendons and actuators of one robot or world in MuJoCo's USD schemas."""

    def __init__(self, ctx: UsdContext, assembly: Assembly, robots: Sequence[RobotPaths], parent_path: str) -> None:
        self._ctx = ctx
        self._assembly = assembly
        self._parent_path = parent_path
        self._joints = {j.name: p.joints[id(j)] for p in robots for j in p.robot.joints if id(j) in p.joints}
        self._links = {name: path for p in robots for name, path in p.links.items()}
        self._shapes = {
            s.name: ctx.paths.shapes[id(s)]
            for s in (*ctx.paths.static_shapes, *(s for p in robots for link in p.robot.links for s in link.shapes))
            if s.name and id(s) in ctx.paths.shapes
        }
        self._frames: ChainMap[str, str] = ChainMap({}, ctx.frame_paths)
        """Own ones first: several robots may have a frame of one name."""
        self._tendons: ChainMap[str, str] = ChainMap({}, ctx.tendon_paths)

    def author_frames(self) -> None:
        """Write the frames as sites."""
        for frame in self._assembly.frames:
            self._register(self._frames, frame, self._author_site(frame))

    def author_tendons(self) -> None:
        """Write the tendons; all sites must exist. Tendons on missing prims are reported as dropped."""
        for tendon in self._assembly.tendons:
            self._author_tendon(tendon)

    def author_actuators(self) -> None:
        """Write the actuators; all tendons must exist. Actuators of missing prims are reported as dropped."""
        for actuator in self._assembly.actuators:
            self._author_actuator(actuator)

    def _register(self, known: ChainMap[str, str], node: Frame | Tendon, prim: PrimBuilder) -> None:
        own, others = known.maps
        own[node.name] = prim.path
        others.setdefault(node.name, prim.path)
        others[f"{self._assembly.name}{SCOPE}{node.name}"] = prim.path

    def _define_scope(self, name: str) -> str:
        return self._ctx.builder.define_scope(f"{self._parent_path}/{name}")

    # -- sites --------------------------------------------------------------------------------------------------

    def _author_site(self, frame: Frame) -> PrimBuilder:
        """Write a frame as a site prim with its marker geometry and colour."""
        writing = self._ctx
        marker = Shape(name=frame.name, geometry=frame.marker, collision=False) if frame.marker is not None else None
        try:
            solid = None if marker is None else gprim_spec(writing, marker, is_on_body=False)
        except UnsupportedGeometryError:
            solid = None
        kind = usd.SPHERE if solid is None else solid.prim_type
        prim = define_placed_prim(writing, self._assembly, frame, kind, scale=None if solid is None else solid.scale)
        prim.apply_schemas(newton.SITE_API, mjc.SITE_API)
        prim.set_attribute(usd.PURPOSE, "token", "guide", uniform=True)
        if solid is not None and marker is not None:
            author_geometry(writing, marker, solid, prim)
        else:
            prim.set_attribute(usd.RADIUS, "double", _DEFAULT_SITE_RADIUS)
            prim.set_custom(kinema_usd.NO_SITE_MARKER, True)
        if frame.color is not None:
            prim.set_attribute(usd.DISPLAY_COLOR, "color3f[]", [frame.color[:3]])
            prim.set_attribute(usd.DISPLAY_OPACITY, "float[]", [frame.color[3]])
        write_preserved(writing, prim, frame)
        writing.report_loss(Action.EXTENSION, frame, "the frame", "it is a site, which Newton and MuJoCo know")
        return prim

    # -- tendons ------------------------------------------------------------------------------------------------

    def _author_tendon(self, tendon: Tendon) -> None:
        """Write an MjcTendon with path, limits, dynamics and appearance."""
        steps = [(item, self._path_item_prim(item)) for item in tendon.path if item.kind is not TendonPathKind.PULLEY]
        if any(path is None for _, path in steps):
            self._ctx.report_loss(Action.DROPPED, tendon, "the tendon", "it goes by something that is not in the file")
            return
        prim = self._define_prim(tendon, "Tendons", mjc.TENDON)
        self._register(self._tendons, tendon, prim)
        prim.set_attribute(mjc.TENDON_TYPE, "token", "fixed" if tendon.is_fixed else "spatial", uniform=True)
        self._author_tendon_path(tendon, [(item, path) for item, path in steps if path is not None], prim)
        _author_range(prim, mjc.RANGE, mjc.LIMITED, (tendon.lower, tendon.upper))
        _author_range(prim, mjc.ACTUATOR_FORCE_RANGE, mjc.ACTUATOR_FORCE_LIMITED, tendon.force_range)
        for name, value in (
            (mjc.STIFFNESS, tendon.stiffness),
            (mjc.DAMPING, tendon.damping),
            (mjc.FRICTION_LOSS, tendon.friction),
            (mjc.ARMATURE, tendon.armature),
        ):
            if value:
                prim.set_attribute(name, "double", value, uniform=True)
        if tendon.spring_length is not None:
            prim.set_attribute(mjc.SPRING_LENGTH, "double[]", tendon.spring_length, uniform=True)
        prim.set_attribute(mjc.WIDTH, "double", tendon.width, uniform=True)
        prim.set_attribute(mjc.COLOR, "color4f", tendon.color, uniform=True)
        author_solver_parameters(prim, tendon.limit_solver, mjc.LIMIT_SOLVER)
        author_solver_parameters(prim, tendon.friction_solver, mjc.FRICTION_SOLVER)
        write_preserved(self._ctx, prim, tendon)
        self._ctx.report_loss(Action.EXTENSION, tendon, "the tendon", "it is an MjcTendon, which MuJoCo knows")

    def _path_item_prim(self, item: TendonPathItem) -> str | None:
        known: dict[TendonPathKind, Mapping[str, str]] = {
            TendonPathKind.JOINT: self._joints,
            TendonPathKind.SITE: self._frames,
            TendonPathKind.WRAP: self._shapes,
        }
        return known[item.kind].get(item.target)

    def _author_tendon_path(
        self, tendon: Tendon, path_items: Sequence[tuple[TendonPathItem, str]], prim: PrimBuilder
    ) -> None:
        """Write unique path targets and the items as target indices; pulleys divide the path into segments."""
        targets = list(dict.fromkeys(path for _, path in path_items))
        prim.set_relationship(mjc.PATH, targets)
        prim.set_attribute(mjc.PATH_INDICES, "int[]", [targets.index(path) for _, path in path_items], uniform=True)
        if tendon.is_fixed:
            prim.set_attribute(
                mjc.PATH_COEFFICIENTS, "double[]", [item.coefficient for item, _ in path_items], uniform=True
            )
        pulleys = [item for item in tendon.path if item.kind is TendonPathKind.PULLEY]
        if pulleys:
            prim.set_attribute(mjc.PATH_SEGMENTS, "int[]", _path_segments(tendon.path), uniform=True)
            prim.set_attribute(mjc.PATH_DIVISORS, "double[]", [1.0, *(p.coefficient for p in pulleys)], uniform=True)
        side_of = {path: self._frames.get(item.side, "") for item, path in path_items if item.side}
        sides = list(dict.fromkeys(side for side in side_of.values() if side))
        if sides:
            prim.set_relationship(mjc.SIDE_SITES, sides)
            numbers = [sides.index(side_of[t]) if side_of.get(t) else -1 for t in targets]
            prim.set_attribute(mjc.SIDE_SITE_INDICES, "int[]", numbers, uniform=True)

    # -- actuators ----------------------------------------------------------------------------------------------

    def _author_actuator(self, actuator: Actuator) -> None:
        """Write an MjcActuator with target, gain, bias, dynamics and ranges."""
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
            self._ctx.report_loss(Action.DROPPED, actuator, "the actuator", how)
            return
        prim = self._define_prim(actuator, "Actuators", mjc.ACTUATOR)
        prim.set_relationship(mjc.TARGET, [target])
        self._author_reference_site(actuator, prim)
        if actuator.transmission is Transmission.JOINT_IN_PARENT:
            prim.set_attribute(mjc.JOINT_IN_PARENT, "bool", True, uniform=True)
        for law, kind, name, numbers in (
            (actuator.gain_type, mjc.GAIN_TYPE, mjc.GAIN_PARAMETERS, actuator.gain),
            (actuator.bias_type, mjc.BIAS_TYPE, mjc.BIAS_PARAMETERS, actuator.bias),
            (actuator.dynamics_type, mjc.DYNAMICS_TYPE, mjc.DYNAMICS_PARAMETERS, actuator.dynamics),
        ):
            prim.set_attribute(kind, "token", law, uniform=True)
            prim.set_attribute(name, "double[]", numbers, uniform=True)
        prim.set_attribute(mjc.GEAR, "double[]", actuator.gear, uniform=True)
        if actuator.crank_length:
            prim.set_attribute(mjc.CRANK_LENGTH, "double", actuator.crank_length, uniform=True)
        _author_range(prim, mjc.CONTROL_RANGE, mjc.CONTROL_LIMITED, actuator.control_range)
        _author_range(prim, mjc.FORCE_RANGE, mjc.FORCE_LIMITED, actuator.force_range)
        _author_range(prim, mjc.ACTIVATION_RANGE, mjc.ACTIVATION_LIMITED, actuator.activation_range)
        if any(actuator.length_range):
            _author_range_ends(prim, mjc.LENGTH_RANGE, actuator.length_range)
        self._author_actuator_settings(actuator, prim)
        write_preserved(self._ctx, prim, actuator)
        self._ctx.report_loss(Action.EXTENSION, actuator, "the actuator", "it is an MjcActuator, which MuJoCo knows")

    def _author_reference_site(self, actuator: Actuator, prim: PrimBuilder) -> None:
        site = self._frames.get(actuator.reference)
        if site is not None:
            slides = actuator.transmission is Transmission.SLIDER_CRANK
            prim.set_relationship(mjc.SLIDER_SITE if slides else mjc.REFERENCE_SITE, [site])
        elif actuator.reference:
            self._ctx.report_loss(Action.DROPPED, actuator, f"its reference {actuator.reference!r}", "it has no prim")

    def _author_actuator_settings(self, actuator: Actuator, prim: PrimBuilder) -> None:
        """Write settings that MjcActuator has, store the others for Kinema, and report losses."""
        rest = {name: value for name, value in actuator.settings.items() if name not in _ACTUATOR_ATTRIBUTES}
        for name in actuator.settings.keys() & _ACTUATOR_ATTRIBUTES.keys():
            prim.set_attribute(
                _ACTUATOR_ATTRIBUTES[name][0], _ACTUATOR_ATTRIBUTES[name][1], actuator.settings[name], uniform=True
            )
        kept = set_custom_json(prim, kinema_usd.SETTINGS, rest)
        lost = reportable_settings(name for name in rest if name not in kept)
        if lost:
            self._ctx.report_loss(
                Action.DROPPED, actuator, f"settings: {', '.join(lost)}", "MjcActuator has none of them"
            )
        report_preserved(self._ctx, actuator, reportable_settings(kept))

    def _define_prim(self, node: Tendon | Actuator, scope: str, prim_type: str) -> PrimBuilder:
        path = self._ctx.paths.names.child_path(self._define_scope(scope), node.name, prim_type.lower())
        prim = self._ctx.builder.define_prim(path, prim_type)
        author_stored_fields(self._ctx, prim, node)
        return prim


def _path_segments(path: Sequence[TendonPathItem]) -> list[int]:
    """Segment index of each tendon path item; pulleys begin a new segment."""
    segments: list[int] = []
    segment = 0
    for item in path:
        if item.kind is TendonPathKind.PULLEY:
            segment += 1
        else:
            segments.append(segment)
    return segments


def _author_range(prim: PrimBuilder, name: str, limited_attribute: str, ends: tuple[float, float]) -> None:
    if math.isinf(ends[0]) and math.isinf(ends[1]):
        return
    prim.set_attribute(limited_attribute, "token", "true", uniform=True)
    _author_range_ends(prim, name, ends)


def _author_range_ends(prim: PrimBuilder, name: str, ends: tuple[float, float]) -> None:
    for attribute, end in zip(mjc.range_attributes(name), ends, strict=True):
        prim.set_attribute(attribute, "double", end, uniform=True)
