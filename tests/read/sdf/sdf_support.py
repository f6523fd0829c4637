"""Random robots, written to SDFormat in many ways that all mean the same, and the comparison of descriptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema.core import Diagnostics, Pose, quaternion_to_matrix
from kinema.description import Robot, World
from kinema.read import Resolver
from kinema.read.sdf import read_sdf

N_COORDINATES = {"revolute": 1, "continuous": 1, "prismatic": 1, "screw": 1, "fixed": 0, "universal": 2, "ball": 4}


def read_text(
    folder: Path,
    text: str,
    diagnostics: Diagnostics | None = None,
    *,
    name: str = "test.sdf",
    search: tuple[Path, ...] = (),
) -> Robot | World:
    """What a text means, as a file in a folder."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return read_sdf(file, diagnostics=diagnostics, resolve=Resolver(search_paths=search, use_environment=False))


def read_robot(folder: Path, text: str, diagnostics: Diagnostics | None = None, **more: object) -> Robot:
    """As `read_text`, for a text that holds one model."""
    robot = read_text(folder, text, diagnostics, **more)  # type: ignore[arg-type]
    assert isinstance(robot, Robot)
    return robot


def read_world(folder: Path, text: str, diagnostics: Diagnostics | None = None, **more: object) -> World:
    """As `read_text`, for a text that holds a world."""
    world = read_text(folder, text, diagnostics, **more)  # type: ignore[arg-type]
    assert isinstance(world, World)
    return world


def model(body: str, *, version: str = "1.9", attributes: str = "") -> str:
    """A file with one model called `m`."""
    return f'<sdf version="{version}"><model name="m" {attributes}>{body}</model></sdf>'


def world(body: str, *, version: str = "1.9") -> str:
    """A file with one world called `w`."""
    return f'<sdf version="{version}"><world name="w">{body}</world></sdf>'


# -- random robots -----------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """A link, joint, frame or nested model, with its pose in the top-level model."""

    kind: str
    name: str
    pose: Pose
    path: tuple[str, ...]
    """The nested models around it."""
    joint_kind: str = ""
    parent: str = ""
    child: str = ""
    axes: list[np.ndarray] = field(default_factory=list)
    """In the joint's frame."""
    mass: float = 1.0
    center: Pose = field(default_factory=Pose)
    moments: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def seen_from(self, scope: tuple[str, ...]) -> str:
        """Its name inside a model that is around it."""
        assert self.path[: len(scope)] == scope
        return "::".join([*self.path[len(scope) :], self.name])


@dataclass
class RandomRobot:
    """What a file should mean, however it says it."""

    parts: list[Part]

    def of(self, kind: str) -> list[Part]:
        return [p for p in self.parts if p.kind == kind]

    def named(self, name: str) -> Part:
        return next(p for p in self.parts if p.name == name)


def random_pose(rng: np.random.Generator, scale: float = 1.0) -> Pose:
    """Any pose, with the awkward ones (gimbal lock, half turns) more often than chance would have them."""
    if rng.random() < 0.2:
        return Pose.from_rpy(rng.normal(size=3) * scale, rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi], size=3))
    return Pose(rng.normal(size=3) * scale, quaternion_to_matrix(rng.normal(size=4)))


