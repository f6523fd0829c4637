"""An arm takes parcels from a moving conveyor with a suction cup and stacks them on a pallet, turned straight.

    python examples/pick_from_conveyor.py [--envs 16] [--short] [--film conveyor.mp4] [--picture conveyor.png]

In every environment the parcels lie differently on the belt. The arm follows a parcel with the belt until the cup
grips, and releases it above its place. Forces of the cup come from the attachment of parcel and tool.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from holding import ARM, ARM_JOINTS

import kinema as km
from kinema.core import Pose, quaternion_to_matrix
from kinema.description import (
    Base,
    Box,
    Camera,
    Cylinder,
    Inertial,
    Joint,
    JointKind,
    Link,
    PhysicsMaterial,
    Robot,
    Shape,
    VisualMaterial,
    World,
)
from kinema.render import can_write_mp4, look_at, write_png, write_video
from kinema.scene import DescriptionRenderer, PictureOptions

BELT_SPEED = 0.12
"""[m/s] along +x."""
BELT, BELT_TOP, BELT_Y = (-1.9, 0.5), 0.16, -0.36
"""Ends, height of the surface and lateral position of the belt [m]."""
PALLET, PALLET_TOP = np.array([0.08, 0.36]), 0.10
"""Centre and height of the pallet [m]."""
SPACING, FIRST = 0.50, -0.25
"""Distance of the parcels on the belt, and where the first one lies [m]."""
WINDOW = (-0.12, 0.30)
"""Where parcels are picked, along x [m]."""
BASE = 0.12
"""Height of the base of the arm [m]."""
LIP = 0.10
"""Distance of the cup's lip from the flange [m]."""
CLEAR, CARRY_HEIGHT = 0.07, 0.23
"""Height of the cup above parcels that it waits for, and of the lower side of parcels that it carries [m]."""
LAG = 0.06
"""Time by which the arm lags behind its commands [s]."""
TICK = 5
"""Simulation steps per control tick."""
STEEL = VisualMaterial(name="steel", color=(0.55, 0.57, 0.60, 1.0), roughness=0.5)
RUBBER = VisualMaterial(name="rubber", color=(0.06, 0.06, 0.07, 1.0), roughness=0.9)
BELTING = VisualMaterial(name="belting", color=(0.10, 0.12, 0.13, 1.0), roughness=0.8)
STRIPE = VisualMaterial(name="stripe", color=(0.75, 0.62, 0.15, 1.0), roughness=0.7)
CONCRETE = VisualMaterial(name="concrete", color=(0.32, 0.33, 0.35, 1.0), roughness=0.9)
CUP = VisualMaterial(name="cup", color=(0.80, 0.16, 0.10, 1.0), roughness=0.5)
WOOD = VisualMaterial(name="wood", color=(0.70, 0.52, 0.33, 1.0), roughness=0.7)
COLORS = ((0.85, 0.45, 0.16), (0.18, 0.44, 0.62), (0.36, 0.60, 0.36), (0.80, 0.66, 0.24))
GRIP = PhysicsMaterial(static_friction=0.8, dynamic_friction=0.8)


@dataclass(frozen=True)
class Parcel:
    """A parcel: edge lengths [m], mass [kg] and its place on the pallet."""

    size: tuple[float, float, float]
    mass: float
    slot: tuple[float, float, float]


PARCELS = (
    Parcel((0.13, 0.10, 0.09), 0.6, (-0.075, -0.06, 0.0)),
    Parcel((0.13, 0.10, 0.09), 0.9, (0.075, -0.06, 0.0)),
    Parcel((0.13, 0.10, 0.07), 0.5, (-0.075, 0.06, 0.0)),
    Parcel((0.15, 0.12, 0.06), 0.4, (0.0, -0.06, 0.09)),
)
HEIGHTS = np.array([p.size[2] / 2 for p in PARCELS])
SLOTS = np.array([[*(PALLET + p.slot[:2]), PALLET_TOP + p.slot[2] + p.size[2] + 0.002, 0.0] for p in PARCELS])
"""Where the middle of the upper side of each parcel goes, and its yaw."""


# ------------------------------------------------------------------------------------------------------------- the cell


def shape(geometry: Box | Cylinder, x: float, y: float, z: float, material: VisualMaterial, name: str = "") -> Shape:
    """A part of a body that is seen; it collides if it has a name."""
    place = Pose.translation([x, y, z])
    return Shape(geometry=geometry, pose=place, material=material, name=name, collision=bool(name), surface=GRIP)


