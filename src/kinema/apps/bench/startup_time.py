"""Time from process start to the end of the first step, with an empty and with a filled cache.

Run as a module, it prints one JSON object; `measure_startup_time` runs it with an empty cache, then with the filled
one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CACHE_VARIABLE = "KINEMA_CACHE"


def measure_startup_time(
    file: Path | None, device: str, n_envs: int, *, unconstrained: bool = False, contact_scene: str = ""
) -> dict[str, float]:
    """Time to the end of the first step with cold and warm cache [s], and peak host memory [MiB].

    `contact_scene` selects a scene with contacts.
    """
    arguments = [str(file or ""), device, str(n_envs), str(int(unconstrained)), contact_scene]
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_run_new_process(arguments, cache) for _ in range(2))
    return {"cold_s": cold["seconds"], "warm_s": warm["seconds"], "peak_mib": warm["peak_mib"]}


def _run_new_process(arguments: list[str], cache_folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "kinema.apps.bench.startup_time", *arguments, str(time.time())]
    done = subprocess.run(
        command, env={**os.environ, CACHE_VARIABLE: cache_folder}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(file: str, device: str, n_envs: str, unconstrained: str, contact_scene: str, start_time: str) -> None:
    """Read a robot, build an engine, step once, and print time and peak memory as JSON."""
    from kinema.dynamics import Engine
    from kinema.runtime import find_device, synchronise

    from .cases import load_kinema_model
    from .heap_process import peak_memory_mib
    from .scenes import ContactScene

    scene = ContactScene(contact_scene) if contact_scene else None
    name, model, settings = load_kinema_model(
        Path(file) if file else None, scene, unconstrained=bool(int(unconstrained))
    )
    engine = Engine(model, settings, int(n_envs), find_device(device))
    engine.step()
    synchronise(engine.device)
    seconds = time.time() - float(start_time)
    print(json.dumps({"robot": name, "seconds": seconds, "peak_mib": peak_memory_mib()}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
