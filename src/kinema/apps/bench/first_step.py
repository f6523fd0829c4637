"""How long a newcomer waits: a process of its own, from its start to the end of the first step.

Run as a module, it prints one JSON object; `first_step` runs it with an empty cache, and again with the filled one.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CACHE = "KINEMA_CACHE"


def first_step(file: Path | None, device: str, n_envs: int, *, free: bool = False, place: str = "") -> dict[str, float]:
    """Seconds to the first step, cold and warm, and the peak of memory on the host [MiB]; with contact in a place."""
    told = [str(file or ""), device, str(n_envs), str(int(free)), place]
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_measured(told, cache) for _ in range(2))
    return {"cold_s": cold["seconds"], "warm_s": warm["seconds"], "peak_mib": warm["peak_mib"]}


def _measured(told: list[str], cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "kinema.apps.bench.first_step", *told, str(time.time())]
    done = subprocess.run(command, env={**os.environ, CACHE: cache}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(file: str, device: str, n_envs: str, free: str, place: str, started: str) -> None:
    """Read, build, step once, and tell."""
    from kinema.backend import find_device, synchronise
    from kinema.sim import Engine

    from .case import load_ours
    from .contact import Place, load_our_side

    if place:
        name, model, settings = load_our_side(Place(place), Path(file) if file else None)
    else:
        name, model, settings = load_ours(Path(file), free=bool(int(free)))
    engine = Engine(model, settings, int(n_envs), find_device(device))
    engine.step()
    synchronise(engine.device)
    seconds = time.time() - float(started)
    print(json.dumps({"robot": name, "seconds": seconds, "peak_mib": _peak_mib()}))  # noqa: T201


def _peak_mib() -> float:
    """The most memory this process has had, where the system tells; not `getrusage`, which counts the parent's too."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return math.nan


if __name__ == "__main__":
    main(*sys.argv[1:])
