"""Calls the independent tools that judge our readers.

They are optional: ``tools/oracles/setup.sh`` installs them into ``.oracles/``.
Every function raises :class:`OracleMissing` where its tool is not there, and a
test turns that into a skip with the same reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .assets import ROOT

TIMEOUT = 120.0
"""Seconds. Drake's import alone takes a few on a cold disk."""

_HINT = "run tools/oracles/setup.sh"
_ARRAYS = frozenset({"pose", "pose_in_top_model", "pose_in_world", "com", "inertia", "xyz"})


class OracleMissing(Exception):
    """The oracle is not installed; the text says which and how to get it."""


class OracleRefused(Exception):
    """The oracle found the file wrong; the text is what it said."""


def drake(
    file: str | os.PathLike[str],
    configurations: Iterable[Mapping[str, float | Sequence[float]]] = ({},),
    package_paths: Iterable[str | os.PathLike[str]] = (),
    *,
    geometry: bool = False,
) -> dict[str, Any]:
    """Load a URDF or SDF file with Drake and pose it.

    A configuration maps a joint (its scoped name, or its short name if that is
    unique) to its positions; a single number will do for one position. Joints
    not named keep their default. ``geometry`` loads the shapes and meshes too,
    which a test of the kinematics does not need.

    The result is described in ``tools/oracles/drake_fk.py``; a refused file gives
    ``{"error": text, "warnings": [...]}``, while a joint or folder that does not
    exist raises a RuntimeError. Poses, centres of mass, inertias and
    mass matrices are numpy arrays. ``bodies`` and ``joints`` are lists.
    """
    python = _folder() / "drake" / "bin" / "python"
    if not python.exists():
        raise OracleMissing(f"Drake is not installed ({_HINT})")
    request = {
        "file": str(Path(file).absolute()),
        "package_paths": [str(Path(path).absolute()) for path in package_paths],
        "configurations": [
            {name: np.atleast_1d(np.asarray(q, float)).tolist() for name, q in c.items()} for c in configurations
        ],
        "geometry": geometry,
    }
    # -I keeps our own environment (PYTHONPATH, the working folder) out of it.
    command = [str(python), "-I", str(ROOT / "tools" / "oracles" / "drake_fk.py")]
    result = _arrays(json.loads(_run(command, json.dumps(request)).stdout))
    for configuration in result.get("configurations", ()):
        poses = configuration["poses"]
        configuration["poses"] = {name: np.array(pose, float) for name, pose in poses.items()}
        # reshape, because a plant without velocities has an empty matrix
        size = len(result["velocities"])
        configuration["mass_matrix"] = np.reshape(configuration["mass_matrix"], (size, size))
    return result


def newton(requests: Sequence[tuple[str | os.PathLike[str], Sequence[Mapping[str, Sequence[float]]]]]) -> list[Any]:
    """Import USD stages with Newton and pose them, all in one process: it takes seconds to start.

    A request is a file and its configurations, which map the path of a joint's
    prim to its positions. The answers are described in
    ``tools/oracles/newton_fk.py``; a refused file gives ``{"error": text,
    "warnings": [...]}``. Poses, centres, inertias and mass matrices are numpy arrays.
    """
    python = _folder() / "newton" / "bin" / "python"
    if not python.exists():
        raise OracleMissing(f"Newton is not installed ({_HINT})")
    request = [
        {"file": str(Path(file).absolute()), "configurations": [{n: list(q) for n, q in c.items()} for c in many]}
        for file, many in requests
    ]
    command = [str(python), "-I", str(ROOT / "tools" / "oracles" / "newton_fk.py")]
    # The first run compiles its kernels, which takes half a minute.
    done = _run(command, json.dumps(request), timeout=TIMEOUT + 20 * len(request))
    answers = [_arrays(answer) for answer in json.loads(done.stdout)]
    for answer in answers:
        for configuration in answer.get("configurations", ()):
            configuration["poses"] = {n: np.array(p, float) for n, p in configuration["poses"].items()}
            size = len(answer["velocities"])
            configuration["mass_matrix"] = np.reshape(configuration["mass_matrix"], (size, size))
    return answers


def libsdformat(file: str | os.PathLike[str], search: Iterable[str | os.PathLike[str]] = ()) -> dict[str, Any]:
    """Load an SDF or URDF file with libsdformat 12 and return what it resolved.

    ``search`` holds the folders in which ``model://name`` is the folder ``name``.

    The result has ``errors`` (a list of code and message), ``warnings`` (the lines
    that the library only prints, such as a version that it cannot convert) and
    ``models``: nested models are listed after their parent with ``::``-scoped
    names. Poses of links, joints and frames are in the frame of the top-level
    model; ``pose_in_world`` of the model places that. An axis is in the joint's
    frame and an inertia is about the centre of mass in the link's frame. Matrices
    and vectors are numpy arrays.
    """
    program = _folder() / "sdf_dump"
    if not program.exists():
        raise OracleMissing(f"sdf_dump is not built ({_HINT})")
    done = _run([str(program), str(Path(file).absolute()), *(str(Path(folder).absolute()) for folder in search)])
    result: dict[str, Any] = _arrays(json.loads(done.stdout))
    result["warnings"] = [
        # the library colours its messages even when nobody watches
        re.sub(r"\x1b\[[0-9;]*m", "", line)
        for line in done.stderr.splitlines()
        if line.strip()
    ]
    return result


def check_urdf(file: str | os.PathLike[str], *, strict: bool = False) -> str:
    """Check a URDF file with urdfdom and return the link tree that it prints.

    Raises :class:`OracleRefused` with the complaint otherwise. The exit status
    alone does not tell: check_urdf returns 0 after errors that it printed.
    ``strict`` takes whatever it says on stderr for a complaint.
    """
    program = shutil.which("check_urdf")
    if program is None:
        raise OracleMissing(f"check_urdf is not installed ({_HINT})")
    done = _run([program, str(Path(file).absolute())], check=False)
    if done.returncode != 0 or "Error" in done.stderr or (strict and done.stderr.strip()):
        raise OracleRefused((done.stderr + done.stdout).strip())
    return done.stdout


def gltf_validator(files: Sequence[str | os.PathLike[str]]) -> list[list[str]]:
    """What Khronos' validator of glTF complains of in each file: errors and warnings, none where all is well."""
    folder, node = _folder() / "gltf", shutil.which("node")
    if node is None or not (folder / "node_modules" / "gltf-validator").is_dir():
        raise OracleMissing(f"the glTF validator is not installed ({_HINT})")
    script = ROOT / "tools" / "oracles" / "gltf_check.js"
    done = _run([node, str(script), str(folder.absolute()), *(str(Path(file).absolute()) for file in files)])
    reports = json.loads(done.stdout)
    return [[f"{m['code']}: {m['message']}" for m in r["messages"] if m["severity"] <= 1] for r in reports]


def _folder() -> Path:
    return Path(os.environ.get("KINEMA_ORACLES", ROOT / ".oracles"))


def _run(
    command: Sequence[str], stdin: str = "", *, check: bool = True, timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, check=False, input=stdin, capture_output=True, encoding="utf-8", timeout=timeout)
    # A crash of the oracle says nothing about our readers, so it is not a verdict.
    if check and done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def _arrays(value: Any) -> Any:
    """Turn the numeric lists below the known keys into numpy arrays."""
    if isinstance(value, list):
        return [_arrays(item) for item in value]
    if isinstance(value, dict):
        return {k: np.array(v, float) if k in _ARRAYS else _arrays(v) for k, v in value.items()}
    return value
