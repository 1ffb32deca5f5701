"""Dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.graph import Dim
from anylayer.network import TensorType
from anylayer.testing import run_graph
from anylayer.tracing import record, trace
from tests.engine_names import GENERAL, program_of

N = Dim("rows", 10)
ROWS = np.random.default_rng(4).standard_normal((7, 3, 4)).astype(np.float32)


def graph_of(function: Callable[..., Any], *shapes: Any) -> Any:
    return trace(
        lambda arrays: [function(*arrays)], [TensorType(s, np.dtype("f4")) for s in shapes or [(N, 3, 4)]]
    )


CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("arithmetic", lambda x: np.maximum(x * 2 - x, 0) / 3),
    ("with a constant", lambda x: x + np.arange(4, dtype=np.float32)),
    ("comparison", lambda x: np.where(x > 0, x, 0.1 * x)),
    ("last axes", lambda x: x[..., 1:, ::2]),
    ("one column", lambda x: x[:, 0]),
    ("new axis", lambda x: x[:, None]),
    ("indices on other axes", lambda x: x[:, [2, 0], [1, 3]]),
    ("gather", lambda x: x[:, [2, 0, 0]]),
    ("transpose", lambda x: x.transpose(2, 0, 1)),
    ("reshape", lambda x: x.reshape(-1, 12)),
    ("ravel of the rest", lambda x: x.reshape(x.shape[0], 2, 6)),
    ("flat", lambda x: x.reshape(-1)),
    ("in one row", lambda x: x.reshape(1, -1)),
    ("in one row and back", lambda x: x.reshape(1, 1, -1, 1).reshape(-1, 3, 4)),
    ("in one row of products", lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2])),
    ("a part of a product", lambda x: x.reshape(-1, 4).reshape(-1, 6, 2)),
    ("quotients", lambda x: x.reshape(-1).reshape(x.shape[0] * 12 // 6, 6)),
    ("in Fortran's order", lambda x: x.reshape((-1, 3), order="F")),
    ("two products", lambda x: x.reshape(-1, 2) + x.reshape(x.shape[0] * 6, 2)),
    ("sum over others", lambda x: x.sum(axis=(1, 2))),
    ("sum over it", lambda x: x.sum(axis=0)),
    ("mean over others", lambda x: x.mean(axis=-1, keepdims=True)),
    ("max over it", lambda x: x.max(axis=0)),
    ("argmax", lambda x: x.argmax(axis=2)),
    ("concatenate on another axis", lambda x: np.concatenate([x, x * 2], axis=1)),
    ("stack", lambda x: np.stack([x, x + 1], axis=1)),
    ("split", lambda x: np.split(x, 2, axis=2)[1]),
    ("matmul", lambda x: x @ np.ones((4, 2), np.float32)),
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ("pad others", lambda x: np.pad(x, ((0, 0), (1, 1), (0, 2)))),
    ("cast", lambda x: (x * 3).astype(np.int64).astype(np.float32)),
    ("squeeze", lambda x: np.squeeze(x[:, :1], 1)),
    ("clip", lambda x: np.clip(x, -1, 1)),
    ("take_along_axis", lambda x: np.take_along_axis(x, x.argmax(2)[..., None], 2)),
    ("sort", lambda x: np.sort(x, axis=1)),
    ("write a column", lambda x: _written(x)),
    ("var", lambda x: x.var(axis=(1, 2))),
    ("cumsum", lambda x: np.cumsum(x, axis=1)),
    ("isnan", lambda x: np.isnan(x)),
    ("with more rows", lambda x: np.concatenate([x, np.zeros((2, 3, 4), np.float32)])),
]


def _written(x: Any) -> Any:
    o = x * 1
    o[..., 1:3] = 5
    o[:, 1] *= np.float32(2)
    o[..., 0] = x[:, :, 3]
    p = x * 1
    p[...] = o[:, :1]
    return p


@pytest.mark.parametrize("engine", GENERAL)
def test_dynamic_sizes_match_numpy(engine: str) -> None:
    whole = trace(lambda arrays: [f(arrays[0]) for _, f in CASES], [TensorType((N, 3, 4), np.dtype("f4"))])
    run = program_of(whole, engine)
    for rows in (7, 1):
        got = run([ROWS[:rows]])
        for (name, f), array, value in zip(CASES, got, whole.outputs):
            want = f(ROWS[:rows])
            assert (array.shape, array.dtype) == (want.shape, want.dtype), name
            np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-5, err_msg=name)
            for d, size in zip(value.shape, array.shape):
                assert isinstance(d, Dim) or d == size, name


UNKNOWN = r"the size (\d+\*)?rows<=\d+ is known only when the network runs"


@pytest.mark.parametrize(
    "misuse",
    [
        lambda x: np.zeros(x.shape[0] * 4),
        lambda x: x.shape[0] * x.shape[0],
        lambda x: x.shape[0] * -1,
        lambda x: x.shape[0] % 2,
        lambda x: x.shape[0] * 4 // 3,
        lambda x: 12 // x.shape[0],
        lambda x: x.reshape(-1, 5),
        lambda x: x.reshape(12),
        lambda x: 1 + x.shape[0],
        lambda x: x.shape[0] // 2,
        lambda x: list(range(x.shape[0])),
        lambda x: np.zeros((x.shape[0], 3)),
        lambda x: int(np.prod(x.shape)),
        lambda x: x.size,
        lambda x: len(x),
        lambda x: list(x),
        lambda x: x if x.shape[0] > 3 else -x,
        lambda x: x if x.shape[0] else -x,
        lambda x: int(x.shape[0]),
        lambda x: x[: x.shape[0] - 1],
        lambda x: x[1:],
        lambda x: np.pad(x, 1),
    ],
)
def test_use_as_a_number_is_refused(misuse: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError, match=UNKNOWN + "|a size is known only when the network runs") as caught:
        graph_of(misuse)
    assert str(caught.value).startswith("test_dims.py:")


@pytest.mark.parametrize(
    ("misuse", "text"),
    [
        (lambda x: x[-1], r"index -1 counts from the end of axis 0, whose size rows<=10"),
        (lambda x: x[[0, 1]], r"indexing axis 0, whose size rows<=10 is known only when the network runs"),
        (
            lambda x: np.broadcast_to(np.float32(1) * x[0, 0, 0], (x.shape[0], 3)),
            r"expanding .* the size is known",
        ),
    ],
)
def test_refusal_names_the_size(misuse: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(TraceError, match=text):
        graph_of(misuse)


def test_multiples_of_dim_are_dims() -> None:
    twice = N * 2
    assert twice is 2 * N is np.int64(2) * N
    assert (repr(twice), twice.maximum) == ("2*rows<=20", 20)
    assert twice // 2 is N and N // 1 is N and twice * 3 // 2 is 3 * N
    assert (twice % 2, twice // N, N * 84 // (N * 4), twice % N, N * 0) == (0, 2, 21, 0, 0)


def test_reshape_moves_only_distinguishable_dims() -> None:
    other = Dim("columns", 5)
    with pytest.raises(TraceError, match=r"to \(columns<=5, rows<=10\): two sizes are known only when"):
        graph_of(lambda x: x.reshape(other, N), (N, other))
    with pytest.raises(TraceError, match="a size is known only when the network runs"):
        graph_of(lambda x: x.reshape(-1), (N, other))


def test_two_dims_do_not_broadcast() -> None:
    other = Dim("rows", 10)
    assert len({N, other}) == 2 and other != N and N != 10
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \(rows<=10,3\)"):
        graph_of(lambda x, y: x + y, (N, 3), (other, 3))
    graph = graph_of(lambda x, y: x[:, :1] * y, (N, 3), (N, 3))
    assert graph.outputs[0].shape == (N, 3)


def test_two_dims_in_one_shape() -> None:
    other = Dim("columns", 5)
    graph = graph_of(lambda x, y: x[:, None] * y[None], (N, 3), (other, 3))
    assert graph.outputs[0].shape == (N, other, 3)
    x, y = ROWS[:4, :, 0], ROWS[:2, :, 1]
    np.testing.assert_allclose(run_graph(graph, [x, y], "onnxruntime")[0], x[:, None] * y, rtol=1e-6)


def test_operator_may_define_a_dim() -> None:
    def forward(arrays: Any) -> Any:
        x = arrays[0]
        kept = Dim("kept", x.shape[0])
        count = (x > 0).sum()
        rows = record("Slice", [x, np.array([0]), count.reshape(1), np.array([0])], (kept,), x.dtype)
        return [rows * np.float32(2)]

    graph = trace(forward, [TensorType.of((6,))])
    x = np.array([1, -1, 2, -2, 3, 0], np.float32)
    assert run_graph(graph, [x], "onnxruntime")[0].tolist() == [2, -2, 4]
    assert str(graph.outputs[0].shape[0]) == "kept<=6"
