"""Send a request again if the process that computed it has ended.

This runs in the processes of Ray Serve that accept HTTP connections, in front of Ray Serve's own application. That
application ends without a complete response if the process that computed the request has died. Inference has no
side effects, so that the request can be computed once more by another process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from anylayer.libraries.starlette import Middleware, Request, Response
from anylayer.libraries.uvicorn import limit_connections
from anylayer.serve.http import MODELS, body_of, failure

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

ENVIRONMENT = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": f"{__name__}:middlewares"}
"""The variable that makes Ray Serve call `middlewares` in its processes that accept HTTP connections."""
LARGEST = "ANYLAYER_LARGEST_REQUEST"
"""The variable with the limit on the size of a request in bytes."""
ATTEMPTS = 4
"""The largest number of times that a request is computed. There must be a limit, because a request may end every
process that computes it."""
PAUSE = 0.1
"""Seconds before the second attempt. The pause doubles with each further one."""
ENDED = f"the process that computed this request ended, and so did {ATTEMPTS - 1} others that tried again"
"""The answer to a request after its last attempt."""


def middlewares() -> list[Middleware]:
    """Return what Ray Serve puts in front of its application, and limit the connections that it will accept."""
    limit_connections()
    return [Middleware(Retry)]


class Retry:
    """An ASGI application that calls another one, and calls it again if it ends without a complete response. A
    request reaches the other one once its body is complete: unfinished bodies keep no network busy.

    This concerns requests for networks only: those for other applications of the cluster may have side effects.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._largest = int(os.environ.get(LARGEST, 64 << 20))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(MODELS):
            await self._application(scope, receive, send)
            return
        body = await body_of(Request(scope, receive), self._largest)
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        exchange = _Exchange(body, receive, send)
        for attempt in range(ATTEMPTS):
            await self._application(dict(scope), exchange.receiver(), exchange.send)
            if exchange.answered or exchange.disconnected:
                return
            await asyncio.sleep(PAUSE * 2**attempt)
        await failure(500, ENDED)(scope, receive, send)


class _Exchange:
    """The messages of one HTTP request and its response.

    The body of the request is kept, because another attempt reads it, too. The start of the response is held back
    until its body follows.
    """

    def __init__(self, body: bytes, receive: Receive, send: Send) -> None:
        self._body, self._receive, self._send = body, receive, send
        self._start: Message | None = None
        self.answered = self.disconnected = False

    def receiver(self) -> Receive:
        """Return a function that gives the body of the request, and then the messages that follow it."""
        self._start = None
        is_read = False

        async def receive() -> Message:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": self._body, "more_body": False}
            message = await self._receive()
            self.disconnected |= message["type"] == "http.disconnect"
            return message

        return receive

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None:
            await self._send(self._start)
            self._start = None
        self.answered = True
        await self._send(message)
