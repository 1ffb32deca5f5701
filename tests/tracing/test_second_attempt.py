"""The second attempt of the tracer, and the checks that refuse traces which would be wrong."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy
import numpy as np
import pytest
from numpy import empty, zeros

from anylayer.errors import LayerError, TraceError
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import call_user, trace, trace_checked
from tests.tracing import reached

X = np.random.default_rng(2).standard_normal((2, 3, 4)).astype(np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
CALLS = 0


def upsampled(x: Array) -> Array:
    """Repeat each row, as a helper function in the user's module."""
    out = np.zeros((x.shape[0], x.shape[1] * 2, x.shape[2]), np.float32)
    out[:, ::2] = x
    out[:, 1::2] = x
    return out


class User:
    """A layer class as a user writes it."""

    def __init__(self) -> None:
        self.weights = np.arange(3, dtype=np.float32)
        self.blobs = [TABLE.copy(), TABLE * 2]
        self.count = 0
        self.seen: Any = None

    def helper(self, x: Array) -> Any:
        return upsampled(x) * np.float32(2)

    @staticmethod
    def plain(x: Array) -> Array:
        buffer = np.empty(x.shape, dtype=x.dtype)
        buffer[...] = x
        return buffer


def method(body: Callable[[Any, Array], Any]) -> Any:
    """Return an instance whose forward calls `body`."""

    class Made(User):
        def forward(self, inputs: list[Array]) -> Any:
            return [body(self, inputs[0])]

    return Made()


def check(body: Callable[[Any, Array], Any], nodes: int | None = None) -> None:
    """Check that the first attempt fails, and that the second one traces a graph with NumPy's results."""
    types = [TensorType.of(X.shape)]
    made = method(body)
    want = method(body).forward([X.copy()])[0]
    with pytest.raises(TraceError):
        trace(lambda arrays: call_user(made.forward, arrays), types)
    graph = trace_checked(
        lambda arrays: call_user(made.forward, arrays),
        types,
        rebuild=lambda: lambda arrays: call_user(method(body).forward, arrays),
    )
    assert_same(run_graph(graph, [X], "onnxruntime")[0], np.asarray(want))
    if nodes is not None:
        assert len(graph.ops) <= nodes


def _accumulating(self: User, x: Array) -> Array:
    total = np.zeros((3, 4), np.float32)
    for part in x:
        total += part
    return total


def _opencv_loops(self: User, x: Array) -> Array:
    out = np.zeros((2, 2, 3), np.float32)
    for a in range(2):
        for b in range(2):
            for c in range(3):
                out[a, b, c] = x[a, c, b] * 2 + x[a, 2 - c, 3]
    return out


def _other_names(self: User, x: Array) -> Array:
    a, b = zeros(x.shape, x.dtype), empty(shape=x.shape, dtype=x.dtype)
    c = numpy.ones(4, np.float32)
    a[0], b[:] = x[0], x * 2
    c[1:3] = x[0, 0, :2]
    return a + b * c


def _arrays_of_lists(self: User, x: Array) -> Array:
    pair = np.array([x[0].sum(), x[1].max() * 2])
    more = np.asarray([x[0], x[1] + 1])
    return pair[:, None, None] * more + np.sum([x, x], axis=0) + np.full((3, 4), x[0, 0, 0])


def _numpy_arrays(self: User, x: Array) -> Array:
    best = x[0].argmax(1) % 3
    rows = self.blobs[0][best] + np.take(self.blobs[1], best, axis=0)
    return rows + self.weights.dot(x[0]) + TABLE.copy() * 0


def _local_import(self: User, x: Array) -> Array:
    import numpy as n

    out = n.zeros(x.shape, x.dtype)
    out[:, 0] = x[:, 1]
    return out


def _contiguous(self: User, x: Array) -> Array:
    turned = np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(2, -1)
    turned[:, 0] = 0
    return np.array(turned, copy=True) + np.asarray(turned)


def _joined(self: User, x: Array) -> Array:
    columns = np.c_[x[0, :, 0], x[0], np.arange(3)]
    rows = np.r_[x[0, 0], 7, x[1, 0, :2], 0:2]
    return columns * 2 + rows[:6] + np.r_[0:6]


def _nested(self: User, x: Array) -> Array:
    def fill(value: Array) -> Any:
        out = np.zeros((3, 4), np.float32)
        out[:] = value
        return out

    return fill(x[0]) + fill(x[1])


def _a_copy_of_a_constant(self: User, x: Array) -> Array:
    anchors = np.arange(12, dtype=np.float32).reshape(3, 4)
    anchors[1] = x[0, 0]
    grid = np.linspace(0, 1, 4, dtype=np.float32)
    grid[0] = x[0, 0, 0]
    return anchors * grid


def _sorted_by_elements(self: User, x: Array) -> Array:
    points = sorted(x[0].T.tolist(), key=lambda p: p[1])
    high = sorted(x[1], key=lambda row: np.round(row[0]), reverse=True)
    pairs = sorted(((v, i) for i, v in enumerate(x.ravel())), key=lambda p: np.round(p[0] * 2))
    return np.concatenate([*points, *high, [i for _, i in pairs], sorted(x[0, 0])])


