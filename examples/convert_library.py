"""Convert a library: every robot below a folder to every format, with what each format has no words for.

    python examples/convert_library.py [FOLDER] [--out build/library] [--short] [--picture library.png]

Each conversion is read back and compared: links, joints, masses, and where links are at random joint angles.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import kinema as km
from kinema.render import write_png
from kinema.scene import DescriptionRenderer, PictureOptions

ROBOTS = Path(__file__).parent / "robots"
SUFFIXES = {".urdf": "URDF", ".sdf": "SDFormat", ".xml": "MJCF", ".usda": "USD"}


def robots_below(folder: Path) -> list[Path]:
    """Files that describe robots."""
    found = [p for p in sorted(folder.rglob("*")) if p.suffix in SUFFIXES and p.stem not in ("package", "scene")]
    if not found:
        raise SystemExit(f"{folder}: there is no robot below")
    return found


def worst_difference(first: km.Robot, second: km.Robot) -> float:
    """How far links are apart at most at random angles of joints that both have [m]."""
    rng, most = np.random.default_rng(0), 0.0
    known = {j.name for j in second.joints}
    turning = [j for j in first.joints if j.n_dofs == 1 and j.name in known and not j.closes_loop]
    for _ in range(3):
        q = {j.name: float(rng.uniform(-0.3, 0.3)) for j in turning}
        here, there = (seen_from(first.links[0].name, robot, q) for robot in (first, second))
        most = max([most, *(float(np.abs(here[n] - there[n]).max()) for n in here if n in there)])
    return most


def seen_from(link: str, robot: km.Robot, q: dict[str, float]) -> dict[str, np.ndarray]:
    """Where links are against one of them: URDF has no word for where a robot stands."""
    poses = robot.forward_kinematics(q)
    base = np.linalg.inv(poses[link])
    return {name: (base @ pose)[:3, 3] for name, pose in poses.items()}


Table = list[tuple[str, str, int, float]]


def convert(folder: Path, out: Path) -> tuple[Table, dict[tuple[str, str], km.Robot]]:
    """Robot, format, how many things it has no words for, and how far links are apart [m]; and what was read back."""
    table, read_back = [], {}
    for file in robots_below(folder):
        robot = km.read(file)
        for suffix, name in SUFFIXES.items():
            target = out / file.stem / f"{file.stem}{suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            report = km.write(robot, target)
            again = km.read(target, search_paths=[file.parent, file.parent.parent])  # for package:// names
            table.append((file.name, name, len(list(report)), worst_difference(robot, again)))
            read_back[file.name, name] = again
    return table, read_back


def portraits(path: Path, robots: list[km.Robot]) -> None:
    """Robots side by side."""
    style = PictureOptions(resolution=(300, 300), samples=9)
    pose = {"shoulder_lift_joint": -0.7, "elbow_joint": 1.3, "wrist_pitch_joint": 0.8}
    images = [next(iter(DescriptionRenderer(r, [r.link_poses(pose)], style).render_frames())) for r in robots]
    write_png(path, np.concatenate(images, axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROBOTS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--short", action="store_true", help="two robots")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder / "arm" if options.short else options.folder
        table, read_back = convert(folder, options.out or Path(scratch))
        if options.picture:
            portraits(options.picture, [robot for (file, _), robot in read_back.items() if file == table[0][0]])
    print(f"{'robot':16} {'format':9} {'no words for':>12} {'links off by':>14}")
    for robot, name, lost, off in table:
        print(f"{robot:16} {name:9} {lost:12} {off * 1e6:11.3f} um")
    assert max(off for *_, off in table) < 1e-5, "robots stay what they are"


if __name__ == "__main__":
    main()
