"""How a scene hands out arrays: copies, or its own memory."""

from __future__ import annotations

from typing import Self

from .running import Built


class Giving(Built):
    """The part of a scene that chooses what getters give."""

    out: str

    def torch(self) -> Self:
        """Let all getters give PyTorch tensors from now on: the scene's own memory, on a CPU as on a GPU.

        What they show changes with the scene: `clone` what is to stay, and `touch` the scene after writing through
        them. On a GPU, Warp works in PyTorch's queue then.
        """
        return self._give("torch")

    def numpy(self) -> Self:
        """Let all getters give NumPy arrays again, which stay as they are."""
        return self._give("numpy")

    def touch(self) -> None:
        """Say that something was written through an array that was handed out, so that getters look again."""
        self.running.engine.touch()

    def _give(self, out: str) -> Self:
        if self._running is not None:
            self._running.outputs.choose(out)
        self.out = out
        return self
