"""Web server of the viewer, bound to the local host by default, and injection of page.js into its page."""

from __future__ import annotations

import contextlib
import gzip
import io
import logging
import secrets
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kinema.core import KinemaError, import_optional

from .authentication import LOCAL_HOSTS, Authenticator

# ------------------------------------------------------------------------------------------------------ injected script

_HEAD = b"<head>"
_STYLE = "<style>[role=tab]{padding-left:8px!important;padding-right:8px!important}</style>"
"""Tabs of the panel fit into one row."""


def inject_script(response: Any, *, antialias: bool) -> Any:
    """Response with page.js added if the response is the page; other responses are unchanged.

    Args:
        response: response of the library's server.
        antialias: whether to antialias even in software rendering, which doubles the frame time.
    """
    if "text/html" not in response.headers.get("Content-Type", ""):
        return response
    zipped = response.headers.get("Content-Encoding") == "gzip"
    response.body = _insert_script(response.body, zipped, antialias)
    del response.headers["Content-Length"]
    response.headers["Content-Length"] = str(len(response.body))
    response.headers["Cache-Control"] = "no-store"
    return response


@lru_cache(maxsize=4)
def _insert_script(body: bytes, zipped: bool, antialias: bool) -> bytes:
    own = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    script = f"{_STYLE}<script>window.kinemaSmooth={str(antialias).lower()};{own}</script>".encode()
    text = gzip.decompress(body) if zipped else body
    text = text.replace(_HEAD, _HEAD + script, 1)
    return gzip.compress(text, 6) if zipped else text


# --------------------------------------------------------------------------------------------------------------- server

DEFAULT_PORT = 8080
ALL_INTERFACES = "0.0.0.0"
_BRAND_COLOR = (38, 98, 160)


@dataclass(frozen=True, slots=True, eq=False)
class PageServer:
    """Running web server of the viewer."""

    viser: Any
    """The library's server: `scene`, `gui`, clients."""
    authenticator: Authenticator
    host: str
    port: int

    @property
    def address(self) -> str:
        """URL to open in a browser, with the token if required."""
        host = (
            "localhost"
            if self.host in LOCAL_HOSTS
            else socket.gethostname()
            if self.host == ALL_INTERFACES
            else self.host
        )
        return f"http://{host}:{self.port}/" + (
            f"?token={self.authenticator.token}" if self.authenticator.token else ""
        )

    def stop(self) -> None:
        """Stop the server and close all connections."""
        with contextlib.redirect_stdout(io.StringIO()):  # the library says so in words of its own
            self.viser.stop()


def _is_no_disconnect(record: logging.LogRecord) -> bool:
    """Whether a message of the library is about anything but a browser that closed its connection."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, EOFError | ConnectionError) or type(error).__name__.startswith("ConnectionClosed"):
            return False
        error = error.__cause__
    return True


def start_server(title: str, host: str = LOCAL_HOSTS[1], port: int = DEFAULT_PORT, token: str = "") -> PageServer:
    """Start a server; on other addresses than the local host it requires a token, random by default.

    Args:
        title: title of the panel.
        host: address to listen at; `0.0.0.0` for all addresses of this machine.
        port: port, or one of the next if it is in use; 0 for any free port.
        token: token that remote clients must present.
    """
    viser = import_optional("viser", purpose="the viewer", extra="viewer")
    websockets = import_optional("websockets.asyncio.server", purpose="the viewer", extra="viewer")
    _check_local_address(host)
    logging.getLogger("websockets.server").addFilter(_is_no_disconnect)
    gate = Authenticator(token if host in LOCAL_HOSTS else token or secrets.token_urlsafe(18))
    with gate.installed_in(websockets), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    page = PageServer(server, gate, host, server.get_port())
    if not gate.is_installed:
        page.stop()
        raise KinemaError("the viewer cannot guard its page with this version of viser: pip install 'kinema[viewer]'")
    server.request_share_url = _disable_sharing
    server.gui.configure_theme(
        show_logo=False, show_share_button=False, brand_color=_BRAND_COLOR, control_width="large"
    )
    return page


def _disable_sharing(*_: Any, **__: Any) -> None:
    """Disable the library's sharing through an external server, which would expose robots to strangers."""


def _check_local_address(host: str) -> None:
    """Raise `KinemaError` if an address is not one of this machine (the library would try ports for ever)."""
    try:
        kind = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind[0], kind[1]) as trial:
            trial.bind((host, 0))
    except OSError as error:
        raise KinemaError(f"the viewer cannot listen at {host!r}: {error.strerror or error}") from None
