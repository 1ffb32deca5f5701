"""Arithmetic of traced arrays that hold symbolic sizes, such as np.array(x.shape)[2:] * 2.

Files of ONNX, TensorFlow and OpenVINO compute shapes with operators. If all inputs of an operator are sizes and
integers, its result consists of expressions, which can be used as a shape or an index again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anylayer.graph.expressions import Expression
from anylayer.graph.guards import traces_symbolically
from anylayer.graph.ir import Graph
from anylayer.graph.reals import Real
from anylayer.graph.sized import SizedArray, sized_array
from anylayer.graph.symbolic import SizeReal, extreme, is_symbolic, new_size
from anylayer.network import Array, Function
from anylayer.tracing.array import TracedArray

Numbers = NDArray[np.object_]
"""An array of Python's numbers, some of which are symbolic."""
_MAX_ELEMENTS = 64
"""The largest number of elements of an array that holds sizes."""


def hold(graph: Graph, array: Any) -> TracedArray:
    """Return a constant as a traced array, so that operations on it are recorded.

    NumPy would compute with the values that symbolic sizes have in this trace, and with integers of 4 bits.
    """
    value = graph.constant(array)
    return TracedArray(graph, graph.emit("Identity", [value], [(value.shape, value.dtype)])[0])


def constant_of(x: Any) -> Array | None:
    """Return the constant array of a traced array that is a constant or that `hold` has returned, None for another
    traced array, and any other array itself.
    """
    if type(x) is not TracedArray or x._const() is not None:
        array: Array | None = x._const() if type(x) is TracedArray else x
        return array
    producer = x._graph.producers.get(x._value)
    source = producer.inputs[0] if producer is not None and producer.op == "Identity" else None
    return source.const if source is not None else None


def held(x: Any) -> SizedArray | None:
    """Return the constant that holds the symbolic sizes of a traced array, or None if it holds none."""
    const = constant_of(x)
    return const if type(const) is SizedArray and (x is const or const.elements is not None) else None


def numbers(x: Any) -> Numbers | None:
    """Return the elements of a small array of sizes and integers, or None for any other array."""
    array = held(x)
    if array is None:
        if type(x) is TracedArray:
            x = x._const()
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu" or x.size > _MAX_ELEMENTS:
            return None
        return x.astype(object)
    filled = np.empty(array.size, object)
    for i, (value, element) in enumerate(zip(array.reshape(-1).tolist(), array.elements or ())):
        filled[i] = _number(value, element)
    return filled.reshape(array.shape)


def _number(value: Any, element: Any) -> Any:
    if isinstance(element, Expression):
        return new_size(int(value), element)
    return SizeReal(float(value), element) if isinstance(element, Real) else value


def size_list(x: Any) -> list[int] | None:
    """Return the elements of an array of sizes in C order, or None if the array holds no symbolic integers."""
    array = held(x)
    filled = numbers(x) if array is not None and array.dtype.kind in "iu" else None
    return None if filled is None else list(filled.reshape(-1))


def computed_sizes(
    graph: Graph, op: str, inputs: Sequence[Any], types: Sequence[tuple[Any, Any]], attrs: Mapping[str, Any]
) -> TracedArray | None:
    """Return the result of an operator as an array of symbolic sizes, or None if its elements are not integers."""
    function = _FUNCTIONS.get(op)
    if function is None or not traces_symbolically() or not any(map(_is_number, inputs)):
        return None
    operands = [None if x is None else numbers(x) for x in inputs]
    if any(n is None and x is not None for n, x in zip(operands, inputs)):
        return None
    (shape, dtype), *_ = types
    if np.dtype(dtype).kind not in "iu" or any(d is not None and not _are_integers(d) for d in operands):
        return None
    result = function(operands, attrs)
    if result is None or getattr(result, "shape", ()) != tuple(shape):
        return None
    values = list(np.asarray(result, object).reshape(-1))
    if any(map(is_symbolic, values)):
        return hold(graph, sized_array(values, dtype, tuple(shape)))
    return TracedArray(graph, np.array([int(v) for v in values], dtype).reshape(shape))


def _is_number(x: Any) -> bool:
    """Return whether an array holds sizes, or what was computed from sizes that are not symbolic."""
    return held(x) is not None or (type(x) is TracedArray and x._const() is not None)


def _are_integers(values: Numbers) -> bool:
    return not any(isinstance(v, float) for v in values.reshape(-1))


def _elementwise(function: Callable[[Any, Any], Any]) -> Function:
    def apply(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        return functools.reduce(np.frompyfunc(function, 2, 1), inputs)

    return apply


def _quotient(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the quotients of numbers that are not negative: ONNX's Div rounds towards 0."""
    a, b = inputs
    if any(bool(v < 0) for v in a.reshape(-1)) or any(bool(v <= 0) for v in b.reshape(-1)):
        return None
    return np.frompyfunc(operator.floordiv, 2, 1)(a, b)


def _plain(x: Any) -> list[int] | None:
    """Return the elements of an array of plain integers."""
    values = list(x.reshape(-1))
    return None if any(map(is_symbolic, values)) else [int(v) for v in values]


def _gather(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    x, where = inputs
    places = _plain(where)
    if places is None:
        return None
    return np.take(x, np.array(places, np.intp).reshape(where.shape), attrs.get("axis", 0))


def _slice(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    x, *rest = inputs
    lists = [None if r is None else _plain(r) for r in rest]
    if any(n is None and r is not None for n, r in zip(lists, rest)):
        return None
    starts, ends = lists[:2]
    axes = lists[2] if len(lists) > 2 and lists[2] is not None else range(len(starts or ()))
    steps = lists[3] if len(lists) > 3 and lists[3] is not None else [1] * len(starts or ())
    key = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, starts or (), ends or (), steps):
        key[axis] = slice(first, None if step < 0 and last < -x.shape[axis] else last, step)
    return x[tuple(key)]


def _reshape(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    x, target = inputs
    sizes = _plain(target)
    return None if sizes is None or 0 in sizes else x.reshape(sizes)


def _squeeze(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    axes = _plain(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    return inputs[0].squeeze(None if axes is None else tuple(axes))


def _unsqueeze(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    axes = _plain(inputs[1])
    return None if axes is None else np.expand_dims(inputs[0], tuple(axes))


def _expand(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    sizes = _plain(inputs[1])
    return None if sizes is None else inputs[0] * np.ones(sizes, object)


_FUNCTIONS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Any]] = {
    "Add": _elementwise(operator.add),
    "Sub": _elementwise(operator.sub),
    "Mul": _elementwise(operator.mul),
    "Div": _quotient,
    "Max": _elementwise(functools.partial(extreme, "max")),
    "Min": _elementwise(functools.partial(extreme, "min")),
    "Neg": lambda given, attrs: -given[0],
    "Cast": lambda given, attrs: given[0],
    "Identity": lambda given, attrs: given[0],
    "Concat": lambda given, attrs: np.concatenate(given, attrs["axis"]),
    "Transpose": lambda given, attrs: given[0].transpose(attrs.get("perm")),
    "Gather": _gather,
    "Slice": _slice,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
}
"""Operator -> the function that computes its result from integers, or returns None for a case that it does not
support."""