def body(name: str, shapes: list[Shape], mass: float = 0.0, size: Sequence[float] = (0.1, 0.1, 0.1)) -> Robot:
    """A fixed body, or a free box of some mass."""
    x, y, z = size
    inertia = mass / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    inertial = Inertial(mass=mass, center=np.zeros(3), inertia=inertia) if mass else None
    base = Base.FREE if mass else Base.FIXED
    return Robot(name=name, links=[Link(name=name, shapes=shapes, inertial=inertial)], base=base)


def arm_with_cup() -> Robot:
    """The example arm with a suction cup in place of its hand."""
    arm = km.read(ARM)
    last = next(i for i, link in enumerate(arm.links) if link.name == "hand_link")
    links = [replace(link, shapes=[replace(s, collision=False) for s in link.shapes]) for link in arm.links[:last]]
    radii = (0.030, 0.022, 0.027)
    bellows = [shape(Cylinder(r, 0.012), 0, 0, LIP - 0.006 - 0.011 * k, CUP) for k, r in enumerate(radii)]
    stem = [shape(Cylinder(0.035, 0.012), 0, 0, 0.006, STEEL), shape(Cylinder(0.014, 0.06), 0, 0, 0.04, RUBBER)]
    inertia = Inertial(mass=0.3, center=np.array([0.0, 0.0, 0.04]), inertia=np.diag([4e-4, 4e-4, 1e-4]))
    tool = Link(name="tool", shapes=[*stem, *bellows], inertial=inertia)
    at = Pose.translation([0.0, 0.0, 0.03])
    flange = Joint(name="flange", kind=JointKind.FIXED, parent="wrist_3_link", child="tool", parent_pose=at)
    joints = [j for j in arm.joints if j.name in ARM_JOINTS]
    return replace(arm, name="arm", links=[*links, tool], joints=[*joints, flange])


def furniture() -> list[Robot]:
    """Conveyor and pallet."""
    start, end = BELT
    length, middle = end - start, (start + end) / 2
    belt = [shape(Box(np.array([length, 0.24, 0.04])), middle, BELT_Y, BELT_TOP - 0.02, BELTING, "belt")]
    rail = Box(np.array([length, 0.015, 0.07]))
    belt += [shape(rail, middle, BELT_Y + side * 0.13, BELT_TOP - 0.025, STEEL) for side in (-1, 1)]
    post = Box(np.array([0.04, 0.03, BELT_TOP - 0.04]))
    corners = [(x, side) for x in np.linspace(start + 0.1, end - 0.1, 4) for side in (-1, 1)]
    belt += [shape(post, x, BELT_Y + side * 0.12, BELT_TOP / 2 - 0.02, STEEL) for x, side in corners]
    x, y = PALLET
    boards = [shape(Box(np.array([0.36, 0.30, 0.02])), x, y, PALLET_TOP - 0.01, WOOD, "pallet")]
    boards += [shape(Box(np.array([0.36, 0.05, PALLET_TOP - 0.02])), x, y + dy, 0.04, WOOD) for dy in (-0.12, 0, 0.12)]
    pedestal = [shape(Cylinder(0.11, BASE - 0.01), 0, 0, BASE / 2 - 0.005, CONCRETE)]
    pedestal.append(shape(Box(np.array([0.26, 0.26, 0.01])), 0, 0, 0.005, CONCRETE))
    return [body("conveyor", belt), body("pallet", boards), body("pedestal", pedestal)]


def parcel_body(number: int) -> Robot:
    """A parcel with a strip of tape."""
    parcel, color = PARCELS[number], COLORS[number]
    length, _, height = parcel.size
    carton = VisualMaterial(name=f"carton {number}", color=(*color, 1.0), roughness=0.75)
    tape = VisualMaterial(name="tape", color=(0.92, 0.90, 0.84, 1.0), roughness=0.4)
    shapes = [shape(Box(np.array(parcel.size)), 0, 0, 0, carton, "carton")]
    shapes.append(shape(Box(np.array([length + 0.002, 0.02, height + 0.002])), 0, 0, 0, tape))
    return body(f"parcel {number + 1}", shapes, parcel.mass, parcel.size)


@dataclass
class Cell:
    """The scene of all environments."""

    scene: km.Scene
    arm: km.Entity
    parcels: list[km.Entity]
    cup: object
    descriptions: list[Robot] = field(default_factory=list)
    """Everything that is drawn: furniture, arm, parcels."""


