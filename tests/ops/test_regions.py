"""Operators on regions and grids, and NMS."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError, TraceError
from anylayer.graph import Dim
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import trace
from tests.ops.harness import ENGINES, agree, noise, numbers, refuses

ROIS = np.array(
    [
        [0, 0, 10, 12],
        [3, 2, 9, 30],
        [-5, -5, 3, 3],
        [4, 4, 4.5, 5],
        [-40, -40, -30, 90],
        [9, 2, 5, 8],
        [4, 4, 4, 9],
    ],
    np.float32,
)
BATCH = np.array([0, 1, 1, 0, 1, 0, 1])


def tapped(plane: Array, y: float, x: float) -> float:
    """Return one bilinear sample of RoI Align."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    a, b = y - y0, x - x0
    top, bottom = plane[y0, x0] * (1 - b) + plane[y0, x1] * b, plane[y1, x0] * (1 - b) + plane[y1, x1] * b
    return float(top * (1 - a) + bottom * a)


def aligned(x: Array, size: Any, scale: float, ratio: int, mode: str, half_pixel: bool) -> Array:
    result = np.zeros((len(ROIS), x.shape[1], *size))
    for k, (roi, image) in enumerate(zip(ROIS.astype(np.float64), BATCH)):
        x1, y1, x2, y2 = roi * scale - 0.5 * half_pixel
        extents = [y2 - y1, x2 - x1] if half_pixel else [max(y2 - y1, 1), max(x2 - x1, 1)]
        bins = [e / s for e, s in zip(extents, size)]
        grid = [ratio or int(np.ceil(b)) for b in bins]
        for c, i, j in product(range(x.shape[1]), *map(range, size)):
            samples = [
                tapped(
                    x[image, c], y1 + (i + (a + 0.5) / grid[0]) * bins[0], x1 + (j + (b + 0.5) / grid[1]) * bins[1]
                )
                for a, b in product(*map(range, grid))
            ]
            if samples:
                result[k, c, i, j] = max(samples) if mode == "max" else sum(samples) / len(samples)
    return result


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 2, 3])
def test_roi_align_matches_its_definition(ratio: int, mode: str, half_pixel: bool) -> None:
    x = noise(2, 2, 9, 10)
    how: dict[str, Any] = {"spatial_scale": 0.5, "sampling_ratio": ratio, "mode": mode, "half_pixel": half_pixel}
    y = ops.roi_align(x, ROIS, BATCH, size=(2, 3), **how)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, aligned(x, (2, 3), 0.5, ratio, mode, half_pixel), atol=1e-5)


def test_roi_align_matches_values_computed_by_hand() -> None:
    x, roi, image = numbers(1, 1, 4, 4), np.array([[0, 0, 3, 3]], np.float32), np.zeros(1, np.int64)
    classic = ops.roi_align(x, roi, image, size=2, sampling_ratio=2, half_pixel=False)
    assert classic[0, 0].tolist() == [[3.75, 5.25], [9.75, 11.25]]
    detectron = ops.roi_align(x, roi, image, size=2, sampling_ratio=2)
    assert detectron[0, 0].tolist() == [[1.5625, 3], [7.3125, 8.75]]
    inclusive = ops.roi_align(
        x, roi + np.array([0, 0, 1, 1], np.float32), image, size=2, sampling_ratio=2, half_pixel=False
    )
    assert inclusive[0, 0].tolist() == [[5, 6.75], [12, 13.75]]


@pytest.mark.parametrize("half_pixel", [False, True])
def test_roi_align_matches_numpy_on_engines(half_pixel: bool) -> None:
    def run(x: Array, rois: Array, batch: Array) -> list[Array]:
        return [
            ops.roi_align(
                x, rois, batch, size=(2, 3), spatial_scale=0.5, sampling_ratio=r, mode=m, half_pixel=half_pixel
            )
            for r, m in [(0, "avg"), (1, "avg"), (2, "avg"), (3, "max"), (1, "max")]
        ]

    agree(run, noise(2, 3, 9, 10), ROIS, BATCH.astype(np.int32))


