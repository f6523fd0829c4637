"""Authentication of HTTP and websocket requests: local host, or a token; cross-origin requests are rejected.

Every request is checked before the page server handles it, including websocket upgrades: browsers allow websockets to
cross origins, so that a website in another tab could open one.
"""

from __future__ import annotations

import hmac
import http
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN_COOKIE = "kinema_token"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Names of this machine."""

QueryHandler = Callable[[str], None]
"""What a path of the page does, given the query's text after `?`."""


@dataclass(slots=True, eq=False)
class Authenticator:
    """Decides which HTTP and websocket requests are accepted, and serves the additional paths of the page's buttons."""

    token: str = ""
    """What others have to bring; empty where only this machine may come in."""
    handlers: dict[str, QueryHandler] = field(default_factory=dict)
    """Paths that are ours, such as `/kinema/select`; all others are the page's."""
    transform_response: Callable[[Any], Any] = lambda response: response
    """What is done to the page's own answers before they go out."""
    is_installed: bool = False
    """Whether requests really pass here."""

    def rejection_reason(self, path: str, headers: Any) -> str:
        """Reason why a request is rejected; empty if accepted."""
        host = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        origin = headers.get("Origin", "")
        if (
            origin
            and urlsplit(origin).netloc != headers.get("Host", "")
            and urlsplit(origin).hostname not in LOCAL_HOSTS
        ):
            return "another website may not open this page"
        if not self.token:
            # a name that is not this machine's, though it leads here, is how a website would get around the line above
            return "" if host in LOCAL_HOSTS else "this page is for this machine alone"
        brought = [*parse_qs(urlsplit(path).query).get("token", []), _token_from_cookie(headers)]
        good = any(hmac.compare_digest(given.encode(), self.token.encode()) for given in brought)
        return "" if good else "the token is missing or wrong: use the whole address that was printed"

    def handle_request(self, connection: Any, request: Any, next_handler: Callable[[Any, Any], Any]) -> Any:
        """Response to a request: rejection, registered path, or the page's response; None opens a websocket."""
        why = self.rejection_reason(request.path, request.headers)
        if why:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{why}\n")
        address = urlsplit(request.path)
        handler = self.handlers.get(address.path)
        if handler is not None:
            if request.headers.get("Sec-Fetch-Site") == "cross-site":  # an image of another website, for example
                return connection.respond(http.HTTPStatus.FORBIDDEN, "another website may not use this page\n")
            handler(address.query)
            return connection.respond(http.HTTPStatus.NO_CONTENT, "")
        response = next_handler(connection, request)
        if response is not None:
            response = self.transform_response(response)
        if response is not None and self.token:
            response.headers["Set-Cookie"] = f"{TOKEN_COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        return response

    @contextmanager
    def installed_in(self, module: Any) -> Iterator[None]:
        """Context manager during which servers started by `module.serve` authenticate their requests here."""
        serve = module.serve

        def gated(*arguments: Any, process_request: Callable[[Any, Any], Any], **options: Any) -> Any:
            def ask(connection: Any, request: Any) -> Any:
                return self.handle_request(connection, request, process_request)

            self.is_installed = True
            return serve(*arguments, process_request=ask, **options)

        module.serve = gated
        try:
            yield
        finally:
            module.serve = serve


def _token_from_cookie(headers: Any) -> str:
    for part in headers.get("Cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == TOKEN_COOKIE:
            return value
    return ""
