"""Dispatch of NumPy's protocols: find the rule, prepare its arguments and return its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from anylayer.folders import FolderTable
from anylayer.graph.place import describe, refusal
from anylayer.graph.sizes import broadcast, stand_for
from anylayer.graph.symbolic import holds_symbolic, is_symbolic, plain
from anylayer.network import Array, DType, Function
from anylayer.tracing import rules
from anylayer.tracing.array import (
    TracedArray,
    TracingRule,
    selected,
    wrapped,
)
from anylayer.tracing.dtypes import as_operand, dtype_kind, loop_dtypes, weak
from anylayer.tracing.primitives import as_array, cast, expand, select
from anylayer.tracing.python_numbers import PythonNumber, as_arrays
from anylayer.tracing.record import graph_of

_TAKE_NUMBERS = frozenset((np.where, np.clip))
"""The functions whose result has the dtype of the arrays among their arguments, not of the Python numbers."""
_COMPARISONS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))


class FunctionRule:
    """The rule of a NumPy function.

    A `raw` rule receives the traced arrays themselves, because it returns views of them or writes to them. Any
    other rule receives constants as NumPy arrays, and is not called if all arrays are constants: then NumPy
    computes.
    """

    __slots__ = ("any_keyword", "call", "keywords", "raw")

    def __init__(self, call: TracingRule, raw: bool) -> None:
        self.call = call
        self.raw = raw
        parameters = inspect.signature(call).parameters.values()
        self.keywords = frozenset(p.name for p in parameters)
        self.any_keyword = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


R = TypeVar("R", bound=TracingRule)
FUNCTIONS: FolderTable[Function, FunctionRule] = FolderTable("tracing/rules", "implements")
UFUNCS: FolderTable[np.ufunc, TracingRule] = FolderTable("tracing/rules", "ufunc_rule")
"""The rules of ufuncs: from inputs in the dtypes of NumPy's loop to the output, or a tuple of outputs."""


def implements(*functions: Any, raw: bool = False) -> Callable[[R], R]:
    """Register the decorated rule for NumPy functions. None, for a function that this NumPy lacks, is skipped."""

    def enter(rule: R) -> R:
        for function in functions:
            if function is not None:
                FUNCTIONS[function] = FunctionRule(rule, raw)
        return rule

    return enter


def ufunc_rule(*ufuncs: np.ufunc | None) -> Callable[[R], R]:
    """Register the decorated rule for ufuncs. None, for a ufunc that this NumPy lacks, is skipped."""

    def enter(rule: R) -> R:
        UFUNCS.enter((u for u in ufuncs if u is not None), rule)
        return rule

    return enter


def traced_in(x: Any) -> Iterator[TracedArray]:
    """Yield the traced arrays in an argument, also inside tuples and lists."""
    if type(x) in (TracedArray, PythonNumber):
        yield x if type(x) is TracedArray else x.array
    elif type(x) in (tuple, list):
        for item in x:
            yield from traced_in(item)


def resolved(x: Any) -> Any:
    """Return an argument with each traced array replaced by its current content; see TracedArray._resolved."""
    if type(x) is TracedArray:
        return x._resolved()
    if type(x) in (tuple, list):
        return type(x)(map(resolved, x))
    return x


def converted(value: Any, dtype: DType) -> Array:
    """Return the assigned value as an array of the dtype of the array that it is written to."""
    value = resolved(value)
    if type(value) is TracedArray:
        return cast(value, dtype)
    if type(value) in (list, tuple) and next(traced_in(value), None) is not None:
        return cast(np.stack([converted(v, dtype) for v in value]), dtype)
    if weak(value):
        return as_array(value, dtype)
    return np.asarray(value).astype(dtype)


