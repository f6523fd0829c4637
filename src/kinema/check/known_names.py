"""What references can be made to."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.description import SCOPE, Robot, World


@dataclass(frozen=True, slots=True, eq=False)
class KnownNames:
    """The names in a description, by kind; in a world the parts of robots are known by their scoped names too."""

    links: set[str]
    joints: set[str]
    shapes: set[str]
    frames: set[str]
    tendons: set[str]
    actuators: set[str]
    cameras: set[str]
    sensors: set[str]
    groups: set[str]
    """Collision groups."""

    def of_kind(self, kind: str) -> set[str] | None:
        """The names of a kind, called as `Sensor.target_kind` calls it; None for one that is not known."""
        return getattr(self, f"{kind}s", None) if kind else None


def known_names(described: Robot | World) -> KnownNames:
    """All names in a robot, or in a world and its robots."""
    names = _own_names(described)
    for robot in described.robots if isinstance(described, World) else []:
        for kind, values in _own_names(robot).items():
            names[kind] |= values
            names[kind] |= {f"{robot.name}{SCOPE}{value}" for value in values}
    return KnownNames(**names)


def _own_names(assembly: Robot | World) -> dict[str, set[str]]:
    if isinstance(assembly, Robot):
        links, joints = assembly.links, assembly.joints
        shapes = [shape for link in links for shape in link.shapes]
    else:
        links, joints, shapes = [], [], assembly.shapes
    return {
        "links": {link.name for link in links} | {"world"},
        "joints": {j.name for j in joints},
        "shapes": {s.name for s in shapes},
        "frames": {f.name for f in assembly.frames},
        "tendons": {t.name for t in assembly.tendons},
        "actuators": {a.name for a in assembly.actuators},
        "cameras": {c.name for c in assembly.cameras},
        "sensors": {s.name for s in assembly.sensors},
        "groups": {g.name for g in assembly.collision.groups},
    }
