"""Print digests of the constants of robots and of their object files, to compare machines that build them.

    python tools/model_digests.py ROBOT... [--targets x86-64-v3,aarch64] > here.txt

Each robot is put on a floor in double precision. A line is the file, `constants` or a target, and a SHA-256: of all
arrays of the model and of the uniform values of the engine, or of the object file of a library with all functions. For
files that cannot be simulated there is an error instead. The lines of two machines must be equal.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km


def array_bytes(record: Any) -> Iterator[bytes]:
    """Numbers in a record, in order."""
    if isinstance(record, np.ndarray):
        if record.dtype.kind in "fiub":
            yield record.tobytes()
    elif isinstance(record, float):
        yield np.float64(record).tobytes()
    elif dataclasses.is_dataclass(record):
        for field in dataclasses.fields(record):
            yield from array_bytes(getattr(record, field.name))
    elif isinstance(record, (list, tuple)):
        for item in record:
            yield from array_bytes(item)


def digests(robot: str, targets: list[str]) -> Iterator[tuple[str, str]]:
    """What is compared, and its digest."""
    scene = km.Scene(precision="double", quiet=True)
    scene.add(robot, errors="keep")
    scene.add(km.Plane())
    scene.build()
    values = [*array_bytes(scene.built.model), scene.built.engine.uniform.data.tobytes()]
    yield "constants", hashlib.sha256(b"".join(values)).hexdigest()
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            library = km.compile_library(scene, folder, name="robot", target=target)
            yield target, hashlib.sha256(library.files["object"].read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="+", metavar="ROBOT")
    parser.add_argument("--targets", default="", help="targets to compile for, with commas")
    options = parser.parse_args()
    targets = [target for target in options.targets.split(",") if target]
    for robot in options.robots:
        name = Path(robot).name
        try:
            for kind, digest in digests(robot, targets):
                print(name, kind, digest, flush=True)
        except km.KinemaError as error:
            print(name, "error", " ".join(str(error).split()), flush=True)


if __name__ == "__main__":
    main()
