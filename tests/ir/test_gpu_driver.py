"""What the driver of CUDA is told, and what becomes of its answers: a stand-in takes the calls."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinema.codegen import Target, emit_thread_kernel
from kinema.core import KinemaError
from kinema.ir import ArenaOffset, Program, Tape, Value, program_from_tape
from kinema.runtime import CACHE_ENV_VARIABLE, Device, Kernel, compilation, cuda_driver, devices, launch_graphs
from kinema.runtime.compiled_program import CompiledKernel, WorkQueues
from kinema.runtime.executables import GpuExecutable

CONTEXT, STREAM = 0x1234, 0x5678


class Driver:
    """It remembers, and refuses what it is told to refuse."""

    def __init__(self, refused: str = "", shared: int = 0) -> None:
        self.refused = refused
        self.shared = shared
        self.room: list[int] = []
        self.calls: list[str] = []
        self.launched: list[tuple[int, int, int, list[int]]] = []
        self.code = b""

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == "cuModuleLoadDataEx":
                self.code, values = arguments[1], arguments[4]
                ctypes.memmove(values[0], b"line 7: what is this?\0", 22)
            elif name == "cuGetErrorString":
                arguments[1]._obj.value = b"not like that"
            elif name == "cuFuncGetAttribute":
                arguments[0]._obj.value = self.shared
            elif name == "cuFuncSetAttribute":
                assert arguments[1] == 9
                self.room.append(arguments[2])
            elif name == "cuLaunchKernel":
                addresses, kinds = arguments[9], [ctypes.c_uint64] * 7 + [ctypes.c_int32] * 4
                values = [kind.from_address(a).value for kind, a in zip(kinds, addresses, strict=True)]
                self.launched.append((arguments[1], arguments[4], arguments[8].value, values))
            return 218 if name == self.refused else 0

        return call


@pytest.fixture
def made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes kernels for a GPU that a driver stands in for."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    device = SimpleNamespace(context=CONTEXT, stream=SimpleNamespace(cuda_stream=STREAM))
    monkeypatch.setattr(cuda_driver, "warp", lambda: SimpleNamespace(get_device=lambda name: device))

    def make(driver: Driver) -> cuda_driver.GpuFunction:
        monkeypatch.setattr(cuda_driver, "_driver", lambda: driver)
        return cuda_driver.GpuFunction(cuda_driver.compile_ptx(text(), 64), Device("cuda:0"), 64)

    return make


def program() -> Program:
    tape = Tape()
    return program_from_tape(tape, {"y": [2.0 * tape.input("x", 0)]})


def text() -> str:
    return emit_thread_kernel(
        [program()], {"x": ArenaOffset("state", 0), "y": ArenaOffset("out", 0)}, Target(is_gpu=True)
    )


def test_a_launch(made: Any) -> None:
    """It goes to the stream of the moment, in the context of Warp, which is left again, with the arrays kept alive."""
    driver = Driver()
    function = made(driver)
    assert b".maxntid 64" in driver.code
    assert driver.code.endswith(b"\0")
    arrays = [SimpleNamespace(ptr=1000 + i) for i in range(7)]
    launch = function.prepare_launch(5, arrays, (96, 3, 2, 77))
    del arrays
    launch()
    launch()
    assert driver.launched == [(5, 64, STREAM, [*range(1000, 1007), 96, 3, 2, 77])] * 2
    assert driver.calls.count("cuCtxPushCurrent_v2") == driver.calls.count("cuCtxPopCurrent_v2") == 5


def test_room_for_what_threads_share(made: Any) -> None:
    """A step, of 228 KiB, with room for four blocks and what the driver keeps of each; what all ask for at least."""
    driver = Driver(shared=18 * 1024)
    made(driver)
    assert driver.room == [33]  # between 64 and 100 KiB, for 76
    driver = Driver()
    made(driver)
    assert driver.room == [25]


def test_what_runs_side_by_side_has_as_much_shared() -> None:
    """A multiprocessor would wait until it is idle to change that."""
    asked: dict[str, int] = {}

    def piece(name: str, room: int, lists: WorkQueues | None = None, *, beside: bool = False) -> CompiledKernel:
        code: Any = SimpleNamespace(carveout_percent=room, set_carveout=lambda x: asked.update({name: x}))
        return CompiledKernel(code, name, (None, None), 0, 64, queues=lists, can_overlap=beside)

    lists = WorkQueues(1, 3, 9, n_chunks=2)
    line, test, beside = piece("line", 25), piece("test", 25, lists), piece("beside", 57, beside=True)
    launch_graphs.equalise_carveouts([line, test, beside, piece("team", 80)])
    assert asked == {"test": 57, "beside": 57}


@pytest.mark.parametrize(
    ("n_envs", "n_values", "expected"), [(33_792, 10, None), (33_793, 10, 8), (33_793, 200, None), (65_536, 100, 8)]
)
def test_blocks_that_have_to_fit(n_envs: int, n_values: int, expected: int | None) -> None:
    """Registers are saved only where many environments wait, and a line holds few values at a time."""
    tape = Tape()
    values = [tape.input("x", i) for i in range(n_values)]
    total: Value = 0.0
    for x in values:
        total = total + x
    line = program_from_tape(tape, {"y": [total * x for x in values]})
    assert compilation.choose_min_blocks((line,), n_envs, 132, "single") == expected


@pytest.mark.parametrize("refused", ["cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel"])
def test_what_the_driver_refuses(made: Any, refused: str) -> None:
    driver = Driver(refused)
    with pytest.raises(KinemaError, match=r"failed: not like that \(error 218\)") as caught:
        made(driver).prepare_launch(1, [SimpleNamespace(ptr=0)] * 7, (0, 0, 0, 0))()
    assert ("line 7" in str(caught.value)) == (refused == "cuModuleLoadDataEx")
    assert driver.calls[-1] == "cuCtxPopCurrent_v2"


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", absent)
    cuda_driver._driver.cache_clear()
    with pytest.raises(KinemaError, match=r"the CUDA driver .* cannot be loaded"):
        cuda_driver._driver()
    cuda_driver._driver.cache_clear()


@pytest.mark.parametrize(("envs_per_block", "n_memory", "n_blocks"), [(64, 0, 2), (32, 0, 3), (4, 7, 20), (4, 7, 5)])
def test_blocks_have_room_for_all_environments(
    envs_per_block: int, n_memory: int, n_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many environments as threads, or one warp of them where threads have roles; as many teams as run at a time."""
    monkeypatch.setattr(launch_graphs, "is_capturing", lambda device: True)
    calls: list[Any] = []
    kernel = Kernel.__new__(Kernel)
    kernel.device, kernel.n_scratch, kernel.lanes, kernel._runs_per_step = Device("cuda:0"), 0, 1, 1
    kernel._n_reset_queues = 0
    code: Any = SimpleNamespace(prepare_launch=lambda *a: calls.append(a) or (lambda: calls.append("launched")))
    piece = CompiledKernel(
        code,
        "",
        (None, None),
        0,
        envs_per_block,
        n_warp_memory=n_memory,
        max_resident_blocks=5 if n_blocks == 5 else 100,
    )
    kernel._gpu = GpuExecutable([piece], 0, 0, 0)
    kernel._scratch = {0: np.zeros((1, 96)), piece: np.zeros(4 + 96 * n_memory)}
    arena = SimpleNamespace(data=None, n_envs=77, stride=96)
    arguments: Any = SimpleNamespace(state=arena, inputs=None, out=arena, uniform=arena, steps=4, input_rows_per_step=0)
    kernel._prepare_gpu_launch(arguments)()
    assert calls[0][0] == n_blocks
    assert calls[0][2] == (96, n_blocks * envs_per_block if n_memory else 4, 0, 77)
    assert calls.count("launched") == (4 if n_memory else 1), "a team takes a launch for each step"


