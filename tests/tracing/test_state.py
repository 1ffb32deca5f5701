"""Functions whose result differs between calls, or depends on values that are not seen, are refused."""

from __future__ import annotations

import datetime
import logging
import os
import random
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.tracing import call_user, trace, trace_checked

CALLS = 0
LAST: dict[str, Any] = {"n": 0}
GENERATOR = np.random.default_rng(3)
TYPES = [TensorType.of((2, 3))]


class Base:
    """The state of the classes in this file."""

    total = 0

    def __init__(self) -> None:
        self.n = 0
        self.seen: list[Any] = []
        self.recent: deque[float] = deque(maxlen=3)
        self.cache: dict[Any, Any] = {}
        self.buffer = np.zeros(3, np.float32)
        self.random = random.Random(1)
        self.generator = np.random.default_rng(2)
        self.numbers = iter(range(10**6))


def made(body: Callable[[Any, Array], Any]) -> Any:
    """Return an instance whose forward calls `body`."""

    class Made(Base):
        def forward(self, inputs: list[Array]) -> Any:
            return [body(self, inputs[0])]

    return Made()


def traced(body: Callable[[Any, Array], Any]) -> Graph:
    instance = made(body)
    return trace_checked(lambda arrays: call_user(instance.forward, arrays), TYPES, subject=lambda: instance)


def _third_call(self: Base, x: Array) -> Array:
    self.n += 1
    return x * 2 if self.n >= 3 else x * 1


def _every_tenth(self: Base, x: Array) -> Array:
    self.n += 1
    return x * (0 if self.n % 10 == 0 else 1)


def _global(self: Base, x: Array) -> Array:
    global CALLS
    CALLS += 1
    return x * 2 if CALLS > 100 else x


def _global_item(self: Base, x: Array) -> Array:
    LAST["n"] += 1
    return x * 2 if LAST["n"] > 100 else x


def _of_the_class(self: Base, x: Array) -> Array:
    type(self).total += 1
    return x * 2 if self.total > 100 else x


def _list(self: Base, x: Array) -> Array:
    self.seen.append(1)
    return x * 2 if len(self.seen) > 100 else x


def _deque(self: Base, x: Array) -> Array:
    self.recent.append(len(self.recent))
    return x * 2 if list(self.recent) == [7, 7, 7] else x


def _element(self: Base, x: Array) -> Array:
    self.buffer[1] += 1
    return x * 2 if self.buffer[1] > 100 else x


def _two_behind(self: Base, x: Array) -> Array:
    before, self.n, self.last = self.n, getattr(self, "last", 0), x
    return x if type(before) is int else x - before


def _default(self: Base, x: Array, counted: list[int] = []) -> Any:  # noqa: B006 (the default that changes is what is tested)
    counted.append(1)
    return x * 2 if len(counted) > 100 else x


def _iterator(self: Base, x: Array) -> Array:
    return x * 2 if next(self.numbers) > 100 else x


