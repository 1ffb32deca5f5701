"""Operators on integers, and reductions of float64, that OpenVINO (2026.4) computes wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.corrections._openvino import keep_apart, longer, magnitude, with_an_element
from anylayer.corrections.corrector import Corrector, refused
from anylayer.corrections.wide_integers import where
from anylayer.errors import EngineError
from anylayer.graph import Dim, Op, Value
from anylayer.graph.intervals import INT32, inside, is_wide
from anylayer.graph.operators import COMPARISONS, EXTREMES, INDEXED, MODULAR, REDUCTIONS
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rules import ANY, END, rule
from anylayer.tracing import record

_F4 = np.dtype(np.float32)
_LARGEST = np.float32(2**31 - 128)
"""The largest float32 below 2**31."""
_DATA = {"Where": (1, 2), "Add": (0, 1), "Sub": (0, 1), "Mul": (0, 1)}
"""The inputs of operators in MODULAR that are numbers, not axes or masks. For operators that are not listed it is
the first."""
_CHECKED = ("Cast", "Gather", "Abs", "Pow")
"""Operators whose results OpenVINO clips at 2**31."""


@rule(*MODULAR, kind="must", targets=("openvino",))
def _modular(new: Corrector, o: Op) -> list[Value] | None:
    """Compute a result of 64 bits also in float32, if the intervals of the inputs allow more than 32 bits."""
    if not (new.checking and is_wide(o.outputs[0].dtype)):
        return None
    data = _DATA.get(o.op, (0,))
    is_approximate = any(o.inputs[i] in new.approximate for i in data)
    if not is_approximate and inside(new.old_intervals.before(o.outputs[0]), INT32):
        return None
    approximate = _approximate(new, o, data)
    result = _prevent_fusion(new, o) if o in REDUCTIONS else where(new, o) if o.op == "Where" else None
    result = result or new.graph.append_copy(o, o.inputs)
    if result is not None:
        new.approximate[result[0]] = approximate
    return result


@rule(*_CHECKED, kind="must", targets=("openvino",))
def _too_large(new: Corrector, o: Op) -> list[Value] | None:
    """Check a result of 64 bits that is clipped at 2**31: a float that is cast, a selected element, a power."""
    out, first = o.outputs[0], o.inputs[0]
    if not (new.checking and is_wide(out.dtype)) or inside(new.old_intervals.before(o.outputs[0]), INT32):
        return None
    if first is None or (o.op == "Cast" and first.dtype not in (np.float32, np.float64)):
        return None
    approximate = first if o.op == "Cast" else _approximate(new, o, (0, 1) if o.op == "Pow" else (0,))
    new.check(o, _beyond(new, o, approximate), _TEXT.format(out.dtype.name))
    return None


_TEXT = "a value of {} is beyond 2**31, and OpenVINO computes in 32 bits"


def _approximate(new: Corrector, o: Op, data: Sequence[int]) -> Value:
    """Return the operator's result in float32. `data` are the inputs that are numbers, not axes or indices."""
    inputs = list(o.inputs)
    for i in data:
        value = inputs[i]
        if value is not None:
            inputs[i] = new.approximate.get(value) or new.as_float32(o, value)
    return new.step(o, o.op, inputs, o.outputs[0].shape, _F4, **o.attrs)


@rule(ANY, kind="must", targets=("openvino",), stage="check")
def _check_approximate(new: Corrector, o: Op) -> None:
    """Check integers of 64 bits that may be beyond 32 bits where an operator needs all their bits, and outputs."""
    data = _DATA.get(o.op, (0,)) if o in MODULAR else ()
    for value in (v for i, v in enumerate(o.inputs) if v is not None and i not in data):
        approximate, producer = new.approximate.get(value), new.graph.producers.get(value)
        if approximate is not None and producer is not None and value not in new.checked:
            new.checked.add(value)
            new.check(producer, _beyond(new, producer, approximate), _TEXT.format(value.dtype.name))


def _beyond(new: Corrector, o: Op, approximate: Value) -> Value:
    """Return which elements are finite and beyond 2**31; infinite ones are the smallest integer everywhere."""
    limit = np.finfo(np.float32).max
    return new.steps(o, lambda size: (size > _LARGEST) & (size < limit), [magnitude(new, o, approximate)])[0]


@rule(*REDUCTIONS, kind="must", targets=("openvino",))
def _prevent_fusion(new: Corrector, o: Op) -> list[Value] | None:
    """Put a maximum with the lowest value after a reduction of integers or float64, or before a step.

    OpenVINO fuses a reduction along axis 1 or 2 of three with the operator after it, and then computes that
    operator for the first row only. Another correction follows an extreme that may be infinite by Where.
    """
    out = o.outputs[0]
    is_before_step = out in new.before_steps and not (o in EXTREMES and new.has_infinity)
    is_fused = out.dtype.kind in "iu" or out.dtype == np.float64 or is_before_step
    if o.inputs[0] is None or not is_fused:
        return None
    return [keep_apart(new, o, new.step(o, o.op, o.inputs, out.shape, out.dtype, **o.attrs))]