def random_unit(rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def random_robot(rng: np.random.Generator, *, n_links: int, kinds: tuple[str, ...], n_models: int) -> RandomRobot:
    """A tree of links, spread over nested models, with a few frames."""
    parts: list[Part] = []
    paths: list[tuple[str, ...]] = [()]
    for i in range(n_models):
        around = paths[rng.integers(len(paths))]
        parts.append(Part("model", f"M{i}", random_pose(rng), around))
        paths.append((*around, f"M{i}"))
    links = []
    for i in range(n_links):
        # every nested model gets a link: one without is an error
        path = paths[i] if i < len(paths) else paths[rng.integers(len(paths))]
        moments = np.sort(rng.uniform(0.5, 1.0, size=3))
        link = Part("link", f"L{i}", random_pose(rng), path)
        link.mass, link.center, link.moments = float(rng.uniform(0.1, 5)), random_pose(rng, 0.1), tuple(moments)
        links.append(link)
    parts += links
    for i in range(1, n_links):
        parent, child = links[rng.integers(i)], links[i]
        common = _common(parent.path, child.path)
        kind = str(rng.choice(kinds))
        joint = Part("joint", f"J{i}", random_pose(rng), common, joint_kind=kind, parent=parent.name, child=child.name)
        first = random_unit(rng)
        second = np.cross(first, random_unit(rng))
        joint.axes = [first, second / np.linalg.norm(second)][: 2 if kind == "universal" else 1]
        parts.append(joint)
    parts += [Part("frame", f"F{i}", random_pose(rng), paths[rng.integers(len(paths))]) for i in range(4)]
    return RandomRobot(parts)


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return a[:n]


# -- writers -----------------------------------------------------------------------------------------------------------


def pose_text(pose: Pose, rng: np.random.Generator | None = None, relative_to: str | None = None) -> str:
    """A `<pose>`, with Euler angles or, where there is a choice, degrees or a quaternion."""
    where = "" if relative_to is None else f' relative_to="{relative_to}"'
    position = " ".join(repr(float(x)) for x in pose.position)
    form = "rpy" if rng is None else rng.choice(["rpy", "degrees", "quaternion"])
    if form == "quaternion":
        w, x, y, z = (float(c) for c in pose.quaternion * rng.choice([1.0, -1.0]))  # type: ignore[union-attr]
        return f'<pose rotation_format="quat_xyzw"{where}>{position} {x!r} {y!r} {z!r} {w!r}</pose>'
    angles = pose.rpy if form == "rpy" else np.degrees(pose.rpy)
    flag = "" if form == "rpy" else ' degrees="true"'
    return f"<pose{flag}{where}>{position} {' '.join(repr(float(a)) for a in angles)}</pose>"


class Writer:
    """Writes a robot; with a generator it uses whatever the format offers, without one it writes the plain form."""

    def __init__(self, robot: RandomRobot, rng: np.random.Generator | None = None) -> None:
        self.robot, self.rng = robot, rng
        self.chance_of_include = 0.3
        self.files: dict[str, str] = {}
        """Files that the text includes."""
        self.settled: list[Part] = []
        """Frames that others may refer to without a cycle."""

    def chance(self, p: float) -> bool:
        return self.rng is not None and bool(self.rng.random() < p)

    def text(self, version: str = "1.12", *, pose: Pose | None = None) -> str:
        body = self._model_body((), Part("model", "robot", Pose(), ()))
        place = "" if pose is None else pose_text(pose, self.rng)
        return f'<sdf version="{version}"><model name="robot">{place}{body}</model></sdf>'

    def _inside(self, path: tuple[str, ...]) -> list[Part]:
        return [p for p in self.robot.parts if p.path == path]

    def _model_body(self, path: tuple[str, ...], own: Part) -> str:
        """The members of a model; links and frames are settled before the joints that refer to them."""
        members = self._inside(path)
        if self.rng is not None:
            members = [members[i] for i in self.rng.permutation(len(members))]
        ordered = sorted(members, key=lambda p: p.kind == "joint")
        texts = []
        for part in ordered:
            match part.kind:
                case "link":
                    texts.append(f'<link name="{part.name}">{self._pose(part, path, own)}{self._inertial(part)}</link>')
                    self.settled.append(part)
                case "frame":
                    texts.append(self._frame(part, path, own))
                    self.settled.append(part)
                case "model":
                    texts.append(self._nested(part, path, own))
                    self.settled.append(part)
                case _:
                    texts.append(self._joint(part, path, own))
                    self.settled.append(part)
        if self.rng is not None:
            texts = [texts[i] for i in self.rng.permutation(len(texts))]
        return "".join(texts)

    def _choose(self, path: tuple[str, ...]) -> Part | None:
        """Some frame that is visible inside a model."""
        visible = [p for p in self.settled if p.path[: len(path)] == path]
        return None if not visible or self.rng is None else visible[self.rng.integers(len(visible))]

    def _pose(self, part: Part, path: tuple[str, ...], own: Part, *, default: Part | None = None) -> str:
        """The pose of a part in a model, relative to its default frame or to some other one."""
        base, name = default or own, None
        if self.chance(0.6):
            other = self._choose(path)
            if other is not None:
                base, name = other, other.seen_from(path)
            elif default is None:
                name = "__model__"
        elif default is not None and self.chance(0.3):
            base, name = own, "__model__"
        relative = base.pose.inverse() @ part.pose
        return pose_text(relative, self.rng, name)

    def _frame(self, part: Part, path: tuple[str, ...], own: Part) -> str:
        links = [p for p in self.settled if p.kind in ("link", "frame") and p.path[: len(path)] == path]
        if self.chance(0.5) and links:
            link = links[self.rng.integers(len(links))]  # type: ignore[union-attr]
            body = self._pose(part, path, own, default=link)
            return f'<frame name="{part.name}" attached_to="{link.seen_from(path)}">{body}</frame>'
        return f'<frame name="{part.name}">{self._pose(part, path, own)}</frame>'

    def _nested(self, part: Part, path: tuple[str, ...], own: Part) -> str:
        body = self._model_body((*path, part.name), part)
        inner = [p for p in self.settled if p.path[: len(path) + 1] == (*path, part.name)]
        placed, attribute, element = part, "", ""
        if self.chance(0.4) and inner:
            placed = inner[self.rng.integers(len(inner))]  # type: ignore[union-attr]
            name = placed.seen_from((*path, part.name))
            attribute, element = f' placement_frame="{name}"', f"<placement_frame>{name}</placement_frame>"
        # what is inside must not be settled yet for its own model
        hidden, self.settled = self.settled, [p for p in self.settled if p not in inner]
        place = self._pose(Part("", "", placed.pose, path), path, own)
        self.settled = hidden
        if self.chance(self.chance_of_include):
            file = f"{part.name}.sdf"
            junk = pose_text(random_pose(self.rng), self.rng)  # type: ignore[arg-type]
            self.files[file] = f'<sdf version="1.9"><model name="included">{junk}{body}</model></sdf>'
            return f"<include><uri>{file}</uri><name>{part.name}</name>{place}{element}</include>"
        return f'<model name="{part.name}"{attribute}>{place}{body}</model>'

    def _joint(self, part: Part, path: tuple[str, ...], own: Part) -> str:
        child, parent = self.robot.named(part.child), self.robot.named(part.parent)
        frames = "".join(f"<{tag}>{end.seen_from(path)}</{tag}>" for tag, end in (("parent", parent), ("child", child)))
        extra = ""
        if self.chance(0.3):  # the child may be a frame on the link
            on_child = Part("frame", f"{part.name}_on_child", random_pose(self.rng), path)  # type: ignore[arg-type]
            relative = child.pose.inverse() @ on_child.pose
            extra = f'<frame name="{on_child.name}" attached_to="{child.seen_from(path)}">{pose_text(relative)}</frame>'
            frames = f"<parent>{parent.seen_from(path)}</parent><child>{on_child.name}</child>"
            child = on_child
        pose = self._pose(part, path, own, default=child)
        axes = ""
        if part.joint_kind not in ("fixed", "ball"):
            tags = ("axis", "axis2")
            axes = "".join(
                f"<{t}>{self._axis(part, a, path, own)}</{t}>" for t, a in zip(tags, part.axes, strict=False)
            )
        pitch = "<screw_thread_pitch>0.3</screw_thread_pitch>" if part.joint_kind == "screw" else ""
        return f'{extra}<joint name="{part.name}" type="{part.joint_kind}">{frames}{pose}{axes}{pitch}</joint>'

    def _axis(self, part: Part, axis: np.ndarray, path: tuple[str, ...], own: Part) -> str:
        base, name = part, ""
        if self.chance(0.5):
            other = self._choose(path)
            base, name = (own, "__model__") if other is None or self.chance(0.3) else (other, other.seen_from(path))
        vector = base.pose.rotation.T @ part.pose.rotation @ axis * (2.0 if self.rng is not None else 1.0)
        attribute = f' expressed_in="{name}"' if name else ""
        return f"<xyz{attribute}>{' '.join(repr(float(v)) for v in vector)}</xyz>"

    def _inertial(self, part: Part) -> str:
        diagonal = "".join(
            f"<{t}>{m!r}</{t}>" for t, m in zip(("ixx", "iyy", "izz"), map(float, part.moments), strict=True)
        )
        center = pose_text(part.center, self.rng)
        return f"<inertial><mass>{part.mass!r}</mass>{center}<inertia>{diagonal}</inertia></inertial>"


# -- comparison --------------------------------------------------------------------------------------------------------


def by_short_name(names: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values by the last part of their names, which must be unique."""
    short = {name.rpartition("::")[2]: value for name, value in names.items()}
    assert len(short) == len(names)
    return short


def assert_close(a: object, b: object, tolerance: float = 1e-9) -> None:
    """Two arrays, or two dictionaries of arrays, are equal within a tolerance."""
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(a[key], b[key], rtol=0, atol=tolerance, err_msg=str(key))
    else:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tolerance)
