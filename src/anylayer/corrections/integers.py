"""What OpenVINO (2026.4) computes wrongly of integers, and of reductions of float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.corrections._machinery import BEFORE, REQUIREMENTS, Corrector, correction, refused, spelled, step
from anylayer.errors import EngineError
from anylayer.graph import Dim, Graph, Op, Value
from anylayer.graph.intervals import INT32, inside, is_wide
from anylayer.network import Array
from anylayer.tracing import record

_F4 = np.dtype(np.float32)
_LARGEST = np.float32(2**31 - 128)
"""The largest float32 below 2**31."""
_REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare")
_RING = frozenset(
    (
        *("Add", "Sub", "Mul", "Neg", "ReduceSum", "ReduceProd", "ReduceSumSquare", "CumSum"),
        *("Where", "Reshape", "Expand", "Transpose", "Unsqueeze", "Squeeze", "Slice", "Identity"),
    )
)
"""Operators whose last 32 bits depend on those of their inputs alone. Where the result of a chain of them fits 32
bits, it is right, whatever the values between needed."""
_DATA = {"Where": (1, 2), "Add": (0, 1), "Sub": (0, 1), "Mul": (0, 1)}
"""Which inputs of them are the numbers; of the others the first."""
_AT_ONCE = ("Cast", "Gather", "Abs", "Pow")


def _cast(new: Corrector, o: Op, value: Value) -> Value:
    if value.dtype == _F4:
        return value
    if value.const is not None:
        return new.constant(np.asarray(value.const, _F4))
    return step(new, o, "Cast", [value], value.shape, _F4, to=1)


@correction("openvino", *sorted(_RING))
def _ring(new: Corrector, o: Op) -> list[Value] | None:
    """Compute a result of 64 bits in float32 too, where the intervals of the inputs allow more than 32 bits."""
    if not (new.checking and is_wide(o.outputs[0].dtype)):
        return None
    data = _DATA.get(o.op, (0,))
    carried = any(o.inputs[i] in new.rough for i in data)
    if not carried and inside(new.intervals.before(new.old.outputs[0]), INT32):
        return None
    rough = _roughly(new, o, data)
    made = _apart(new, o) if o.op in _REDUCTIONS else new.graph.append_copy(o, o.inputs)
    if made is not None:
        new.rough[made[0]] = rough
    return made


@correction("openvino", *_AT_ONCE)
def _too_large(new: Corrector, o: Op) -> list[Value] | None:
    """Check a result of 64 bits that is cut at 2**31: a float that is cast, an element of a table, a power."""
    out, first = o.outputs[0], o.inputs[0]
    if not (new.checking and is_wide(out.dtype)) or inside(new.intervals.before(new.old.outputs[0]), INT32):
        return None
    if first is None or (o.op == "Cast" and first.dtype not in (np.float32, np.float64)):
        return None
    rough = first if o.op == "Cast" else _roughly(new, o, (0, 1) if o.op == "Pow" else (0,))
    new.check(o, _beyond(new, o, rough), _TEXT.format(out.dtype.name))
    return None


_TEXT = "a value of {} is beyond 2**31, and OpenVINO computes in 32 bits"


def _roughly(new: Corrector, o: Op, data: Sequence[int]) -> Value:
    """Return the operator's result in float32; `data` are the inputs that are numbers, not axes or indices."""
    inputs = list(o.inputs)
    for i in data:
        value = inputs[i]
        if value is not None:
            inputs[i] = new.rough.get(value) or _cast(new, o, value)
    return step(new, o, o.op, inputs, o.outputs[0].shape, _F4, **o.attrs)


def _check_rough(new: Corrector, o: Op | None, values: Sequence[Value]) -> None:
    """Check values that leave the operators of _RING."""
    if o is not None and o.op in _RING and not o.domain:
        data = _DATA.get(o.op, (0,))
        values = [v for i, v in enumerate(o.inputs) if v is not None and i not in data]
    for value in values:
        rough, producer = new.rough.get(value), new.graph.producers.get(value)
        if rough is not None and producer is not None and value not in new.checked:
            new.checked.add(value)
            new.check(producer, _beyond(new, producer, rough), _TEXT.format(value.dtype.name))


BEFORE.setdefault("openvino", []).append(_check_rough)


def _beyond(new: Corrector, o: Op, rough: Value) -> Value:
    """Return where finite values are beyond 2**31. Infinite ones become the smallest integer on every engine."""
    kind = rough.dtype.type
    size = step(new, o, "Abs", [rough], rough.shape, rough.dtype)
    large = step(new, o, "Greater", [size, new.constant(np.array(_LARGEST, kind))], rough.shape, bool)
    limit = np.array(np.finfo(np.float32).max, kind)
    finite = step(new, o, "Less", [size, new.constant(limit)], rough.shape, bool)
    return step(new, o, "And", [large, finite], rough.shape, bool)


@correction("openvino", *_REDUCTIONS)
def _apart(new: Corrector, o: Op) -> list[Value] | None:
    """Keep a reduction apart from what follows, by a maximum with the least value.

    OpenVINO fuses a reduction over axis 1 or 2 of three with the operator behind it, and then computes that
    operator for the first row alone. This concerns integers and float64.
    """
    out = o.outputs[0]
    if o.inputs[0] is None or not (out.dtype.kind in "iu" or out.dtype == np.float64):
        return None
    least: float = -math.inf
    if out.dtype.kind != "f":
        least = max(np.iinfo(out.dtype).min, np.iinfo(np.int32).min)
    made = step(new, o, o.op, o.inputs, out.shape, out.dtype, **o.attrs)
    return new.emit(o, "Max", [made, new.constant(np.array(least, out.dtype))])


