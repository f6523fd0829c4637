"""How richly the page is drawn, and how often what moves is sent."""

from __future__ import annotations

import gzip
import urllib.request

import numpy as np
import pytest

from kinema.apps.viewer.gltf_meshes import shape_primitives, simplify_primitive
from kinema.apps.viewer.render_quality import (
    AUTOMATIC,
    CHOICES,
    FAST,
    FULL,
    MAX_SEND_RATE,
    MIN_SEND_RATE,
    RenderQuality,
)
from kinema.apps.viewer.server import inject_script, start_server
from kinema.description import Shape, Sphere
from kit.shown import needs_viser


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _report(quality: RenderQuality, clock: Clock, drawn: float, times: int = 1, software: int = 0) -> None:
    for _ in range(times):
        clock.now += 1.0
        quality.handle_report(f"drawn={drawn}&software={software}", is_moving=True)


def test_a_browser_without_a_gpu_gets_the_fast_picture_at_once() -> None:
    clock = Clock()
    quality = RenderQuality(clock=clock)
    assert not quality.is_fast
    quality.handle_report("drawn=1.0&software=1", is_moving=False)
    assert quality.is_fast
    assert "without a GPU" in quality.reason
    clock.now += 1e6
    _report(quality, clock, 60.0, 10, software=1)
    assert quality.is_fast, "a CPU stays one"


def test_slow_frames_lower_it_and_fast_ones_restore_it_ever_more_rarely() -> None:
    clock = Clock()
    quality = RenderQuality(clock=clock)
    changes: list[bool] = []
    quality.on_change = lambda: changes.append(quality.is_fast)
    _report(quality, clock, 12.0, 2)
    assert not quality.is_fast, "a hiccup is no reason"
    _report(quality, clock, 12.0)
    assert quality.is_fast
    assert "12 frames/s" in quality.reason
    _report(quality, clock, 45.0, 20)
    assert quality.is_fast
    _report(quality, clock, 45.0, 15)
    assert not quality.is_fast
    _report(quality, clock, 12.0, 3)
    _report(quality, clock, 45.0, 40)
    assert quality.is_fast, "the second time it waits twice as long"
    _report(quality, clock, 45.0, 40)
    assert changes == [True, False, True, False]


@pytest.mark.parametrize("choice", [FULL, FAST])
def test_what_was_chosen_stays(choice: str) -> None:
    clock = Clock()
    quality = RenderQuality(clock=clock)
    quality.choose(choice)
    _report(quality, clock, 3.0, 50, software=1)
    _report(quality, clock, 60.0, 200)
    assert quality.is_fast == (choice == FAST)
    quality.choose(AUTOMATIC)
    assert quality.is_fast, "it has seen that there is no GPU"


def test_no_more_is_sent_than_the_fastest_browser_draws() -> None:
    clock = Clock()
    quality = RenderQuality(clock=clock)
    assert quality.send_rate == MAX_SEND_RATE
    _report(quality, clock, 20.0)
    assert quality.send_rate == pytest.approx(25.0)
    quality.handle_report("drawn=24", is_moving=True)
    assert quality.send_rate == pytest.approx(30.0)
    _report(quality, clock, 1.0, 4)
    assert quality.send_rate == MIN_SEND_RATE
    clock.now += 60.0
    assert quality.send_rate == MAX_SEND_RATE, "old reports are forgotten"


@pytest.mark.parametrize("query", ["", "drawn", "drawn=", "drawn=x&software=0", "drawn=nan", "drawn=-1", "drawn=1e9"])
def test_nonsense_from_a_browser_changes_nothing(query: str) -> None:
    for choice in CHOICES:
        quality = RenderQuality(choice)
        quality.handle_report(query, is_moving=True)
        assert quality.is_fast == (choice == FAST)
        assert quality.send_rate == MAX_SEND_RATE


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_page_comes_with_our_script_before_its_own(encoding: str) -> None:
    needs_viser()
    page = start_server("test", port=0)
    page.authenticator.transform_response = lambda response: inject_script(response, antialias=True)
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{page.port}/", headers={"Accept-Encoding": encoding})
        with urllib.request.urlopen(request, timeout=10) as answer:
            body = answer.read()
    finally:
        page.stop()
    text = gzip.decompress(body) if encoding == "gzip" else body
    assert 0 < text.index(b"window.kinemaSmooth=true") < text.index(b"<script", text.index(b"</script>"))
    assert b"/kinema/pace" in text


def test_a_coarser_ball_is_still_a_ball() -> None:
    (ball,) = shape_primitives(Shape(geometry=Sphere(0.3)), 32)
    few = simplify_primitive(ball, 0.1)
    assert 50 < len(few.faces) <= 0.11 * len(ball.faces)
    np.testing.assert_allclose(np.linalg.norm(few.positions, axis=1), 0.3, rtol=0.06)
    outwards = np.einsum("ij,ij->i", few.positions, few.normals) / 0.3
    assert outwards.min() > 0.8
    assert simplify_primitive(few, 1.0) is few