def test_roi_align_refuses_invalid_arguments() -> None:
    x, rois, batch = noise(2, 2, 9, 10), ROIS, BATCH
    refuses(
        "roi_align needs an input (N, C, H, W), got shape (2, 9, 10)", ops.roi_align, x[0], rois, batch, size=2
    )
    refuses(
        "rois must be of shape (K, 4): x1, y1, x2, y2, got (7, 3)", ops.roi_align, x, rois[:, :3], batch, size=2
    )
    refuses(
        "batch must be of shape (7,), one image per region, got (4,)", ops.roi_align, x, rois, batch[:4], size=2
    )
    refuses("mode must be 'avg' or 'max', got 'sum'", ops.roi_align, x, rois, batch, size=2, mode="sum")
    refuses("size must be an integer of at least 1, got 0", ops.roi_align, x, rois, batch, size=(0, 2))
    refuses(
        "sampling_ratio must be an integer of at least 0, got -1",
        ops.roi_align,
        x,
        rois,
        batch,
        size=2,
        sampling_ratio=-1,
    )
    refuses("region 1 names image 1 of a batch of 1", ops.roi_align, x[:1], rois, batch, size=2)
    huge = np.array([[0, 0, 1e9, 5]], np.float32)
    refuses("a region of 1e+09 cells needs 1000000000 samples", ops.roi_align, x, huge, batch[:1], size=2)
    refuses(
        "roi_align with mode='max' and sampling_ratio=0 takes a number of samples that depends on the values",
        trace,
        lambda i: [ops.roi_align(i[0], rois, batch, size=2, mode="max")],
        [TensorType.of(x.shape)],
        error=TraceError,
    )


POOLED = np.array(
    [
        [0, 0, 0, 10, 12],
        [1, 3, 2, 9, 30],
        [1, -5, -5, 3, 3],
        [0, 4, 4, 4.5, 5],
        [0, 40, 40, 41, 42],
        [0, 5, 5, 2, 2],
    ],
    np.float32,
)


def pooled(x: Array, size: tuple[int, int], scale: float) -> Array:
    """Compute ROI max pooling as Fast R-CNN's roi_pooling_layer.cpp does, cell by cell."""
    y = np.zeros((len(POOLED), x.shape[1], *size))
    for k, (image, *corners) in enumerate(POOLED):
        x1, y1, x2, y2 = (int(np.floor(abs(c * scale) + 0.5) * np.sign(c)) for c in corners)
        high, wide = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
        for i, j in product(*map(range, size)):
            rows = range(max(int(np.floor(i * high)) + y1, 0), min(int(np.ceil((i + 1) * high)) + y1, x.shape[2]))
            columns = range(
                max(int(np.floor(j * wide)) + x1, 0), min(int(np.ceil((j + 1) * wide)) + x1, x.shape[3])
            )
            if len(rows) and len(columns):
                y[k, :, i, j] = np.max([x[int(image), :, r, c] for r in rows for c in columns], axis=0)
    return y


@pytest.mark.parametrize("size", [(2, 3), (7, 7)])
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_max_roi_pool_matches_its_definition(size: tuple[int, int], scale: float) -> None:
    x = noise(2, 3, 9, 10)
    y = ops.max_roi_pool(x, POOLED, size=size, spatial_scale=scale)
    np.testing.assert_array_equal(y, pooled(x, size, scale))


def test_max_roi_pool_rounds_the_float_below_one_half_down() -> None:
    corner = np.nextafter(np.float32(0.5), np.float32(0))
    rois = np.array([[0, corner, corner, 1, 1]], np.float32)
    x = np.arange(4, 0, -1, np.float32).reshape(1, 1, 2, 2)
    np.testing.assert_array_equal(ops.max_roi_pool(x, rois, size=1), [[[[4]]]])


def test_max_roi_pool_matches_numpy_on_engines() -> None:
    def run(x: Array, rois: Array) -> list[Array]:
        return [
            ops.max_roi_pool(x, rois, size=size, spatial_scale=scale)
            for size in [(2, 3), (7, 7), (1, 1)]
            for scale in (0.5, 1.0, 1 / 16)
        ]

    agree(run, noise(2, 3, 9, 10), POOLED)


