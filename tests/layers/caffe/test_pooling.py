"""Pooling."""

import numpy as np
import pytest

from tests.layers.harness import Case, case, noise, ramp, reads, rejects

LOWEST = np.finfo(np.float32).min


def pooled(x: np.ndarray, pool: str, *both: int) -> np.ndarray:
    """Compute Caffe's loops cell by cell in float64, for a kernel, a stride and a pad of both axes, or of h, w."""
    n, c, h, w = x.shape
    k, kw, s, sw, p, pw = np.repeat(both, 2) if len(both) == 3 else both
    rows, columns = int(np.ceil((h + 2 * p - k) / s)) + 1, int(np.ceil((w + 2 * pw - kw) / sw)) + 1
    if p or pw:
        rows -= (rows - 1) * s >= h + p
        columns -= (columns - 1) * sw >= w + pw
    y = np.empty((n, c, rows, columns))
    for i in range(rows):
        for j in range(columns):
            top, left = i * s - p, j * sw - pw
            bottom, right = min(top + k, h + p), min(left + kw, w + pw)
            area = (bottom - top) * (right - left)
            window = x[:, :, max(top, 0) : max(min(bottom, h), 0), max(left, 0) : max(min(right, w), 0)]
            if pool == "AVE":
                with np.errstate(all="ignore"):
                    y[:, :, i, j] = window.astype(float).sum((2, 3)) / area
            else:
                y[:, :, i, j] = window.max((2, 3)) if window.size else LOWEST
    return y.astype(np.float32)


@pytest.mark.parametrize("pool", ["MAX", "AVE"])
@pytest.mark.parametrize("size", [(5, 6), (7, 4), (3, 9), (8, 8), (4, 4)])
@pytest.mark.parametrize(
    "ksp", [(1, 1, 0), (2, 2, 0), (3, 2, 0), (3, 2, 1), (2, 2, 1), (5, 3, 2), (1, 3, 0), (4, 3, 3), (2, 5, 1)]
)
def test_by_caffes_loops(pool: str, size: tuple[int, int], ksp: tuple[int, int, int]) -> None:
    (h, w), (k, s, p) = size, ksp
    x = noise(2, 3, h, w)
    given = Case(
        "Pooling",
        {"pool": pool, "kernel_size": k, "stride": s, "pad": p},
        [x],
        [pooled(x, pool, k, s, p)],
        engines=(),
    )
    given.run()


X = noise(1, 2, 6, 7)

test_max_ceils = case("Pooling", {"kernel_size": 3, "stride": 2}, inputs=[X], outputs=[pooled(X, "MAX", 3, 2, 0)])
test_mean_ceils = case(
    "Pooling", {"pool": "AVE", "kernel_size": 3, "stride": 2}, inputs=[X], outputs=[pooled(X, "AVE", 3, 2, 0)]
)
test_mean_counts_padding = case(
    "Pooling",
    {"pool": "AVE", "kernel_size": 3, "stride": 2, "pad": 1},
    inputs=[X],
    outputs=[pooled(X, "AVE", 3, 2, 1)],
)
test_mean_beyond_the_padding = case(
    "Pooling",
    {"pool": "AVE", "kernel_size": 5, "stride": 3, "pad": 2},
    inputs=[X],
    outputs=[pooled(X, "AVE", 5, 3, 2)],
)
test_window_behind_the_map = case(
    "Pooling",
    {"kernel_size": 1, "stride": 3},
    inputs=[ramp(1, 1, 4, 5)],
    outputs=[[[[[0, 3, LOWEST], [15, 18, LOWEST]]]]],
)
_ONE_SIDED = {"kernel_h": 1, "kernel_w": 3, "stride": 2, "pad_h": 0, "pad_w": 1}


@pytest.mark.parametrize("pool", ["MAX", "AVE"])
def test_pad_of_one_axis_drops_last_windows_of_both(pool: str) -> None:
    x = noise(1, 2, 4, 6)
    want = pooled(x, pool, 1, 3, 2, 2, 0, 1)
    assert want.shape == (1, 2, 2, 4)
    Case("Pooling", {"pool": pool, **_ONE_SIDED}, [x], [want]).run()


@pytest.mark.parametrize("pool", ["MAX", "AVE"])
def test_opencv_drops_last_windows_of_padded_axes_only(pool: str) -> None:
    """OpenCV 4.14 computes 3 rows; the last one lies after the map."""
    x = noise(1, 2, 4, 6)
    above = pooled(x, pool, 1, 3, 2, 2, 0, 1)
    last = np.full((1, 2, 1, 4), LOWEST if pool == "MAX" else np.nan, np.float32)
    want = np.concatenate([above, last], 2)
    Case("Pooling", {"pool": pool, **_ONE_SIDED}, [x], [want], dialect="opencv", engines=()).run()