def build(n_envs: int, n_parcels: int) -> Cell:
    """The cell with its parcels on the belt, a little different in each environment."""
    scene = km.Scene(dt=0.004, quiet=True)
    scene.add(km.Plane())
    fixed, robot = furniture(), arm_with_cup()
    conveyor, *_ = [scene.add(x) for x in fixed]
    arm = scene.add(robot, fixed=True, pos=(0, 0, BASE))
    bodies = [parcel_body(i) for i in range(n_parcels)]
    parcels = [scene.add(x) for x in bodies]
    cup = scene.add_suction(arm, "tool", pos=(0, 0, LIP), normal=(0, 0, 1), distance=0.004, max_force=60.0)
    scene.set_surface_velocity(conveyor, (BELT_SPEED, 0.0, 0.0))
    scene.build(n_envs)
    rng = np.random.default_rng(1)
    for i, (entity, parcel) in enumerate(zip(parcels, PARCELS, strict=False)):
        place = np.tile([FIRST - SPACING * i, BELT_Y, BELT_TOP + parcel.size[2] / 2], (n_envs, 1))
        place[:, :2] += rng.uniform(-0.02, 0.02, (n_envs, 2))
        half = 0.5 * rng.uniform(-0.5, 0.5, n_envs)
        entity.set_pos(place)
        entity.set_quat(np.stack([np.cos(half), 0 * half, 0 * half, np.sin(half)], axis=1))
    return Cell(scene, arm, parcels, cup, [*fixed, robot, *bodies])


# -------------------------------------------------------------------------------------------------------------- control

WAIT, DESCEND, LIFT, CARRY, LOWER, RELEASE, RETRACT, DONE = range(8)
"""Phases of a cycle."""
SPEED, ACCELERATION = np.array([1.0, 2.5, 0.7, 4.0]), np.array([5.0, 12.0, 5.0, 25.0])
"""Bounds of the commanded motion in radius [m], angle about the base, height [m] and yaw of the tool."""


def half_turn(angle: np.ndarray) -> np.ndarray:
    """Angles within a quarter turn of zero, for bodies that look the same after half a turn."""
    return (angle + math.pi / 2) % math.pi - math.pi / 2


