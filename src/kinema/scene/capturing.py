"""A loop that a GPU repeats by itself: steps, getters, setters and PyTorch's own work as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kinema.backend import share_stream, torch_module
from kinema.foundation import KinemaError
from kinema.sim import Engine

from .arguments import whole
from .running import Running
from .watching import Watching


class Capturing(Watching):
    """The part of a scene that lets its launches be recorded."""

    on_error: str
    _captures: bool = False
    """Whether a graph is being recorded, so that nothing may be asked of the GPU."""

    def capture(self, once: Callable[[], Any], *, warm_up: int = 3) -> Callable[[], None]:
        """Record what a function has a GPU do, to be repeated without Python: a step takes less time than its call.

        The function looks, decides, tells, steps and resets by masks, all with tensors on the scene's GPU that it does
        not make anew from numbers of the host; what it leaves for later it writes into tensors that there are. It is
        called some times first, for real, so that everything is compiled and in place. Calling what comes back repeats
        the work; the scene's time goes on. On a CPU it calls the function.

        Args:
            once: what is repeated.
            warm_up: how often it is called before it is recorded.
        """
        running, warm_up = self.running, whole(warm_up, "capture: warm_up", "call")
        if running.engine.device.is_cpu:
            return partial(_called, once)
        self._refuse_looks()
        graph, steps = self._graph(running, once, warm_up)
        settings = running.engine.settings

        def again() -> None:
            now = running.engine.settings
            if self._running is not running or (now is not settings and now != settings):
                raise KinemaError("capture: the scene runs another program by now: capture once more")
            graph.replay()
            running.engine.count(steps)
            running.engine.touch()

        return again

    def _refuse_looks(self) -> None:
        running = self.running
        if not running.outputs.on_device:
            raise KinemaError('capture: on a GPU this is for tensors: use Scene(out="torch")')
        if self._listeners():
            raise KinemaError("capture: recordings, and sensors with a rate or delay, look at every step on the host")
        if self.on_error == "reset":
            raise KinemaError(
                'capture: Scene(on_error="reset") looks on the host: reset(get_error_envs_mask()) does not'
            )
        if running.engine.uniform.layout.rows["clock"][1]:
            raise KinemaError("capture: the host tells a clock sensor the time of every step")

    def _graph(self, running: Running, once: Callable[[], Any], warm_up: int) -> tuple[Any, int]:
        """The graph, and how many steps it takes."""
        torch, engine = torch_module(), running.engine
        now = torch.cuda.current_stream(engine.device.name)
        stream = torch.cuda.Stream(engine.device.name)
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            share_stream(engine.device)  # in this queue from now on
            for _ in range(warm_up):
                once()
            graph = torch.cuda.CUDAGraph()
            steps = self._record(torch.cuda.graph(graph, stream=stream), once, engine)
        now.wait_stream(stream)
        share_stream(engine.device)
        return graph, steps

    def _record(self, recording: Any, once: Callable[[], Any], engine: Engine) -> int:
        before, self._captures = engine.time, True
        try:
            with recording:
                once()
        finally:
            self._captures = False
        steps = engine.time - before
        engine.count(-steps)  # so far they are only written down
        return steps


def _called(once: Callable[[], Any]) -> None:
    """Nothing comes back, as from a graph."""
    once()