def with_memory_layout(
    result: Any, sources: Sequence[TracedArray], function: TracingRule, args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Return `result` with a record of the memory layout that it has in NumPy, if it may differ from C order.

    The layout is that of `function` called with dummy arrays.
    """
    if type(result) is TracedArray and any(h._is_moved for h in sources):

        def memory_layout() -> Array:
            try:
                with np.errstate(all="ignore"):
                    dummy = np.asarray(function(*dummies(args), **{k: dummies(v) for k, v in kwargs.items()}))
            except Exception:  # not every function accepts dummy arrays
                dummy = np.zeros(plain(stand_for(result.shape)), result.dtype)
            result._memory_layout = lambda: dummy
            return dummy

        result._memory_layout = memory_layout
    return result


def dummies(x: Any) -> Any:
    """Return an argument with each traced array replaced by a NumPy array of the same memory layout."""
    if type(x) is PythonNumber:
        return x.kind(0)
    if type(x) is TracedArray:
        return x._dummy()
    if type(x) in (tuple, list):
        return type(x)(map(dummies, x))
    return x


# ---------------------------------------------------------------------- ufuncs


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Implement __array_ufunc__: the call of a ufunc, or of a method of it such as reduce."""
    inputs, kwargs = [_of_ufunc(ufunc, x, inputs) for x in selected(list(inputs))], selected(kwargs)
    out = kwargs.pop("out", None)
    sources = [*traced_in(inputs), *traced_in(out)]
    graph = graph_of(sources)
    if graph is None:
        raise TypeError(f"np.{ufunc.__name__} is called without a traced array")
    if ufunc in (np.equal, np.not_equal) and any(x is None for x in inputs) and not sources[0].ndim:
        return np.bool_(ufunc is np.not_equal)  # a number is never None
    if method == "at":
        rules.writing.ufunc_at(ufunc, *inputs)
        return None
    args = [resolved(x) for x in inputs]
    where = resolved(as_arrays(kwargs.pop("where", True)))
    function: TracingRule = ufunc if method == "__call__" else getattr(ufunc, method)
    sized = method == "__call__" and any(map(is_symbolic, args))
    if not sized and not any(type(x) in (TracedArray, PythonNumber) for x in (*args, where, *kwargs.values())):
        if where is not True and out is None and method == "__call__":
            raise refusal(
                f"np.{ufunc.__name__}(..., where=) without out= leaves elements uninitialized; use np.where"
            )
        if where is not True and method != "__call__":
            kwargs["where"] = where
        result = function(*args, **kwargs)
        where = True if method != "__call__" else where
    elif method == "__call__":
        result = elementwise(ufunc, args, **kwargs)
    else:
        rule = rules.reductions.UFUNC_METHODS.get(method)
        if rule is None:
            raise refusal(f"np.{ufunc.__name__}.{method} cannot be recorded; use other NumPy functions")
        if where is not True:
            kwargs["where"] = where
        result = rule(ufunc, *args, **kwargs)
        where = True
    if out is not None:
        return _write_ufunc_out(ufunc, result, out, where)
    if where is not True:
        raise refusal(f"np.{ufunc.__name__}(..., where=) without out= leaves elements uninitialized; use np.where")
    result = _mark_scalars(wrapped(graph, result))
    return with_memory_layout(result, sources, function, inputs, kwargs)


def _of_ufunc(ufunc: np.ufunc, x: Any, inputs: Sequence[Any]) -> Any:
    """Return an input of a ufunc, with an array for a number that does not take the dtype of the other input.

    NumPy compares a Python integer with integers of any dtype correctly.
    """
    compares = ufunc in _COMPARISONS and all(dtype_kind(y) in "iub" for y in inputs)
    return as_arrays(x) if type(x) is PythonNumber and (compares or x.kind is bool) else x


def _mark_scalars(result: Any) -> Any:
    """Mark results of rank 0 as scalars: NumPy returns an immutable scalar there instead of an array."""
    for x in result if type(result) is tuple else (result,):
        if type(x) is TracedArray and x.ndim == 0:
            x._scalar = True
    return result


def _write_ufunc_out(ufunc: np.ufunc, result: Any, out: Any, where: Any) -> Any:
    """Write the result of a ufunc to its out=, with the cast of in-place operators."""
    outs = out if type(out) is tuple else (out,)
    results = result if type(result) is tuple else (result,)
    for target, value in zip(outs, results):
        if target is None:
            continue
        if type(target) is not TracedArray:
            raise refusal(
                f"np.{ufunc.__name__} writes a traced array into a NumPy array (+= or out=); "
                "make that array with np.zeros_like(x), np.zeros(shape, dtype, like=x), or write a = a + x"
            )
        value = np.asarray(value) if type(value) is not TracedArray else value
        if not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast ufunc '{ufunc.__name__}' output from {value.dtype!r} to {target.dtype!r} "
                "with casting rule 'same_kind'"
            )
        value = cast(value, target.dtype)
        if broadcast(value.shape, target.shape) != target.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape "
                f"{broadcast(value.shape, target.shape)}"
            )
        value = expand(value, target.shape)
        if where is not True:
            value = expand(
                select(np.asarray(where) if type(where) is not TracedArray else where, value, target._resolved()),
                target.shape,
            )
        target._assign(value)
    return out[0] if type(out) is tuple and len(out) == 1 else out


