"""Screenshots, videos of the view, and recordings of the simulation, sent to the browser as files."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kinema.core import KinemaError

from ..simulation import SimulationPlayer
from .display_panels import IMAGE_SIZE, encode_png, encode_video

VIDEO = "video of this view"
RECORDINGS = {
    "rendered video (.mp4)": ".mp4",
    "states (.npz)": ".npz",
    "animated scene (.usdc)": ".usdc",
    "Foxglove (.mcap)": ".mcap",
    "table (.parquet)": ".parquet",
}
"""Suffixes of `Scene.record` by choice."""
_FRAME_RATE = 60.0
"""Frames of a recording per simulated second; rendered videos have their own rate."""
_HINT = "recordings hold the shown environment, or all that are side by side"
_START, _STOP = "Start recording", "Stop and save"


class RecordingPanel:
    """Buttons for a screenshot and for recordings; files are sent to the client that pressed the button."""

    def __init__(
        self,
        gui: Any,
        player: SimulationPlayer,
        shown_envs: Callable[[], list[int]],
        before_compiling: Callable[[], None],
        notify: Callable[[str], None],
    ) -> None:
        self._player, self._shown_envs, self._notify = player, shown_envs, notify
        self._before_compiling = before_compiling
        shot = gui.add_button("Screenshot")
        self.choice = gui.add_dropdown("Record", (VIDEO, *RECORDINGS), initial_value=VIDEO, hint=_HINT)
        self.button = gui.add_button(_START)
        self._end: threading.Event | None = None
        """Set when the video is to end; None while none is recorded."""
        self._recording: Any = None
        self._folder: Any = None

        def take(event: Any) -> None:
            if event.client is not None:
                picture = encode_png(event.client.get_render(*IMAGE_SIZE, transport_format="png", timeout=30.0))
                event.client.send_file_download("kinema.png", picture, save_immediately=True)

        shot.on_click(take)
        self.button.on_click(lambda event: None if event.client is None else self.toggle(event.client))

    def toggle(self, client: Any) -> None:
        """Start a recording, or end it and send the file to a client."""
        if self._end is not None:
            self._end.set()
        elif self._recording is not None:
            self._finish_recording(client)
        elif self.choice.value == VIDEO:
            self._end = threading.Event()
            self.button.label = _STOP
            threading.Thread(target=self._record_video, args=(client, self._end), daemon=True).start()
        else:
            self._start_recording(RECORDINGS[self.choice.value])

    def _start_recording(self, suffix: str) -> None:
        with self._player.lock:
            self._before_compiling()
            if not self._player.ensure_built():
                return
            scene = self._player.scene
            assert scene is not None
            self._folder = tempfile.TemporaryDirectory(prefix="kinema-")
            every = None if suffix == ".mp4" else max(1, round(1.0 / (_FRAME_RATE * scene.dt)))
            path = Path(self._folder.name) / f"kinema{suffix}"
            try:
                self._recording = scene.record(path, every=every, envs_idx=self._shown_envs())
            except KinemaError as error:
                self._notify(str(error))
                self._folder.cleanup()
                return
        self.button.label = _STOP

    def _finish_recording(self, client: Any) -> None:
        recording, self._recording = self._recording, None
        self.button.label = _START
        try:
            with self._player.lock:
                recording.close()
            client.send_file_download(recording.path.name, recording.path.read_bytes(), save_immediately=True)
        except KinemaError as error:
            self._notify(f"The recording could not be written: {error}")
        finally:
            self._folder.cleanup()

    def _record_video(self, client: Any, end: threading.Event) -> None:
        """Record frames of a client until ended, then send the video file."""
        frames, began = [], time.perf_counter()
        try:
            while not end.is_set():
                frames.append(client.get_render(*IMAGE_SIZE, timeout=30.0))
            if frames:
                name, data = encode_video(frames, len(frames) / max(time.perf_counter() - began, 1e-3))
                client.send_file_download(name, data, save_immediately=True)
        except Exception as error:  # the visitor has left, or a picture did not come
            self._notify(f"The video could not be made: {error}")
        finally:
            self._end = None
            self.button.label = _START
