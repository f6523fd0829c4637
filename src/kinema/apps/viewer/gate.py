"""Who may come in: the page is for this machine alone, or for those who hold the token.

Every request passes here before the page's own server sees it, those that open a websocket among them: a website in
another tab of the same browser could open one, too, because browsers let websockets cross origins.
"""

from __future__ import annotations

import hmac
import http
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

COOKIE = "kinema_token"
HERE = ("localhost", "127.0.0.1", "::1")
"""Names of this machine."""

Handler = Callable[[str], None]
"""What a path of the page does, given the query's text after `?`."""


@dataclass(slots=True, eq=False)
class Gate:
    """The rule on who comes in, and the paths that the page's own buttons ask for."""

    token: str = ""
    """What others have to bring; empty where only this machine may come in."""
    paths: dict[str, Handler] = field(default_factory=dict)
    """Paths that are ours, such as `/kinema/select`; all others are the page's."""
    dress: Callable[[Any], Any] = lambda response: response
    """What is done to the page's own answers before they go out."""
    stands: bool = False
    """Whether requests really pass here."""

    def refusal(self, path: str, headers: Any) -> str:
        """Why a request may not come in; empty where it may."""
        host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        origin = headers.get("Origin", "")
        if origin and urlsplit(origin).netloc != headers.get("Host", "") and urlsplit(origin).hostname not in HERE:
            return "another website may not open this page"
        if not self.token:
            # a name that is not this machine's, though it leads here, is how a website would get around the line above
            return "" if host in HERE else "this page is for this machine alone"
        brought = [*parse_qs(urlsplit(path).query).get("token", []), _cookie(headers)]
        good = any(hmac.compare_digest(given.encode(), self.token.encode()) for given in brought)
        return "" if good else "the token is missing or wrong: use the whole address that was printed"

    def answer(self, connection: Any, request: Any, page: Callable[[Any, Any], Any]) -> Any:
        """A refusal, the answer of one of our paths, or what the page gives; None opens a websocket."""
        why = self.refusal(request.path, request.headers)
        if why:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{why}\n")
        address = urlsplit(request.path)
        handler = self.paths.get(address.path)
        if handler is not None:
            handler(address.query)
            return connection.respond(http.HTTPStatus.NO_CONTENT, "")
        response = page(connection, request)
        if response is not None:
            response = self.dress(response)
        if response is not None and self.token:
            response.headers["Set-Cookie"] = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        return response

    @contextmanager
    def before(self, module: Any) -> Iterator[None]:
        """While this lasts, servers that `module.serve` starts get this gate before them."""
        serve = module.serve

        def gated(*arguments: Any, process_request: Callable[[Any, Any], Any], **options: Any) -> Any:
            def ask(connection: Any, request: Any) -> Any:
                return self.answer(connection, request, process_request)

            self.stands = True
            return serve(*arguments, process_request=ask, **options)

        module.serve = gated
        try:
            yield
        finally:
            module.serve = serve


def _cookie(headers: Any) -> str:
    for part in headers.get("Cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
