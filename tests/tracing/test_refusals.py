"""Code that cannot be recorded is refused with the user's line and a remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from anylayer.tracing import TracedArray, record, trace

CONST = np.arange(12, dtype=np.float32).reshape(3, 4)
SELECTED = (
    "the number of elements that a mask selects is known only when the network runs, which cannot be recorded here"
)
NEEDS = (
    r"needs the values of a traced array \((float32|int64|bool)\[.*\]\), which are known only when the network "
    r"runs; "
)
CASES: list[tuple[Callable[[Array], Any], str]] = []


def refused(text: str) -> Callable[[Array], Any]:
    def enter(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
        CASES.append((function, text))
        return function

    return enter


def _set(key: Any) -> Callable[[Array], Any]:
    def function(x: Array) -> Array:
        a = np.zeros((3, 4), np.float32)
        a[key] = x[(0, 0) if isinstance(key, tuple) else 0]
        return a

    return function


MAKE = re.escape("make that array with np.zeros_like(x) or np.zeros(shape, dtype, like=x)")
refused(f"assignment into a NumPy array {NEEDS}{MAKE}")(_set(0))
refused(f"assignment into a NumPy array {NEEDS}{MAKE}")(_set((0, 1)))
refused(f"assignment into a NumPy array {NEEDS}{MAKE}")(_set(slice(0, 1)))
refused(rf"np.asarray\(\) {NEEDS}remove this call")(lambda x: np.asarray(x))
refused(rf"np.ascontiguousarray\(\) {NEEDS}remove this call")(lambda x: np.ascontiguousarray(x))
refused(rf"np.array\(\) {NEEDS}remove this call, or write x.copy\(\)")(lambda x: np.array(x))
refused(rf"np.array\(\) {NEEDS}combine the arrays with np.stack first")(lambda x: np.array([x, x]))
refused(rf"np.sum\(\) {NEEDS}combine the arrays with np.stack first")(lambda x: np.sum([x, x]))
refused(rf"np.max\(\) {NEEDS}combine the arrays with np.stack first")(lambda x: np.max([x, x], axis=0))
refused(rf"np.float32\(\) {NEEDS}write x.astype\(dtype\)")(lambda x: np.float32(x))
refused(rf"CONST.dot\(\) {NEEDS}write a @ x")(lambda x: CONST.dot(x.T))
refused(rf"CONST.take\(\) {NEEDS}write np.asarray\(a, like=x\)")(lambda x: CONST.take(x.argmax()))
refused(rf"np.take\(\) {NEEDS}write np.asarray\(a, like=x\)")(lambda x: np.take(CONST, x.argmax(0), 0))
refused(rf"indexing a NumPy array {NEEDS}write np.asarray\(a, like=x\)\[i\]")(lambda x: CONST[x.argmax(0)])
refused(r"np.copyto \(also np.full, np.full_like\) writes a traced array into a NumPy array")(
    lambda x: np.full_like(CONST, x)
)
refused(rf"np.full\(\) {NEEDS}write np.broadcast_to")(lambda x: np.full((3, 4), x))
refused(r"\*\* 2 of a bool is int64 or int8, for a scalar or an array; cast the bool first")(
    lambda x: (x > 0).any() ** 2
)
refused(rf"float\(\) {NEEDS}keep the array")(lambda x: float(x[0, 0]))
refused(rf"math.sqrt\(\) {NEEDS}keep the array and use NumPy's functions: np.sqrt")(lambda x: math.sqrt(x[0, 0]))
refused(rf"size, a slice bound or int\(\) {NEEDS}sizes must follow")(lambda x: int(x[0, 0]))
refused(rf"range\(\) {NEEDS}loop over it in a statement for")(lambda x: list(range(x.argmax())))
refused(rf"indexing or slicing {NEEDS}sizes must follow")(lambda x: CONST[: x.argmax()])
refused(SELECTED)(lambda x: x[: x.argmax()])
refused(rf"a size, a slice bound or int\(\) {NEEDS}sizes must follow")(lambda x: np.zeros(x.argmax()))
refused(rf"\.tobytes\(\) {NEEDS}keep the array")(lambda x: x.tobytes())
refused(rf"complex\(\) {NEEDS}keep the array")(lambda x: complex(x[0, 0]))
refused(rf"if, while, and, or, not \(also a < x < b\) {NEEDS}use np.where")(lambda x: x if x > 0 else -x)
refused(rf"if, while, and, or, not .* {NEEDS}use np.where")(lambda x: 0 < x[:, 0] < 1)
refused(rf"if, while, and, or, not .* {NEEDS}use np.where")(lambda x: (x > 0) and x)
refused(rf"if, while, and, or, not .* {NEEDS}use np.where")(lambda x: not x[0])
refused(rf"Python's max\(\) {NEEDS}use np.maximum")(lambda x: max(x[0], 1))
refused(r"output 0 is float64\[\] where the condition here is true, and float32")(lambda x: max(x[0, 0], 0.1))
refused(rf"Python's any\(\) {NEEDS}use x.any\(\)")(lambda x: any(x > 0))
refused(rf"'in' {NEEDS}use \(x == value\).any\(\)")(lambda x: x in [0, 1])
refused(SELECTED)(lambda x: np.where(x > 0))
refused(SELECTED)(lambda x: np.nonzero(x))
refused(SELECTED)(lambda x: x.nonzero())
refused(SELECTED)(lambda x: np.unique(x))
refused(SELECTED)(lambda x: np.argwhere(x > 0))
refused(SELECTED)(lambda x: np.flatnonzero(x))
refused(SELECTED)(lambda x: np.compress(x[0] > 0, x, axis=1))
refused(r"np.repeat with traced repeats has a size")(lambda x: np.repeat(x, x[:, 0].astype(int), axis=0))
refused(SELECTED)(lambda x: x[x > 0].shape)
refused(SELECTED)(lambda x: len(x[x > 0]))
refused(SELECTED)(lambda x: x[x > 0][0])
refused(SELECTED)(lambda x: np.sort(x[x > 0]))
refused(SELECTED)(lambda x: np.concatenate([x[x > 0], x[0]]))
refused(SELECTED)(lambda x: x[x[:, 0] > 0].sum(axis=1))
refused(SELECTED)(lambda x: x[x > 0] + x[x > 1])
refused(SELECTED)(lambda x: x[0, x[0] > 0])
refused(r"ndarray.ctypes cannot be recorded")(lambda x: x.ctypes)
refused(r"ndarray.tofile cannot be recorded")(lambda x: x.tofile("f"))
refused(r"ndarray.view of another dtype reads the bits")(lambda x: x.view(np.int32))
refused(r"np.linalg.inv is recorded for matrices of 2 or 3 rows and columns, got shape \(4, 4\)")(
    lambda x: np.linalg.inv(x.T @ x)
)
refused(r"np.linalg.eigh cannot be expressed in ONNX operators")(lambda x: np.linalg.eigh(x[:, :3]))
refused(r"np.linalg.svd cannot be expressed in ONNX operators")(lambda x: np.linalg.svd(x))
refused(r"np.fft.fft2 cannot be expressed in ONNX operators")(lambda x: np.fft.fft2(x))
refused(r"np.convolve cannot be expressed in ONNX operators")(lambda x: np.convolve(x[0], x[1]))
refused(r"np.gcd cannot be expressed in ONNX operators")(lambda x: np.gcd(x.astype(int), 2))
refused(r"np.bitwise_and.reduce cannot be recorded; only those")(lambda x: np.bitwise_and.reduce(x.astype(int)))
refused(r"np.add.reduceat cannot be recorded")(lambda x: np.add.reduceat(x, [0, 1]))
refused(r"np.subtract.accumulate cannot be recorded")(lambda x: np.subtract.accumulate(x))
refused(r"np.mean\(..., where=\) cannot be recorded")(lambda x: np.mean(x, where=x > 0))
refused(r"np.add\(..., where=\) without out= leaves elements uninitialized; use np.where")(
    lambda x: np.add(x, 1, where=x > 0)
)
refused(r"np.quantile and np.percentile are recorded with method='linear'")(
    lambda x: np.quantile(x, 0.5, method="lower")
)
refused(r"np.pad\(..., mode='linear_ramp'\) cannot be recorded; use constant, edge")(
    lambda x: np.pad(x, 1, "linear_ramp")
)
refused(r"np.pad\(..., reflect_type='odd'\) cannot be recorded")(
    lambda x: np.pad(x, 1, "reflect", reflect_type="odd")
)
refused(r"np.ravel\(..., order='K'\) cannot be recorded")(lambda x: x.T.ravel(order="K"))
refused(r"np.cross of vectors without three elements")(lambda x: np.linalg.cross(x, x))
refused("np.sqrt of complex numbers cannot be recorded")(lambda x: np.sqrt(x.astype(np.complex64)).real)
refused("np.maximum of complex numbers cannot be recorded; .* must end in real ones")(lambda x: np.maximum(x, 1j))
refused(r"np.add writes a traced array into a NumPy array \(\+= or out=\); make that array with np.zeros_like")(
    lambda x: np.add(x, 1, out=np.zeros((3, 4)))
)
refused(r"np.sum\(..., out=\) writes a traced array into a NumPy array")(lambda x: np.sum(x, 0, out=np.zeros(4)))
refused(r"np.put_along_axis writes a traced array into a NumPy array")(
    lambda x: np.put_along_axis(np.zeros((3, 4)), np.zeros((3, 1), int), x, 1)
)
refused(r"np.add.at writes a traced array into a NumPy array")(lambda x: np.add.at(np.zeros((3, 4)), 0, x))
refused(r"a traced array cannot be pickled")(lambda x: __import__("pickle").dumps(x))
refused(r"x.shape = ... cannot be recorded; write x = x.reshape\(...\)")(lambda x: setattr(x, "shape", (12,)))
refused(r"forward returns str, which is not an array of numbers")(lambda x: "text")


@refused(r"np.add writes a traced array into a NumPy array \(\+= or out=\)")
def accumulates(x: Array) -> Array:
    total = np.zeros(4, np.float32)
    for row in x:
        total += row
    return total


@refused(SELECTED)
def assigns_under_a_mask(x: Array) -> Array:
    y = x.copy()
    y[y > 0] = np.ones(5)
    return y


@refused(SELECTED)
def puts_back_under_another_mask(x: Array) -> Array:
    y = x.copy()
    y[y > 0] = x[x > 1]
    return y


@refused(rf"np.asarray\(\) {NEEDS}remove this call")
def swallows(x: Array) -> Array:
    try:
        return np.asarray(x)
    except Exception:
        return x * 2


@refused(r"the values of the arrays decide between more than 64 paths \(at test_refusals.py:\d+\)")
def loops(x: Array) -> Array:
    while x.max() > 1:
        x = x / 2
    return x


def _line(function: Callable[[Array], Any]) -> int:
    return function.__code__.co_firstlineno


@pytest.mark.parametrize(("function", "text"), CASES, ids=[f"{i}-{t[:30]}" for i, (_, t) in enumerate(CASES)])
def test_refusal_names_the_rule_and_the_line(function: Callable[[Array], Any], text: str) -> None:
    with pytest.raises(TraceError, match=text) as caught:
        trace(lambda arrays: [function(arrays[0])], [TensorType.of((3, 4))])
    message = str(caught.value)
    if "forward returns" in text:
        return
    found = re.match(r"test_refusals\.py:(\d+): ", message)
    assert found, message
    assert _line(function) <= int(found[1]) <= _line(function) + 7


def test_attributes_that_ndarray_lacks_raise_attribute_error() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        assert not hasattr(x, "numpy") and not hasattr(x, "__cuda_array_interface__") and hasattr(x, "sum")
        with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute 'detach'"):
            x.detach()
        return [x]

    trace(forward, [TensorType.of((2,))])


def test_metadata_of_a_traced_array_matches_numpy() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        assert repr(x) == f"{x}" == f"{x:>3}" == "traced float32[2, 3]"
        assert (
            isinstance(x, np.ndarray) and isinstance(x.sum(), np.float32) and not isinstance(x.sum(), np.ndarray)
        )
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, len(x)) == ((2, 3), 2, 6, 24, 4, 2)
        assert np.result_type(x, np.float64) == np.float64
        return [x]

    trace(forward, [TensorType.of((2, 3))])


def test_record_needs_a_traced_input() -> None:
    with pytest.raises(TraceError, match="Relu is recorded without a traced input"):
        record("Relu", [np.zeros(3)], (3,), np.float32)


def test_arrays_of_two_traces_are_refused() -> None:
    kept: list[Any] = []

    def forward(arrays: list[Array]) -> list[Array]:
        kept.append(arrays[0])
        return [kept[0] * 2 + arrays[0]]

    trace(forward, [TensorType.of((2,))])
    with pytest.raises(TraceError, match="a traced array of an earlier call is used; do not keep arrays"):
        trace(forward, [TensorType.of((2,))])
    with pytest.raises(TraceError, match="a traced array of an earlier call is returned"):
        trace(lambda arrays: [kept[0]], [TensorType.of((2,))])


def test_more_operators_than_the_limit_are_refused() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        for i in range(20):
            x = x + np.float32(i)
        return [x]

    with pytest.raises(TraceError, match=r"this records more than 10 operators; compute whole slices"):
        trace(forward, [TensorType.of((2,))], limit=10)


def test_line_that_has_run_often_gives_the_same_message() -> None:
    def forward(x: Array) -> bool:
        return bool(x > 1)

    for _ in range(50):  # so that Python 3.11 makes the call in another opcode
        forward(np.zeros(1))
    with pytest.raises(TraceError, match=r"Python's bool\(\) needs the values"):
        trace(lambda arrays: [np.full((1,), forward(arrays[0]), np.float32)], [TensorType.of((3,))])


def test_undefined_results_are_noted() -> None:
    def forward(arrays: list[Array]) -> list[Array]:
        x = arrays[0]
        i = np.argsort(x[:, 0])
        o = np.zeros_like(x)
        o[x[:, 1].astype(np.int64)] = x
        return [x[i], o, 2**i]

    notes = trace(forward, [TensorType.of((3, 4))]).notes
    assert all(re.match(r"test_refusals\.py:\d+: ", n) for n in notes)
    for text in (
        "np.argsort leaves the order of equal values undefined; here the lower index comes first, as with kind=",
        "indices that depend on data are not checked when this runs; np.clip them to be safe",
        "where indices repeat, it is undefined which of the written values stays",
        "NumPy refuses integers to negative integer powers; this is not checked when the network runs",
    ):
        assert any(text in n for n in notes), text


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: x * np.sqrt(2),
            r"float32 becomes float64 here \(np.multiply with float64 1.41421\); write np.float32",
        ),
        (
            lambda x: x + np.zeros(4),
            r"float32 becomes float64 here \(np.add with float64\[4\]\); write np.float32",
        ),
        (lambda x: np.arange(4) * x, r"float32 becomes float64 here \(np.multiply with int64\[4\]\)"),
        (
            lambda x: np.floor(x / np.float32(7) + 1),
            "rounds the result of a float division, which OpenVINO",
        ),
        (lambda x: (x / x.max() * 10).astype(np.int32), "rounds the result of a float division"),
    ],
)
def test_promotion_and_inexact_rounding_are_noted(function: Callable[[Array], Any], text: str) -> None:
    (note,) = trace(lambda arrays: [function(arrays[0])], [TensorType.of((3, 4))]).notes
    assert re.match(rf"test_refusals\.py:{_line(function)}: {text}", note)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 1.5 + np.float32(2) + np.ones(4, np.float32),
        lambda x: np.floor(x / 4),
        lambda x: x.astype(np.float64) * np.sqrt(2),
        lambda x: np.floor(x * np.float32(0.3)).astype(np.int32) / 3,
    ],
)
def test_safe_programs_have_no_notes(function: Callable[[Array], Any]) -> None:
    assert trace(lambda arrays: [function(arrays[0])], [TensorType.of((3, 4))]).notes == []


def test_function_receives_traced_arrays() -> None:
    seen: list[type] = []
    trace(lambda arrays: [seen.append(type(arrays[0])) or arrays[0]], [TensorType.of((2,))])
    assert seen == [TracedArray]


def _at_of_integers(x: Array) -> Array:
    y = x.copy()
    np.add.at(y, [0, 0], 1.5)
    return y


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_at_of_integers, r"np\.add\.at of int64 with float64 casts after each index, which cannot be recorded"),
        (
            lambda x: np.quantile(x, 1),
            r"np\.quantile of integers with an integer q selects a value; write np\.min or np\.max",
        ),
    ],
)
def test_integer_results_that_differ_from_numpy_are_refused(function: Callable[[Array], Any], text: str) -> None:
    with pytest.raises(TraceError, match=text):
        trace(lambda arrays: [function(arrays[0])], [TensorType.of((3, 4), np.int64)])