@correction("openvino", "Cast")
def _sixteen_bits(new: Corrector, o: Op) -> list[Value] | None:
    """Reduce an integer modulo 2**16 before it is cast to 16 bits: OpenVINO keeps all bits of such a value."""
    first, to = o.inputs[0], o.outputs[0].dtype
    if to not in (np.int16, np.uint16) or first is None or first.dtype.kind not in "iu":
        return None
    least, greatest = int(np.iinfo(to).min), int(np.iinfo(to).max)
    if inside(new.interval(0), (least, greatest)):
        return None

    def reduced(x: Any) -> Any:
        wide = x.astype(np.int32)
        moved = wide - np.int32(least) if least else wide
        rest = record("Mod", [moved, np.array(1 << 16, np.int32)], x.shape, np.int32)
        return (rest + np.int32(least) if least else rest).astype(to)

    return spelled(new, o, reduced)


# --------------------------------------------------------------------- constants

_CLAMPING = frozenset(
    (
        *("Slice", "Clip", "Min", "Max", "Reshape", "Expand", "Pad", "Resize", "Less", "Greater", "LessOrEqual"),
        *("GreaterOrEqual", "Equal", "TopK", "Tile", "Split", "Range", *(_RING - {"Where"}), *_AT_ONCE),
    )
)
"""Operators for which the nearest integer of 32 bits means the same as a constant, or which are checked."""


def _need_small_constants(graph: Graph) -> None:
    """Refuse constants beyond 32 bits where their values count."""
    for value in graph.outputs:
        if value.const is not None and not fits(value.const):
            raise EngineError(
                f"output '{value.name}' has the value {_worst(value.const)}, and OpenVINO computes integers in "
                "32 bits. Use engine 'onnxruntime'"
            )
    for o in graph.ops:
        for read in o.inputs if o.op not in _CLAMPING and not o.domain else ():
            if read is not None and read.const is not None and not fits(read.const):
                raise refused(o, f"it has the constant {_worst(read.const)}, and OpenVINO computes in 32 bits")


def fits(array: Array) -> bool:
    """Return whether an array's integers fit 32 bits."""
    if not is_wide(array.dtype) or array.size == 0:
        return True
    return bool(array.max() <= INT32[1] and array.min() >= INT32[0])


def _worst(array: Array) -> int:
    return int(array.flat[int(np.argmax((array > INT32[1]) | (array < INT32[0])))])


REQUIREMENTS.setdefault("openvino", []).append(_need_small_constants)

# ----------------------------------------------------------------------- indices


@correction("openvino", "Gather", "GatherND", "ScatterElements")
def _indices(new: Corrector, o: Op) -> list[Value] | None:
    """Clip indices to their range, and stop the engine where one was out of it.

    OpenVINO gives zeros for such an index (Gather), reads memory behind the array (GatherND), or writes there
    (ScatterElements).
    """
    data, index = o.inputs[0], o.inputs[1]
    if data is None or index is None:
        return None
    sizes = _indexed(o, data, index)
    if any(isinstance(d, Dim) for d in sizes) or not sizes or min(sizes) < 1:
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
    low, high = new.constant(-limits), new.constant(limits - 1)
    if new.checking:
        below = step(new, o, "Less", [index, low], index.shape, bool)
        above = step(new, o, "Greater", [index, high], index.shape, bool)
        outside = step(new, o, "Or", [below, above], index.shape, bool)
        text = f"an index is out of range of {', '.join(map(str, sizes))}"
        new.check(o, outside, f"{text} (-{least} to {least - 1})" if len(sizes) == 1 else text)
    held = step(new, o, "Max", [index, low], index.shape, index.dtype)
    held = step(new, o, "Min", [held, high], index.shape, index.dtype)
    return new.emit(o, o.op, [data, held, *o.inputs[2:]], **o.attrs)


def _indexed(o: Op, data: Value, index: Value) -> list[Any]:
    """Return the sizes of the axes that are indexed."""
    if o.op != "GatherND":
        return [data.shape[o.attrs.get("axis", 0)]] if len(data.shape) else []
    first, count = o.attrs.get("batch_dims", 0), index.shape[-1]
    return [*data.shape[first : first + count]] if isinstance(count, int) else []


@correction("openvino", "Tile")
def _tile(new: Corrector, o: Op) -> list[Value] | None:
    """Spell Tile by Expand where the repeats are computed: OpenVINO gives what lies somewhere in memory."""
    if o.inputs[1] is None or o.inputs[1].const is not None:
        return None
    out = o.outputs[0]

    def tiled(x: Any, repeats: Any) -> Any:
        rank = len(x.shape)
        if any(isinstance(d, Dim) for d in x.shape):
            sizes: Any = record("Shape", [x], (rank,), np.int64)
        else:
            sizes = np.array(x.shape, np.int64)
        pairs = np.stack([repeats, repeats * 0 + sizes], axis=1).reshape(2 * rank)
        split = record("Unsqueeze", [x, np.arange(rank) * 2], [d for n in x.shape for d in (1, n)], x.dtype)
        wide = record(
            "Expand", [split, pairs], [d for n, m in zip(x.shape, out.shape) for d in (_any(m), n)], x.dtype
        )
        return record("Reshape", [wide, repeats * sizes], out.shape, x.dtype)

    return spelled(new, o, tiled)


def _any(size: Any) -> Dim:
    return Dim("tile", size.maximum if isinstance(size, Dim) else max(int(size), 1))