class Controller:
    """Commands of all arms: phases of the cycle, smooth motion of the cup in cylinder coordinates, joint angles."""

    def __init__(self, cell: Cell) -> None:
        self.cell, n = cell, cell.scene.n_envs
        self.kinematics = km.Kinematics(cell.descriptions[3])
        self.joints = cell.arm.dofs_of(*ARM_JOINTS)
        self.phase, self.parcel = np.full(n, WAIT), np.zeros(n, int)
        self.tool = np.tile(self.cylinder(np.array([[0.0, BELT_Y, BELT_TOP + 0.17, 0.0]])), (n, 1))
        self.velocity = np.zeros((n, 4))
        self.q = np.tile([-1.2, 0.3, 1.6, 0.0, 1.2, 0.0], (n, 1))
        self.offset, self.gripped, self.fix = (np.zeros((n, 4)) for _ in range(3))
        """Tool relative to the parcel that it holds; where it gripped; correction of the command while lowering."""
        self.until = np.zeros(n)
        self.log: dict[str, np.ndarray] = {k: np.zeros((n, len(cell.parcels))) for k in ("gripped", "force", "placed")}
        self.q = self.solve()
        cell.arm.set_qpos(self.q)
        cell.arm.control_dofs_position(self.q, self.joints)

    @staticmethod
    def cylinder(place: np.ndarray) -> np.ndarray:
        """Radius, angle, height and yaw of places (x, y, height, yaw), (n, 4)."""
        x, y, z, yaw = place.T
        return np.stack([np.hypot(x, y), np.arctan2(y, x), z, yaw], axis=1)

    def solve(self) -> np.ndarray:
        """Joint angles that bring the lip to `tool`, pointing down, (n, 6)."""
        radius, angle, z, yaw = self.tool.T
        pos = np.stack([radius * np.cos(angle), radius * np.sin(angle), z - BASE], axis=1)
        quat = np.stack([0 * yaw, np.cos(yaw / 2), np.sin(yaw / 2), 0 * yaw], axis=1)
        lip = np.array([0.0, 0.0, LIP])
        found = self.kinematics.inverse_kinematics("tool", pos, quat, init_qpos=self.q, point=lip)
        assert found.solved.all(), "the arm reaches everything"
        return found.qpos

    def tick(self, time: float) -> None:
        """Advance the phases, move the tool and command the joints."""
        cell, phase = self.cell, self.phase.copy()
        number = np.minimum(self.parcel, len(cell.parcels) - 1)
        parcel = self.poses(cell.parcels, number)
        parcel[:, 2] += HEIGHTS[number]  # of the upper side
        held = cell.cup.get_held() >= 0
        row = np.arange(len(phase)), number
        self.log["force"][row] = np.maximum(self.log["force"][row], held * np.linalg.norm(cell.cup.get_force(), axis=1))

        follow = parcel + np.array([BELT_SPEED * LAG, 0.0, -0.004, 0.0])
        follow[:, 0] = np.clip(follow[:, 0], *WINDOW)
        place = SLOTS[number] + self.offset
        up = np.array([0.0, 0.0, CLEAR, 0.0])
        over = place.copy()
        over[:, 2] = CARRY_HEIGHT + 2.0 * HEIGHTS[number]
        targets = [follow + up, follow, self.gripped + up, over, place + self.fix, place, place + up, follow]
        away = self.move(np.choose(phase[:, None], [self.cylinder(x) for x in targets]))
        missing = SLOTS[number] - parcel
        missing[:, 3] = half_turn(missing[:, 3])
        self.fix += np.where((phase == LOWER) & (away < 0.02), 0.03, 0.0)[:, None] * missing * [1.0, 1.0, 0.0, 1.0]
        self.fix[phase != LOWER] = 0.0
        is_placed = (np.abs(missing) < [0.003, 0.003, 0.006, 0.02]).all(axis=1)

        done = [
            (parcel[:, 0] > WINDOW[0]) & (away < 0.02),
            held,
            parcel[:, 2] > BELT_TOP + 2.0 * HEIGHTS[number] + 0.7 * CLEAR,
            away < 0.01,
            is_placed,
            time > self.until,
            away < 0.03,
            np.zeros(len(phase), bool),
        ]
        finished = np.choose(phase, done)
        gripping, releasing = finished & (phase == DESCEND), finished & (phase == LOWER)
        tool = self.lips()
        self.gripped[gripping] = tool[gripping]
        self.offset[gripping] = self.offsets(tool, parcel)[gripping]
        self.until[releasing] = time + 0.2
        for chosen, name in ((gripping, "gripped"), (releasing, "placed")):
            self.log[name][chosen, number[chosen]] = time
        self.parcel += finished & (phase == RETRACT)
        self.phase = np.where(self.parcel >= len(cell.parcels), DONE, (phase + finished) % DONE)
        cell.cup.switch(np.isin(self.phase, (DESCEND, LIFT, CARRY, LOWER)))
        self.q = self.solve()
        cell.arm.control_dofs_position(self.q, self.joints)

    @staticmethod
    def poses(entities: list[km.Entity], chosen: np.ndarray) -> np.ndarray:
        """Position and yaw of one entity in each environment, (n, 4)."""
        envs = np.arange(len(chosen))
        pos = np.stack([x.get_pos() for x in entities], axis=1)[envs, chosen]
        quat = np.stack([x.get_quat() for x in entities], axis=1)[envs, chosen]
        return np.column_stack([pos, half_turn(2.0 * np.arctan2(quat[:, 3], quat[:, 0]))])

    def lips(self) -> np.ndarray:
        """Position of the lip of the cup and yaw of the tool, (n, 4)."""
        pos, quat = (f(["tool"])[:, 0] for f in (self.cell.arm.get_links_pos, self.cell.arm.get_links_quat))
        rotations = np.array([quaternion_to_matrix(q) for q in quat])
        return np.column_stack([pos + LIP * rotations[:, :, 2], np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])])

    @staticmethod
    def offsets(tool: np.ndarray, parcel: np.ndarray) -> np.ndarray:
        """Pose of the tool relative to that of parcels, along the axes of the parcels, (n, 4)."""
        (dx, dy, dz, yaw), cos, sin = (tool - parcel).T, np.cos(parcel[:, 3]), np.sin(parcel[:, 3])
        return np.column_stack([cos * dx + sin * dy, cos * dy - sin * dx, dz, yaw])

    def move(self, wanted: np.ndarray) -> np.ndarray:
        """Move the tool towards places with bounded speed and acceleration; returns the remaining distances [m]."""
        dt = self.cell.scene.dt * TICK
        error = wanted - self.tool
        error[:, 3] = half_turn(error[:, 3])
        brake = np.sqrt(2.0 * 0.5 * ACCELERATION * np.abs(error))
        velocity = np.sign(error) * np.minimum(np.minimum(brake, SPEED), np.abs(error) / (2.0 * dt))
        self.velocity += np.clip(velocity - self.velocity, -ACCELERATION * dt, ACCELERATION * dt)
        self.tool = self.tool + dt * self.velocity
        arms = np.ones((len(error), 4)) * [1.0, 1.0, 1.0, 0.1]
        arms[:, 1] = self.tool[:, 0]
        return np.linalg.norm(arms * error, axis=1)


