"""Ctrl-C while a step is compiled: it ends at once, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kinema.backend import CACHE_VARIABLE
from kit.patience import HANG

AT_ONCE = 5.0
"""Seconds; what is interrupted takes far longer, and is not waited for."""
CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where this runs
import kinema as km
from kinema.backend import host_code

workers, ask = [], host_code.WORKERS._ask
def asked(worker, text):
    workers.append(worker)
    print("compiling", worker.pid, flush=True)
    return ask(worker, text)
host_code.WORKERS._ask = asked

scene = km.Scene(emission="unrolled", quiet=True, contacts=False, limits=False)
scene.add(sys.argv[1])
scene.build()
try:
    scene.step()
except KeyboardInterrupt:
    print("interrupted", workers[0].poll() is not None, flush=True)
    if sys.argv[2] == "again":
        small = km.Scene(quiet=True, contacts=False, limits=False)
        small.add(sys.argv[3])
        small.build()
        small.step()
        print("stepped", small.time > 0.0, flush=True)
    raise
print("nobody interrupted it", flush=True)
"""


def chain(n: int) -> str:
    """Hinges in all directions: a straight line that takes long to compile."""
    links = "".join(
        f"<body pos='0.01 0 -0.1'><joint axis='{('1 0 0', '0 1 0', '0 0 1')[i % 3]}' armature='0.01'/>"
        "<inertial pos='0 0.01 -0.05' mass='0.1' diaginertia='0.001 0.001 0.0005'/>"
        for i in range(n)
    )
    return f"<mujoco><worldbody>{links}{'</body>' * n}</worldbody></mujoco>"


def interrupted(folder: Path, then: str) -> tuple[str, str, int, float]:
    """What a process says that is interrupted while it compiles, how it ends, and after how long."""
    for name, n in (("long.xml", 45), ("short.xml", 2)):
        (folder / name).write_text(chain(n), encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "long.xml"), then, str(folder / "short.xml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, CACHE_VARIABLE: str(folder / "cache")},
        start_new_session=True,
        text=True,
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first.startswith("compiling"), first
        time.sleep(0.5)
        assert child.poll() is None
        since = time.monotonic()
        os.killpg(child.pid, signal.SIGINT)  # the terminal's goes to all processes of a group
        out, err = child.communicate(timeout=HANG)
        return out, err, child.returncode, time.monotonic() - since
    finally:
        child.kill()
        child.wait()


def test_compiling_is_interrupted(tmp_path: Path) -> None:
    """With Python's own exception, within seconds; the process that compiled is gone, and nothing half done is kept."""
    out, err, status, seconds = interrupted(tmp_path, "end")
    assert seconds < AT_ONCE
    assert "KeyboardInterrupt" in err.splitlines()[-1]
    assert status in (-signal.SIGINT, 128 + signal.SIGINT)
    assert out.split() == ["interrupted", "True"]
    assert not list((tmp_path / "cache").rglob("*.o"))


def test_after_an_interrupt_others_can_be_compiled(tmp_path: Path) -> None:
    """Somebody at a prompt goes on with another scene."""
    out, err, _, _ = interrupted(tmp_path, "again")
    assert "stepped True" in out, err