def test_max_roi_pool_refuses_invalid_arguments() -> None:
    x = noise(1, 2, 9, 10)
    refuses(
        "max_roi_pool needs an input (N, C, H, W), got shape (2, 9, 10)", ops.max_roi_pool, x[0], POOLED, size=2
    )
    refuses(
        "rois must be of shape (K, 5): image, x1, y1, x2, y2, got (6, 4)",
        ops.max_roi_pool,
        x,
        POOLED[:, 1:],
        size=2,
    )
    refuses("region 1 names image 1 of a batch of 1", ops.max_roi_pool, x, POOLED, size=2)
    refuses("size must be an integer of at least 1, got 0", ops.max_roi_pool, x, POOLED, size=0)


def sampled(x: Array, grid: Array, mode: str, padding: str, align: bool) -> Array:
    """Compute each point as a sum over the plane, padded without end."""
    n, c, h, w = x.shape
    y = np.zeros((n, c, *grid.shape[1:3]))

    def value(plane: Array, row: int, column: int) -> Any:
        for axis, (at, cells) in enumerate(((row, h), (column, w))):
            if padding == "zeros" and not 0 <= at < cells:
                return 0 * plane[:, 0, 0]
            if padding == "reflection" and align:
                at = abs(at) % (2 * cells - 2)
                at = min(at, 2 * cells - 2 - at)
            elif padding == "reflection":
                at = at % (2 * cells)
                at = min(at, 2 * cells - 1 - at)
            at = min(max(at, 0), cells - 1)
            row, column = (at, column) if axis == 0 else (row, at)
        return plane[:, row, column]

    def weight(d: float) -> float:
        d = abs(d)
        if mode == "linear":
            return max(1 - d, 0)
        a = -0.75
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return near if d <= 1 else far if d < 2 else 0

    for i, r, q in product(range(n), *map(range, grid.shape[1:3])):
        at = [
            (g + 1) / 2 * (s - 1) if align else ((g + 1) * s - 1) / 2 for g, s in zip(grid[i, r, q][::-1], (h, w))
        ]
        if mode == "nearest":
            y[i, :, r, q] = value(x[i], *(int(np.rint(a)) for a in at))
            continue
        reach = [range(int(np.floor(a)) - 1, int(np.floor(a)) + 3) for a in at]
        for row, column in product(*reach):
            y[i, :, r, q] += weight(at[0] - row) * weight(at[1] - column) * value(x[i], row, column)
    return y


GRID = np.random.default_rng(7).uniform(-1.7, 1.7, (2, 4, 5, 2)).astype(np.float32)
GRID[0, 0] = [(-1, 1), (0, 0), (1, 1), (-1, -1), (0.5, -0.5)]


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_matches_its_definition(mode: str, padding: str, align: bool) -> None:
    x = noise(2, 3, 6, 7)
    y = ops.grid_sample(x, GRID, mode=mode, padding=padding, align_corners=align)
    assert y.dtype == np.float32
    expected = sampled(x, GRID.astype(np.float64), mode, padding, align)
    np.testing.assert_allclose(y, expected, atol=2e-5)


def test_grid_sample_matches_values_computed_by_hand() -> None:
    x = numbers(1, 1, 3, 4)
    rows, columns = np.meshgrid(np.arange(3), np.arange(4), indexing="ij")
    grid = np.stack([(2 * columns + 1) / 4 - 1, (2 * rows + 1) / 3 - 1], -1)[None].astype(np.float32)
    np.testing.assert_allclose(ops.grid_sample(x, grid), x, atol=1e-5)
    corners = np.array([[[[-1, -1], [1, 1]]]], np.float32)
    assert ops.grid_sample(x, corners, align_corners=True).tolist() == [[[[0, 11]]]]
    assert ops.grid_sample(x, corners).tolist() == [[[[0, 11 / 4]]]]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_matches_numpy_on_engines(padding: Any) -> None:
    def run(x: Array, grid: Array) -> list[Array]:
        return [
            ops.grid_sample(x, grid, mode=mode, padding=padding, align_corners=align)
            for mode in ("linear", "nearest", "cubic")
            for align in (False, True)
        ]

    agree(run, noise(2, 3, 6, 7), GRID)


