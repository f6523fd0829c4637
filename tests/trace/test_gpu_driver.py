"""What the driver of CUDA is told, and what becomes of its answers: a stand-in takes the calls."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinema.backend import CACHE_VARIABLE, Device, Kernel, generation, gpu_code, graphs, spreading
from kinema.backend.executables import GpuExecutable
from kinema.backend.pieces import Lists, Piece
from kinema.foundation import KinemaError
from kinema.trace import Place, Program, Tape, Target, Value, emit_gpu, finish

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
                told = [kind.from_address(a).value for kind, a in zip(kinds, addresses, strict=True)]
                self.launched.append((arguments[1], arguments[4], arguments[8].value, told))
            return 218 if name == self.refused else 0

        return call


@pytest.fixture
def made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes kernels for a GPU that a driver stands in for."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    device = SimpleNamespace(context=CONTEXT, stream=SimpleNamespace(cuda_stream=STREAM))
    monkeypatch.setattr(gpu_code, "warp", lambda: SimpleNamespace(get_device=lambda name: device))

    def make(driver: Driver) -> gpu_code.GpuFunction:
        monkeypatch.setattr(gpu_code, "_driver", lambda: driver)
        return gpu_code.GpuFunction(gpu_code.ptx(text(), 64), Device("cuda:0"), 64)

    return make


def program() -> Program:
    tape = Tape()
    return finish(tape, {"y": [2.0 * tape.input("x", 0)]})


def text() -> str:
    return emit_gpu([program()], {"x": Place("state", 0), "y": Place("out", 0)}, Target(gpu=True))


def test_a_launch(made: Any) -> None:
    """It goes to the stream of the moment, in the context of Warp, which is left again, with the arrays kept alive."""
    driver = Driver()
    function = made(driver)
    assert b".maxntid 64" in driver.code
    assert driver.code.endswith(b"\0")
    arrays = [SimpleNamespace(ptr=1000 + i) for i in range(7)]
    launch = function.record(5, arrays, (96, 3, 2, 77))
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

    def piece(name: str, room: int, lists: Lists | None = None, *, beside: bool = False) -> Piece:
        code: Any = SimpleNamespace(room=room, ask_for=lambda x: asked.update({name: x}))
        return Piece(code, name, (None, None), 0, 64, lists=lists, beside=beside)

    lists = Lists(1, 3, 9, shares=2)
    line, test, beside = piece("line", 25), piece("test", 25, lists), piece("beside", 57, beside=True)
    spreading.ask_for_the_same([line, test, beside, piece("team", 80)])
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
    line = finish(tape, {"y": [total * x for x in values]})
    assert generation.least_blocks((line,), n_envs, 132, "single") == expected


@pytest.mark.parametrize("refused", ["cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel"])
def test_what_the_driver_refuses(made: Any, refused: str) -> None:
    driver = Driver(refused)
    with pytest.raises(KinemaError, match=r"failed: not like that \(error 218\)") as caught:
        made(driver).record(1, [SimpleNamespace(ptr=0)] * 7, (0, 0, 0, 0))()
    assert ("line 7" in str(caught.value)) == (refused == "cuModuleLoadDataEx")
    assert driver.calls[-1] == "cuCtxPopCurrent_v2"


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(gpu_code.ctypes, "CDLL", absent)
    gpu_code._driver.cache_clear()
    with pytest.raises(KinemaError, match=r"the driver of CUDA, .*, cannot be loaded"):
        gpu_code._driver()
    gpu_code._driver.cache_clear()


@pytest.mark.parametrize(("envs_per_block", "n_memory", "n_blocks"), [(64, 0, 2), (32, 0, 3), (4, 7, 20), (4, 7, 5)])
def test_blocks_have_room_for_all_environments(
    envs_per_block: int, n_memory: int, n_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many environments as threads, or one warp of them where threads have roles; as many teams as run at a time."""
    monkeypatch.setattr(graphs, "is_capturing", lambda device: True)
    told: list[Any] = []
    kernel = Kernel.__new__(Kernel)
    kernel.device, kernel.n_scratch, kernel.lanes, kernel._runs_per_step = Device("cuda:0"), 0, 1, 1
    kernel._n_kinds = 0
    code: Any = SimpleNamespace(record=lambda *a: told.append(a) or (lambda: told.append("launched")))
    piece = Piece(code, "", (None, None), 0, envs_per_block, n_memory=n_memory, most_blocks=5 if n_blocks == 5 else 100)
    kernel._gpu = GpuExecutable([piece], 0, 0, 0)
    kernel._scratch = {0: np.zeros((1, 96)), piece: np.zeros(4 + 96 * n_memory)}
    arena = SimpleNamespace(data=None, n_envs=77, stride=96)
    arguments: Any = SimpleNamespace(state=arena, told=None, out=arena, uniform=arena, steps=4, advance=0)
    kernel._on_gpu(arguments)()
    assert told[0][0] == n_blocks
    assert told[0][2] == (96, n_blocks * envs_per_block if n_memory else 4, 0, 77)
    assert told.count("launched") == (4 if n_memory else 1), "a team takes a launch for each step"