def _helper(self: Base, x: Array) -> Array:
    return _global(self, x)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            _third_call,
            r"test_state\.py:\d+: .*\.n changes in every call, but state that is kept",
        ),
        (_every_tenth, r"\.n changes in every call"),
        (_global, "CALLS changes in every call"),
        (_global_item, r"LAST\['n'\] changes in every call"),
        (_of_the_class, r"Made\.total changes in every call"),
        (_list, r"len\(.*seen\) changes in every call"),
        (_deque, r"recent.* changes in every call"),
        (_element, r"buffer (changes in every call|is written to, but state)"),
        (_two_behind, r"changes in every call|of an earlier call is used"),
        (_default, r"a default of _default\(\).* changes in every call"),
        (_iterator, r"numbers changes in every call"),
        (_helper, "CALLS changes in every call"),
        (
            lambda self, x: x * (0 if random.random() < 1e-12 else 1),
            "draws random numbers; a value that differs",
        ),
        (lambda self, x: x * (0 if np.random.rand() < 1e-12 else 1), "draws random numbers"),
        (lambda self, x: x * (0 if np.random.randn() == 7 else 1), "draws random numbers"),  # one is kept
        (lambda self, x: x * (0 if GENERATOR.random() < 1e-12 else 1), "GENERATOR changes in every call"),
        (lambda self, x: x * (0 if self.generator.random() < 1e-12 else 1), "generator changes in every call"),
        (lambda self, x: x * (0 if self.random.random() < 1e-12 else 1), "random changes in every call"),
        (
            lambda self, x: x * (0 if np.random.default_rng().random() < 1e-12 else 1),
            r"np\.random\.default_rng draws random numbers that no seed determines",
        ),
        (
            lambda self, x: x * (0 if random.Random().random() < 1e-12 else 1),
            r"random\.Random draws random numbers that no seed",
        ),
        (lambda self, x: x * (0 if os.urandom(8) == bytes(8) else 1), r"os\.urandom draws random numbers"),
        (lambda self, x: x * (0 if uuid.uuid4().int == 7 else 1), r"uuid\.uuid4 draws random numbers"),
        (
            lambda self, x: x * (0 if time.time() % 1 < 1e-9 else 1),
            r"\.py:\d+: time\.time reads the clock",
        ),
        (
            lambda self, x: x * (0 if datetime.datetime.now().microsecond == 7 else 1),
            r"datetime\.now reads the clock",
        ),
    ],
)
def test_values_that_differ_between_calls_are_refused(body: Callable[[Any, Array], Any], text: str) -> None:
    with pytest.raises(TraceError, match=text):
        traced(body)


def _local_import(self: Base, x: Array) -> Array:
    import time as clock

    return x * (0 if clock.perf_counter() % 1 < 1e-9 else 1)


def _seeded(self: Base, x: Array) -> Array:
    table = np.random.default_rng(5).standard_normal(3).astype(np.float32)
    return x * table


def _seeded_globally(self: Base, x: Array) -> Array:
    np.random.seed(5)
    return x * np.float32(np.random.rand())


def _cached(self: Base, x: Array) -> Array:
    if x.shape not in self.cache:
        self.cache[x.shape] = np.arange(3, dtype=np.float32)
    self.n += 1
    self.last = x
    return x * self.cache[x.shape]


def _scratch(self: Base, x: Array) -> Array:
    self.buffer[:] = np.arange(3)
    return x * self.buffer.copy()


def test_clock_imported_inside_a_function_is_refused() -> None:
    with pytest.raises(TraceError, match=r"test_state\.py:\d+: clock\.perf_counter reads the clock"):
        traced(_local_import)


class Timed:
    """A detector with a method that measures itself, and a timer that is never called."""

    def __init__(self) -> None:
        self.timer = Stopwatch()

    def decode(self, x: Array) -> Array:
        return x * 2

    def __call__(self, x: Array) -> Any:
        return self.decode(x), self.timer()


class Stopwatch:
    """Reads the clock when it is called."""

    def __call__(self) -> float:
        return time.perf_counter()


DETECTOR = Timed()


def _temporary(self: Base, x: Array) -> Array:
    with tempfile.TemporaryFile():  # the function does not see its random name
        return x * 2


@pytest.mark.parametrize(
    "body", [lambda self, x: DETECTOR.decode(x), lambda self, x: Timed().decode(x), _temporary]
)
def test_clock_in_code_that_is_not_called_is_no_reason_to_refuse(body: Callable[[Any, Array], Any]) -> None:
    assert [o.op for o in traced(body).ops] == ["Mul"]
    with pytest.raises(TraceError, match=r"test_state\.py:\d+: time\.perf_counter reads the clock"):
        traced(lambda self, x: DETECTOR(x)[0])


def test_profiler_that_runs_already_is_kept() -> None:
    seen: list[str] = []

    def event(frame: Any, kind: str, argument: Any) -> None:
        seen.append(kind)

    before = sys.getprofile()
    sys.setprofile(event)
    try:
        traced(lambda self, x: x * 2)
        kept = sys.getprofile()
    finally:
        sys.setprofile(before)
    assert kept is event and seen