def elementwise(
    ufunc: np.ufunc,
    inputs: Sequence[Any],
    *,
    dtype: Any = None,
    signature: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
    axes: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Any:
    """Call the rule of a ufunc with its inputs cast to the dtypes of NumPy's loop."""
    if any(type(x) is complex or getattr(getattr(x, "dtype", None), "kind", "") == "c" for x in inputs):
        return rules.spectral.of_complex(ufunc, *inputs)
    rule = UFUNCS.find(ufunc)
    if rule is None:
        raise refusal(f"np.{ufunc.__name__} cannot be expressed in ONNX operators; use other NumPy functions")
    if axes is not None or axis is not None or keepdims:
        raise refusal(f"np.{ufunc.__name__}(..., axes=, axis=, keepdims=) cannot be recorded; move the axes first")
    inputs = [as_operand(x) for x in inputs]
    if signature is None and dtype is not None:
        signature = (*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)
    if ufunc in _COMPARISONS:
        inputs = _comparable(inputs)
    dtypes = loop_dtypes(ufunc, inputs, signature)
    if signature is None and dtypes[-1] == np.float64:
        _note_float64(ufunc, inputs)
    return rule(*[as_array(x, t) if weak(x) else cast(x, t) for x, t in zip(inputs, dtypes)])


def _note_float64(ufunc: np.ufunc, inputs: Sequence[Any]) -> None:
    """Add a note if a constant promotes float32 or float16 to float64, which is slow and rarely intended."""
    narrow = next((x for x in inputs if type(x) is TracedArray and x.dtype in (np.float32, np.float16)), None)
    cause = next((x for x in inputs if type(x) is not TracedArray and not weak(x) and x.dtype.itemsize > 2), None)
    if narrow is None or cause is None or cause.dtype == narrow.dtype:
        return
    shown = f"{cause.dtype.name} {cause.item():.6g}" if cause.ndim == 0 else describe(cause)
    narrow._graph.note(
        f"{narrow.dtype.name} becomes float64 here (np.{ufunc.__name__} with {shown}); write np.float32(...) or "
        ".astype(np.float32)"
    )


def _comparable(inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the inputs of a comparison as int64 if a Python integer is outside the range of the other's dtype.

    NumPy compares such numbers correctly.
    """
    a, b = inputs
    for number, other in ((a, b), (b, a)):
        if type(number) is int and not weak(other) and other.dtype.kind in "iu":
            info = np.iinfo(other.dtype)
            if not info.min <= number <= info.max:
                return [
                    np.int64(min(max(x, -(2**63)), 2**63 - 1)) if x is number else cast(x, np.int64)
                    for x in inputs
                ]
    return inputs


# ------------------------------------------------------------------- functions


def call_function(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Implement __array_function__, and the methods of ndarray that are also functions."""
    rule = FUNCTIONS.find(function)
    args, kwargs = selected(tuple(args)), selected(dict(kwargs))
    if function not in _TAKE_NUMBERS:
        args, kwargs = as_arrays(args), {k: as_arrays(v) for k, v in kwargs.items()}
    name = f"{getattr(function, '__module__', 'np') or 'np'}.{function.__name__}".replace("numpy.", "np.", 1)
    kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue and not (k == "out" and v is None)}
    out = kwargs.pop("out", None)
    if rule is not None and rule.raw:
        _check_keywords(rule, kwargs, name)
        return rule.call(*args, **kwargs)
    sources = [*traced_in(list(args)), *traced_in(list(kwargs.values())), *traced_in(out)]
    graph = graph_of(sources)
    if graph is None:  # the only traced array was passed as like=
        raise refusal(f"{name} cannot be recorded; use other NumPy functions")
    resolved_args = [resolved(x) for x in args]
    resolved_kwargs = {k: resolved(v) for k, v in kwargs.items()}
    arguments = [*resolved_args, *resolved_kwargs.values()]
    sized = rule is not None and any(map(holds_symbolic, arguments))
    if not sized and next(traced_in(arguments), None) is None:
        result = function(*resolved_args, **resolved_kwargs)
    else:
        if rule is None:
            raise refusal(f"{name} cannot be expressed in ONNX operators; use other NumPy functions")
        _check_keywords(rule, kwargs, name)
        result = rule.call(*resolved_args, **resolved_kwargs)
    if out is not None:
        return _write_function_out(name, result, out)
    return with_memory_layout(_mark_scalars(wrapped(graph, result)), sources, function, args, kwargs)


def _check_keywords(rule: FunctionRule, kwargs: Mapping[str, Any], name: str) -> None:
    for keyword in kwargs:
        if keyword not in rule.keywords and not rule.any_keyword:
            raise refusal(f"{name}(..., {keyword}=) cannot be recorded; leave {keyword} out")


def _write_function_out(name: str, result: Any, out: Any) -> TracedArray:
    """Write the result of a function to its out=."""
    if type(out) is not TracedArray:
        raise refusal(f"{name}(..., out=) writes a traced array into a NumPy array; use what it returns")
    value = result if type(result) is TracedArray else np.asarray(result)
    if value.shape != out.shape:
        raise ValueError(f"{name}: output array has shape {out.shape}, {value.shape} is needed")
    out._assign(cast(value, out.dtype))
    return out
