"""Corrections for OpenVINO, except of integer operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.corrections import corrected
from anylayer.engines import load_engine
from anylayer.engines._common import need_shapes
from anylayer.engines._narrowing import need_range
from anylayer.errors import EngineError
from anylayer.graph import Dim
from anylayer.tracing import record, record_many
from tests.compile.open_sizes import unified
from tests.corrections.harness import noise, run, traced

pytest.importorskip("openvino", reason="openvino is not installed")


def same(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.allclose(got, want, tolerance, tolerance, equal_nan=True)


# ------------------------------------------------------------------- recurrences


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("more", [{"peepholes": True}, {"input_forget": 1}, {"peepholes": True, "clip": 0.5}])
def test_lstm_applies_peepholes_and_input_forget(more: dict[str, Any], direction: str) -> None:
    given = dict(more)
    count = 2 if direction == "bidirectional" else 1
    x, w, r, b = noise(5, 3, 4), noise(count, 8, 4, seed=1), noise(count, 8, 2, seed=2), noise(count, 16, seed=3)
    peepholes = noise(count, 6, seed=4) if given.pop("peepholes", False) else None
    types = [((5, count, 3, 2), np.float32)] + [((count, 3, 2), np.float32)] * 2
    attrs = {"hidden_size": 2, "direction": direction, **given}

    def recorded(x: Any) -> Any:
        inputs = [x, w, r, b, None, None, None, peepholes]
        return record_many("LSTM", inputs[:4] if peepholes is None else inputs, types, **attrs)

    want = ops.lstm(x, w, r, b, peepholes=peepholes, **attrs)
    for got, array in zip(run("openvino", recorded, x), want):
        same(got, array)
    if direction == "forward":
        for got, array in zip(run("onnxruntime", recorded, x), want):
            same(got, array)


def test_lstm_with_peepholes_and_activation_parameters_is_refused() -> None:
    x, w, r = noise(5, 3, 4), noise(1, 8, 4), noise(1, 8, 2)
    attrs: dict[str, Any] = {"hidden_size": 2, "input_forget": 1, "activation_alpha": [0.3, 0.3, 0.3]}
    with pytest.raises(EngineError, match=r"'LSTM' is computed wrongly by this engine: it leaves out peepholes"):
        run("openvino", lambda x: record("LSTM", [x, w, r], (5, 1, 3, 2), np.float32, **attrs), x)


# ------------------------------------------------------------------ concatenation


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    "joined",
    [
        lambda x: np.concatenate([x, x]),
        lambda x: np.tile(x, 2),
        lambda x: np.concatenate([x, x])[None],
        lambda x: np.insert(x, 0, 1),
        lambda x: np.concatenate([x[None], x[None]], axis=1),
    ],
)
def test_absolute_values_do_not_change_a_concatenation(joined: Any, dtype: str) -> None:
    x = np.array([-4, 1, -3, 2], dtype)

    def both(x: Any) -> Any:
        y = joined(x)
        return [y - y.dtype.type(1), np.abs(y)]

    for got, want in zip(run("openvino", both, x), both(x)):
        same(got, want)


# ----------------------------------------------------------------- normalization


def test_batch_normalization_of_float16_with_statistics_of_float32_is_computed_in_float32() -> None:
    x = noise(1, 3, 4, 5).astype(np.float16)
    scale, bias, mean = (noise(3, seed=i) for i in (1, 2, 3))
    var = np.abs(noise(3, seed=4)) + 0.5

    def normalized(x: Any) -> Any:
        return record("BatchNormalization", [x, scale, bias, mean, var], x.shape, x.dtype, epsilon=1e-3)

    want = ops.batch_normalization(x.astype(np.float32), scale, bias, mean, var, epsilon=1e-3).astype(np.float16)
    same(run("openvino", normalized, x)[0], want, 1e-3)


# ---------------------------------------------------------------------- resizing


@pytest.mark.parametrize("rule", ["half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("size", [(9, 11), (4, 3)])
@pytest.mark.parametrize(
    "more",
    [
        {"mode": "cubic", "exclude_outside": 1},
        {"mode": "cubic", "antialias": 1},
        {"mode": "linear", "antialias": 1},
        {"mode": "cubic", "exclude_outside": 1, "antialias": 1, "cubic_coeff_a": -0.5},
        {"mode": "linear"},
    ],
)
def test_resize_applies_every_attribute(more: dict[str, Any], size: tuple[int, int], rule: str) -> None:
    x, shape = noise(1, 2, 5, 7), (1, 2, *size)

    def recorded(x: Any) -> Any:
        attrs = {**more, "coordinate_transformation_mode": rule}
        return record("Resize", [x, None, None, np.array(shape)], shape, np.float32, **attrs)

    want = run("onnxruntime", recorded, x)[0]
    same(run("openvino", recorded, x)[0], want)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_keeps_the_aspect_ratio(policy: str) -> None:
    x, wanted = noise(1, 1, 2, 4), {"not_larger": (1, 1, 4, 8), "not_smaller": (1, 1, 7, 14)}[policy]

    def recorded(x: Any) -> Any:
        attrs = {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        return record("Resize", [x, None, None, np.array([7, 8])], wanted, np.float32, **attrs)

    same(run("openvino", recorded, x)[0], run("onnxruntime", recorded, x)[0])


def test_resize_that_cannot_be_replaced_is_refused() -> None:
    scales, attrs = np.array([1, 1, 1.7, 1.7], np.float32), {"mode": "cubic", "exclude_outside": 1}
    with pytest.raises(
        EngineError, match=r"'Resize' is computed wrongly by this engine: mode=cubic with coordinates"
    ):
        run(
            "openvino",
            lambda x: record("Resize", [x, None, scales], (1, 1, 8, 8), np.float32, **attrs),
            noise(1, 1, 5, 5),
        )


# ------------------------------------------------------------------------ others


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_hardmax_selects_first_of_equal_values(axis: int) -> None:
    x = np.round(noise(4, 6, 5))

    def recorded(x: Any) -> Any:
        return record("Hardmax", [x], x.shape, np.float32, axis=axis)

    same(run("openvino", recorded, x)[0], run("onnxruntime", recorded, x)[0])


@pytest.mark.parametrize("amount", [2, 5])
def test_padding_by_repetition_selects_elements(amount: int) -> None:
    x = noise(2, 3, 4, 4)

    def recorded(x: Any) -> Any:
        pads = np.array([0, 0, 1, amount, 0, 0, amount, 0])
        return record("Pad", [x, pads], (2, 3, 5 + amount, 4 + amount), np.float32, mode="wrap")

    same(run("openvino", recorded, x)[0], np.pad(x, ((0, 0), (0, 0), (1, amount), (amount, 0)), mode="wrap"))


def test_quantization_to_16_bits_rounds_halves_to_even() -> None:
    x = np.array([0, -128, 3, -3, 2.9, -2.9, 3.1, 65536, -65534, 70000, -70000, 5], np.float32)
    scale, zero = np.float32(2), np.uint16(32767)

    def recorded(x: Any) -> Any:
        return record("QuantizeLinear", [x, scale, zero], x.shape, np.uint16)

    want = np.clip(np.rint(x / scale) + 32767, 0, 65535).astype(np.uint16)
    assert np.array_equal(run("openvino", recorded, x)[0], want)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_extreme_of_infinite_values(sign: int, dtype: str) -> None:
    """A row of a mask that masks all elements."""
    x = np.array([[1, 2], [3, 4]], dtype)
    mask = np.array([[True, False], [False, False]])
    infinite = x.dtype.type(sign * np.inf)

    def function(x: Any, mask: Any) -> Any:
        masked = np.where(mask, x, infinite)
        top = masked.max(axis=1, keepdims=True) if sign < 0 else masked.min(axis=1, keepdims=True)
        return np.where(top == infinite, x.dtype.type(0), x / top)

    assert np.array_equal(run("openvino", function, x, mask)[0], function(x, mask))


@pytest.mark.parametrize("computed", [False, True])
def test_nms_keeps_boxes_whose_overlap_equals_threshold(computed: bool) -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5]]], np.float32)
    scores, threshold = np.array([[[0.9, 0.8]]], np.float32), np.array([0.5], np.float32)

    def recorded(boxes: Any, scores: Any, threshold: Any) -> Any:
        limit = threshold if computed else np.array([0.5], np.float32)
        inputs = [boxes, scores, np.array([5]), limit, np.array([0], np.float32)]
        return [record("NonMaxSuppression", inputs, (Dim("n", 2), 3), np.int64), threshold + 1]

    for engine in ("openvino", "onnxruntime"):
        found = run(engine, recorded, boxes, scores, threshold)[0]
        assert [row[2] for row in found.tolist() if row[2] >= 0] == [0, 1]


def test_einsum_of_scalars() -> None:
    x = np.array(5, np.float32)
    assert run("openvino", lambda x: record("Einsum", [x], (), np.float32, equation="->"), x)[0] == 5
    assert run("openvino", lambda x: record("Einsum", [x, x], (), np.float32, equation=",->"), x)[0] == 25


def test_roi_align_with_mode_max_is_refused() -> None:
    rois, image = np.array([[0, 0, 4, 4]], np.float32), np.array([0])
    attrs = {"mode": "max", "output_height": 2, "output_width": 2, "sampling_ratio": 2}
    with pytest.raises(
        EngineError, match=r"'RoiAlign' is computed wrongly by this engine: mode='max' takes the lar"
    ):
        run(
            "openvino",
            lambda x: record("RoiAlign", [x, rois, image], (1, 1, 2, 2), np.float32, **attrs),
            noise(1, 1, 8, 8),
        )


def test_fourier_transform_is_refused() -> None:
    with pytest.raises(EngineError, match=r"'DFT' is computed wrongly by this engine: it transforms another axis"):
        run("openvino", lambda x: record("DFT", [x], (1, 8, 5, 2), np.float32, axis=1), noise(1, 8, 5, 1))


def test_written_ir_is_corrected(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    sizes = numpy_helper.from_array(np.array([1, 1, 9, 9]), "sizes")
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", exclude_outside=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [sizes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (tmp_path / "n.onnx").write_bytes(model.SerializeToString())
    done = anylayer.read(tmp_path / "n.onnx").write(tmp_path / "n.xml")
    assert done.checks and all(check.ok for check in done.checks)


# ------------------------------------------------------------------- every output


def test_output_of_a_wrong_shape_is_refused() -> None:
    size = Dim("n", 4)
    need_shapes("openvino", [np.zeros((3, 2))], [(size, 2)])
    with pytest.raises(
        EngineError, match=r"engine 'openvino' returned output 0 with shape \(1, 1, 1\), expected \(1, 1\)"
    ):
        need_shapes("openvino", [np.zeros((1, 1, 1))], [(1, 1)])
    for wrong in ((5, 2), (3, 1), (3,)):
        with pytest.raises(EngineError, match="This is a fault of the engine; use another one"):
            need_shapes("openvino", [np.zeros(wrong)], [(size, 2)])


def test_range_of_narrowed_arrays() -> None:
    limits = [(0, "x", -(2.0**31), 2.0**31 - 1)]
    need_range([np.zeros(0, np.int64)], limits, "input")
    need_range([np.array([2**31 - 1, -(2**31)])], limits, "input")
    with pytest.raises(EngineError, match="input 'x' holds 2147483648"):
        need_range([np.array([2**31])], limits, "input")
    need_range([np.array([np.nan, 1.0])], [(0, "x", -3.4e38, 3.4e38)], "output")


@pytest.mark.parametrize("order", [[2, 0, 3, 1], [1, 2, 3, 0], [0, 2, 1, 3], [-1, 0, 1, 2]])
@pytest.mark.parametrize("symbolic", [False, True])
def test_permuted_channels_before_conv(order: list[int], symbolic: bool) -> None:
    weights = noise(5, 4, 3, 3)

    def function(x: Any) -> Any:
        return ops.conv(ops.relu(x[:, order]), weights)

    graph = traced(function, noise(3, 4, 6, 6))
    if symbolic:
        graph, _ = unified(function, ("N", 4, 6, 6), first={"N": 2}, second={"N": 3})
    x = noise(3, 4, 6, 6)
    same(load_engine("openvino").compile(graph, 1)([x])[0], function(x), 1e-4)


# ------------------------------------------------------------------------- range


def ranged(dtype: Any) -> Any:
    def function(start: Any, limit: Any, delta: Any) -> Any:
        return record("Range", [start, limit, delta], (Dim("n", 100),), dtype)

    return function


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("limits", [(0, 5, 1), (5, 0, -2), (0, 5, -1), (-3, 4, 3)])
def test_range_of_computed_numbers(limits: tuple[int, int, int], dtype: Any) -> None:
    (got,) = run("openvino", ranged(dtype), *(np.array(v, dtype) for v in limits))
    assert np.array_equal(got, np.arange(*limits).astype(dtype)) and got.dtype == dtype


@pytest.mark.parametrize(
    ("limits", "dtype"),
    [
        *(((0, 0, 0), dtype) for dtype in (np.float32, np.int64)),
        *(((0, 5, 0), dtype) for dtype in (np.float32, np.int64)),
        *((v, np.float32) for v in [(np.nan, 1, 1), (0, np.nan, 1), (0, 1, np.nan), (0, np.inf, 1), (0, 1e30, 1)]),
    ],
)
def test_range_whose_length_is_not_a_number_is_refused(limits: Any, dtype: Any) -> None:
    with pytest.raises(
        EngineError, match=r"'Range': its length, \(limit - start\) / delta, must be a number below 2"
    ):
        run("openvino", ranged(dtype), *(np.array(v, dtype) for v in limits))


def test_range_that_leads_to_its_limit_is_not_corrected() -> None:
    graph = traced(lambda n: ranged(np.int64)(np.array(0), np.clip(n, 0, 9), np.array(2)), np.array(4))
    assert [o.op for o in corrected(graph, "openvino", checking=True).graph.ops][-1:] == ["Range"]


# -------------------------------------------------------------------- reductions


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduce", [np.mean, np.sum, np.max, np.prod, np.std])
@pytest.mark.parametrize(
    "then",
    [
        lambda v: v * np.arange(1, 1 + v.shape[1], dtype=np.float32),
        lambda v: np.maximum(v, 0) + np.arange(1, 1 + v.shape[0], dtype=np.float32)[:, None],
        lambda v: np.arange(1, 1 + v.shape[1], dtype=np.float32) - np.sqrt(np.abs(v)),
    ],
    ids=["columns", "rows", "after a root"],
)
def test_constant_after_a_reduction_of_three_axes(then: Any, reduce: Any, axis: int) -> None:
    x = noise(4, 4, 4)
    same(run("openvino", lambda x: then(reduce(x, axis=axis)), x)[0], then(reduce(x, axis=axis)))


def test_col2im_of_computed_sizes_is_refused() -> None:
    def function(x: Any, image: Any, block: Any) -> Any:
        return record("Col2Im", [x, image, block], (1, 1, 5, 5), np.float32)

    sizes = np.array([5, 5]), np.array([1, 5])
    with pytest.raises(
        EngineError, match="'Col2Im' is computed wrongly by this engine: a size that is not a positive"
    ):
        run("openvino", function, noise(1, 5, 5), *sizes)
    (got,) = run("openvino", lambda x: function(x, *sizes), noise(1, 5, 5))
    assert np.array_equal(got, noise(1, 5, 5).transpose(0, 2, 1).reshape(1, 1, 5, 5))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cast_of_a_concatenation_keeps_signs(dtype: Any) -> None:
    def function(x: Any) -> Any:
        return [np.concatenate([x + 1, x]).astype(dtype), np.fmod(np.concatenate([x, x]), np.float32(3))]

    x = np.array([-2.25, 3.5, -7], np.float32)
    for got, want in zip(run("openvino", function, x), function(x)):
        assert np.array_equal(got, want)


def test_top_0_by_a_computed_k_selects_nothing() -> None:
    def function(x: Any, k: Any) -> Any:
        size = Dim("k", 4)
        return record_many("TopK", [x, k], [((3, size), np.float32), ((3, size), np.int64)], axis=1)

    x = noise(3, 4)
    for k in (2, 0):
        values, places = run("openvino", function, x, np.array([k]))
        assert np.array_equal(values, -np.sort(-x, 1)[:, :k]) and places.shape == (3, k)
    with pytest.raises(EngineError, match=r"'TopK': k must be 0 or more"):
        run("openvino", function, x, np.array([-1]))


@pytest.mark.parametrize(("place", "dtype"), [(2, np.float32), (3, np.int64)])
def test_resize_to_computed_sizes_of_0_is_refused(place: int, dtype: Any) -> None:
    def function(x: Any, sizes: Any) -> Any:
        inputs = [x, None, None, None]
        inputs[place] = sizes
        shape = tuple(Dim(name, 16) for name in "nchw")
        return record("Resize", inputs[: place + 1], shape, np.float32, mode="nearest")

    x = noise(1, 1, 2, 2)
    sizes = np.array([1, 1, 2, 2] if place == 2 else [1, 1, 4, 4], dtype)
    assert np.array_equal(run("openvino", function, x, sizes)[0], x.repeat(2, 2).repeat(2, 3))
    with pytest.raises(EngineError, match=r"'Resize': its sizes and scales must be greater than 0"):
        run("openvino", function, x, np.zeros(4, dtype))


def test_slice_by_a_computed_step_of_0_is_refused() -> None:
    def function(x: Any, steps: Any) -> Any:
        limits = np.array([0, 0]), np.array([3, 4]), np.array([0, 1])
        return record("Slice", [x, *limits, steps], (Dim("n", 3), Dim("m", 4)), np.float32)

    x = noise(3, 4)
    assert np.array_equal(run("openvino", function, x, np.array([2, 1]))[0], x[::2])
    with pytest.raises(EngineError, match=r"'Slice': a step must not be 0"):
        run("openvino", function, x, np.array([1, 0]))


def test_slice_along_a_computed_axis_named_twice_is_refused() -> None:
    def function(x: Any, axes: Any, *steps: Any) -> Any:
        limits = np.array([0, 1]), np.array([3, 4])
        return record("Slice", [x, *limits, axes, *steps], (Dim("n", 3), Dim("m", 4)), np.float32)

    x, steps = noise(3, 4), np.array([1, 2])
    assert np.array_equal(run("openvino", function, x, np.array([0, -1]))[0], x[:, 1:])
    assert np.array_equal(run("openvino", function, x, np.array([-2, 1]), steps)[0], x[:, 1::2])
    for axes in ((0, 0), (1, -1), (0, 2), (-3, 0)):
        with pytest.raises(EngineError, match=r"'Slice': its axes must be different, and be axes of 2 dimensions"):
            run("openvino", function, x, np.array(axes), steps)


def test_expand_to_a_computed_shape_is_checked() -> None:
    def function(x: Any, shape: Any) -> Any:
        return record("Expand", [x, shape], (Dim("a", 9), Dim("b", 9), Dim("c", 9)), np.float32)

    x = noise(3, 1)
    for shape in ((2, 3, 4), (1, 1, 1), (2, 1, 5)):
        want = x * np.ones(shape, np.float32)
        assert np.array_equal(run("openvino", function, x, np.array(shape))[0], want)
    for shape in ((0, 0, 0), (2, 2, 4), (2, 3, -1)):
        with pytest.raises(EngineError, match=r"'Expand': x of shape \[3, 1\] does not broadcast to the shape"):
            run("openvino", function, x, np.array(shape))


def test_unsqueeze_by_computed_axes() -> None:
    def function(x: Any, axes: Any) -> Any:
        return record("Unsqueeze", [x, axes], (*map(Dim, "abcd"[: x.ndim + 2], (9,) * 4),), np.float32)

    for x in (noise(2, 3), noise(1, 3), np.float32(7).reshape(())):
        for axes in ((0, 1), (-1, 0), (1, -2)):
            if len({a % (x.ndim + 2) for a in axes}) == 2:
                want = np.expand_dims(x, axes)
                assert np.array_equal(run("openvino", function, x, np.array(axes))[0], want), (x.shape, axes)
    for axes in ((0, 0), (4, 1), (3, -1)):
        with pytest.raises(EngineError, match=r"its axes must be different, and be axes of 4 dimensions"):
            run("openvino", function, noise(1, 1), np.array(axes))


@pytest.mark.parametrize("shape", [(), (2, 0)])
def test_reduction_over_computed_axes_that_ends_the_process_is_refused(shape: tuple[int, ...]) -> None:
    def function(x: Any, axes: Any) -> Any:
        return record("ReduceMax", [x, axes], shape[:-1], np.float32, keepdims=0)

    with pytest.raises(EngineError, match="computed axes of an array of shape"):
        run("openvino", function, np.zeros(shape, np.float32), np.array([-1]))


@pytest.mark.parametrize("op", ["ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_reduction_over_computed_axes_is_checked(op: str, dtype: type) -> None:
    def function(x: Any, axes: Any) -> Any:
        return record(op, [x, axes], (Dim("n", 2), Dim("m", 3), Dim("k", 4)), dtype, keepdims=1)

    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    reduce = np.min if op == "ReduceMin" else np.sum
    for axes in ((0, 1), (-1, 0)):
        want = reduce(x, axes, keepdims=True)
        assert np.array_equal(run("openvino", function, x, np.array(axes))[0], want)
    for axes in ((2, 2), (1, -2), (3, 0), (0, -4)):
        with pytest.raises(EngineError, match=f"'{op}': its axes must be different, and be axes of 3 dimensions"):
            run("openvino", function, x, np.array(axes))
    with pytest.raises(EngineError, match="it names 4 axes of an array of 3 dimensions"):
        run("openvino", function, x, np.array([0, 1, 2, 0]))


def test_tile_whose_repeats_are_a_scalar_is_refused() -> None:
    def function(x: Any, repeats: Any) -> Any:
        return record("Tile", [x, repeats], (2, 2), np.float32)

    with pytest.raises(EngineError, match="all input arrays must have the same shape"):
        run("openvino", function, noise(2, 2), np.array(1))


def test_expand_to_no_rows_before_an_operator_of_two() -> None:
    def function(x: Any, n: Any) -> Any:
        wide = record("Expand", [x[:1, :1], np.stack([n, n * 0 + 2])], (Dim("n", 9), 2), np.float32)
        return record("Mul", [wide, x], wide.shape, np.float32)

    x = noise(1, 2)
    for n in (0, 1, 3):
        same(run("openvino", function, x, np.array(n))[0], np.tile(x[:1, :1], (n, 2)) * x)
