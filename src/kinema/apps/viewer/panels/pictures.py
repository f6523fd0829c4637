"""Pictures and videos of what is seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..recording import SIZE, png, video


def add_pictures(gui: Any, notify: Callable[[str], None]) -> None:
    """A button for a picture, and one that begins and ends a video; both are sent to whoever presses them."""
    shot = gui.add_button("Screenshot")
    record = gui.add_button("Record a video")
    end = threading.Event()
    end.set()

    def take(event: Any) -> None:
        client = event.client
        if client is not None:
            picture = png(client.get_render(*SIZE, transport_format="png", timeout=30.0))
            client.send_file_download("kinema.png", picture, save_immediately=True)

    def toggle(event: Any) -> None:
        client = event.client
        if client is None:
            return
        if not end.is_set():
            end.set()
            return
        end.clear()
        record.label = "Stop and save the video"
        threading.Thread(target=_film, args=(client, record, end, notify), daemon=True).start()

    shot.on_click(take)
    record.on_click(toggle)


def _film(client: Any, button: Any, end: threading.Event, notify: Callable[[str], None]) -> None:
    """Pictures one after the other until the end is wanted, then a file."""
    frames, began = [], time.perf_counter()
    try:
        while not end.is_set():
            frames.append(client.get_render(*SIZE, timeout=30.0))
        if frames:
            name, data = video(frames, len(frames) / max(time.perf_counter() - began, 1e-3))
            client.send_file_download(name, data, save_immediately=True)
    except Exception as error:  # the visitor has left, or a picture did not come
        notify(f"The video could not be made: {error}")
    finally:
        end.set()
        button.label = "Record a video"
