"""Compiling for the CPU: in a process beside this one, kept on disk, and never worse than a second try."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kinema.codegen import Target, emit_thread_kernel
from kinema.core import InternalError, cache as cache_on_disk
from kinema.ir import (
    ArenaOffset,
    LoopIteration,
    Program,
    Tape,
    Tracer,
    maximum,
    minimum,
    program_from_tape,
    sin,
    trace_for_each_loop,
)
from kinema.runtime import CACHE_ENV_VARIABLE, compilation, host_jit, llvm_compiler
from kinema.runtime.llvm_compiler import WorkerPool

from .arenas import Memory, kernel, launched, same_bits
from .random_programs import MEMORY, random_numbers, recorded, some_tree

SMALL = Memory(state=[("x", 1)], out=[("y", 1)])


def product(factor: float) -> Program:
    tape = Tape()
    return program_from_tape(tape, {"y": [factor * tape.input("x", 0)]})


def runs(factor: float) -> bool:
    """Whether a program gives what it should, compiled now."""
    numbers = SMALL.whole({"state": np.array([[1.0, 2.0, 3.0]])}, 3)
    found = launched(kernel(product(factor), SMALL, 2), SMALL, numbers, 3)["out"]
    return bool((found == factor * numbers["state"]).all())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """Compiling processes of this test's own."""
    own = WorkerPool()
    for module in (llvm_compiler, compilation):
        monkeypatch.setattr(module, "FOREGROUND", own)
    yield own
    own.close()


def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> bytes:
        raise AssertionError("this was compiled before")

    monkeypatch.setattr(llvm_compiler.FOREGROUND, "compile", refused)


# ---------------------------------------------------------------------------------------------------------- the cache


def test_what_was_compiled_before_is_not_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs(2.0)
    assert len(list(cache.rglob("code/*.entry"))) == 1
    no_worker(monkeypatch)
    assert runs(2.0)
    with pytest.raises(AssertionError, match="before"):
        runs(3.0)


def test_nothing_but_code_is_left_in_the_cache(cache: Path) -> None:
    """No half of a file, under no name."""
    assert runs(2.0)
    assert runs(3.0)
    files = [file for file in cache.rglob("*") if file.is_file()]
    assert len(files) == 2
    assert all(file.parent.name == "code" and file.suffix == ".entry" for file in files)


