"""Robots with large meshes and images are converted in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kit.dressed_meshes import picture

OTHERWISE = 20e6
"""Bytes that the libraries take for larger robots, whatever their size."""
_RUN = """
import sys
from pathlib import Path
import kinema
small, large, *targets = sys.argv[1:]
def peak():  # not of getrusage, which begins with what the process had that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
for number, target in enumerate(targets):
    (Path(small).parent / f"s{number}").mkdir()
    kinema.write(kinema.read(small), Path(small).parent / f"s{number}" / target)
before = peak()
for number, target in enumerate(targets):
    (Path(small).parent / f"l{number}").mkdir()
    kinema.write(kinema.read(large), Path(small).parent / f"l{number}" / target)
print(peak() - before)
"""
_LINK = '<link name="l{0}"><visual><geometry><mesh filename="{1}{0}.obj"/></geometry></visual></link>'
_JOINT = '<joint name="j{0}" type="fixed"><parent link="l0"/><child link="l{0}"/></joint>'


def sheet(file: Path, n: int) -> None:
    """A sheet of n by n points with normals, coordinates and an image of noise."""
    rows, columns = np.divmod(np.arange(n * n), n)
    points = np.column_stack([rows, columns, np.sin(rows) * np.cos(columns)]) / n
    corner = (np.arange(n * n).reshape(n, n)[:-1, :-1]).reshape(-1, 1) + 1
    faces = np.concatenate([corner + np.array([0, 1, n]), corner + np.array([1, n + 1, n])])
    noise = np.random.default_rng(0).integers(0, 256, (n * n, 3)).tolist()
    picture(file.with_suffix(".png"), *map(tuple, noise))
    file.with_suffix(".mtl").write_text(f"newmtl m\nKd 1 1 1\nmap_Kd {file.stem}.png\n")
    with file.open("w") as out:
        out.write(f"mtllib {file.stem}.mtl\nusemtl m\n")
        out.writelines(f"v {x:.9f} {y:.9f} {z:.9f}\n" for x, y, z in points.tolist())
        out.writelines(f"vt {x:.9f} {y:.9f}\n" for x, y, _ in points.tolist())
        out.write("vn 0 0 1\n")
        out.writelines(f"f {a}/{a}/1 {b}/{b}/1 {c}/{c}/1\n" for a, b, c in faces.tolist())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells how much memory a process took")
def test_three_times_its_size_are_enough(tmp_path: Path) -> None:
    """Text and crate of USD, MJCF, and mesh files that are made anew, one after the other in one process."""
    for name, n in (("small", 4), ("large", 100)):
        for part in range(4):
            sheet(tmp_path / f"{name}{part}.obj", n)
        links = "".join(_LINK.format(part, name) for part in range(4))
        joints = "".join(_JOINT.format(part) for part in range(1, 4))
        (tmp_path / f"{name}.urdf").write_text(f'<robot name="r">{links}{joints}</robot>')
    size = sum(path.stat().st_size for path in tmp_path.glob("large*"))
    assert size > 4e6
    files = [str(tmp_path / "small.urdf"), str(tmp_path / "large.urdf")]
    command = [sys.executable, "-c", _RUN, *files, "r.usda", "r.xml", "r.sdf"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) <= 3.0 * size + OTHERWISE