@pytest.mark.parametrize("body", [_seeded, _seeded_globally, _cached, _scratch])
def test_reproducible_state_is_traced(body: Callable[[Any, Array], Any]) -> None:
    assert [o.op for o in traced(body).ops] == ["Mul"]


def _raises(self: Base, x: Array) -> Array:
    try:
        with np.errstate(over="raise"):
            return np.exp(x)
    except FloatingPointError:
        return x


def _set_for_good(self: Base, x: Array) -> Array:
    before = np.seterr(divide="raise")
    try:
        return 1 / x
    except FloatingPointError:
        return x
    finally:
        np.seterr(**before)


def _called(self: Base, x: Array) -> Array:
    found: list[str] = []
    with np.errstate(invalid="call", call=lambda what, flag: found.append(what)):
        y = np.sqrt(x)
    return y if not found else x


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (_raises, r"test_state\.py:\d+: np\.errstate\(over='raise'\) lets the values of the arrays decide"),
        (_set_for_good, r"np\.errstate\(divide='raise'\) lets the values"),
        (_called, r"np\.errstate\(invalid='call'\) lets the values"),
        (lambda self, x: x * 0 if "nan" in str(x) else x, r"str\(\), print\(\) or an f-string needs the values"),
        (lambda self, x: x * 0 if "nan" in f"{x}" else x, r"or an f-string needs the values"),
        (lambda self, x: x * 0 if "nan" in f"{x.sum():.3f}" else x, r"or an f-string needs the values"),
        (lambda self, x: x * 0 if "nan" in np.array_str(x) else x, r"or an f-string needs the values"),
        (lambda self, x: x * 0 if "nan" in repr([x]) else x, r"or an f-string needs the values"),
    ],
)
def test_decisions_based_on_hidden_values_are_refused(body: Callable[[Any, Array], Any], text: str) -> None:
    with pytest.raises(TraceError, match=text):
        traced(body)


def test_ignored_floating_point_errors_and_shape_texts_are_traced() -> None:
    def body(self: Base, x: Array) -> Array:
        logging.getLogger("test_state").debug("%s of %s", x, x.shape)
        with np.errstate(all="ignore"):
            y = np.sqrt(x)
        with np.errstate(all="warn"):
            return y if "nan" not in f"{x.shape} {x.dtype}" else x

    assert [o.op for o in traced(body).ops] == ["Sqrt"]


def test_errstate_of_the_caller_has_no_effect() -> None:
    with np.errstate(all="raise"):
        assert len(trace(lambda arrays: [np.sqrt(arrays[0])], TYPES).ops) == 1


def test_constant_of_an_earlier_call_is_used_until_it_changes() -> None:
    def kept(self: Base, x: Array) -> Array:
        if "ones" not in self.cache:
            self.cache["ones"] = np.zeros(3, np.float32)
            self.cache["ones"][:] = 1
        out = np.zeros(x.shape, np.float32)
        out[:] = x
        return out * self.cache["ones"]

    def counted(self: Base, x: Array) -> Array:
        y = kept(self, x)
        self.cache["ones"][0] += 1
        return y * 0 if self.cache["ones"][0] > 100 else y

    assert [o.op for o in traced(kept).ops] == ["Mul"]
    with pytest.raises(TraceError, match=r"cache\['ones'\] (changes in every|is written to)"):
        traced(counted)


def test_variable_that_a_later_line_assigns_has_no_state() -> None:
    def outer() -> Any:
        def forward(inputs: list[Array]) -> Any:
            return [inputs[0] * 2 if inputs[0].max() > 1 else later(inputs[0])]

        graph = trace_checked(forward, TYPES)
        if len(graph.ops) > 100:
            later = np.negative
        return graph

    with pytest.raises(TraceError, match="later"):
        outer()
