"""Accept requests for one network on a cluster where Ray Serve ran before, and send them to the processes that
compute it.

There, the processes that accept connections have started without retry.py, so that they send no request again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from anylayer.libraries.ray import ray, serve
from anylayer.libraries.starlette import Request, Response
from anylayer.serve.http import body_of, failed
from anylayer.serve.retry import ATTEMPTS, ENDED, PAUSE


class Front:
    """A process that sends each request to one of the `replicas`, and to another one if that one ends.

    `largest` is the limit on the size of a request in bytes.
    """

    def __init__(self, replicas: Any, largest: int) -> None:
        self._replicas, self._largest = replicas, largest
        self._busy = serve().exceptions.BackPressureError
        self._ended = (
            ray.exceptions.RayActorError,
            ray.exceptions.ObjectLostError,
            serve().exceptions.ReplicaUnavailableError,
        )

    async def __call__(self, request: Request) -> Response:
        body = await body_of(request, self._largest)
        if isinstance(body, Response):
            return body
        scope = {"type": "http", "method": request.method, "path": request.url.path, "query_string": b""}
        scope["headers"] = request.scope["headers"]
        for attempt in range(ATTEMPTS):
            try:
                found: Response = await self._replicas.answer.remote(scope, body)
                return found
            except self._busy:
                return failed(503, "too many requests wait for this network")
            except self._ended:
                await asyncio.sleep(PAUSE * 2**attempt)
        return failed(500, ENDED)

    async def describe(self) -> dict[str, Any]:
        """Return what the network measured."""
        found: dict[str, Any] = await self._replicas.describe.remote()
        return found