def test_grid_sample_refuses_invalid_arguments() -> None:
    x = noise(2, 3, 6, 7)
    refuses("grid_sample needs an input (N, C, H, W), got shape (3, 6, 7)", ops.grid_sample, x[0], GRID)
    refuses("grid must be of shape (2, h, w, 2), got (1, 4, 5, 2)", ops.grid_sample, x, GRID[:1])
    refuses(
        "mode must be one of linear, nearest, cubic, got 'bilinear'", ops.grid_sample, x, GRID, mode="bilinear"
    )
    refuses(
        "padding must be one of zeros, border, reflection, got 'wrap'", ops.grid_sample, x, GRID, padding="wrap"
    )


BOXES = np.array(
    [[[0, 0, 2, 2], [2, 2.1, 0, 0.1], [0, 0, 2, 1], [5, 5, 6, 6], [7, 7, 7, 9], [7, 7, 7, 9]]], np.float32
)


def test_nms_matches_values_computed_by_hand() -> None:
    scores = np.array([[[0.5, 0.9, 0.4, 0.9, 0.1, 0.1], [0.2, 0.1, 0.3, 0, 0, 0]]], np.float32)
    kept, count = ops.nms(BOXES, scores, max_per_class=6, iou_threshold=0.5)
    # Box 1 drops box 0 (IoU 3.8 / 4.2) but not box 2 (1.8 / 4.2). Box 2 does not drop box 0 (IoU 2 / 4).
    # Equal scores are ordered by index. Boxes without area are kept.
    assert kept[: int(count)].tolist() == [
        *([0, 0, i] for i in (1, 3, 2, 4, 5)),
        *([0, 1, i] for i in (2, 0, 3, 4, 5)),
    ]
    assert kept.shape == (12, 3) and (kept[10:] == -1).all()
    assert kept.dtype == count.dtype == np.int64 and count.shape == ()
    kept, count = ops.nms(BOXES, scores, max_per_class=2, iou_threshold=0.5, score_threshold=0.25)
    assert kept.tolist() == [[0, 0, 1], [0, 0, 3], [0, 1, 2], [-1, -1, -1]]
    assert count == 3


def test_nms_returns_the_rows_that_the_caller_states() -> None:
    scores = np.array([[[0.5, 0.9, 0.4, 0.9, 0.1, 0.1], [0.2, 0.1, 0.3, 0, 0, 0]]], np.float32)

    def selected(boxes: Array, scores: Array, most: int = 5) -> tuple[Array, Array]:
        return ops.nms(boxes, scores, max_per_class=4, iou_threshold=0.5, score_threshold=0.25, max_rows=most)

    kept, count = selected(BOXES, scores)
    assert kept.tolist() == [[0, 0, 1], [0, 0, 3], [0, 0, 2], [0, 1, 2], [-1, -1, -1]] and count == 4
    agree(selected, BOXES, scores)
    with pytest.raises(LayerError, match="NMS keeps 4 boxes, more than max_rows=3"):
        selected(BOXES, scores, 3)


def overlap(a: Array, b: Array) -> float:
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    if (high <= low).any():
        return 0.0
    common = np.prod(high - low)
    return float(common / (np.prod(np.abs(a[2:] - a[:2])) + np.prod(np.abs(b[2:] - b[:2])) - common))


