"""Models that start-up is measured with: chains, trees, arms and bodies in MJCF, and a URDF robot with meshes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

AXES = ("0 1 0", "1 0 0", "0 0 1")
JOINT = "damping='0.01' armature='0.002'"
INERTIA = "<inertial pos='0.01 0.01 -0.05' mass='0.1' diaginertia='0.001 0.001 0.0005'/>"
LIMBS, JOINTS = 6, 7
"""Of the robot with meshes."""
RINGS, SIDES = 40, 48
"""Of its meshes: 3,744 triangles each."""


def hinge(name: str, axis: str, inside: str, z: float = -0.1, x: float = 0.0) -> str:
    """A link on a hinge, with others inside."""
    return f"<body name='{name}' pos='{x} 0 {z}'><joint name='j{name}' axis='{axis}' {JOINT}/>{INERTIA}{inside}</body>"


def chain(n: int, prefix: str = "") -> str:
    """Hinges one after the other, their axes in turn."""
    text = ""
    for i in reversed(range(n)):
        text = hinge(f"{prefix}{i}", AXES[i % 3], text)
    return text


def tree(n: int, at: int = 0) -> str:
    """Hinges that each carry two others."""
    if at >= n:
        return ""
    inside = tree(n, 2 * at + 1) + tree(n, 2 * at + 2)
    return hinge(str(at), AXES[at % 3], inside, x=0.1 * (-1) ** at)


def bodies(n: int) -> str:
    """Bodies of different mass that fly alone."""
    return "".join(
        f"<body name='b{i}' pos='{i} 0 1'><freejoint/><inertial pos='0 0.01 0' mass='{1 + i % 7}' "
        f"diaginertia='{0.01 + 0.0001 * (i % 50)} 0.012 0.015'/></body>"
        for i in range(n)
    )


def heap(n: int) -> str:
    """Boxes and balls on a floor, each above the other."""
    kinds = ("type='box' size='.05 .06 .07'", "type='sphere' size='.06'", "type='capsule' size='.04 .05'")
    own = "".join(
        f"<body pos='{0.01 * i} 0 {0.1 + 0.15 * i}'><freejoint/><geom {kinds[i % 3]}/></body>" for i in range(n)
    )
    return f"<geom type='plane' size='2 2 .1'/>{own}"


def world(kind: str, n: int) -> str:
    """The MJCF text of one of the models."""
    inside = {
        "chain": lambda: chain(n),
        "tree": lambda: tree(n),
        "arms": lambda: "".join(chain(7, f"{i}_") for i in range(n)),
        "bodies": lambda: bodies(n),
        "heap": lambda: heap(n),
    }[kind]()
    return f"<mujoco model='{kind}{n}'><option timestep='0.002'/><worldbody>{inside}</worldbody></mujoco>"


# ---------------------------------------------------------------------------------------------------- with meshes


def write_robot(folder: Path) -> Path:
    """A URDF file with a trunk and 42 revolute joints, with limits and a mesh for each link; always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    links, joints = [_link("trunk", folder, 0, 0.16, 8.0)], []
    for limb in range(LIMBS):
        angle = 2.0 * np.pi * limb / LIMBS
        for i in range(JOINTS):
            name, number = f"limb{limb}_{i}", 1 + JOINTS * limb + i
            parent = "trunk" if i == 0 else f"limb{limb}_{i - 1}"
            at = f"{0.3 * np.cos(angle):.6f} {0.3 * np.sin(angle):.6f} 0" if i == 0 else "0 0 -0.16"
            links.append(_link(name, folder, number, 0.055, 0.6))
            joints.append(
                f'<joint name="{name}_joint" type="revolute"><origin xyz="{at}"/><parent link="{parent}"/>'
                f'<child link="{name}"/><axis xyz="{AXES[i % 3]}"/>'
                f'<limit lower="-1.2" upper="{1.0 + 0.05 * i:.2f}" effort="{60 - 5 * i}" velocity="8"/>'
                f'<dynamics damping="0.2" friction="0.05"/></joint>'
            )
    file = folder / "many_limbs.urdf"
    file.write_text("\n".join(['<robot name="many_limbs">', *links, *joints, "</robot>", ""]), encoding="utf-8")
    return file


def _link(name: str, folder: Path, number: int, size: float, mass: float) -> str:
    write_stl(folder / f"{name}.stl", bumpy(number, size))
    inertia = 0.4 * mass * size**2
    shape = f'<geometry><mesh filename="{name}.stl"/></geometry>'
    return (
        f'<link name="{name}"><inertial><mass value="{mass}"/><inertia ixx="{inertia:.6g}" iyy="{inertia:.6g}" '
        f'izz="{inertia:.6g}" ixy="0" ixz="0" iyz="0"/></inertial><visual>{shape}</visual>'
        f"<collision>{shape}</collision></link>"
    )


def bumpy(seed: int, size: float) -> np.ndarray:
    """The triangles (n, 3, 3) of a closed surface like a ball with dents, another one for each seed.

    About a sixth of its vertices are on its hull, as of the meshes of robots.
    """
    random = np.random.default_rng(seed)
    down, around = np.linspace(0.0, np.pi, RINGS + 1), 2.0 * np.pi * np.arange(SIDES) / SIDES
    theta, phi = np.meshgrid(down, around, indexing="ij")
    radius = np.full_like(theta, size)
    for _ in range(6):
        m, n = random.integers(1, 5, 2)
        radius += 0.03 * size * np.sin(theta) ** 2 * np.cos(m * theta + n * phi + random.uniform(0.0, 6.0))
    radius -= 0.15 * size * np.sin(theta) * np.abs(np.sin(6 * theta) * np.sin(5 * phi)) ** 0.3
    points = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], -1) * radius[..., None]
    points = np.round(points, 9) + 0.0  # the points at a pole are one
    a, b = points[:-1], points[1:]
    c, d = np.roll(b, -1, axis=1), np.roll(a, -1, axis=1)
    upper, lower = np.stack([a, b, c], 2)[:-1], np.stack([a, c, d], 2)[1:]
    return np.concatenate([upper.reshape(-1, 3, 3), lower.reshape(-1, 3, 3)])


def write_stl(file: Path, triangles: np.ndarray) -> None:
    """A binary STL file."""
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
    rows = np.zeros(len(triangles), record)
    rows["corners"] = triangles
    file.write_bytes(b"\0" * 80 + np.uint32(len(rows)).tobytes() + rows.tobytes())
