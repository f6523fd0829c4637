"""Who may look at the viewer's page."""

from __future__ import annotations

import logging
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kinema.apps.viewer import server, view
from kinema.apps.viewer.authentication import TOKEN_COOKIE, Authenticator
from kinema.apps.viewer.server import PageServer, start_server
from kinema.core import KinemaError
from kit.shown import LEVER, needs_viser


@pytest.fixture
def page() -> Iterator[PageServer]:
    needs_viser()
    page = start_server("test", port=0)
    yield page
    page.stop()


def _status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_is_for_this_machine_alone(page: PageServer) -> None:
    """By default nobody else is answered: not at another address, not by another name, not from another website."""
    here = f"http://127.0.0.1:{page.port}/"
    assert _status(here) == 200
    assert _status(here, Host="robots.example") == 403
    assert _status(here, Origin="http://robots.example") == 403
    assert _status(here, Origin=f"http://localhost:{page.port}") == 200
    assert not page.authenticator.token
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", page.port), timeout=2):
        pass


def test_another_website_opens_no_websocket(page: PageServer) -> None:
    websockets = pytest.importorskip("websockets.sync.client")
    with pytest.raises(Exception, match="403"):
        websockets.connect(f"ws://127.0.0.1:{page.port}/", origin="http://robots.example")


def test_a_browser_that_goes_away_is_no_error(page: PageServer) -> None:
    """What the server logs where a connection ended early is not printed; anything else is."""
    (quiet,) = [
        x for x in logging.getLogger("websockets.server").filters if getattr(x, "__module__", "") == server.__name__
    ]
    assert isinstance(quiet, Callable)
    for cause, printed in (
        (EOFError("connection closed while reading HTTP headers"), False),
        (ConnectionResetError("reset by peer"), False),
        (ValueError("invalid HTTP request line: nonsense"), True),
    ):
        try:
            raise RuntimeError("did not receive a valid HTTP request") from cause
        except RuntimeError:
            record = logging.LogRecord("", logging.ERROR, "", 0, "handshake failed", (), sys.exc_info())
        assert quiet(record) is printed
    assert quiet(logging.LogRecord("", logging.INFO, "", 0, "server listening", (), None))


def test_our_own_paths_are_answered(page: PageServer) -> None:
    asked: list[str] = []
    page.authenticator.handlers["/kinema/test"] = asked.append
    assert _status(f"http://127.0.0.1:{page.port}/kinema/test?part=3") == 204
    assert asked == ["part=3"]


def test_exposed_it_asks_for_a_token() -> None:
    needs_viser()
    page = start_server("test", host="0.0.0.0", port=0)
    try:
        here = f"http://127.0.0.1:{page.port}/"
        assert len(page.authenticator.token) > 16
        assert page.address.endswith(f"?token={page.authenticator.token}")
        assert _status(here) == 403
        assert _status(f"{here}?token=guess") == 403
        assert _status(f"{here}?token={page.authenticator.token}") == 200
        assert _status(here, Cookie=f"a=b; {TOKEN_COOKIE}={page.authenticator.token}") == 200
    finally:
        page.stop()


def test_a_token_is_kept_as_a_cookie() -> None:
    needs_viser()
    page = start_server("test", host="0.0.0.0", port=0, token="word")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/?token=word", timeout=10) as answer:
            assert f"{TOKEN_COOKIE}=word" in answer.headers["Set-Cookie"]
            assert "HttpOnly" in answer.headers["Set-Cookie"]
    finally:
        page.stop()


def test_an_address_of_others_is_one_clear_error() -> None:
    needs_viser()
    with pytest.raises(KinemaError, match="cannot listen at '192"):
        start_server("test", host="192.0.2.1")


def test_strangers_are_led_nowhere(page: PageServer) -> None:
    """The library's way of sharing a page by a server of others is shut."""
    assert page.viser.request_share_url() is None


def test_a_gate_that_does_not_stand_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the library come to start its server otherwise, there is no page rather than an open one."""
    needs_viser()
    monkeypatch.setattr(Authenticator, "is_installed", property(lambda _: False, lambda *_: None), raising=False)
    with pytest.raises(KinemaError, match="cannot guard"):
        start_server("test", port=0)


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(KinemaError, match="nothing to show"):
        view()


def test_a_file_that_is_not_there_opens_no_page(tmp_path: Path) -> None:
    (tmp_path / "half.urdf").write_text(LEVER[:100])
    with pytest.raises(KinemaError):
        view(tmp_path / "half.urdf")