@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("most", [40, 4])
def test_nms_is_greedy(most: int, threshold: float | None) -> None:
    boxes, scores = random_boxes()
    kept, count = ops.nms(boxes, scores, max_per_class=most, iou_threshold=0.3, score_threshold=threshold)
    expected = []
    for b, c in product(range(2), range(3)):
        found: list[int] = []
        for i in sorted(range(40), key=lambda i: (-scores[b, c, i], i)):
            good = threshold is None or scores[b, c, i] > np.float32(threshold)
            if good and len(found) < most and all(overlap(boxes[b, i], boxes[b, j]) <= 0.3 for j in found):
                found.append(i)
        expected += [[b, c, i] for i in found]
    assert count == len(expected)
    assert kept[: len(expected)].tolist() == expected
    agree(
        lambda b, s: ops.nms(b, s, max_per_class=most, iou_threshold=0.3, score_threshold=threshold), boxes, scores
    )


def random_boxes() -> tuple[Array, Array]:
    random = np.random.default_rng(3)
    boxes = random.uniform(0, 10, (2, 40, 4)).astype(np.float32)
    return boxes, np.round(random.uniform(0, 1, (2, 3, 40)), 1).astype(np.float32)


def test_nms_on_engines_without_boxes() -> None:
    agree(
        lambda b, s: ops.nms(b, s, max_per_class=3, iou_threshold=0.5, score_threshold=2.0),
        BOXES,
        np.ones((1, 2, 6), np.float32),
    )


def test_nms_with_threshold_one_keeps_equal_boxes() -> None:
    boxes = np.tile(np.array([0.1, 35.916096, 75.91609, 64], np.float32), (1, 5, 1))
    scores = np.linspace(0.1, 0.9, 5, dtype=np.float32).reshape(1, 1, 5)
    assert ops.nms(boxes, scores, max_per_class=5, iou_threshold=1.0)[1] == 5
    agree(lambda b, s: ops.nms(b, s, max_per_class=5, iou_threshold=1.0), boxes, scores)


def test_nms_refuses_invalid_arguments() -> None:
    scores = np.ones((1, 2, 6), np.float32)
    good: dict[str, Any] = {"max_per_class": 2, "iou_threshold": 0.5}
    refuses("boxes must be of shape (B, N, 4), got (6, 4)", ops.nms, BOXES[0], scores, **good)
    refuses("scores must be of shape (1, classes, 6), got (1, 2, 5)", ops.nms, BOXES, scores[:, :, :5], **good)
    refuses(
        "iou_threshold must be between 0 and 1, got 1.5",
        ops.nms,
        BOXES,
        scores,
        max_per_class=2,
        iou_threshold=1.5,
    )
    refuses(
        "max_per_class must be an integer of at least 1, got 0",
        ops.nms,
        BOXES,
        scores,
        max_per_class=0,
        iou_threshold=0.5,
    )


def test_head_returns_the_first_rows() -> None:
    x = numbers(4, 2)
    assert ops.head(x, np.array(2)).tolist() == [[0, 1], [2, 3]]
    assert ops.head(x, 0).shape == (0, 2)
    assert ops.head(x, 9).shape == (4, 2)
    agree(lambda x: ops.head(x, 3), x)
    for count in (0, 1, 4):
        agree(lambda x, n: [ops.head(x, n), ops.head(x, n.astype(np.int32))], x, np.array(count))


def test_arrays_cut_by_the_same_count_can_be_added() -> None:
    def run(inputs: list[Array]) -> list[Array]:
        x, y, n = inputs
        a, b = ops.head(x, n), ops.head(y, n)
        assert isinstance(a.shape[0], Dim) and a.shape[0] is b.shape[0] and a.shape[0].maximum == 4
        return [np.concatenate([a, b], axis=1)]

    x, y, n = numbers(4, 2), numbers(4, 3), np.array(3)
    graph = trace(run, [TensorType.of((4, 2)), TensorType.of((4, 3)), TensorType.of((), np.int64)])
    for engine in ENGINES:
        (z,) = run_graph(graph, [x, y, n], engine)
        assert (z == np.concatenate([x[:3], y[:3]], axis=1)).all()


def test_head_refuses_invalid_arguments() -> None:
    refuses("head needs an array with rows, got shape ()", ops.head, np.float32(1), 1)
    refuses("count must be one number of shape (), got shape (1,)", ops.head, numbers(3), np.array([1]))
