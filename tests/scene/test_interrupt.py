"""Ctrl-C while a step is compiled: it ends at once, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinema.runtime import CACHE_ENV_VARIABLE
from kit.assets import EXAMPLES
from kit.patience import HANG

KILLED = str(-signal.SIGKILL)
"""How a process ends that is not waited for."""
CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where this runs
import kinema as km
from kinema.runtime.llvm_compiler import FOREGROUND

long, short, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
workers, ask = [], FOREGROUND._request
def asked(worker, *request, **options):
    if len(workers) < parts:
        worker.send_signal(signal.SIGSTOP)  # it compiles for ever, however fast the machine is
        workers.append(worker)
        if len(workers) == parts:
            print("compiling", flush=True)
    return ask(worker, *request, **options)
FOREGROUND._request = asked

scene = km.Scene(codegen="unrolled", quiet=True, contacts=False, limits=False) if parts == 1 else km.Scene(quiet=True)
scene.add(long)
scene.build()
try:
    scene.step()
except KeyboardInterrupt:
    print("interrupted", *(worker.poll() for worker in workers), flush=True)
    if short:
        small = km.Scene(quiet=True, contacts=False, limits=False)
        small.add(short)
        small.build()
        small.step()
        print("stepped", small.time > 0.0, flush=True)
    raise
print("nobody interrupted it", flush=True)
"""


def chain(n: int) -> str:
    """Hinges in all directions."""
    links = "".join(
        f"<body pos='0.01 0 -0.1'><joint axis='{('1 0 0', '0 1 0', '0 0 1')[i % 3]}' armature='0.01'/>"
        "<inertial pos='0 0.01 -0.05' mass='0.1' diaginertia='0.001 0.001 0.0005'/>"
        for i in range(n)
    )
    return f"<mujoco><worldbody>{links}{'</body>' * n}</worldbody></mujoco>"


def interrupted(folder: Path, long: Path, short: Path | str = "", parts: int = 1) -> tuple[str, str, int]:
    """What a process says that is interrupted while it compiles so many parts at once, and how it ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(long), str(short), str(parts)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            CACHE_ENV_VARIABLE: str(folder / "cache"),
            "KINEMA_THREADS": str(parts),
            "KINEMA_TIER": "optimised",
        },
        start_new_session=True,
        text=True,
    )
    try:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first.startswith("compiling"), first
        time.sleep(0.5)
        assert child.poll() is None
        os.killpg(child.pid, signal.SIGINT)  # the terminal's goes to all processes of a group
        out, err = child.communicate(timeout=HANG)
        return out, err, child.returncode
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def long(tmp_path: Path) -> Path:
    file = tmp_path / "long.xml"
    file.write_text(chain(10), encoding="utf-8")
    return file


def test_compiling_is_interrupted(tmp_path: Path, long: Path) -> None:
    """With Python's own exception; the process that compiled is not waited for, and nothing half done is kept."""
    out, err, status = interrupted(tmp_path, long)
    assert "KeyboardInterrupt" in err.splitlines()[-1]
    assert status in (-signal.SIGINT, 128 + signal.SIGINT)
    first, *ends = out.split()
    assert first == "interrupted"
    assert set(ends) == {KILLED}
    assert not list((tmp_path / "cache").rglob("programs/*"))


def test_so_are_parts_that_are_compiled_side_by_side(tmp_path: Path) -> None:
    """None of them is waited for."""
    out, err, _ = interrupted(tmp_path, EXAMPLES / "quadruped" / "quadruped.xml", parts=2)
    assert "KeyboardInterrupt" in err.splitlines()[-1]
    first, *ends = out.split()
    assert first == "interrupted"
    assert len(ends) == 2
    assert set(ends) == {KILLED}


def test_after_an_interrupt_others_can_be_compiled(tmp_path: Path, long: Path) -> None:
    """Somebody at a prompt goes on with another scene."""
    short = tmp_path / "short.xml"
    short.write_text(chain(2), encoding="utf-8")
    out, err, _ = interrupted(tmp_path, long, short)
    assert "stepped True" in out, err
