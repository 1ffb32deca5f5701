"""Requests are computed again if the process that computed them ends before the response is complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("starlette", reason="ray[serve] is not installed")

from anylayer.serve import retry

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
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(retry.Retry(application)({"type": "http", "path": path}, receive, send))
    return sent, calls


async def before_the_body(call: int, receive: Any, send: Any) -> None:
    """End without a message."""


async def within_the_request(call: int, receive: Any, send: Any) -> None:
    await receive()


async def within_the_response(call: int, receive: Any, send: Any) -> None:
    for _ in BODY:
        await receive()
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
    assert exchanged(within_the_response, 1, path="/pay") == ([START], 1)
