"""uvicorn, which accepts the HTTP connections of Ray Serve. This is the only file that imports it."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle
from collections import Counter
from typing import Any, ClassVar

from uvicorn import config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 20.0
"""Seconds in which the headers of a request must arrive."""
MAX_CONNECTIONS = 500
"""The largest number of connections of one peer, which may be a proxy."""
_Protocol: Any = HttpToolsProtocol


class LimitedProtocol(_Protocol):  # type: ignore[misc]  # uvicorn's class, which is typed as Any
    """A connection that is closed if headers take too long, or if its peer has too many connections. uvicorn has
    limits for idle connections and for all peers together only."""

    _counts: ClassVar[Counter[str]] = Counter()
    _timer: TimerHandle | None = None
    _peer = ""

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self._counts[self._peer] += 1
        if self._counts[self._peer] > MAX_CONNECTIONS:
            self.transport.abort()
        else:
            self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel()
        self._counts[self._peer] -= 1
        if not self._counts[self._peer]:
            del self._counts[self._peer]

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limit_connections() -> None:
    """Let the servers that this process starts use LimitedProtocol."""
    config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{LimitedProtocol.__name__}"
