"""Resizing matches onnx's reference implementation, values of other frameworks, and the engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from anylayer import ops
from anylayer.network import Array, TensorType
from anylayer.ops._interpolation import COORDINATES, NEAREST
from anylayer.tracing import trace
from tests.ops.harness import agree, noise, numbers, refuses

SIZES = [(5, 7), (8, 12), (12, 9), (3, 2), (1, 1), (4, 13), (4, 6)]


def reference(x: Array, size: Any, **attrs: Any) -> Array:
    """Return the result of onnx's reference implementation."""
    inputs = ["x", "roi", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["y"], **attrs)
    kinds = [("x", 1, x.shape), ("roi", 1, (8,)), ("sizes", 7, (4,))]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(*k) for k in kinds],
        [helper.make_tensor_value_info("y", 1, (*x.shape[:2], *size))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    feed = {"x": x, "roi": np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.3], np.float32)}
    (y,) = ReferenceEvaluator(model).run(None, {**feed, "sizes": np.array([*x.shape[:2], *size])})
    return y


EVALUATED = [c for c in COORDINATES if c != "tf_half_pixel_for_nn"]
"""The coordinates that onnx's reference implements. The remaining one is compared with ONNX Runtime."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("coordinates", EVALUATED)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_matches_the_onnx_reference(mode: str, coordinates: str, size: Any) -> None:
    x = noise(1, 2, 4, 6)
    if size == (1, 1) and coordinates == "pytorch_half_pixel":
        # The specification puts a single point on cell 0; onnx's reference uses -0.5.
        np.testing.assert_array_equal(ops.resize(x, size, mode=mode, coordinates=coordinates), x[:, :, :1, :1])
        return
    crop = coordinates == "tf_crop_and_resize"
    more: dict[str, Any] = {"roi": (0.1, 0.2, 0.8, 1.3), "extrapolation": 3.0} if crop else {}
    y = ops.resize(x, size, mode=mode, coordinates=coordinates, **more)
    expected = reference(x, size, mode=mode, coordinate_transformation_mode=coordinates, extrapolation_value=3.0)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_nearest_matches_the_onnx_reference(coordinates: str, nearest: str) -> None:
    x = numbers(1, 1, 4, 6)
    for size in SIZES:
        y = ops.resize(x, size, mode="nearest", coordinates=coordinates, nearest=nearest)
        expected = reference(
            x, size, mode="nearest", coordinate_transformation_mode=coordinates, nearest_mode=nearest
        )
        np.testing.assert_array_equal(y, expected, err_msg=str(size))


@pytest.mark.parametrize("option", ["antialias", "exclude_outside"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_filter_options_match_the_onnx_reference(mode: str, option: str) -> None:
    x = noise(1, 2, 9, 12)
    attrs = {option: 1, "coordinate_transformation_mode": "half_pixel"}
    for size in [(3, 5), (4, 12), (9, 7)]:
        y = ops.resize(x, size, mode=mode, cubic_a=-0.5, **{option: True})
        expected = reference(x, size, mode=mode, cubic_coeff_a=-0.5, **attrs)
        np.testing.assert_allclose(y, expected, atol=1e-5, err_msg=str(size))


def test_scales_replace_the_ratio_of_sizes() -> None:
    x = noise(1, 1, 4, 6)
    rows, columns = (np.arange(9) + 0.5) / 2.3 - 0.5, (np.arange(8) + 0.5) / 1.4 - 0.5
    clipped = np.clip(columns, 0, 5)
    low = np.floor(clipped).astype(int)
    share = clipped - low
    taken = x[0, 0][np.clip(np.round(rows), 0, 3).astype(int)]
    want = taken[:, low] * (1 - share) + taken[:, np.minimum(low + 1, 5)] * share
    y = ops.resize(x, 9, axes=(2,), mode="nearest", nearest="round_prefer_floor", scales=[2.3])
    y = ops.resize(y, 8, axes=(3,), scales=[1.4])
    np.testing.assert_allclose(y[0, 0], want, atol=1e-5)
    agree(
        lambda x: [
            ops.resize(x, (9, 8), mode=mode, coordinates=rule, scales=[2.3, 1.4])
            for mode in ("nearest", "linear", "cubic")
            for rule in ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
        ],
        x,
    )


def test_resize_matches_other_frameworks() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    # Caffe's Interp: the corners are aligned
    y = ops.resize(x, (3, 3), coordinates="align_corners")
    assert y[0, 0].tolist() == [[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]
    # TensorFlow 1's ResizeBilinear
    y = ops.resize(x, (4, 4), coordinates="asymmetric")
    assert y[0, 0].tolist() == [[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]]
    # Darknet's upsample
    y = ops.resize(x, 4, axes=(3,), mode="nearest", coordinates="asymmetric")
    assert y[0, 0].tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]


def test_resize_keeps_a_constant_map() -> None:
    x = np.full((1, 1, 5, 7), 3, np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in COORDINATES:
            for antialias in (False, True):
                y = ops.resize(x, (11, 3), mode=mode, coordinates=coordinates, antialias=antialias)
                np.testing.assert_allclose(y, 3, rtol=1e-6)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_matches_numpy_on_engines(mode: str, coordinates: str) -> None:
    agree(lambda x: [ops.resize(x, size, mode=mode, coordinates=coordinates) for size in SIZES], noise(1, 2, 4, 6))


def test_nearest_matches_numpy_on_engines() -> None:
    def run(x: Array) -> list[Array]:
        return [
            ops.resize(x, size, mode="nearest", coordinates=coordinates, nearest=nearest)
            for coordinates in COORDINATES
            for nearest in NEAREST
            for size in [(12, 18), (8, 24), (2, 3), (7, 5)]
        ]

    agree(run, noise(1, 2, 4, 6))


@pytest.mark.parametrize("factor", [2, 3, 5, 7, 12])
def test_integer_repetition_matches_numpy_on_engines(factor: int) -> None:
    agree(
        lambda x: ops.resize(x, (factor * 41, factor * 53), mode="nearest", coordinates="asymmetric"),
        numbers(1, 1, 41, 53),
    )


def test_other_axes_and_filters_on_engines() -> None:
    def run(x: Array, volume: Array) -> list[Array]:
        return [
            *(ops.resize(x, (5, 4), axes=(1, 2), mode=mode) for mode in ("nearest", "linear", "cubic")),
            ops.resize(x, 5, axes=(0,)),
            ops.resize(x, (4, 11), antialias=True),
            ops.resize(x, (4, 11), mode="cubic", exclude_outside=True),
            ops.resize(x, (9, 12)),
            ops.resize(x, (5, 6), coordinates="tf_crop_and_resize", roi=(-0.1, 0.2, 0.8, 1.4), extrapolation=7.0),
            ops.resize(volume, (3, 6, 5)),
            ops.resize(volume, (6, 8, 10), mode="nearest", coordinates="asymmetric"),
        ]

    agree(run, noise(2, 3, 9, 12), noise(1, 2, 3, 4, 5))


def test_long_axes_on_engines() -> None:
    x = noise(1, 2, 100, 222)

    def run(x: Array) -> list[Array]:
        rules = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
        return [ops.resize(x, size, coordinates=rule) for rule in rules for size in [(60, 333), (222, 222)]]

    agree(run, x)
    agree(
        lambda x: ops.resize(x, (60, 333), coordinates="align_corners"),
        x,
        case="resize of a long axis with aligned corners",
    )


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "more", [{}, {"antialias": True}, {"exclude_outside": True}, {"coordinates": "asymmetric"}]
)
def test_resize_records_one_operator(mode: Any, more: dict[str, Any]) -> None:
    for shape, size, axes in (((1, 2, 4, 6), (7, 5), (2, 3)), ((4, 6, 3), (8, 12), (0, 1)), ((9,), (4,), (0,))):
        graph = trace(
            lambda xs, s=size, a=axes: [ops.resize(xs[0], s, axes=a, mode=mode, **more)], [TensorType.of(shape)]
        )
        assert [o.op for o in graph.ops] == ["Resize"]


def test_positions_by_step_decide_ties_as_tensorflow() -> None:
    x = numbers(1, 1, 1, 41)
    divided, multiplied = (
        ops.resize(x, 41 * 41, axes=(3,), mode="nearest", coordinates="asymmetric", by_step=by_step)
        for by_step in (False, True)
    )
    cells = (np.arange(41 * 41, dtype=np.float32) * (np.float32(1) / np.float32(41))).astype(int)
    np.testing.assert_array_equal(divided, np.repeat(x, 41, axis=3))
    np.testing.assert_array_equal(multiplied, x[..., cells])
    agree(lambda x: ops.resize(x, 41 * 41, axes=(3,), mode="nearest", coordinates="asymmetric", by_step=True), x)


def test_resize_refuses_invalid_arguments() -> None:
    x = noise(1, 2, 4, 6)
    refuses("size must be an integer of at least 1, got 0", ops.resize, x, (0, 3))
    refuses("size must be 1 or 2 numbers, got 3: [1, 2, 3]", ops.resize, x, (1, 2, 3), axes=(2, 3))
    refuses("size names 5 axes, the input has 4", ops.resize, x, (1, 2, 3, 4, 5))
    refuses("axes names an axis twice: [3, -1]", ops.resize, x, (1, 2), axes=(3, -1))
    refuses("axes must lie in -4..3 for 4 axes, got 4", ops.resize, x, 5, axes=(4,))
    refuses("mode must be 'nearest', 'linear' or 'cubic', got 'area'", ops.resize, x, (2, 2), mode="area")
    refuses("coordinates must be one of half_pixel, ", ops.resize, x, (2, 2), coordinates="half")
    refuses("scales must be 2 numbers, got 1", ops.resize, x, (2, 2), axes=(2, 3), scales=[0.5])
    refuses(
        "scales belong to coordinates=half_pixel, pytorch_half_pixel, asymmetric, tf_half_pixel_for_nn without "
        "antialias, got 'align_corners'",
        ops.resize,
        x,
        (2, 2),
        coordinates="align_corners",
        scales=[0.5, 0.5],
    )
    refuses("nearest must be one of round_prefer_floor, ", ops.resize, x, (2, 2), mode="nearest", nearest="up")
    refuses(
        "roi belongs to coordinates='tf_crop_and_resize', got 'half_pixel'",
        ops.resize,
        x,
        (2, 2),
        roi=(0, 0, 1, 1),
    )
    refuses(
        "roi must be 4 numbers: starts, then ends, got (0, 1)",
        ops.resize,
        x,
        (2, 2),
        coordinates="tf_crop_and_resize",
        roi=(0, 1),
    )
    refuses("axis 3 of (1, 2, 4, 0) has no cells to resize", ops.resize, x[..., :0], (2, 2))
    refuses("the result of shape (1, 2, 1000000, 1000000) would have", ops.resize, x, (10**6, 10**6))
