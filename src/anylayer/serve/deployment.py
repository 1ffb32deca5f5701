"""Start networks on Ray Serve: one deployment per network, and one for the health of all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from anylayer.api import Net
from anylayer.errors import AnyLayerError, EngineError, InputError, at, wording
from anylayer.libraries.ray import free_cores, listen_at_own_address, listening, need_cores, ray, serve
from anylayer.libraries.starlette import Request, Response
from anylayer.network import Array
from anylayer.ray.sending import sent
from anylayer.serve.http import MODELS, STATISTICS, answer, body_of, failure, json_response, server_answer
from anylayer.serve.retry import ATTEMPTS, ENDED, ENVIRONMENT, LARGEST, PAUSE
from anylayer.serve.served import Served, Settings, need_servable
from anylayer.serve.statistics import Statistics, statistics_json

_ROOT = "anylayer"
_LIMITS = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60"}
"""Variables for Ray Serve, where the user has not set them. Its own limits, 5 and 10 seconds, end processes that
are only slow because other programs compute."""
_PATIENCE = 30.0
"""Seconds of waiting between two messages that say what is being waited for."""
_ANSWER_SECONDS = 600
"""Seconds after which a network that runs must have said what it measured."""
_QUEUED = 1000
"""Requests that wait for one network. More are refused with status 503."""


class Replica:
    """A process that serves one network. `net` is the reference to it, in a list."""

    def __init__(self, net: Sequence[Any], settings: Settings) -> None:
        listen_at_own_address()
        self._served = Served(ray.get(net[0]), settings)
        self._thread = ThreadPoolExecutor(1)
        self._together = serve().batch(
            max_batch_size=max(1, settings.batch if self._served.batches.size > 1 else 1), batch_wait_timeout_s=0
        )(self._run)

    async def _run(
        self, requests: list[Mapping[str, Array]]
    ) -> list[tuple[dict[str, Array] | AnyLayerError, int]]:
        """Run the waiting requests in the network's thread, so that other requests can arrive in the meantime."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._served.run, requests)

    async def __call__(self, request: Request) -> Response:
        gather = partial(statistics_of, self._served.settings.name)
        return await answer(self._served, self._together, request, gather)

    async def answer(self, scope: MutableMapping[str, Any], body: bytes) -> Response:
        """Answer a request that a Front has received. `scope` is ASGI's."""

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return await self(Request(scope, receive))

    def describe(self) -> dict[str, Any]:
        """Return what the network measured."""
        return self._served.describe()

    def statistics(self) -> Statistics:
        """Return the statistics of this process."""
        return self._served.statistics


async def statistics_of(model: str) -> Sequence[Statistics]:
    """Return the statistics of the processes that serve a model."""
    handle = serve().get_deployment_handle(Replica.__name__, model)
    return await handle.broadcast("statistics").results_async()


class Root:
    """The process that answers for the whole server."""

    def __init__(self, models: Sequence[str]) -> None:
        listen_at_own_address()
        self._models = list(models)

    async def __call__(self, request: Request) -> Response:
        path, ready = request.url.path.rstrip("/"), True
        if path == STATISTICS and request.method == "GET":
            stats = [statistics_json(model, await statistics_of(model)) for model in self._models]
            return json_response({"model_stats": stats})
        if path == "/v2/health/ready":
            ready = await asyncio.to_thread(are_ready, self._models)
        return server_answer(request.url.path, request.method, self._models, ready)


def are_ready(models: Sequence[str]) -> bool:
    """Return whether all networks accept requests."""
    applications = serve().status().applications
    return all(name in applications and applications[name].status == "RUNNING" for name in models)


