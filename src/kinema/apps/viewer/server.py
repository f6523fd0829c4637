"""The server behind the page: on this machine alone unless told otherwise."""

from __future__ import annotations

import contextlib
import io
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from kinema.foundation import KinemaError, require

from .gate import HERE, Gate

PORT = 8080
EVERYWHERE = "0.0.0.0"
_BRAND = (38, 98, 160)


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A server that runs, and where it is found."""

    viser: Any
    """The library's server: `scene`, `gui`, clients."""
    gate: Gate
    host: str
    port: int

    @property
    def address(self) -> str:
        """What to open in a browser, with the token where one is needed."""
        host = "localhost" if self.host in HERE else socket.gethostname() if self.host == EVERYWHERE else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.gate.token}" if self.gate.token else "")

    def stop(self) -> None:
        """Close it, with all that is connected."""
        with contextlib.redirect_stdout(io.StringIO()):  # the library says so in words of its own
            self.viser.stop()


def open_page(title: str, host: str = HERE[1], port: int = PORT, token: str = "") -> Page:
    """Start a server; on another address than this machine's own it asks for a token, a random one if none is given.

    Args:
        title: of the panel.
        host: the address to listen at; `0.0.0.0` for all of this machine's.
        port: the port, or one of the next if it is taken; 0 for any that is free.
        token: what others have to bring.
    """
    viser = require("viser", purpose="the viewer", extra="viewer")
    websockets = require("websockets.asyncio.server", purpose="the viewer", extra="viewer")
    _refuse_foreign(host)
    gate = Gate(token if host in HERE else token or secrets.token_urlsafe(18))
    with gate.before(websockets), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    page = Page(server, gate, host, server.get_port())
    if not gate.stands:
        page.stop()
        raise KinemaError("the viewer cannot guard its page with this version of viser: pip install 'kinema[viewer]'")
    server.request_share_url = _refuse_to_share
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=_BRAND, control_width="large")
    return page


def _refuse_to_share(*_: Any, **__: Any) -> None:
    """The library can lead strangers here by a server of others; a robot is not given away at the push of a button."""


def _refuse_foreign(host: str) -> None:
    """An address that is not this machine's is an error here; the library would try ports for ever."""
    try:
        kind = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind[0], kind[1]) as trial:
            trial.bind((host, 0))
    except OSError as error:
        raise KinemaError(f"the viewer cannot listen at {host!r}: {error.strerror or error}") from None
