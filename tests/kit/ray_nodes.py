"""Ray nodes on this machine, some of which are killed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STARTS = 4
"""Attempts to start a node: Ray gives it 30 seconds, which is not enough on a machine that is busy with other work."""


def _started(start: Callable[[], Any]) -> Any:
    """A node or cluster, started again if it did not come up in time."""
    for attempt in range(STARTS):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error) or attempt == STARTS - 1:
                raise
    raise AssertionError("unreachable")


@contextmanager
def nodes(count: int, **resources: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster of so many nodes with one CPU each, beside a head that works on nothing."""
    ray, utilities = (importlib.import_module(name) for name in ("ray", "ray.cluster_utils"))
    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = _started(lambda: utilities.Cluster(initialize_head=True, head_node_args=head))
    try:
        added = [_started(lambda: cluster.add_node(**{"num_cpus": 1, **resources})) for _ in range(count)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level=40)
        yield cluster, added
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextmanager
def meanwhile(is_time: Callable[[], bool], act: Callable[[], Any]) -> Iterator[list[bool]]:
    """Do something once it is time, while something else goes on; whether it was done."""
    done: list[bool] = []
    over = threading.Event()

    def is_due() -> bool:
        try:
            return is_time()
        except FileNotFoundError:  # a folder was moved into place while it was listed
            return False

    def watch() -> None:
        while not over.is_set():
            if is_due():
                act()
                done.append(True)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the records."""
    files = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    return {str(name): p.read_bytes() for name, p in files.items() if not str(name).startswith(".kinema")}


def killed_driver(words: list[str], is_time: Callable[[], bool]) -> None:
    """Run `kinema` with some words in a process of its own, and kill it once it is time."""
    killed_process([sys.executable, "-c", "from kinema.apps.cli import main; main()", *words], is_time)


def killed_process(words: list[str], is_time: Callable[[], bool]) -> None:
    """Start a process, and kill it once it is time."""
    quiet = subprocess.DEVNULL
    driver = subprocess.Popen(words, stdout=quiet, stderr=quiet)
    while driver.poll() is None and not is_time():
        time.sleep(0.05)
    assert driver.poll() is None, "it was done too soon"
    driver.kill()
    driver.wait()