def test_many_launches_become_a_graph_unless_somebody_else_makes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    capturing = [True]

    def captured(device: Device, launches: Any) -> Any:
        told.append("captured")
        return lambda: told.append("replayed")

    monkeypatch.setattr(graphs, "is_capturing", lambda device: capturing[0])
    monkeypatch.setattr(graphs, "captured", captured)
    run = graphs.repeated(Device("cuda:0"), [lambda: told.append("a"), lambda: told.append("b")], 2)
    run()
    assert told == ["a", "b", "a", "b"]
    capturing[0] = False
    told.clear()
    run()
    run()
    assert told == ["captured", *["replayed"] * 4]


class Stream:
    """It remembers what waits for what."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self.told = told

    def record_event(self, event: str) -> None:
        self.told.append(f"{self.name}: {event} is here")

    def wait_event(self, event: str) -> None:
        self.told.append(f"{self.name} waits for {event}")


def test_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others begin where the first does, and what follows waits for all of them."""
    told: list[str] = []
    names, events, current = iter("xyz"), iter("0123"), [Stream("main", told)]

    @contextmanager
    def on(stream: Stream, sync_enter: bool) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    stand_in = SimpleNamespace(
        Stream=lambda device: Stream(next(names), told),
        Event=lambda device: next(events),
        ScopedStream=on,
        get_device=lambda name: SimpleNamespace(stream=current[-1]),
    )
    monkeypatch.setattr(graphs, "warp", lambda: stand_in)
    launches = [lambda i=i: told.append(f"launch {i} on {current[-1].name}") for i in range(3)]
    graphs.side_by_side(Device("cuda:0"), launches)()
    assert told == [
        *("main: 0 is here", "launch 0 on main"),
        *("x waits for 0", "launch 1 on x", "x: 1 is here"),
        *("y waits for 0", "launch 2 on y", "y: 2 is here"),
        *("main waits for 1", "main waits for 2"),
    ]
    assert graphs.side_by_side(Device("cuda:0"), launches[:1]) is launches[0]


@pytest.mark.parametrize("has_long", [True, False])
def test_what_all_share_goes_before_teams_and_beside_lines(has_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long is listed first; searches, what is short, and what has nothing to do with them go side by side."""
    monkeypatch.setattr(
        spreading, "side_by_side", lambda device, launches: lambda: told.append([x() for x in launches])
    )
    monkeypatch.setattr(spreading, "one_by_one", lambda launches: lambda: [x() for x in launches])
    told: list[Any] = []
    code: Any = None
    tests, work = Lists(1, 3, 9, shares=2), Lists(1, 3, 9, blocks=4)
    kinds = [("line", None), *([("long", tests)] if has_long else []), ("short", tests)]
    kinds += [("search", work)] if has_long else []
    kinds += [("beside", None), ("team", None)]
    pieces = {name: Piece(code, name, (None, None), 0, 64, lists=own, beside=name == "beside") for name, own in kinds}
    groups = spreading.by_lists(list(pieces.values()))
    assert [[piece.name for piece in group] for group in groups] == [
        ["line"],
        [name for name, _ in kinds[1:-1]],
        ["team"],
    ]
    launches: list[Any] = [lambda piece=piece: piece.name for piece in groups[1]]
    then: list[Any] = [lambda: "order"]
    spreading.shared_by_all(Device("cuda:0"), groups[1], launches, then)()
    short = ["search", "short"] if has_long else ["short"]
    assert told[0] == short
    assert told[1] == [[*(["long"] if has_long else []), None, "order"], "beside"]