def test_many_launches_become_a_graph_unless_somebody_else_makes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    capturing = [True]

    def captured(device: Device, launches: Any) -> Any:
        calls.append("captured")
        return lambda: calls.append("replayed")

    monkeypatch.setattr(launch_graphs, "is_capturing", lambda device: capturing[0])
    monkeypatch.setattr(launch_graphs, "capture_graph", captured)
    run = launch_graphs.repeat_launches(Device("cuda:0"), [lambda: calls.append("a"), lambda: calls.append("b")], 2)
    run()
    assert calls == ["a", "b", "a", "b"]
    capturing[0] = False
    calls.clear()
    run()
    run()
    assert calls == ["captured", *["replayed"] * 4]


class Stream:
    """It remembers what waits for what."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls

    def record_event(self, event: str) -> None:
        self.calls.append(f"{self.name}: {event} is here")

    def wait_event(self, event: str) -> None:
        self.calls.append(f"{self.name} waits for {event}")


def test_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others begin where the first does, and what follows waits for all of them."""
    calls: list[str] = []
    names, events, current = iter("xyz"), iter("0123"), [Stream("main", calls)]

    @contextmanager
    def on(stream: Stream, sync_enter: bool) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    stand_in = SimpleNamespace(
        Stream=lambda device: Stream(next(names), calls),
        Event=lambda device: next(events),
        ScopedStream=on,
        get_device=lambda name: SimpleNamespace(stream=current[-1]),
    )
    monkeypatch.setattr(launch_graphs, "warp", lambda: stand_in)
    launches = [lambda i=i: calls.append(f"launch {i} on {current[-1].name}") for i in range(3)]
    launch_graphs.launch_concurrently(Device("cuda:0"), launches)()
    assert calls == [
        *("main: 0 is here", "launch 0 on main"),
        *("x waits for 0", "launch 1 on x", "x: 1 is here"),
        *("y waits for 0", "launch 2 on y", "y: 2 is here"),
        *("main waits for 1", "main waits for 2"),
    ]
    assert launch_graphs.launch_concurrently(Device("cuda:0"), launches[:1]) is launches[0]