DAMAGES = {
    "empty": lambda code: b"",
    "short": lambda code: code[:7],
    "half": lambda code: code[: len(code) // 2],
    "without its end": lambda code: code[:-64],
    "something else": lambda code: b"<html>not here</html>",
    "zeros": lambda code: bytes(len(code)),
    "one bit": lambda code: code[: len(code) // 2] + bytes([code[len(code) // 2] ^ 1]) + code[len(code) // 2 + 1 :],
    "longer": lambda code: code + b"\0",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_made_again(cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not loaded, which could end the process, and the next one finds a whole file."""
    assert runs(2.0)
    (file,) = cache.rglob("code/*.entry")
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    assert runs(2.0)
    assert file.read_bytes() == whole
    no_worker(monkeypatch)
    assert runs(2.0)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in its place, or a folder that may not be written to: then nothing is kept, and that is all."""
    place = tmp_path / "file"
    place.write_text("in the way", encoding="utf-8")
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(place))
    assert runs(4.0)
    assert place.read_text(encoding="utf-8") == "in the way"
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(locked))
    assert runs(4.0)
    assert runs(4.0)


def test_a_folder_in_the_place_of_a_file(cache: Path) -> None:
    assert runs(5.0)
    (file,) = cache.rglob("code/*.entry")
    file.unlink()
    file.mkdir()
    assert runs(5.0)


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written whole is not left there in part."""

    class Full:
        """A stream that takes nothing."""

        def __init__(self, handle: int, *_: object) -> None:
            self.handle = handle

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self.handle)

        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_on_disk.os, "fdopen", Full)
    assert runs(6.0)
    assert not [file for file in cache.rglob("*") if file.is_file()]


# -------------------------------------------------------------------------------------------------------- the processes


def test_several_threads_compile_at_once(cache: Path, workers: WorkerPool) -> None:
    """Different programs, and the same one twice: each gets its own code."""
    numbers = random_numbers(0, 5, 1)
    programs = [recorded(some_tree(seed)) for seed in range(6)]
    alone = [launched(kernel(program, MEMORY, 2), MEMORY, numbers, 5) for program in programs]
    for file in cache.rglob("code/*.entry"):
        file.unlink()
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda program: kernel(program, MEMORY, 2), programs * 2))
    for kernel_, expected in zip(made, alone * 2, strict=True):
        same_bits(launched(kernel_, MEMORY, numbers, 5), expected)


def test_a_process_that_dies_while_it_waits(cache: Path, workers: WorkerPool) -> None:
    """Killed from outside, for want of memory say: one error that says so at most, and the next compile works."""
    assert runs(7.0)
    killed = [*workers._idle]
    assert killed
    for worker in killed:
        worker.kill()
        worker.wait()
    try:
        assert runs(8.0)
    except InternalError as error:
        assert "process ended" in str(error)  # noqa: PT017  it may also start another
    assert runs(8.0)
    assert not {*killed} & {*workers._idle}


def test_a_process_that_dies_while_it_works(
    cache: Path, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import sys\nsys.stdin.buffer.read(4)\nsys.exit(7)\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(llvm_compiler, "_WORKER_SCRIPT", script)
        with pytest.raises(InternalError, match="process ended with status 7"):
            runs(9.0)
    assert runs(9.0)
    assert not [file for file in cache.rglob("code/*.entry") if not file.stat().st_size]


def test_half_an_answer(cache: Path, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that dies in the middle of its answer has given none."""
    script = tmp_path / "stops.py"
    script.write_text(
        "import struct, sys\nsys.stdin.buffer.read(4)\n"
        "sys.stdout.buffer.write(struct.pack('<?I', True, 5000) + bytes(70))\n",
        encoding="utf-8",
    )
    with monkeypatch.context() as patch:
        patch.setattr(llvm_compiler, "_WORKER_SCRIPT", script)
        with pytest.raises(InternalError, match="process ended"):
            workers.compile("a program")  # not loaded: half of a file would end this process
    assert runs(10.0)


def test_what_llvm_refuses(cache: Path, workers: WorkerPool) -> None:
    """It says why, nothing is kept, and the next program compiles."""
    with pytest.raises(InternalError, match=r"(?s)the compiler rejected a module.*expected"):
        host_jit.compile_host("define void @kinema_run( {")
    assert not list(cache.rglob("code/*.entry"))
    assert runs(11.0)


def test_an_interrupt_ends_the_process_that_is_compiling(
    cache: Path, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever presses Control-C need not wait, and no process is left behind."""
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    monkeypatch.setattr(llvm_compiler, "_WORKER_SCRIPT", script)
    monkeypatch.setenv("KINEMA_THREADS", "1")  # so that no other one waits for work
    main, ended = threading.get_ident(), threading.Event()

    def press() -> None:
        wait = 0.5
        while not ended.wait(wait):  # an interrupt that comes while Python cleans up is lost: press again
            signal.pthread_kill(main, signal.SIGINT)
            wait = 10.0

    presses = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where the tests run
    presses.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            runs(12.0)
    finally:
        ended.set()
        presses.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 60
    assert not workers._idle
    assert not workers._all


def test_a_fork_has_processes_of_its_own(cache: Path) -> None:
    """A child that was forked from a process with compilers compiles too, and leaves its parent's alone."""
    script = textwrap.dedent(
        """
        import os, sys, warnings
        from kinema.runtime.llvm_compiler import FOREGROUND
        text = "define void @kinema_run() {\\n ret void\\n}\\n"
        first = FOREGROUND.compile(text)
        warnings.simplefilter("ignore")
        child = os.fork()
        if not child:
            sys.exit(0 if FOREGROUND.compile(text) == first else 3)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert FOREGROUND.compile(text) == first
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_processes_end_with_their_parent(cache: Path) -> None:
    script = textwrap.dedent(
        """
        from kinema.runtime.llvm_compiler import FOREGROUND
        FOREGROUND.compile("define void @kinema_run() {\\n ret void\\n}\\n")
        print(FOREGROUND._idle[0].pid)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


# ----------------------------------------------------------------------------------------------------------- precision


def test_numbers_beyond_single_precision(cache: Path) -> None:
    """Which somebody may have written for "no limit": they become infinite without a warning, in code and tables."""
    memory = Memory(state=[("x", 1)], out=[("y", 2)])
    recorder = Tracer()
    rows = [LoopIteration("row", {"y": ArenaOffset("out", 1)}, {"limit": [1e300]})]
    trace_for_each_loop(recorder, "rows", rows, lambda code: code.write("y", [code.constant("limit")]))
    program = recorder.build({"y": [maximum(minimum(recorder.read("x"), 1e300), -1e300)]})
    numbers = memory.whole({"state": np.array([[3.0, -4.0]])}, 2)
    found = launched(kernel(program, memory, 2, "single"), memory, numbers, 2)["out"]
    np.testing.assert_array_equal(found, [[3.0, -4.0], [np.inf, np.inf]])
    assert "0x7FF0000000000000" in emit_thread_kernel((program,), memory.places(), Target("single", is_gpu=True))


def test_single_and_double_are_different_code(cache: Path) -> None:
    tape = Tape()
    program = program_from_tape(tape, {"y": [sin(tape.input("x", 0))]})
    x = np.array([[0.1, 0.2, 0.3]])
    for precision, bound in (("single", 1e-7), ("double", 1e-15)):
        found = launched(kernel(program, SMALL, 2, precision), SMALL, SMALL.whole({"state": x}, 3), 3)["out"]
        np.testing.assert_allclose(found, np.sin(x), atol=bound)
    assert len(list(cache.rglob("code/*.entry"))) == 2


@pytest.mark.parametrize("what", ["count", "index"])
def test_room_that_no_environment_has(what: str) -> None:
    """A vector may be wider than there are environments: what a program makes of the rest must not hang or crash."""
    script = textwrap.dedent(
        f"""
        import numpy as np
        from kinema.runtime import Arena, ArenaLayout, Kernel, LaunchArguments, find_device
        from kinema.ir import Tracer
        recorder = Tracer()
        once = 1.0 / recorder.read("x")  # endless where there is no environment, and nothing but zeros
        if {what!r} == "count":
            recorder.counted_loop("once", once, lambda turn: recorder.write("y", [turn + 5.0]))
        else:
            recorder.write("y", [recorder.read("x", -1, once) + 4.0])
            recorder.write("y", [5.0], -1, once)
        cpu, layout_of = find_device("cpu"), ArenaLayout.from_sizes
        state, out = layout_of("state", [("x", 1)]), layout_of("out", [("y", 1)])
        kernel = Kernel(recorder.build(), {{**state.offsets(), **out.offsets()}}, cpu, "double", lanes=4)
        layouts = (state, ArenaLayout("controls"), out, ArenaLayout("uniform"))
        arenas = [Arena(layout, 1, cpu, "double") for layout in layouts]
        arenas[0].view("x").assign(1.0)
        kernel.prepare_launch(LaunchArguments(arenas[0], arenas[1].data, arenas[2], arenas[3]))()
        assert arenas[2].view("y").numpy()[0, 0] == 5.0
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr


def test_the_switch_interval_is_restored_by_the_last_thread() -> None:
    """Two threads that emit at the same time, the first of which ends first."""
    before = sys.getswitchinterval()
    first, second = llvm_compiler.async_compilation(), llvm_compiler.async_compilation()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before
