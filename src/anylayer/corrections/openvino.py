"""Operators that OpenVINO (2026.4) computes wrongly on a CPU, except on integers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.corrections._openvino import is_concatenation, longer, magnitude, with_an_element
from anylayer.corrections.corrector import Corrector, refused
from anylayer.graph import Op, Value
from anylayer.graph.facts import gathered, padding_of, reduced_axes
from anylayer.graph.operators import RECURRENT, REDUCTIONS
from anylayer.graph.sizes import is_static, reduced_shape
from anylayer.network import Array, DType
from anylayer.ops._interpolation import resized_axes
from anylayer.optimize.rewrites.resizing import computed_by_cells, is_portable
from anylayer.optimize.rules import ANY, END, rule
from anylayer.tracing import record

_MAX_RANK = 12
"""Axes of an array that every operator of OpenVINO takes (MAX_ELTWISE_DIM_RANK of its CPU plugin)."""
_NO_LIMIT = 1e30
"""A limit of gates that has no effect. It keeps OpenVINO from its own kernel for recurrent operators."""


@rule("LSTM", kind="must", targets=("openvino",))
def _lstm(new: Corrector, o: Op) -> list[Value] | None:
    """Compute an LSTM step by step where it has peepholes or `input_forget`, which OpenVINO ignores."""
    peepholes = o.input(7) is not None
    if not peepholes and not o["input_forget"]:
        return None
    if o["layout"] or o["activation_alpha"] or o["activation_beta"]:
        raise refused(o, "it leaves out peepholes and input_forget")

    def stepwise(*inputs: Array) -> Any:
        return ops.lstm(
            *inputs,
            hidden_size=o["hidden_size"],
            direction=o["direction"],
            activations=o["activations"] or None,
            clip=o["clip"] or None,
            input_forget=bool(o["input_forget"]),
        )

    return new.compute(o, stepwise)


@rule(*RECURRENT, kind="must", targets=("openvino",))
def _sequence_lens(new: Corrector, o: Op) -> list[Value] | None:
    """Set a limit that no gate reaches: without `clip`, OpenVINO ignores `sequence_lens` where the number of steps
    or the batch is not static."""
    x, lens = o.inputs[0], o.input(4)
    if x is None or lens is None or is_static(x.shape[:2]) or o["clip"]:
        return None
    return new.emit(o, o.op, o.inputs, **{**o.attrs, "clip": _NO_LIMIT})


@rule("BatchNormalization", kind="must", targets=("openvino",))
def _batch_normalization(new: Corrector, o: Op) -> list[Value] | None:
    """Compute in float32 where the input has another type than the statistics, which OpenVINO refuses."""
    types = {v.dtype for v in o.inputs if v is not None}
    if len(types) == 1:
        return None

    def widened(x: Array, *statistics: Array) -> Any:
        wide = [np.asarray(a, like=x).astype(np.float32) for a in statistics]
        return ops.batch_normalization(x.astype(np.float32), *wide, epsilon=o["epsilon"]).astype(x.dtype)

    return new.compute(o, widened)


@rule("Abs", kind="must", targets=("openvino",))
def _abs(new: Corrector, o: Op) -> list[Value] | None:
    """Compute max(x, -x) where x is a concatenation: OpenVINO writes |x| over it, although others read it too."""
    x = o.inputs[0]
    if x is None or not is_concatenation(new, x) or x.dtype.kind not in "if":
        return None
    return [magnitude(new, o, x)]


@rule("Greater", "GreaterOrEqual", kind="must", targets=("openvino",))
def _greater(new: Corrector, o: Op) -> list[Value] | None:
    """Exchange the operands of a comparison of floats: OpenVINO computes NaN > 1 as true, and 1 < NaN as false."""
    if o.first.dtype.kind != "f":
        return None
    return new.emit(o, o.op.replace("Greater", "Less"), o.inputs[::-1])


@rule("TopK", kind="must", targets=("openvino",))
def _top(new: Corrector, o: Op) -> list[Value] | None:
    """Replace NaN by infinity where indices are used: OpenVINO orders no number correctly next to NaN. Select at
    least one element where k is computed, and drop it for k = 0, for which OpenVINO returns one element, and a
    later network can crash. Check that k is not negative.
    """
    x, k = o.inputs
    if x is None or k is None:
        return None
    axis = o["axis"] % len(x.shape)
    is_ordered = x.dtype.kind == "f" and new.old_consumers(o.outputs[1]) != []
    may_be_empty = k.const is None and new.interval(1)[0] <= 0
    if not is_ordered and not may_be_empty:
        return None
    one, zero = (new.constant(np.full(1, n, np.int64)) for n in (1, 0))
    most = k
    if may_be_empty:
        if not isinstance(x.shape[axis], int):
            x = with_an_element(new, o, x, axis)
        if new.interval(1)[0] < 0:
            good = new.step(o, "GreaterOrEqual", [k, zero], (1,), bool)
            k = _check_value(new, o, good, k, one, "k must be 0 or more")
        most = new.step(o, "Max", [k, one], (1,), np.int64)
    keys = x
    if is_ordered:
        odd = new.step(o, "IsNaN", [x], x.shape, bool)
        keys = new.step(o, "Where", [odd, new.constant(np.array(np.inf, x.dtype)), x], x.shape, x.dtype)
    shapes = [longer(v.shape, axis) if may_be_empty else v.shape for v in o.outputs]
    types = list(zip(shapes, (v.dtype for v in o.outputs)))
    results = new.graph.emit("TopK", [keys, most], types, o.attrs, place=o.place, scope=o.scope)
    if is_ordered and new.old_consumers(o.outputs[0]) != []:
        results[0] = new.step(o, "GatherElements", [x, results[1]], *types[0], axis=axis)
    if not may_be_empty:
        return results
    first = [zero, k, new.constant(np.array([axis]))]
    return [new.step(o, "Slice", [v, *first], w.shape, w.dtype) for v, w in zip(results, o.outputs)]


@rule("Resize", kind="must", targets=("openvino",))
def _resize(new: Corrector, o: Op) -> list[Value] | None:
    """Compute by cells and weights what OpenVINO rounds differently, and where it ignores `exclude_outside`,
    `antialias` or `keep_aspect_ratio_policy`, or refuses the `coordinate_transformation_mode`."""
    if not is_portable(o):
        return computed_by_cells(new, o)
    mode, rule = o["mode"], o["coordinate_transformation_mode"]
    ignored = (mode == "cubic" and o["exclude_outside"]) or (mode != "nearest" and o["antialias"])
    scales = o.input(2)
    scaled = scales is not None and scales.shape != (0,)
    aspect = not scaled and o["keep_aspect_ratio_policy"] != "stretch"
    if resized_axes(o) is None and (ignored or aspect or rule in ("half_pixel_symmetric", "tf_crop_and_resize")):
        raise refused(o, f"mode={mode} with coordinates {rule}, or sizes that depend on data")
    return _resized_by_computed_sizes(new, o)


def _resized_by_computed_sizes(new: Corrector, o: Op) -> list[Value] | None:
    """Check computed sizes and scales: for 0 a later network can crash."""
    inputs = list(o.inputs)
    for i, value in enumerate(inputs[2:4], 2):
        if value is not None and value.const is None and value.shape != (0,):
            inputs[i] = _positive(new, o, value, "its sizes and scales must be greater than 0")
    return new.emit(o, "Resize", inputs, **o.attrs) if inputs != list(o.inputs) else None


def _positive(new: Corrector, o: Op, value: Value, message: str) -> Value:
    """Return a value with 1 in place of numbers that are not greater than 0, and check that there are none."""
    zero, one = (new.constant(np.array(number, value.dtype)) for number in (0, 1))
    return _check_value(new, o, new.step(o, "Greater", [value, zero], value.shape, bool), value, one, message)


@rule("Hardmax", kind="must", targets=("openvino",))
def _hardmax(new: Corrector, o: Op) -> list[Value] | None:
    """Compute Hardmax by ArgMax: OpenVINO does not promise to select the first of equal values."""
    axis = o["axis"]

    def largest(x: Array) -> Any:
        shape = [1] * len(x.shape)
        shape[axis] = -1
        places = np.arange(x.shape[axis]).reshape(shape)
        return (np.argmax(x, axis=axis, keepdims=True) == places).astype(x.dtype)

    return new.compute(o, largest)


@rule("ReduceMax", "ReduceMin", kind="must", targets=("openvino",))
def _extreme(new: Corrector, o: Op) -> list[Value] | None:
    """Return an infinite extreme of values that are all infinite, or of no values: OpenVINO returns the largest
    float.

    The correction applies only if a constant of the graph is infinite, as in masks, or if the input is empty.
    """
    x, out = o.inputs[0], o.outputs[0]
    if x is None or out.dtype not in (np.float16, np.float32) or not (new.has_infinity or 0 in x.shape):
        return None
    sign = -1 if o.op == "ReduceMax" else 1
    largest = np.array(np.finfo(out.dtype).max * sign, out.dtype)
    extreme = new.step(o, o.op, o.inputs, out.shape, out.dtype, **o.attrs)
    compare = "LessOrEqual" if sign < 0 else "GreaterOrEqual"
    beyond = new.step(o, compare, [extreme, new.constant(largest)], out.shape, bool)
    return new.emit(o, "Where", [beyond, new.constant(np.array(sign * np.inf, out.dtype)), extreme])


@rule(*REDUCTIONS, kind="must", targets=("openvino",))
def _reduce(new: Corrector, o: Op) -> list[Value] | None:
    """Remove the reduced axis of three by Squeeze: OpenVINO applies a following constant per column per row."""
    x, out = o.inputs[0], o.outputs[0]
    axes = None if x is None else reduced_axes(o)
    if x is None or axes is None or len(x.shape) != 3 or len(axes) != 1 or len(out.shape) != 2:
        return None
    reduced = new.step(o, o.op, o.inputs, reduced_shape(x.shape, axes), out.dtype, **{**o.attrs, "keepdims": 1})
    return new.emit(o, "Squeeze", [reduced, new.constant(np.array(sorted(axes)))])


@rule(*REDUCTIONS, "Unsqueeze", kind="must", targets=("openvino",), stage="check")
def _with_checked_axes(new: Corrector, o: Op) -> Op | None:
    """Check the computed axes of a reduction and of Unsqueeze. For an axis that the array does not have, or one
    that is named twice, a reduction by OpenVINO writes to memory that it does not own: a later network can crash.
    """
    x, axes = [*o.inputs, None, None][:2]
    if x is None or axes is None or axes.const is not None or (not x.shape and o.op != "Unsqueeze"):
        return None
    if not is_static(axes.shape):
        raise refused(o, "the number of its axes depends on data")
    count = math.prod(axes.shape)
    rank = len(x.shape) + (count if o.op == "Unsqueeze" else 0)
    if count > rank:
        raise refused(o, f"it names {count} axes of an array of {rank} dimensions")

    def judge_axes(axes: Array) -> object:
        is_named = np.where(axes < 0, axes + rank, axes).reshape(-1, 1) == np.arange(rank)
        counts = is_named.sum(0)
        bad = (counts.sum() < count) | (counts.max() > 1)
        return [bad, np.where(bad, np.arange(count, dtype=axes.dtype).reshape(axes.shape), axes)]

    bad, safe = new.steps(o, judge_axes, [axes])
    if new.checking:
        new.check(o, bad, f"its axes must be different, and be axes of {rank} dimensions")
    return replace(o, inputs=[x, safe, *o.inputs[2:]])


@rule("Unsqueeze", kind="must", targets=("openvino",))
def _unsqueeze(new: Corrector, o: Op) -> list[Value] | None:
    """Reshape by sizes that follow from computed axes: OpenVINO takes the rank of the result as unknown."""
    x, axes = o.inputs
    if x is None or axes is None or axes.const is not None or not is_static(x.shape):
        return None
    sizes, rank = np.array([*x.shape, 1]), len(o.outputs[0].shape)

    def target(axes: Array) -> Array:
        is_new = (np.where(axes < 0, axes + rank, axes).reshape(-1, 1) == np.arange(rank)).any(0)
        at = np.cumsum(~is_new, dtype=np.int64) - 1
        return np.where(is_new, 1, np.take(np.asarray(sizes, like=at), np.clip(at, 0, len(sizes) - 1)))

    (shape,) = new.steps(o, target, [axes])
    return new.emit(o, "Reshape", [x, shape])


@rule("NonMaxSuppression", kind="must", targets=("openvino",))
def _nms(new: Corrector, o: Op) -> list[Value] | None:
    """Raise the threshold of NMS by one bit: OpenVINO removes boxes whose overlap equals it, ONNX does not."""
    threshold = o.input(3)
    if threshold is None:
        bound: Value = new.constant(np.array([_LEAST_OVERLAP], np.float32))
    elif threshold.const is not None:
        next_ = np.nextafter(np.asarray(threshold.const, np.float32), np.float32(np.inf))
        bound = new.constant(np.maximum(next_, _LEAST_OVERLAP))
    else:
        factor = new.constant(np.float32(1 + 2.0**-23))
        above = new.step(o, "Mul", [threshold, factor], threshold.shape, np.float32)
        bound = new.step(o, "Max", [above, new.constant(_LEAST_OVERLAP)], threshold.shape, np.float32)
    inputs: list[Value | None] = [*o.inputs[:3], *[None] * (3 - len(o.inputs)), bound, *o.inputs[4:]]
    return new.emit(o, o.op, inputs, **o.attrs)


_LEAST_OVERLAP = np.float32(1e-30)


@rule("Einsum", kind="must", targets=("openvino",))
def _einsum(new: Corrector, o: Op) -> list[Value] | None:
    """Compute an Einsum of scalars by Mul: OpenVINO returns 0."""
    if any(v is None or len(v.shape) for v in o.inputs):
        return None

    def product(*numbers: Array) -> Any:
        result = numbers[0]
        for other in numbers[1:]:
            result = result * other
        return result + result.dtype.type(0) if len(numbers) == 1 else result

    return new.compute(o, product)


@rule("Range", kind="must", targets=("openvino",))
def _range(new: Corrector, o: Op) -> list[Value] | None:
    """Return nothing where delta leads away from limit, and check that the length is a number.

    OpenVINO takes the absolute value of the length. For NaN, or a delta of 0 and an empty range, it computes a
    negative length, and a later network can end the process.
    """
    start, limit, delta = o.inputs
    if start is None or limit is None or delta is None or _leads_to_limit(new, start.dtype):
        return None
    first, last, step = (new.as_float32(o, v) for v in (start, limit, delta))
    length = new.step(o, "Div", [new.step(o, "Sub", [last, first], (), np.float32), step], (), np.float32)
    size = magnitude(new, o, length)
    good = new.step(o, "Less", [size, new.constant(np.float32(2**31))], (), bool)
    if new.checking:
        bad = new.step(o, "Not", [good], (), bool)
        new.check(o, bad, "its length, (limit - start) / delta, must be a number below 2**31")
    some = new.step(o, "Greater", [length, new.constant(np.float32(0))], (), bool)
    some = new.step(o, "And", [some, good], (), bool)
    safe = [
        new.step(o, "Where", [some, v, new.constant(np.array(number, v.dtype))], (), v.dtype)
        for v, number in ((start, 0), (limit, 0), (delta, 1))
    ]
    return new.emit(o, o.op, safe, **o.attrs)


def _leads_to_limit(new: Corrector, dtype: DType) -> bool:
    """Return whether the start, limit and delta of a Range are integers, and delta leads from start to limit."""
    start, limit, delta = (new.interval(i) for i in range(3))
    rises = delta[0] > 0 and start[1] <= limit[0]
    return dtype.kind != "f" and (rises or (delta[1] < 0 and start[0] >= limit[1]))


@rule("Col2Im", kind="must", targets=("openvino",))
def _col2im(new: Corrector, o: Op) -> list[Value] | None:
    """Refuse Col2Im with computed sizes: a size of 0 ends the process."""
    sizes = [v for v in o.inputs[1:] if v is not None]
    if any(v.const is None or (v.const < 1).any() for v in sizes):
        raise refused(o, "a size that is not a positive constant ends the process")
    return None


@rule("Slice", kind="must", targets=("openvino",))
def _slice(new: Corrector, o: Op) -> list[Value] | None:
    """Check computed steps and axes: for a step of 0, or an axis named twice, OpenVINO computes a wrong size, and
    a later network can crash.
    """
    x, starts, ends, axes, steps = [*o.inputs, None, None][:5]
    if all(v is None or v.const is not None for v in (axes, steps)):
        return None
    if axes is not None and 0 in axes.shape:
        return new.emit(o, "Identity", [x])
    if steps is not None and steps.const is None:
        zero, one = (new.constant(np.array(number, steps.dtype)) for number in (0, 1))
        good = new.step(o, "Not", [new.step(o, "Equal", [steps, zero], steps.shape, bool)], steps.shape, bool)
        steps = _check_value(new, o, good, steps, one, "a step must not be 0")
    if x is None or starts is None or ends is None or axes is None or axes.const is not None:
        return new.emit(o, "Slice", [x, starts, ends, axes, steps], **o.attrs)
    steps = steps or new.constant(np.ones(axes.shape, axes.dtype))
    starts, ends, steps = _order(new, o, axes, [starts, ends, steps], len(x.shape))
    return new.emit(o, "Slice", [x, starts, ends, new.constant(np.arange(len(x.shape))), steps], **o.attrs)


def _order(new: Corrector, o: Op, axes: Value, limits: list[Value], rank: int) -> list[Value]:
    """Return the starts, ends and steps of a Slice for axes 0 to rank - 1. OpenVINO crashes where axes are
    computed and limits are constant.
    """
    unsliced = (0, np.iinfo(np.int32).max, 1)

    def ordered(axes: Array, *limits: Array) -> object:
        is_named = np.where(axes < 0, axes + rank, axes)[:, None] == np.arange(rank)
        counts, place = is_named.sum(0), np.argmax(is_named, 0)
        bad = (counts.sum() < len(axes)) | (counts.max() > 1)
        return [bad, *(np.where(counts > 0, limit[place], d) for limit, d in zip(limits, unsliced))]

    bad, *limits = new.steps(o, ordered, [axes, *limits])
    if new.checking:
        new.check(o, bad, f"its axes must be different, and be axes of {rank} dimensions")
    return limits


def _check_value(new: Corrector, o: Op, good: Value, value: Value, instead: Value, message: str) -> Value:
    """Return `value` where it is good, else `instead`, and check that it is good."""
    if new.checking:
        new.check(o, new.step(o, "Not", [good], good.shape, bool), message)
    return new.step(o, "Where", [good, value, instead], value.shape, value.dtype)


@rule("Expand", kind="must", targets=("openvino",))
def _expand(new: Corrector, o: Op) -> list[Value] | None:
    """Check a computed shape: for one that x does not broadcast to, a later network can crash."""
    x, wanted = o.inputs
    if x is None or wanted is None or wanted.const is not None or not is_static((*x.shape, *wanted.shape)):
        return None
    rank = wanted.shape[0]
    sizes = np.array([*[1] * rank, *x.shape][len(x.shape) :][-rank:] if rank else [], wanted.dtype)
    if (sizes == 1).all() and new.interval(1)[0] >= 0:
        return None

    def suits(shape: Array) -> Any:
        return (shape == sizes) | (shape == 1) | ((sizes == 1) & (shape >= 0))

    (good,) = new.steps(o, suits, [wanted])
    message = f"x of shape {list(x.shape)} does not broadcast to the shape"
    safe = _check_value(new, o, good, wanted, new.constant(sizes), message)
    return new.emit(o, "Expand", [x, safe], **o.attrs)


@rule("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", kind="must", targets=("openvino", "onnx file"))
def _expanded_operand(new: Corrector, o: Op) -> list[Value] | None:
    """Expand the result in place of an operand. OpenVINO does so, too, but gives an axis of size 0 size 1."""
    operands, out = [v for v in o.inputs if v is not None], o.outputs[0]
    if len(operands) != 2 or is_static(out.shape):
        return None
    rank = len(out.shape)
    shapes = [(*[1] * (rank - len(v.shape)), *v.shape) for v in operands]
    expansions = [new.operands(v, "Expand") for v in operands]
    if not any(
        e is not None and any(not isinstance(d, int) and other == 1 for d, other in zip(mine, others))
        for e, mine, others in zip(expansions, shapes, shapes[::-1])
    ):
        return None
    small = [v if e is None else e[0] for v, e in zip(operands, expansions)]
    targets = [v if e is None else e[1] for v, e in zip(operands, expansions)]
    is_first = np.array([b == 1 or not isinstance(a, int) for a, b in zip(*shapes)])
    sizes = [(*[1] * (rank - len(v.shape)), *v.shape) for v in small]
    shape = [b if a == 1 else a for a, b in zip(*sizes)]

    def expand_result(a: Array, b: Array, *ends: Array) -> Any:
        limits = [
            record("Shape", [end], (len(v.shape),), np.int64) if e is None else end
            for v, e, end in zip(operands, expansions, ends)
        ]
        first, second = (np.concatenate([np.ones(rank - len(x), np.int64), x]) for x in limits)
        result = record(o.op, [a, b], shape, out.dtype, **o.attrs)
        return record("Expand", [result, np.where(is_first, first, second)], out.shape, out.dtype)

    return new.record(o, expand_result, [*small, *targets])


@rule("RoiAlign", kind="must", targets=("openvino",))
def _roi_align(new: Corrector, o: Op) -> list[Value] | None:
    """Refuse mode="max": OpenVINO returns the largest sample, ONNX the largest weighted cell."""
    if o["mode"] == "max":
        raise refused(o, "mode='max' takes the largest sample in place of the largest weighted cell")
    return None


@rule("DFT", "STFT", kind="must", targets=("openvino",))
def _fourier(new: Corrector, o: Op) -> list[Value] | None:
    """Refuse Fourier transforms: OpenVINO transforms another axis."""
    raise refused(o, "it transforms another axis than the one asked for")


@rule("Pad", kind="must", targets=("openvino",))
def _pad(new: Corrector, o: Op) -> list[Value] | None:
    """Pad with mode="wrap", which OpenVINO does not have, by selecting elements."""
    padding = padding_of(o)
    if o["mode"] != "wrap" or padding is None:
        return None
    widths = list(zip(padding.begins, padding.ends))
    return new.compute(o, lambda x, *_: np.pad(x, widths, mode="wrap"))


@rule("Gather", kind="must", targets=("openvino",))
def _permutation(new: Corrector, o: Op) -> list[Value] | None:
    """Select by a column of indices where the indices are a permutation that is not its own inverse.

    OpenVINO folds a permutation before a Conv into the weights of the Conv, the wrong way around.
    """
    x, gather = o.inputs[0], gathered(o)
    if x is None or gather is None:
        return None
    axis, indices = gather
    every = np.arange(len(indices))
    if len(indices) != x.shape[axis] or (np.sort(indices) != every).any() or (indices[indices] == every).all():
        return None
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    column = new.step(o, "Gather", [x, new.constant(indices.reshape(-1, 1))], shape, x.dtype, axis=axis)
    return new.emit(o, "Squeeze", [column, new.constant(np.array([axis + 1]))])


@rule(ANY, kind="must", targets=("openvino",), stage="refuse")
def _need_no_crash(new: Corrector, o: Op) -> None:
    """Refuse what ends the process: comparisons, Where and Trilu of arrays with more than 12 axes, and a reduction
    of a scalar, or of an array without elements, over computed axes.
    """
    rank = max((len(v.shape) for v in (*o.inputs, *o.outputs) if v is not None), default=0)
    if rank > _MAX_RANK and o.op != END:
        raise refused(o, f"an array has {rank} axes; with more than {_MAX_RANK}, some operators crash")
    x, axes = [*o.inputs, None, None][:2]
    is_computed = o in REDUCTIONS and axes is not None and axes.const is None
    if is_computed and x is not None and (not x.shape or 0 in x.shape):
        raise refused(o, f"computed axes of an array of shape {list(x.shape)} end the process")