@pytest.mark.parametrize("has_long", [True, False])
def test_what_all_share_goes_before_teams_and_beside_lines(has_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long is listed first; searches, what is short, and what has nothing to do with them go side by side."""
    monkeypatch.setattr(
        launch_graphs, "launch_concurrently", lambda device, launches: lambda: calls.append([x() for x in launches])
    )
    monkeypatch.setattr(launch_graphs, "launch_in_sequence", lambda launches: lambda: [x() for x in launches])
    calls: list[Any] = []
    code: Any = None
    tests, work = WorkQueues(1, 3, 9, n_chunks=2), WorkQueues(1, 3, 9, n_blocks=4)
    kinds = [("line", None), *([("long", tests)] if has_long else []), ("short", tests)]
    kinds += [("search", work)] if has_long else []
    kinds += [("beside", None), ("team", None)]
    pieces = {
        name: CompiledKernel(code, name, (None, None), 0, 64, queues=own, can_overlap=name == "beside")
        for name, own in kinds
    }
    groups = launch_graphs.group_by_queues(list(pieces.values()))
    assert [[piece.name for piece in group] for group in groups] == [
        ["line"],
        [name for name, _ in kinds[1:-1]],
        ["team"],
    ]
    launches: list[Any] = [lambda piece=piece: piece.name for piece in groups[1]]
    then: list[Any] = [lambda: "order"]
    launch_graphs.order_queue_launches(Device("cuda:0"), groups[1], launches, then)()
    short = ["search", "short"] if has_long else ["short"]
    assert calls[0] == short
    assert calls[1] == [[*(["long"] if has_long else []), None, "order"], "beside"]


def test_a_context_is_created_ahead_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(devices.importlib, "import_module", imported.append)
    for refused, calls in (("", ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]), ("cuInit", ["cuInit"])):
        driver = Driver(refused)
        monkeypatch.setattr(devices.ctypes, "CDLL", lambda _, driver=driver: driver)
        thread = devices.begin_initialisation("cuda:1")
        assert thread is not None
        thread.join()
        assert driver.calls == calls
    assert imported == ["warp"]  # and not without a GPU

    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(devices.ctypes, "CDLL", missing)
    thread = devices.begin_initialisation("auto")
    assert thread is not None
    thread.join()
    assert devices.begin_initialisation("cpu") is None
    assert imported == ["warp"]