@contextlib.contextmanager
def serving(
    networks: Sequence[tuple[Net, Settings]],
    host: str = "127.0.0.1",
    port: int = 8000,
    replicas: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[dict[str, dict[str, Any]]]:
    """Serve networks on the cluster that the program is connected to, and give what each measured. At the end of
    the `with` block they stop, after the requests that they are computing; other applications continue.

    replicas: the number of processes per network. Where Ray Serve runs already, it listens where it did before.
    tell: a function that is called with a description of what is being waited for, if that takes long. Raises
    InputError for a name that a URL cannot have, or that an application of the cluster has, and if the cluster has
    too few free cores; EngineError if Ray Serve does not start, and what `compile` raises.
    """
    need_servable(networks)
    names = [settings.name for _, settings in networks]
    on = serve()
    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # after the import, which sets it
    ours = listening() is None
    for name in set(on.status().applications) & {*names, _ROOT}:
        rule = f"an application '{name}' runs on this cluster already"
        other = "another anylayer serves there" if name == _ROOT else f"serve the model as NAME={name}"
        raise InputError(f"{rule}; {other}")
    share = max(1, max(free_cores()) // (len(networks) * replicas))
    networks = [
        (net, replace(model_settings, threads=model_settings.threads or share)) for net, model_settings in networks
    ]
    cpus = [model_settings.threads or share for _, model_settings in networks] * replicas
    need_cores(cpus, wording("give fewer threads or replicas", "give a smaller --threads or --replicas"))
    if ours:
        with _telling("Ray Serve", tell):
            _start(host, port, max(settings.largest for _, settings in networks))
    started = []
    try:
        started.append(_ROOT)
        with _telling(_ROOT, tell):
            _run(_deployment(Root, 0, 1).bind(names), _ROOT, "/" if ours else "/v2")
        handles = {}
        for net, settings in networks:
            application = _deployment(Replica, settings.threads or share, replicas).bind([sent(net)], settings)
            if not ours:
                application = _deployment(Front, 0, 1, _QUEUED).bind(application, settings.largest)
            started.append(settings.name)
            with at(net.network.source), _telling(settings.name, tell):
                handle = _run(application, settings.name, MODELS + settings.name)
                handles[settings.name] = _description(handle, settings.name)
        yield handles
    finally:
        for name in reversed(started):
            on.delete(name)


def _run(application: Any, name: str, route: str) -> Any:
    """Start an application of Ray Serve. Raises EngineError where it does not start."""
    try:
        return serve().run(application, name=name, route_prefix=route)
    except (RuntimeError, TimeoutError, serve().exceptions.RayServeException) as error:
        raise EngineError(f"'{name}' does not start: {_last_line(error)}") from None


def _description(handle: Any, name: str) -> dict[str, Any]:
    """Return what a network measured. Raises EngineError if it does not answer."""
    try:
        description: dict[str, Any] = handle.describe.remote().result(timeout_s=_ANSWER_SECONDS)
    except TimeoutError:
        raise EngineError(f"'{name}' runs, but has not answered for {_ANSWER_SECONDS} seconds") from None
    return description


@contextlib.contextmanager
def _telling(name: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Call `tell` with Ray Serve's status from time to time while the block waits for an application."""
    finished, began = threading.Event(), time.monotonic()

    def watch() -> None:
        while not finished.wait(_PATIENCE):
            with contextlib.suppress(ray.exceptions.RayError, serve().exceptions.RayServeException):
                why = why_waiting(serve().status(), name)
                if not finished.is_set():
                    tell(f"waiting for '{name}' since {time.monotonic() - began:.0f} seconds{why}")

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        finished.set()


def why_waiting(status: Any, name: str) -> str:
    """Return ": " and what the status of Ray Serve says of an application, or "" where it says nothing."""
    application = status.applications.get(name)
    texts = (
        []
        if application is None
        else [application.message, *(one.message for one in application.deployments.values())]
    )
    said = next((text for text in texts if text.strip()), None)
    return "" if said is None else f": {_cause(said, 0)}"


def _start(host: str, port: int, largest: int) -> None:
    """Start Ray Serve for requests of at most `largest` bytes. Its processes inherit the environment of the one
    that calls `_begin`."""
    limits = {name: value for name, value in _LIMITS.items() if name not in os.environ}
    begin = ray.remote(num_cpus=0, runtime_env={"env_vars": ENVIRONMENT | limits | {LARGEST: str(largest)}})(
        _begin
    )
    try:
        ray.get(begin.remote(host, port))
        while "STARTING" in serve().status().proxies.values():
            time.sleep(0.5)
    except ray.exceptions.RayError as error:
        raise EngineError(f"Ray Serve does not start: {_last_line(error)}") from None


def _begin(host: str, port: int) -> None:
    with contextlib.suppress(TimeoutError):  # after a minute; its processes continue to start
        serve().start(http_options={"host": host, "port": port})


def _deployment(cls: type, cpus: int, replicas: int, ongoing: int = 64) -> Any:
    return serve().deployment(
        num_replicas=replicas,
        max_ongoing_requests=ongoing,
        max_queued_requests=_QUEUED,
        ray_actor_options={"num_cpus": cpus},
    )(cls)


def _last_line(error: Exception) -> str:
    return _cause(str(error), -1)


def _cause(text: str, index: int) -> str:
    """Return the message of anylayer's error in a text, or else one of the text's lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = next((line for line in lines if line.startswith("anylayer.errors.")), None)
    return lines[index] if last is None else last.partition(": ")[2]


class Front:
    """A process that sends each request to one of the `replicas`, and to another one if that one ends.

    It accepts requests on a cluster where Ray Serve ran before: there, the processes that accept connections have
    started without retry.py, so that they send no request again.

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
                return await self._replicas.answer.remote(scope, body)
            except self._busy:
                return failure(503, "too many requests wait for this network")
            except self._ended:
                await asyncio.sleep(PAUSE * 2**attempt)
        return failure(500, ENDED)

    async def describe(self) -> dict[str, Any]:
        """Return what the network measured."""
        return await self._replicas.describe.remote()
