"""Programs are the same text in every process, so that what one compiled serves all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kinema.runtime import CACHE_ENV_VARIABLE

PROGRAM = """
import os, kinema as km
from kinema.runtime import compilation, executables
key = executables.program_key
def note_key(*given):
    print("key", key(*given), flush=True)
    return key(*given)
def note_text(digests, name, texts):
    print("text", *digests, flush=True)
    os._exit(0)
executables.program_key = note_key
compilation.get_host_code = note_text
scene = km.Scene(quiet=True)
scene.add(km.Plane())
scene.add(km.Sphere(0.1), pos=(0, 0, 0.2))
scene.build(4)
scene.prepare()
"""


def test_the_order_of_sets_does_not_show(tmp_path: Path) -> None:
    """Python orders names by chance anew in every process: a scene with contacts is traced in two of them."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed, CACHE_ENV_VARIABLE: str(tmp_path / seed)},
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in started)
    assert [line.split()[0] for line in first.splitlines()] == [b"key", b"text"]
    assert first == second