def _functions_of_lists(self: User, x: Array) -> Array:
    return np.degrees([x[0, 0, 0], math.atan2(x[0, 0, 1], 2.0)]) + np.maximum([x[0, 0, 0], x[1, 0, 0]], 0.5)


@pytest.mark.parametrize(
    "body",
    [
        _functions_of_lists,
        _sorted_by_elements,
        lambda self, x: upsampled(x),
        lambda self, x: self.helper(x),
        lambda self, x: self.plain(x),
        _accumulating,
        _opencv_loops,
        _other_names,
        _arrays_of_lists,
        _numpy_arrays,
        _local_import,
        _contiguous,
        _joined,
        _nested,
        _a_copy_of_a_constant,
    ],
)
def test_second_attempt_traces_writes_to_new_arrays(body: Callable[[Any, Array], Any]) -> None:
    check(body)


HEAD, SLOTTED = reached.Head(), reached.Slotted()


def filled_row(row: Array, x: Array) -> Array:
    row = row.copy()
    row[0] = x[0, 0]
    return row


def imported(x: Array) -> Array:
    from tests.tracing.reached import filled

    return filled(x)


def in_a_context(x: Array) -> Any:
    with HEAD.buffer(x) as buffer:
        return buffer * 2


REACHED: dict[str, Callable[[Array], Any]] = {
    "module": lambda x: reached.filled(x),
    "nested attributes": lambda x: SLOTTED.head.decode(x),
    "object made inside": lambda x: reached.Inherited().decode(x),
    "static method": lambda x: reached.Head.static(x),
    "class method": lambda x: reached.Inherited.of_class(x),
    "callable object": HEAD,
    "bound method": SLOTTED.heads["second"][0].decode,
    "partial": functools.partial(reached.filled),
    "decorated": reached.decorated,
    "closure": reached.made(),
    "attribute": HEAD.by_attribute,
    "operator": lambda x: HEAD @ x,
    "iteration": lambda x: next(iter(HEAD))(x),
    "property": lambda x: filled_row(HEAD.grid, x),
    "containers": lambda x: SLOTTED.heads["first"][0].decode(x) + SLOTTED.heads["second"][0](x),
    "map": lambda x: sum(map(HEAD.decode, [x, x + 1])),
    "context": in_a_context,
    "import": lambda x: imported(x),
    "tables": HEAD.chosen,
    "table on data": lambda x: reached.Tables.rows[x.argmax(1)] + reached.Tables().rows[x.argmin(1)],
    "cached": lambda x: filled_row(reached.grid(4), x),
}


@pytest.mark.parametrize("name", REACHED)
def test_second_attempt_reaches_every_function_that_is_called(name: str) -> None:
    function, x = REACHED[name], X[0] - X[0].T[:3, :3].sum() / 9
    types, before = [TensorType.of(x.shape)], {**vars(reached), **vars(reached.Head), **vars(HEAD)}
    with pytest.raises(TraceError):
        trace(lambda arrays: [call_user(function, arrays[0])], types)
    graph = trace_checked(lambda arrays: [call_user(function, arrays[0])], types)
    assert_same(run_graph(graph, [x], "onnxruntime")[0], np.asarray(function(x)))
    after = {**vars(reached), **vars(reached.Head), **vars(HEAD)}
    assert all(after[key] is value for key, value in before.items())


def test_identity_and_state_are_shared_by_the_copies() -> None:
    """Two paths lead to one object, and a class is the class of its instances."""
    slotted = reached.Slotted()

    def body(x: Array) -> Array:
        assert slotted.head is slotted.heads["first"][0] and type(slotted.head) is reached.Head
        assert isinstance(slotted.heads["second"][0], reached.Head)
        slotted.head.scale = 5
        out = np.zeros(x.shape, np.float32)
        out[:] = x * slotted.heads["first"][0].scale
        return out

    graph = trace_checked(lambda arrays: [call_user(body, arrays[0])], [TensorType.of(X.shape)])
    assert_same(run_graph(graph, [X], "onnxruntime")[0], X * 5)
    assert reached.Head.scale == 2


def test_second_attempt_records_few_operators_for_slices() -> None:
    check(lambda self, x: upsampled(x), nodes=6)
    check(_accumulating, nodes=8)


def test_second_attempt_does_not_change_globals() -> None:
    before = dict(globals())
    check(lambda self, x: self.helper(x))
    assert all(globals()[name] is value for name, value in before.items())
    assert np.zeros is numpy.zeros and type(upsampled(X)) is np.ndarray


def refuse(body: Callable[[Any, Array], Any], text: str, *, own: bool = True) -> None:
    made = method(body)
    with pytest.raises(TraceError, match=text) as caught:
        trace_checked(lambda arrays: call_user(made.forward, arrays), [TensorType.of(X.shape)])
    assert not own or str(caught.value).startswith("test_second_attempt.py:"), str(caught.value)


def _counts(self: User, x: Array) -> Array:
    self.count += 1
    return x * self.count


