"""Answer HTTP requests for one network, and those that concern the whole server."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from anylayer import __version__
from anylayer.errors import AnyLayerError, EngineError, InputError, nearest, need
from anylayer.libraries.starlette import ClientDisconnect, Request, Response
from anylayer.network import Array
from anylayer.serve.protocol import VERSION, configuration, parse, response
from anylayer.serve.protocol import Request as Parsed
from anylayer.serve.served import Served
from anylayer.serve.statistics import Statistics, statistics_json

Run = Callable[[Mapping[str, Array]], Awaitable[tuple[dict[str, Array] | AnyLayerError, int]]]
"""A function that computes the outputs of a request, perhaps together with other requests. It returns the
nanoseconds that this takes besides waiting, too."""
Gather = Callable[[], Awaitable[Sequence[Statistics]]]
"""A function that returns the statistics of all processes that serve a network."""

STATISTICS = "/v2/models/stats"
"""The path of the statistics of all models."""
MODELS = "/v2/models/"
"""The path of the models."""
_LENGTH = "Inference-Header-Content-Length"
_DROPPED = 4
"""A request of at most this many times the largest size is read to its end before it is refused."""
BODY_SECONDS = 60.0
"""Seconds in which the body of a request must arrive, besides one second per MiB of the largest size."""
_FORMATS = {"gzip": 31, "deflate": 15}
"""The compressions of bodies that are accepted, with zlib's number of their format."""
_log = logging.getLogger("anylayer.serve")


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer in JSON. It is ASCII, because names that a client sends need not be encodable."""
    return Response(json.dumps(content), status, media_type="application/json")


def failure(status: int, text: str) -> Response:
    """Return the answer to a request that is refused."""
    return json_response({"error": text}, status)


async def answer(served: Served, run: Run, request: Request, gather: Gather) -> Response:
    """Answer a request below /v2/models/NAME."""
    path = request.url.path.removeprefix(f"{MODELS}{served.settings.name}").rstrip("/")
    path = path.removeprefix(f"/versions/{VERSION}")
    method = {"": "GET", "/ready": "GET", "/config": "GET", "/stats": "GET", "/infer": "POST"}.get(path)
    if method is None:
        return failure(404, "there is no such path; a model has infer, ready, config, stats and its metadata")
    if request.method != method:
        return failure(405, f"this path needs {method}")
    if path == "":
        return json_response(served.metadata)
    if path == "/config":
        return json_response(configuration(served.metadata))
    if path == "/stats":
        return json_response({"model_stats": [statistics_json(served.settings.name, await gather())]})
    if path == "/ready":
        return json_response({"name": served.settings.name, "ready": True})
    return await _infer(served, run, request)


async def _infer(served: Served, run: Run, request: Request) -> Response:
    """Run the network on the tensors or the picture in the body of a request."""
    body = await body_of(request, served.settings.largest)
    if isinstance(body, Response):
        return body
    start = time.perf_counter_ns()
    try:
        request_outputs, arrays = await asyncio.get_running_loop().run_in_executor(
            served.workers, _inputs, served, request.headers, body
        )
        ready = time.perf_counter_ns()
        outputs, computing = await run(arrays)
        if isinstance(outputs, AnyLayerError):
            raise outputs
        computed = time.perf_counter_ns()
        pieces, size = response(served.settings.name, request_outputs, outputs)
    except AnyLayerError as error:
        served.statistics.add(fail=time.perf_counter_ns() - start)
        if not isinstance(error, EngineError):
            return failure(400, error.message)
        _log.error("%s", error)
        return failure(500, "the network cannot compute this input; the server's log has the reason")
    end = time.perf_counter_ns()
    waiting, encoding = computed - ready - computing, end - computed
    served.statistics.add(
        success=end - start,
        compute_input=ready - start,
        queue=waiting,
        compute_infer=computing,
        compute_output=encoding,
    )
    kind = "application/json" if size is None else "application/octet-stream"
    headers = {} if size is None else {_LENGTH: str(size)}
    return Response(b"".join(pieces), 200, headers, kind)


def _inputs(served: Served, headers: Mapping[str, str], body: bytes) -> tuple[Parsed, dict[str, Array]]:
    """Return the request in a body, and its inputs. This may take long: it decodes pictures."""
    body = _uncompress(body, headers.get("content-encoding", "identity"), served.settings.largest)
    if headers.get("content-type", "").startswith("image/"):
        picture = served.picture(body)
    else:
        length = headers.get(_LENGTH)
        picture = parse(body, None if length is None else _count(length))
    return picture, served.inputs(picture)


def _uncompress(body: bytes, encoding: str, largest: int) -> bytes:
    """Return a body without its compression. Raises InputError where it is damaged or has too many bytes."""
    if encoding == "identity":
        return body
    need(
        encoding in _FORMATS, f"a body may be compressed with {' or '.join(_FORMATS)}, not {encoding}", InputError
    )
    stream = zlib.decompressobj(_FORMATS[encoding])
    try:
        content = stream.decompress(body, largest + 1)
    except zlib.error as error:
        raise InputError(f"the body is not {encoding}: {error}") from None
    need(len(content) <= largest, f"a request has at most {largest} bytes", InputError)
    need(stream.eof and not stream.unused_data, f"the body is cut off, or is not {encoding} alone", InputError)
    return content


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"the header {_LENGTH} must be a number")
    return int(text)


async def body_of(request: Request, largest: int) -> bytes | Response:
    """Return the body of a request, or the answer if it has more than `largest` bytes or takes too long.

    A larger body is read and discarded, up to _DROPPED times that size, because the client reads the answer only
    after it has sent the body.
    """
    too_large = failure(413, f"a request has at most {largest} bytes")
    late = failure(408, "the body of the request did not arrive in time")
    for refusal in (too_large, late):
        refusal.headers["Connection"] = "close"
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > _DROPPED * largest:
        return too_large
    pieces, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS + largest / (1 << 20)):
            async for piece in request.stream():
                size += len(piece)
                if size <= largest:
                    pieces.append(piece)
                elif size > _DROPPED * largest:
                    return too_large
                else:
                    pieces.clear()
    except (TimeoutError, ClientDisconnect):
        return late
    return b"".join(pieces) if size <= largest else too_large


def server_answer(path: str, method: str, models: Collection[str], ready: bool) -> Response:
    """Answer a request that is not for one of the `models`. ready: whether all of them are."""
    path = path.rstrip("/")
    answers: dict[str, Any] = {
        "/v2": {
            "name": "anylayer",
            "version": __version__,
            "extensions": ["binary_tensor_data", "model_configuration", "statistics"],
        },
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": ready},
        "/v2/models": {"models": list(models)},
    }
    if path in answers:
        if method != "GET":
            return failure(405, "this path needs GET")
        return json_response(answers[path], 503 if path == "/v2/health/ready" and not ready else 200)
    if path.startswith(MODELS):
        name = path.removeprefix(MODELS).split("/")[0]
        return failure(404, f"there is no model '{name[:80]}'{nearest(name, models)}; models: {', '.join(models)}")
    return failure(404, "there is no such path; the server speaks the Open Inference Protocol, at /v2")
