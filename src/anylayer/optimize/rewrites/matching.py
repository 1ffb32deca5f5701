"""What rules ask about values: which number a constant is, which operator made a value of what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.simplify import Rewriter

F4 = np.dtype(np.float32)


def number(value: Value | None) -> float | None:
    """The number that a constant of one element is."""
    if value is None or value.const is None or value.const.size != 1:
        return None
    return float(value.const.reshape(()))


def is_number(value: Value | None, wanted: float) -> bool:
    """Whether a constant is this number, to the precision of float32."""
    found = number(value)
    return found is not None and abs(found - wanted) <= 1e-6 * abs(wanted)


def ints(value: Value | None) -> list[int] | None:
    """The whole numbers of a constant."""
    if value is None or value.const is None or value.const.dtype.kind not in "iu":
        return None
    return [int(v) for v in value.const.reshape(-1)]


def plain(o: Op) -> bool:
    """Whether all that an operator reads and gives is float32 (constants of other types apart) of known sizes."""
    values = [v for v in o.inputs if v is not None and v.const is None]
    return all(v.dtype == F4 and is_static(v.shape) for v in [*values, *o.outputs])


def made(new: Rewriter, source: Value | Op | None, op: str) -> list[Value] | None:
    """The inputs of `source`, an operator or what it gives, where it is an `op`; none of them absent."""
    maker = source if isinstance(source, Op) else new.maker(source, op)
    if maker is None or maker.op != op:
        return None
    found = [v for v in maker.inputs if v is not None]
    return found if len(found) == len(maker.inputs) else None


def shape_of(source: Value | Op) -> tuple[Any, ...]:
    """The shape of a value, or of what an operator gives."""
    return source.outputs[0].shape if isinstance(source, Op) else source.shape


def orders(new: Rewriter, source: Value | Op | None, op: str) -> Iterator[tuple[Value, Value]]:
    """The two inputs of a commutative `op`, both ways around."""
    found = made(new, source, op)
    if found is not None and len(found) == 2:
        yield found[0], found[1]
        yield found[1], found[0]


def with_number(new: Rewriter, source: Value | Op | None, op: str) -> tuple[Value, float] | None:
    """(x, c) where `source` is the commutative `op` of x and a number c, of the shape of x."""
    for x, c in orders(new, source, op):
        n = number(c)
        if n is not None and x.const is None and source is not None and x.shape == shape_of(source):
            return x, n
    return None


def plus(new: Rewriter, source: Value | Op | None) -> tuple[Value, float] | None:
    """(x, c) where `source` is x + c."""
    found = with_number(new, source, "Add")
    return found if found is not None else _second_is_number(new, source, "Sub", lambda n: -n)


def times(new: Rewriter, source: Value | Op | None) -> tuple[Value, float] | None:
    """(x, c) where `source` is c * x, also as a quotient."""
    found = with_number(new, source, "Mul")
    return found if found is not None else _second_is_number(new, source, "Div", lambda n: 1 / n if n else None)


def _second_is_number(
    new: Rewriter, source: Value | Op | None, op: str, turned: Callable[[float], float | None]
) -> tuple[Value, float] | None:
    parts = made(new, source, op)
    n = number(parts[1]) if parts is not None else None
    if parts is None or n is None or source is None or parts[0].shape != shape_of(source):
        return None
    c = turned(n)
    return (parts[0], c) if c is not None and parts[0].const is None else None


def axes_reduced(new: Rewriter, value: Value | None, op: str) -> tuple[Value, list[int]] | None:
    """(x, axes) where a value is the reduction `op` of x with the reduced axes kept, be it by a Reshape."""
    if value is None:
        return None
    maker = new.maker(value, op)
    if maker is None:
        parts = made(new, value, "Reshape")
        maker = new.maker(parts[0], op) if parts is not None else None
    if maker is None or maker.inputs[0] is None:
        return None
    x, axes = maker.inputs[0], ints(maker.inputs[1]) if len(maker.inputs) > 1 else None
    if axes is None or not is_static(x.shape):
        return None
    axes = sorted(a % len(x.shape) for a in axes)
    kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    return (x, axes) if value.shape == kept else None


def step(
    new: Rewriter,
    o: Op,
    op: str,
    inputs: Sequence[Value | None],
    shape: Sequence[Any] | None = None,
    dtype: Any = None,
    **attrs: Any,
) -> Value:
    """A further operator on the way to what `o` gives, of its type where no other is given."""
    out = o.outputs[0]
    kind = (out.shape if shape is None else tuple(shape), out.dtype if dtype is None else np.dtype(dtype))
    return new.graph.emit(op, inputs, [kind], attrs, place=o.place, scope=o.scope)[0]


def reshaped(new: Rewriter, o: Op, x: Value, shape: Sequence[int]) -> Value:
    """The same elements in another shape; of several reshapes the last one counts."""
    parts = made(new, x, "Reshape")
    if parts is not None and is_static(parts[0].shape):
        x = parts[0]
    shape = tuple(shape)
    if x.shape == shape:
        return x
    return step(new, o, "Reshape", [x, new.constant(np.array(shape, np.int64))], shape, x.dtype)


def last(new: Rewriter, o: Op, x: Value) -> list[Value]:
    """`x` as what `o` gives, reshaped where its shape is another."""
    out = o.outputs[0]
    if x.shape == out.shape:
        return [x]
    return new.emit(o, "Reshape", [x, new.constant(np.array(out.shape, np.int64))])


def float32(value: Any) -> Array:
    """As a float32 array."""
    return np.asarray(value, np.float32)
