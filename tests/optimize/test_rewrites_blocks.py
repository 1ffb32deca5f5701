"""Exact rewrites of elements that are moved in blocks, selected by constant indices, or repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer import ops
from anylayer.optimize.simplify import simplify
from anylayer.testing import run_graph

from .rewriting import ENGINES, Function, check, f, kinds, noise, rewritten, traced

ORT, OV = "onnxruntime", "openvino"


def unchanged(function: Function, *inputs: Any, engine: str) -> bool:
    """Return whether simplifying for an engine gives the same operators as simplifying for none."""
    return rewritten(function, *inputs, engine=engine) == rewritten(function, *inputs, engine=None)


def same_bits(function: Function, *inputs: Any) -> None:
    """Assert that the simplified function returns exactly what NumPy returns, on each engine, also with
    exact=True."""
    want = np.asarray(function(*inputs))
    for engine in ENGINES:
        graph = traced(function, *inputs)
        got = run_graph(simplify(graph, engine, exact=True), inputs, engine)[0]
        np.testing.assert_array_equal(got, want, err_msg=f"{engine}: {kinds(simplify(graph, engine))}")


# ------------------------------------------------------------------ space and depth


def to_depth(b: int, order: tuple[int, int, int]) -> Function:
    """Move blocks of (N, C, H, W) to the channels. `order` permutes the axes 1 (channel), 3 (row) and 5
    (column)."""

    def function(x: Any) -> Any:
        n, c, h, w = x.shape
        y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, *order, 2, 4)
        return y.reshape(n, c * b * b, h // b, w // b)

    return function


def to_space(b: int, order: tuple[str, str, str]) -> Function:
    """Move channels, made of "c", "y" (row in the block) and "x" (column) in some order, into the map."""

    def function(v: Any) -> Any:
        n, c, h, w = v.shape
        sizes = {"c": c // (b * b), "y": b, "x": b}
        at = {name: i + 1 for i, name in enumerate(order)}
        y = v.reshape(n, *(sizes[name] for name in order), h, w).transpose(0, at["c"], 4, at["y"], 5, at["x"])
        return y.reshape(n, c // (b * b), h * b, w * b)

    return function


@pytest.mark.parametrize("order", [(3, 5, 1), (1, 3, 5), (5, 3, 1), (3, 1, 5), (5, 1, 3), (1, 5, 3)])
@pytest.mark.parametrize(("b", "shape"), [(2, (1, 3, 4, 6)), (3, (2, 4, 6, 9))])
def test_transpose_of_six_axes_becomes_space_to_depth(
    order: tuple[int, int, int], b: int, shape: tuple[int, ...]
) -> None:
    function, x = to_depth(b, order), noise(*shape)
    found = rewritten(function, x, engine=ORT, exact=True)
    assert found == (["SpaceToDepth"] if order == (3, 5, 1) else ["Gather", "SpaceToDepth"])
    assert unchanged(function, x, engine=OV)
    same_bits(function, x)


@pytest.mark.parametrize("order", ["yxc", "cyx", "xyc", "ycx", "xcy", "cxy"])
@pytest.mark.parametrize(("b", "shape"), [(2, (1, 12, 4, 3)), (3, (2, 18, 2, 5))])
def test_transpose_of_six_axes_becomes_depth_to_space(
    order: tuple[str, str, str], b: int, shape: tuple[int, ...]
) -> None:
    function, x = to_space(b, order), noise(*shape)
    found = rewritten(function, x, engine=ORT, exact=True)
    assert found == (["DepthToSpace"] if order in ("yxc", "cyx") else ["DepthToSpace", "Gather"])
    assert unchanged(function, x, engine=OV)
    same_bits(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(2, 4, 3, 2, 2, 3).transpose(0, 3, 5, 1, 2, 4),  # blocks that are not square
        lambda x: x.reshape(2, 4, 3, 2, 3, 2).transpose(0, 3, 5, 1, 4, 2),  # rows and columns change places
        lambda x: x.reshape(2, 4, 3, 2, 3, 2).transpose(3, 0, 5, 1, 2, 4),  # ... and images
        lambda x: x.reshape(2, 2, 2, 1, 6, 6).transpose(0, 3, 5, 1, 4, 2),
    ],
)
def test_other_transposes_of_six_axes_stay(function: Function) -> None:
    x = noise(2, 4, 6, 6)
    assert not {"SpaceToDepth", "DepthToSpace"} & set(rewritten(function, x, engine=ORT))
    same_bits(function, x)


def test_image_without_batch_becomes_space_to_depth() -> None:
    def function(x: Any) -> Any:
        return x.reshape(3, 2, 2, 3, 2).transpose(2, 4, 0, 1, 3).reshape(12, 2, 3)

    x = noise(3, 4, 6)
    assert rewritten(function, x, engine=ORT) == ["Reshape", "Reshape", "SpaceToDepth"]
    same_bits(function, x)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 1, 0, 2]])
def test_concat_of_strided_slices_becomes_space_to_depth(places: list[int]) -> None:
    def function(x: Any) -> Any:
        return np.concatenate([x[:, :, p // 2 :: 2, p % 2 :: 2] for p in places], axis=1)

    x = noise(2, 3, 6, 8)
    for engine in ENGINES:
        assert set(rewritten(function, x, engine=engine)) <= {"SpaceToDepth", "Gather", "Reshape"}
    same_bits(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.concatenate([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 0)], axis=1),
        lambda x: np.concatenate([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=2),
        lambda x: np.concatenate([x[:, :, i::3, j::3] for i in (0, 1) for j in (0, 1)], axis=1),
        lambda x: np.concatenate([(x if i else x + 1)[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=1),
    ],
)
def test_concat_of_other_slices_stays(function: Function) -> None:
    x = noise(1, 3, 6, 6)
    assert "SpaceToDepth" not in rewritten(function, x, engine=ORT)
    same_bits(function, x)


# --------------------------------------------------------- channels, strides, turns


@pytest.mark.parametrize("shape", [(1, 6, 24, 24), (2, 6, 23, 25)])
def test_shuffled_channels_become_gather(shape: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        n, c, h, w = x.shape
        return x.reshape(n, 3, c // 3, h, w).swapaxes(1, 2).reshape(x.shape)

    x = noise(*shape)
    assert rewritten(function, x, engine=ORT) == ["Gather"]
    assert unchanged(function, x, engine=OV)
    same_bits(function, x)


def test_shuffle_of_small_planes_stays_transpose() -> None:
    x = noise(1, 6, 7, 7)
    assert "Gather" not in rewritten(
        lambda x: x.reshape(1, 3, 2, 7, 7).swapaxes(1, 2).reshape(x.shape), x, engine=ORT
    )


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 2), (5, 4)])
@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (2, 2, 7, 9)])
def test_strided_slice_becomes_max_pool(rows: int, columns: int, shape: tuple[int, ...]) -> None:
    x = noise(*shape)
    for engine in ENGINES:
        assert rewritten(lambda x: x[:, :, ::rows, ::columns], x, engine=engine) == ["MaxPool"]
    same_bits(lambda x: x[:, :, ::rows, ::columns], x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :, 1::2, ::2],
        lambda x: x[:, :, ::2],
        lambda x: x[:, ::2, ::2, ::2],
        lambda x: x[:, :, :4:2, ::2],
        lambda x: x[:, :, ::-2, ::2],
        lambda x: x[0, :, ::2, ::2],
    ],
)
def test_other_slices_stay(function: Function) -> None:
    x = noise(1, 4, 8, 8)
    for engine in ENGINES:
        pooled = "MaxPool" in rewritten(function, x, engine=engine)
        assert not pooled or function(x).shape == (4, 4, 4)
    same_bits(function, x)


def test_strided_slice_of_integers_stays() -> None:
    x = np.arange(32).reshape(1, 2, 4, 4)
    for engine in ENGINES:
        assert rewritten(lambda x: x[:, :, ::2, ::2], x, engine=engine) == ["Slice"]


def test_reversed_last_axis_becomes_gather_on_openvino() -> None:
    x = noise(2, 3, 4, 5)
    assert rewritten(lambda x: x[..., ::-1], x, engine=OV) == ["Gather"]
    assert rewritten(lambda x: np.flip(x, (1, 3)), x, engine=OV) == ["Gather", "Slice"]
    assert rewritten(lambda x: x[:, :, ::-1], x, engine=OV) == ["Slice"]
    assert rewritten(lambda x: x[..., ::-2], x, engine=OV) == ["Slice"]
    assert rewritten(lambda x: x[..., ::-1], x, engine=ORT) == ["Slice"]
    for function in (lambda x: x[..., ::-1], lambda x: np.flip(x, (1, 3)), lambda x: x[..., ::-2]):
        same_bits(function, x)


def spread(rows: int, columns: int, more: int = 0, at: int = 0) -> Function:
    """Pixels written to every `rows`-th row and `columns`-th column of zeros."""

    def function(x: Any) -> Any:
        n, c, h, w = x.shape
        out = np.zeros((n, c, h * rows - more, w * columns), np.float32, like=x)
        out[:, :, at::rows, ::columns] = x
        return out

    return function


@pytest.mark.parametrize(("rows", "columns", "more"), [(2, 2, 0), (3, 2, 0), (2, 3, 1), (1, 2, 0)])
def test_pixels_between_zeros_become_conv_transpose(rows: int, columns: int, more: int) -> None:
    x = noise(2, 3, 4, 5)
    for engine in ENGINES:
        assert rewritten(spread(rows, columns, more), x, engine=engine) == ["ConvTranspose"]
    same_bits(spread(rows, columns, more), x)


def test_pixels_with_an_offset_stay_scattered() -> None:
    x = noise(1, 2, 3, 3)
    for engine in ENGINES:
        assert "ScatterElements" in rewritten(spread(2, 2, at=1), x, engine=engine)
    same_bits(spread(2, 2, at=1), x)


def test_pixels_between_ones_stay_scattered() -> None:
    def function(x: Any) -> Any:
        out = np.ones((1, 2, 6, 6), np.float32, like=x)
        out[:, :, ::2, ::2] = x
        return out

    x = noise(1, 2, 3, 3)
    assert "ScatterElements" in rewritten(function, x, engine=ORT)
    same_bits(function, x)


@pytest.mark.parametrize("shape", [(1, 1, 3, 4), (2, 3, 4, 5)])
def test_scatter_into_planes_becomes_max_unpool_on_onnx_runtime(shape: tuple[int, ...]) -> None:
    x, places = noise(*shape), np.random.default_rng(0).permuted(np.tile(np.arange(54), (*shape[:2], 1)), axis=2)
    places = places[..., : shape[2] * shape[3]].reshape(shape)

    def function(x: Any, places: Any) -> Any:
        return ops.max_unpool(x, places, (6, 9))

    assert "MaxUnpool" in rewritten(function, x, places, engine=ORT, exact=True)
    assert unchanged(function, x, places, engine=OV)
    want = ops.max_unpool(x, places, (6, 9))
    for engine in ENGINES:
        graph = simplify(traced(function, x, places), engine)
        np.testing.assert_array_equal(run_graph(graph, [x, places], engine)[0], want)


def test_max_unpool_refuses_index_outside_plane() -> None:
    x, places = noise(1, 3, 2, 2), np.arange(12).reshape(1, 3, 2, 2)
    graph = simplify(traced(lambda x, p: ops.max_unpool(x, p, (3, 3)), x, places), ORT)
    with pytest.raises(Exception, match="MaxUnpool"):
        run_graph(graph, [x, places], ORT)


# --------------------------------------------------------------- repeats and picks


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(2, 5)),
    st.integers(1, 5),
    st.integers(2, 5),
    st.sampled_from(["rows first", "columns first", "broadcast", "indices"]),
)
@settings(max_examples=25, deadline=None)
def test_repeats_become_nearest_resize(shape: Any, rows: int, columns: int, how: str) -> None:
    n, c, h, w = shape

    def function(x: Any) -> Any:
        if how == "rows first":
            return np.repeat(np.repeat(x, rows, axis=2), columns, axis=3)
        if how == "columns first":
            return np.repeat(np.repeat(x, columns, axis=3), rows, axis=2)
        if how == "indices":
            return x[:, :, (np.arange(h * rows) // rows)[:, None], np.arange(w * columns) // columns]
        wide = np.broadcast_to(x[:, :, :, None, :, None], (n, c, h, rows, w, columns))
        return wide.reshape(n, c, h * rows, w * columns)

    x = noise(*shape)
    assert rewritten(function, x, engine=ORT, exact=True) == ["Resize"] or h == 1
    same_bits(function, x)


def test_tiled_cells_become_nearest_resize() -> None:
    def function(x: Any) -> Any:
        return np.tile(x[:, :, :, None, :, None], (1, 1, 1, 2, 1, 3)).reshape(1, 2, 8, 15)

    x = noise(1, 2, 4, 5)
    assert rewritten(function, x, engine=ORT) == ["Resize"]
    assert rewritten(function, x, engine=OV) == ["Gather", "Gather"]
    same_bits(function, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.repeat(x, 2, axis=2),  # rows alone are faster picked
        lambda x: np.repeat(x, 2, axis=1),
        lambda x: x[..., [0, 0, 1, 1, 2]],
        lambda x: x[..., [0, 1, 1, 2, 2, 3]],
        lambda x: np.tile(x, (1, 1, 2, 2)),
        lambda x: np.broadcast_to(x[:, :, None, :, None, :], (1, 2, 2, 4, 2, 4)).reshape(1, 2, 8, 8),
    ],
)
def test_other_selections_do_not_become_resize(function: Function) -> None:
    x = noise(1, 2, 4, 4)
    assert "Resize" not in rewritten(function, x, engine=ORT)
    same_bits(function, x)


def test_columns_are_repeated_before_rows_on_openvino() -> None:
    def function(x: Any) -> Any:
        return np.repeat(np.repeat(x, 2, axis=2), 3, axis=3)

    x = noise(1, 2, 4, 4)
    graph = simplify(traced(function, x), OV)
    assert [o.attrs["axis"] for o in graph.ops] == [3, 2]
    same_bits(function, x)


def test_rows_that_become_fewer_are_selected_first() -> None:
    x = noise(1, 2, 6, 4)
    graph = simplify(traced(lambda x: x[:, :, [0, 5, 1]][..., [0, 0, 1, 3, 2]], x), OV)
    assert [o.attrs["axis"] for o in graph.ops] == [2, 3]


def test_columns_are_selected_as_rows_of_transpose() -> None:
    indices = np.array([0, 3, 3, 1, 7, 2, 5])
    x = noise(2, 8, 16, 9)
    assert rewritten(lambda x: x[..., indices], x, engine=ORT, exact=True) == [
        *("Gather", "Reshape", "Reshape", "Transpose", "Transpose")
    ]
    assert rewritten(lambda x: x[..., indices], x, engine=OV) == ["Gather"]
    same_bits(lambda x: x[..., indices], x)
    same_bits(lambda x: x[..., indices - 9], x)
    same_bits(lambda x: np.take(x, indices.reshape(7, 1), axis=3), x)


@pytest.mark.parametrize("shape", [(4, 40, 40), (1, 20, 30, 30), (3000,)])
def test_points_of_long_rows_become_gather_elements(shape: tuple[int, ...]) -> None:
    points = np.random.default_rng(0).integers(-600, 600, 300 if len(shape) > 1 else 2000)

    def function(x: Any) -> Any:
        return x.reshape(*shape[:-2], -1)[..., points]

    x = noise(*shape)
    assert "GatherElements" in rewritten(function, x, engine=ORT, exact=True)
    assert "Gather" in rewritten(function, x, engine=OV)
    same_bits(function, x)


@pytest.mark.parametrize("rows", [3, 12, 40])
def test_computed_points_of_last_axis(rows: int) -> None:
    x, points = noise(rows, 900), np.random.default_rng(0).integers(0, 900, (20, 30))
    graph = traced(lambda x, p: np.take(x, p, axis=1), x, points)
    assert "GatherElements" in kinds(simplify(graph, ORT)) or rows > 16
    for engine in ENGINES:
        got = run_graph(simplify(graph, engine), [x, points], engine)[0]
        np.testing.assert_array_equal(got, np.take(x, points, axis=1))


def test_same_points_of_all_rows_become_gather_on_openvino() -> None:
    def function(x: Any, p: Any) -> Any:
        return np.take_along_axis(x, np.broadcast_to(p[None, None], (2, 3, 7)), axis=2)

    x, points = noise(2, 3, 10), np.array([0, 9, 3, 3, 1, 5, 2])
    graph = traced(function, x, points)
    assert "GatherElements" not in kinds(simplify(graph, OV, exact=True))
    assert "GatherElements" in kinds(simplify(graph, ORT))
    for engine in ENGINES:
        got = run_graph(simplify(graph, engine), [x, points], engine)[0]
        np.testing.assert_array_equal(got, x[:, :, points])


def test_different_points_per_row_stay_gather_elements() -> None:
    def function(x: Any, p: Any) -> Any:
        return np.take_along_axis(x, np.broadcast_to(p[:, None], (2, 3, 7)), axis=2)

    x, points = noise(2, 3, 10), np.array([[0, 9, 3, 3, 1, 5, 2], [1, 1, 2, 3, 5, 8, 0]])
    graph = traced(function, x, points)
    assert "GatherElements" in kinds(simplify(graph, OV))
    got = run_graph(simplify(graph, OV), [x, points], OV)[0]
    np.testing.assert_array_equal(got, function(x, points))


def test_columns_by_computed_indices() -> None:
    x, i = noise(1, 8, 20, 9), np.array([[0, 4, 8], [1, 1, 7]])
    want = np.take(x, i, axis=3)
    for engine in ENGINES:
        graph = simplify(traced(lambda x, i: np.take(x, i, axis=3), x, i), engine)
        np.testing.assert_array_equal(run_graph(graph, [x, i], engine)[0], want)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:1, :1, :2][..., [0, 2, 1]],  # few numbers
        lambda x: x[:, :, [0, 2, 1]],  # not the last axis
        lambda x: x[..., 3],
    ],
)
def test_fast_selections_stay(function: Function) -> None:
    x = noise(2, 8, 16, 9)
    assert "Transpose" not in rewritten(function, x, engine=ORT)
    same_bits(function, x)


def test_grid_of_indices_becomes_one_gather_per_axis() -> None:
    rows, columns = np.array([0, 0, 3, 2]), np.array([4, 1, 1, 0, 2])
    y, x_ = np.meshgrid(rows, columns, indexing="ij")
    x = noise(2, 3, 4, 5)
    graph = simplify(traced(lambda x: x[:, :, y, x_], x), ORT)
    assert kinds(graph).count("Gather") == 2
    same_bits(lambda x: x[:, :, y, x_], x)
    shifted = y.copy()
    shifted[0, 0] = 3
    assert rewritten(lambda x: x[:, :, shifted, x_], x, engine=ORT).count("Gather") == 1
    same_bits(lambda x: x[:, :, shifted, x_], x)


MOVES: list[Callable[[Any], Any]] = [
    lambda x: np.einsum("nchw,nchw->nhw", x, x),
    lambda x: (x.transpose(0, 2, 3, 1) * x.transpose(0, 2, 3, 1)).sum(axis=-1),
    lambda x: (x.transpose(0, 2, 3, 1) + x.transpose(0, 2, 3, 1)).max(axis=(1, 3)),
]


@pytest.mark.parametrize("function", MOVES)
def test_reduction_removes_transpose(function: Function) -> None:
    x = noise(2, 3, 4, 5)
    for engine in ENGINES:
        assert "Transpose" not in rewritten(function, x, engine=engine)
    check(function, x)


def test_reduction_that_permutes_axes_keeps_transpose() -> None:
    x = noise(2, 3, 4, 5)
    assert "Transpose" in rewritten(lambda x: x.transpose(0, 3, 2, 1).sum(axis=0), x, engine=ORT)
    check(lambda x: x.transpose(0, 3, 2, 1).sum(axis=0), x)
    check(lambda x: x.transpose(0, 2, 3, 1).sum(axis=-1, keepdims=True) * f(2), x)