def _counts_globally(self: User, x: Array) -> Array:
    global CALLS
    CALLS += 1
    out = np.zeros(4, np.float32)
    out[:] = x[0, 0]
    return out + CALLS


def _remembers(self: User, x: Array) -> Array:
    last = x if self.seen is None else self.seen
    self.seen = x
    return x - last


def _remembers_in_an_array(self: User, x: Array) -> Array:
    self.weights[0] = x[0, 0, 0]
    return x * self.weights[0]


def _asks(self: User, x: Array) -> Array:
    out = np.zeros(x.shape, np.float32)
    out[...] = x
    if out > 0:
        return out
    return -out


def _pixels(self: User, x: Array) -> Array:
    out = np.zeros((60, 60), np.float32)
    for i in range(60):
        for j in range(60):
            out[i, j] = x[0, 0, 0] * i + j
    return out


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda self, x: x * np.random.rand(), "forward draws random numbers; .* pass it as an input"),
        (lambda self, x: x + np.random.rand(*x.shape), "forward draws random numbers"),
        (lambda self, x: x * np.float64(time.perf_counter()), "two calls of forward record different operators"),
        (_counts, r"\.count changes in every call, but state that is kept between two calls"),
        (_counts_globally, "CALLS changes in every call"),
        (_remembers, "a traced array of an earlier call is used; do not keep arrays between two calls"),
        (
            _remembers_in_an_array,
            "self.weights is written to, but state that is kept between two calls",
        ),
        (_asks, "if, while, and, or, not .* needs the values of a traced array"),
        (_pixels, "this records more than 5000 operators; compute whole slices instead of single elements"),
        (
            lambda self, x: x.no_such_thing(),
            "forward raised .AttributeError: 'numpy.ndarray' object has no",
        ),
        (lambda self, x: x + np.ones(5), r"forward raised .ValueError: operands could not be broadcast"),
    ],
)
def test_irreproducible_or_failing_functions_are_refused(body: Callable[[Any, Array], Any], text: str) -> None:
    refuse(body, text)


def test_state_that_does_not_affect_the_result_is_allowed_and_restored() -> None:
    def caches(self: User, x: Array) -> Array:
        self.count += 1
        if self.seen is None:
            self.seen = np.arange(4, dtype=np.float32)
        return x * self.seen

    made = method(caches)
    trace_checked(lambda arrays: call_user(made.forward, arrays), [TensorType.of(X.shape)])
    assert made.count == 0
    assert made.seen is None


def test_caught_refusals_are_raised() -> None:
    def swallows(self: User, x: Array) -> Array:
        try:
            return x if x > 0 else -x
        except Exception:
            return x * 2

    refuse(swallows, "if, while, and, or, not")


def test_numpy_errors_of_the_rules_are_raised() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        raise LayerError("group=4 does not divide 6 channels")

    with pytest.raises(LayerError, match="group=4 does not divide 6 channels"):
        trace_checked(forward, [TensorType.of((2,))])


def test_call_user_outside_a_trace_calls_the_function() -> None:
    made = method(lambda self, x: upsampled(x))
    assert_same(call_user(made.forward, [X])[0], upsampled(X))
    assert type(call_user(upsampled, X)) is np.ndarray


def test_arrays_created_with_like_are_constants() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        grid = np.zeros((3, 4), np.float32, like=x)
        grid[1] = 2
        grid[:, ::2] += np.arange(2, dtype=np.float32)
        scale = float(grid.max()) if grid[1, 0] > 1 else 0.0
        rows = range(int(grid.sum()) % 3)
        return [x * (np.sqrt(grid) * np.float32(scale)) + len(rows)]

    graph = trace(forward, [TensorType.of((2, 3, 4))])
    assert [o.op for o in graph.ops] == ["Mul", "Add"]
    want = np.zeros((3, 4), np.float32)
    want[1] = 2
    want[:, ::2] += np.arange(2, dtype=np.float32)
    want = X * (np.sqrt(want) * want.max()) + int(want.sum()) % 3
    assert_same(run_graph(graph, [X], "onnxruntime")[0], want)


def test_write_to_an_array_after_its_conversion_to_numpy_is_refused() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        grid = np.zeros(4, np.float32, like=x)
        alias = np.asarray(grid)
        grid[...] = x[0, 0]
        return [x * alias]

    with pytest.raises(TraceError, match="an array that was converted to a NumPy array is written to"):
        trace(forward, [TensorType.of(X.shape)])


def test_arrays_of_a_type_of_numpy_can_be_written() -> None:
    def forward(arrays: list[Any]) -> list[Any]:
        (x,) = arrays
        keep = np.bool_(np.zeros_like(x[0, 0]))
        keep[0] = x[0, 0, 0] > 0
        small = np.int8(np.zeros(4))
        small[1] = 3
        return [keep.astype(np.bool_) * (small + x[0])]

    graph = trace_checked(forward, [TensorType.of(X.shape)])
    assert_same(run_graph(graph, [X], "onnxruntime")[0], forward([X.copy()])[0])
