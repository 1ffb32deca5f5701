"""Requests are computed again if the process that computed them ends before the response is complete."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("starlette", reason="ray[serve] is not installed")

from anylayer.serve import http, retry

BODY = [
    {"type": "http.request", "body": b"abc", "more_body": True},
    {"type": "http.request", "body": b"def", "more_body": False},
]
START = {"type": "http.response.start", "status": 200, "headers": []}
Deaths = Callable[[int, Any, Any], Any]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0)


def exchanged(
    die: Deaths, deaths: int, messages: list[Any] = BODY, path: str = "/v2/models/net/infer"
) -> tuple[list[dict[str, Any]], int]:
    """Return the messages of the response to a request, and how often it was computed. `die` is called instead of
    the first `deaths` computations."""
    waiting, sent, calls = list(messages), [], 0

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal calls
        calls += 1
        if calls <= deaths:
            await die(calls, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        await send(START)
        await send({"type": "http.response.body", "body": body})

    async def receive() -> Any:
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(retry.Retry(application)({"type": "http", "path": path, "headers": []}, receive, send))
    return sent, calls


async def before_the_body(call: int, receive: Any, send: Any) -> None:
    """End without a message."""


async def within_the_request(call: int, receive: Any, send: Any) -> None:
    await receive()


async def within_the_response(call: int, receive: Any, send: Any) -> None:
    assert (await receive())["body"] == b"abcdef"
    await send(START)


async def with_the_client(call: int, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@pytest.mark.parametrize("die", [before_the_body, within_the_request, within_the_response])
def test_request_is_computed_again_from_its_first_message(die: Deaths) -> None:
    sent, calls = exchanged(die, 3)
    assert calls == 4
    assert sent == [START, {"type": "http.response.body", "body": b"abcdef"}]


def test_request_that_ends_every_process_is_refused() -> None:
    sent, calls = exchanged(within_the_request, 100)
    assert calls == 4
    assert sent[0]["status"] == 500
    assert "ended, and so did 3 others" in json.loads(sent[1]["body"])["error"]


def test_request_of_a_client_that_has_left_is_not_computed_again() -> None:
    assert exchanged(with_the_client, 1, [*BODY, {"type": "http.disconnect"}]) == ([], 1)


def test_request_for_another_application_is_not_computed_again() -> None:
    sent, calls = exchanged(before_the_body, 1, path="/pay")
    assert (sent, calls) == ([], 1)


def test_unfinished_body_keeps_no_network_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", -63.9)  # 0.1 s with the size that is allowed
    sent, calls = exchanged(before_the_body, 0, BODY[:1])
    assert calls == 0
    assert sent[0]["status"] == 408 and (b"connection", b"close") in sent[0]["headers"]


def test_large_body_keeps_no_network_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(retry.LARGEST, "5")
    sent, calls = exchanged(before_the_body, 0)
    assert (sent[0]["status"], calls) == (413, 0)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address of a server with short limits, of which an answer is "yes"."""
    from uvicorn import Config, Server

    from anylayer.libraries import uvicorn

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"yes"})

    monkeypatch.setattr(uvicorn, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(uvicorn, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(uvicorn.config, "HTTP_PROTOCOLS", dict(uvicorn.config.HTTP_PROTOCOLS))
    retry.middlewares()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        server = Server(Config(application, lifespan="off", log_config=None))
        thread = Thread(target=lambda: asyncio.run(server.serve([one])), daemon=True)
        thread.start()
        yield one.getsockname()
        server.should_exit = True
        thread.join(30)


def answer_of(peer: socket.socket, words: bytes) -> bytes:
    """Return what the server answers, and b"" if it closes the connection."""
    peer.settimeout(30)
    found = b""
    with suppress(ConnectionError):
        peer.sendall(words)
        while not found.endswith(b"yes") and (more := peer.recv(1000)):
            found += more
    return found


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def test_connection_with_slow_headers_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as peer:
        assert answer_of(peer, WHOLE).startswith(b"HTTP/1.1 200")
        assert answer_of(peer, WHOLE[:-2]) == b""
    with socket.create_connection(address) as peer:
        assert answer_of(peer, b"") == b""


def test_connections_of_a_peer_are_limited(address: tuple[str, int]) -> None:
    for _ in range(2):
        with socket.create_connection(address) as one, socket.create_connection(address) as two:
            assert answer_of(one, WHOLE).startswith(b"HTTP/1.1 200")
            assert answer_of(two, WHOLE).startswith(b"HTTP/1.1 200")
            with socket.create_connection(address) as three:
                assert answer_of(three, WHOLE) == b""
            one.shutdown(socket.SHUT_RDWR)
            two.shutdown(socket.SHUT_RDWR)
        time.sleep(0.2)