test_mask = case(
    "Pooling",
    {"kernel_size": 2, "stride": 2},
    inputs=[[[[[1, 5, 2], [3, 4, 9], [7, 7, 0]]]]],
    outputs=[[[[[5, 9], [7, 0]]]], [[[[1, 5], [6, 8]]]]],
)
test_mask_of_an_empty_window = case(
    "Pooling",
    {"kernel_size": 1, "stride": 3},
    inputs=[ramp(1, 1, 1, 5)],
    outputs=[[[[[0, 3, LOWEST]]]], [[[[0, 3, -1]]]]],
)
test_floor = case(
    "Pooling",
    {"kernel_size": 2, "stride": 2, "round_mode": "FLOOR"},
    inputs=[ramp(1, 1, 3, 3)],
    outputs=[[[[[4]]]]],
)
test_ceil_mode_false = case(
    "Pooling", {"kernel_size": 2, "stride": 2, "ceil_mode": False}, inputs=[ramp(1, 1, 3, 3)], outputs=[[[[[4]]]]]
)
test_global_mean = case(
    "Pooling", {"pool": "AVE", "global_pooling": True}, inputs=[ramp(1, 2, 2, 2)], outputs=[[[[[1.5]], [[5.5]]]]]
)
test_global_max = case("Pooling", {"global_pooling": True}, inputs=[ramp(1, 2, 2, 2)], outputs=[[[[[3]], [[7]]]]])
test_height_and_width_apart = case(
    "Pooling",
    {"kernel_h": 1, "kernel_w": 2, "stride_h": 2, "stride_w": 1, "pad_h": 0, "pad_w": 1},
    inputs=[ramp(1, 1, 3, 2)],
    outputs=[[[[[0, 1, 1], [4, 5, 5]]]]],
)
test_kernel_larger_than_the_map = case(
    "Pooling", {"kernel_size": 3, "stride": 2, "pool": "AVE"}, inputs=[ramp(1, 1, 2, 2)], outputs=[[[[[1.5]]]]]
)


def _rejects(text: str, shape: tuple[int, ...] = (1, 2, 6, 6), tops: int = 1, **params: object):
    return rejects("Pooling", params, inputs=[ramp(*shape)], tops=tops, text=text)


test_rejects_global_pooling_with_kernel_size = _rejects(
    "global_pooling uses the size of the map as kernel, so remove kernel_size", global_pooling=True, kernel_size=6
)
test_rejects_global_pooling_with_stride = _rejects(
    "global_pooling needs stride 1 and pad 0, got stride (2, 2) and pad (0, 0)", global_pooling=True, stride=2
)
test_rejects_input_without_4_axes = _rejects(
    "needs an input of 4 axes (N, C, H, W), got shape (2, 6, 6)", (2, 6, 6), kernel_size=2
)
test_rejects_stochastic_pooling = _rejects(
    "pool STOCHASTIC selects random cells", pool="STOCHASTIC", kernel_size=2
)
test_kernel_missing = _rejects(
    "the kernel is missing: give kernel_size, or kernel_h and kernel_w, or global_pooling: true"
)
test_rejects_kernel_size_and_kernel_h_together = _rejects(
    "give kernel_size, or kernel_h and kernel_w, not both", kernel_size=2, kernel_h=2, kernel_w=2
)
test_rejects_kernel_h_without_kernel_w = _rejects(
    "kernel_h and kernel_w go together, kernel_w is missing", kernel_h=2
)
test_rejects_stride_and_stride_h_together = _rejects(
    "give stride, or stride_h and stride_w, not both", kernel_size=2, stride=2, stride_h=2, stride_w=2
)
test_rejects_pad_w_without_pad_h = _rejects(
    "pad_h and pad_w go together, pad_h is missing", kernel_size=2, pad_w=1
)
test_rejects_pad_as_large_as_kernel = _rejects(
    "pad must be less than the kernel, got pad (2, 2) and kernel (2, 2)", kernel_size=2, pad=2
)
test_rejects_stride_of_0 = _rejects("strides must be positive, got (0, 0)", kernel_size=2, stride=0)
test_rejects_kernel_of_0 = _rejects("kernel sizes must be positive, got (0, 0)", kernel_size=0)
test_rejects_kernel_larger_than_map = _rejects(
    "a kernel of 9 with stride 1 does not fit 6 cells with pad 0", kernel_size=9
)
test_rejects_pad_that_makes_huge_map = _rejects(
    "turns a map of (6, 6) into (2000004, 2000004)", kernel_size=1000000, pad=999999, stride=1000000
)
test_rejects_mask_of_mean_pooling = _rejects(
    "only pool MAX has a second output, the mask; got pool AVE", tops=2, pool="AVE", kernel_size=2
)
test_rejects_round_mode_that_contradicts_ceil_mode = _rejects(
    "round_mode FLOOR and ceil_mode true contradict each other", kernel_size=2, round_mode="FLOOR", ceil_mode=True
)
test_read = reads(
    'layer { name: "p" type: "Pooling" bottom: "in0" top: "y" '
    "pooling_param { pool: AVE kernel_size: 2 round_mode: FLOOR } }",
    pool="AVE",
    kernel_size=2,
    round_mode="FLOOR",
    stride=1,
)

SOPHGO = {"pool": "AVE", "kernel_size": 2, "stride": 2}
test_sophgo_divides_by_the_kernel_everywhere = case(
    "Pooling", SOPHGO, dialect="sophgo", inputs=[np.ones((1, 1, 3, 2))], outputs=[[[[[1], [0.5]]]]]
)
test_sophgo_mean_of_nothing_is_0 = case(
    "Pooling",
    {"pool": "AVE", "kernel_size": 1, "stride": 3},
    dialect="sophgo",
    inputs=[np.ones((1, 1, 3, 1))],
    outputs=[[[[[1], [0]]]]],
)
test_sophgo_yolo_keeps_the_size = case(
    "Pooling",
    {"kernel_size": 2, "yolo": True},
    dialect="sophgo",
    inputs=[[[[[1, 2], [4, 3]]]]],
    outputs=[[[[[4, 3], [4, 3]]]]],
)
test_sophgo_rounds_down_if_one_field_says_so = case(
    "Pooling",
    {"kernel_size": 2, "stride": 2, "round_mode": "FLOOR", "ceil_mode": True},
    dialect="sophgo",
    inputs=[np.ones((1, 1, 3, 3))],
    outputs=[[[[[1]]]]],
)
test_other_dialects_have_no_yolo = rejects(
    "Pooling",
    {"kernel_size": 2, "yolo": True},
    dialect="ssd",
    inputs=[np.ones((1, 1, 3, 3))],
    text="'Pooling' fits none of 2 things, give dialect=...",
)