# ------------------------------------------------------------------------------------------------------------- the film

FRAME_TICKS, FRAME_RATE, STRIPES = 8, 12.5, 10
"""Control ticks from picture to picture, pictures per second (twice real time), and stripes painted on the belt."""
EYE, TARGET = (1.42, 0.62, 0.85), (-0.12, -0.01, 0.22)
"""Place of the camera, and what it looks at."""


def picture_poses(cell: Cell, time: float) -> dict[str, Pose]:
    """World poses of everything that moves in the first environment, by link."""
    poses = {link: Pose() for link in ("conveyor", "pallet", "pedestal")}
    for entity in (cell.arm, *cell.parcels):
        places = zip(entity.links, entity.get_links_pos()[0], entity.get_links_quat()[0], strict=True)
        poses |= {link.name: Pose(pos, quaternion_to_matrix(quat)) for link, pos, quat in places}
    gap = (BELT[1] - BELT[0]) / STRIPES
    for i in range(STRIPES):
        x = BELT[0] + (i * gap + BELT_SPEED * time) % (STRIPES * gap)
        poses[f"stripe {i}"] = Pose.translation([x, BELT_Y, BELT_TOP])
    return poses


def drawn_world(cell: Cell) -> World:
    """Everything that is drawn, with stripes that move with the belt, which itself does not move."""
    stripe = [shape(Box(np.array([0.03, 0.23, 0.002])), 0.0, 0.0, 0.0, STRIPE)]
    eye = Camera(name="eye", link=None, pose=look_at(EYE, TARGET), vertical_fov=math.radians(32.0))
    return World(
        name="cell", cameras=[eye], robots=[*cell.descriptions, *(body(f"stripe {i}", stripe) for i in range(STRIPES))]
    )


def write_pictures(cell: Cell, poses: list[dict[str, Pose]], film: Path | None, picture: Path | None) -> None:
    """Write a film of the first environment, and a path-traced picture of a parcel on its way."""
    world = drawn_world(cell)
    if film:
        film = film if can_write_mp4() else film.with_suffix(".apng")
        options = PictureOptions(resolution=(400, 226), samples=4, camera="eye", device="auto")
        count = write_video(film, DescriptionRenderer(world, poses, options).render_frames(), FRAME_RATE)
        print(f"{film}: {count} pictures, {count / FRAME_RATE:.1f} s")
    if picture:
        options = PictureOptions(resolution=(640, 360), pathtrace=True, samples=16, camera="eye", device="auto")
        shown = max(poses, key=lambda x: float(x[f"parcel {len(cell.parcels) - 1}"].position @ [1.0, 0.0, 0.2]))
        write_png(picture, next(DescriptionRenderer(world, [shown], options).render_frames()))
        print(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--short", action="store_true", help="two environments, two parcels")
    parser.add_argument("--film", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    cell = build(2 if options.short else options.envs, 2 if options.short else len(PARCELS))
    controller, poses = Controller(cell), list[dict[str, Pose]]()
    scene, deadline = cell.scene, 8.0 * len(cell.parcels)
    for tick in range(int(deadline / (scene.dt * TICK))):
        scene.step(TICK)
        controller.tick(scene.sim.time)
        if (options.film or options.picture) and tick % FRAME_TICKS == 0:
            poses.append(picture_poses(cell, scene.sim.time))
        if (controller.phase == DONE).all():
            break
    report(cell, controller)
    write_pictures(cell, poses, options.film, options.picture)


def report(cell: Cell, controller: Controller) -> None:
    """Print and check where the parcels are."""
    n, log = cell.scene.n_envs, controller.log
    print(f"{n} arms, {len(cell.parcels)} parcels each, in {cell.scene.sim.time:.1f} s of simulated time")
    print("parcel    kg   gripped at   placed at   force of the cup   off its place")
    worst = 0.0
    for i, entity in enumerate(cell.parcels):
        off = np.linalg.norm(entity.get_pos()[:, :2] - SLOTS[i, :2], axis=1) * 1e3
        worst = max(worst, off.max())
        gripped, placed = (f"{log[key][:, i].mean():.1f} s" for key in ("gripped", "placed"))
        force = f"{log['force'][:, i].max():.1f} N"
        apart = f"{off.mean():.1f} mm, at most {off.max():.1f}"
        print(f"{i + 1:6} {PARCELS[i].mass:5} {gripped:>12} {placed:>11} {force:>18}   {apart}")
    assert (controller.phase == DONE).all(), "all parcels are placed"
    assert worst < 12.0, "parcels are where they belong"


if __name__ == "__main__":
    main()
