"""Answer HTTP requests for one network, and those that concern the whole server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from anylayer import __version__
from anylayer.errors import AnyLayerError, EngineError, InputError, nearest
from anylayer.libraries.starlette import JSONResponse, Request, Response
from anylayer.network import Array
from anylayer.serve.protocol import VERSION, parse, response
from anylayer.serve.served import Served

Run = Callable[[Mapping[str, Array]], Awaitable[dict[str, Array] | AnyLayerError]]
"""A function that computes the outputs of a request, perhaps together with other requests."""

MODELS = "/v2/models/"
"""The path of the models."""
_LENGTH = "Inference-Header-Content-Length"
_DROPPED = 4
"""A request of at most this many times the largest size is read to its end before it is refused."""
_log = logging.getLogger("anylayer.serve")


def failed(status: int, text: str) -> Response:
    """Return the answer to a request that is refused."""
    return JSONResponse({"error": text}, status)


def too_large(largest: int) -> Response:
    """Return the answer to a request of more than `largest` bytes."""
    return failed(413, f"a request has at most {largest} bytes")


async def answer(served: Served, run: Run, request: Request) -> Response:
    """Answer a request below /v2/models/NAME."""
    path = request.url.path.removeprefix(f"{MODELS}{served.settings.name}").rstrip("/")
    path = path.removeprefix(f"/versions/{VERSION}")
    method = {"": "GET", "/ready": "GET", "/infer": "POST"}.get(path)
    if method is None:
        return failed(404, "there is no such path; a model has infer, ready and its metadata")
    if request.method != method:
        return failed(405, f"this path needs {method}")
    if path == "":
        return JSONResponse(served.metadata)
    if path == "/ready":
        return JSONResponse({"name": served.settings.name, "ready": True})
    return await _infer(served, run, request)


async def _infer(served: Served, run: Run, request: Request) -> Response:
    """Run the network on the tensors or the picture in the body of a request."""
    largest = served.settings.largest
    if request.headers.get("content-encoding", "identity") != "identity":
        return failed(415, "compressed requests are not accepted")
    body = await body_of(request, largest)
    if body is None:
        return too_large(largest)
    length = request.headers.get(_LENGTH)
    try:
        if request.headers.get("content-type", "").startswith("image/"):
            wanted = served.picture(body)
        else:
            wanted = parse(body, None if length is None else _count(length))
        outputs = await run(served.inputs(wanted))
        if isinstance(outputs, AnyLayerError):
            raise outputs
        pieces, size = response(served.settings.name, wanted, outputs)
    except EngineError as error:
        _log.error("%s", error)
        return failed(500, "the network cannot compute this input; the server's log has the reason")
    except AnyLayerError as error:
        return failed(400, error.message)
    kind = "application/json" if size is None else "application/octet-stream"
    headers = {} if size is None else {_LENGTH: str(size)}
    return Response(b"".join(pieces), 200, headers, kind)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"the header {_LENGTH} must be a number")
    return int(text)


async def body_of(request: Request, largest: int) -> bytes | None:
    """Return the body of a request, or None if it has more than `largest` bytes.

    A larger body is read and discarded, up to _DROPPED times that size, because the client reads the answer only
    after it has sent the body.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > _DROPPED * largest:
        return None
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size <= largest:
            pieces.append(piece)
        elif size > _DROPPED * largest:
            return None
        else:
            pieces.clear()
    return b"".join(pieces) if size <= largest else None


def server_answer(path: str, method: str, models: Collection[str], ready: bool) -> Response:
    """Answer a request that is not for one of the `models`. ready: whether all of them are."""
    path = path.rstrip("/")
    known: dict[str, Any] = {
        "/v2": {"name": "anylayer", "version": __version__, "extensions": ["binary_tensor_data"]},
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": ready},
        "/v2/models": {"models": list(models)},
    }
    if path in known:
        if method != "GET":
            return failed(405, "this path needs GET")
        return JSONResponse(known[path], 503 if path == "/v2/health/ready" and not ready else 200)
    if path.startswith(MODELS):
        name = path.removeprefix(MODELS).split("/")[0]
        return failed(404, f"there is no model '{name[:80]}'{nearest(name, models)}; models: {', '.join(models)}")
    return failed(404, "there is no such path; the server speaks the Open Inference Protocol, at /v2")