@rule("Cast", kind="must", targets=("openvino",))
def _sixteen_bits(new: Corrector, o: Op) -> list[Value] | None:
    """Reduce an integer modulo 2**16 before it is cast to 16 bits: OpenVINO keeps all bits of such a value."""
    first, to = o.inputs[0], o.outputs[0].dtype
    if to not in (np.int16, np.uint16) or first is None or first.dtype.kind not in "iu":
        return None
    lowest, highest = int(np.iinfo(to).min), int(np.iinfo(to).max)
    if inside(new.interval(0), (lowest, highest)):
        return None

    def wrap(x: Array) -> Array:
        wide = x.astype(np.int32)
        shifted = wide - np.int32(lowest) if lowest else wide
        rest = record("BitwiseAnd", [shifted, np.array((1 << 16) - 1, np.int32)], x.shape, np.int32)
        return (rest + np.int32(lowest) if lowest else rest).astype(to)

    return new.compute(o, wrap)


# --------------------------------------------------------------------- constants

_CLAMPING = {
    *("Slice", "Clip", "Min", "Max", "Pad", "Resize", "TopK", "Tile", "Split", "Range"),
    *(*COMPARISONS, *(MODULAR.names - {"Where"}), *_CHECKED),
}
"""Operators for which OpenVINO gets constants beyond 32 bits: those that are checked, and those that compute the
same if the constant is clipped to 32 bits."""


@rule(ANY, kind="must", targets=("openvino",), stage="refuse")
def _need_small_constants(new: Corrector, o: Op) -> None:
    """Refuse constants beyond 32 bits whose exact values change the result."""
    for value in o.inputs if o.op not in _CLAMPING and not o.domain else ():
        if value is None or value.const is None or fits(value.const):
            continue
        if o.op == END:
            text = f"output '{value.name}' has the value {_worst(value.const)}"
            raise EngineError(f"{text}, and OpenVINO computes integers in 32 bits")
        raise refused(o, f"it has the constant {_worst(value.const)}, and OpenVINO computes in 32 bits")


def fits(array: Array) -> bool:
    """Return whether an array's integers fit 32 bits."""
    if not is_wide(array.dtype) or array.size == 0:
        return True
    return bool(array.max() <= INT32[1] and array.min() >= INT32[0])


def _worst(array: Array) -> int:
    return int(array.flat[int(np.argmax((array > INT32[1]) | (array < INT32[0])))])


# ----------------------------------------------------------------------- indices


@rule(*sorted(INDEXED), kind="must", targets=("openvino",))
def _indices(new: Corrector, o: Op) -> list[Value] | None:
    """Clip indices to their range, and check whether one was out of range.

    For such an index OpenVINO returns zeros (Gather), reads memory after the array (GatherND), or writes to it
    (ScatterElements, ScatterND for a negative one). GatherElements raises an error, except for an array without
    elements.
    """
    data, index = o.inputs[0], o.inputs[1]
    if data is None or index is None:
        return None
    axes = _indexed_axes(o, data, index)
    sizes = [data.shape[a] for a in axes]
    if not sizes or any(not isinstance(d, Dim) and d < 1 for d in sizes):
        return None
    if not is_static(sizes):
        return _indices_of_dynamic(new, o, data, index, axes)
    if o.op == "GatherElements":
        return None
    least = min(sizes)
    if inside(new.interval(1), (-least, least - 1)):
        return None
    if (
        index.const is not None
        and (index.const >= -np.array(sizes)).all()
        and (index.const < np.array(sizes)).all()
    ):
        return None
    limits = np.array(sizes if len(sizes) > 1 else sizes[0], index.dtype)
    text = f" (-{least} to {least - 1})" if len(sizes) == 1 else ""
    clipped = _clip_indices(new, o, index, (new.constant(-limits), new.constant(limits - 1)), sizes, text)
    return new.emit(o, o.op, [data, clipped, *o.inputs[2:]], **o.attrs)


def _indices_of_dynamic(new: Corrector, o: Op, data: Value, index: Value, axes: list[int]) -> list[Value] | None:
    """Clip and check indices to axes whose sizes depend on data. They may have no elements, so that every index is
    out of range: then nothing is written, and elements of 0 are read.
    """
    if o.op == "Gather" and not new.checking:
        return None
    sizes = [data.shape[a] for a in axes]
    shape = new.step(o, "Shape", [data], (len(data.shape),), np.int64)
    limits = new.step(o, "Gather", [shape, new.constant(np.array(axes))], (len(axes),), np.int64, axis=0)
    index = index if index.dtype == np.int64 else new.step(o, "Cast", [index], index.shape, np.int64, to=7)
    one = new.constant(np.ones(1, np.int64))
    last = new.step(o, "Sub", [limits, one], limits.shape, np.int64)
    rest, first = o.inputs[2:], new.step(o, "Neg", [limits], limits.shape, np.int64)
    clipped = _clip_indices(new, o, index, (first, last), sizes, "") if index.shape else index
    if not index.shape:
        clipped = new.step(o, "Reshape", [index, one], (1,), np.int64)
        clipped = _clip_indices(new, o, clipped, (first, last), sizes, "")
        clipped = new.step(o, "Reshape", [clipped, new.constant(np.zeros(0, np.int64))], (), np.int64)
    if o.op in ("GatherElements", "GatherND"):
        for axis in axes:
            data = with_an_element(new, o, data, axis)
    elif rest and rest[0] is not None:
        zero = new.constant(np.zeros(1, np.int64))
        some = new.step(o, "Min", [new.step(o, "ReduceMin", [limits, zero], (1,), np.int64), one], (1,), np.int64)
        end = new.step(o, "Mul", [some, new.constant(np.array([INT32[1]]))], (1,), np.int64)
        clipped, updates = (
            new.step(o, "Slice", [v, zero, end, zero], longer(v.shape, 0), v.dtype) for v in (clipped, rest[0])
        )
        rest = [updates, *rest[1:]]
    return new.emit(o, o.op, [data, clipped, *rest], **o.attrs)


def _clip_indices(
    new: Corrector, o: Op, index: Value, ends: tuple[Value, Value], sizes: list[Any], text: str
) -> Value:
    """Return indices clipped to their first and last value, and check whether one was out of range."""
    if new.checking:
        (outside,) = new.steps(o, lambda at, low, high: (at < low) | (at > high), [index, *ends])
        new.check(o, outside, f"an index is out of range of {', '.join(map(str, sizes))}{text}")
    clipped = new.step(o, "Max", [index, ends[0]], index.shape, index.dtype)
    return new.step(o, "Min", [clipped, ends[1]], index.shape, index.dtype)


def _indexed_axes(o: Op, data: Value, index: Value) -> list[int]:
    """Return the axes to which the indices refer."""
    if not o.op.endswith("ND"):
        return [o["axis"] % len(data.shape)] if len(data.shape) else []
    first, count = o["batch_dims"] if o.op == "GatherND" else 0, index.shape[-1]
    return [*range(first, first + count)] if isinstance(count, int) else []


@rule("ReverseSequence", kind="must", targets=("openvino",))
def _lengths(new: Corrector, o: Op) -> list[Value] | None:
    """Clip lengths to the size of their axis, and check whether one is too long: OpenVINO writes past the end."""
    data, lengths = o.inputs
    if data is None or lengths is None:
        return None
    axis, size = o["time_axis"], data.shape[o["time_axis"]]
    if is_static([size]):
        if inside(new.interval(1), (0, size)):
            return None
        limit = new.constant(np.array(size, np.int64))
    else:
        shape = new.step(o, "Shape", [data], (len(data.shape),), np.int64)
        limit = new.step(o, "Gather", [shape, new.constant(np.array([axis]))], (1,), np.int64, axis=0)
    ends = new.constant(np.array(0, np.int64)), limit
    return new.emit(o, o.op, [data, _clip_indices(new, o, lengths, ends, [size], " steps")], **o.attrs)


@rule("Tile", kind="must", targets=("openvino",))
def _tile(new: Corrector, o: Op) -> list[Value] | None:
    """Replace Tile by Expand where the repeats are computed: OpenVINO returns uninitialized memory."""
    if o.inputs[1] is None or o.inputs[1].const is not None:
        return None
    out = o.outputs[0]

    def tile(x: Array, repeats: Array) -> Any:
        rank = len(x.shape)
        if any(isinstance(d, Dim) for d in x.shape):
            sizes: Any = record("Shape", [x], (rank,), np.int64)
        else:
            sizes = np.array(x.shape, np.int64)
        pairs = np.stack([repeats, repeats * 0 + sizes], axis=1).reshape(2 * rank)
        split = record("Unsqueeze", [x, np.arange(rank) * 2], [d for n in x.shape for d in (1, n)], x.dtype)
        wide = record(
            "Expand", [split, pairs], [d for n, m in zip(x.shape, out.shape) for d in (_unknown(m), n)], x.dtype
        )
        return record("Reshape", [wide, repeats * sizes], out.shape, x.dtype)

    return new.compute(o, tile)


def _unknown(size: Any) -> Dim:
    return Dim("tile", size.maximum if isinstance(size, Dim) else max(int(size), 1))
