"""The definition of an operator: its NumPy meaning, and its ONNX form for traced arrays.

    @operator
    def softmax(x, *, axis=-1):
        ...docstring...
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    @softmax.form
    def _(x, *, axis):
        return record("Softmax", [x], x.shape, x.dtype, axis=axis)

A call with NumPy arrays runs the meaning. A call with at least one traced array runs the form, which records ONNX
operators. The form receives all arguments, with the defaults that the meaning declares.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, cast

from anylayer.network import Array, Function
from anylayer.tracing import is_traced, record, substituted

P = ParamSpec("P")
R = TypeVar("R")


class Operator(Generic[P, R]):
    """A function of arrays that has a NumPy meaning and an ONNX form."""

    def __init__(self, meaning: Callable[P, R]) -> None:
        self.meaning = meaning
        self._form: Function | None = None
        functools.update_wrapper(self, meaning)

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.meaning)

    def form(self, function: Function) -> Function:
        """Set the ONNX form. Used as a decorator."""
        self._form = function
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._form is not None and (any(map(is_traced, args)) or any(map(is_traced, kwargs.values()))):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return cast(R, substituted(self._form)(*bound.args, **bound.kwargs))
        return self.meaning(*args, **kwargs)


def operator(meaning: Callable[P, R]) -> Operator[P, R]:
    """Define an operator by its NumPy meaning. Add its ONNX form with `@name.form`."""
    return Operator(meaning)


def elementwise(op: str) -> Callable[[Callable[P, R]], Operator[P, R]]:
    """Define an operator of one input and of numbers, by its NumPy meaning.

    ONNX operator `op` is its form, with the numbers as attributes. The output has the input's shape and dtype.
    """

    def define(meaning: Callable[P, R]) -> Operator[P, R]:
        defined = Operator(meaning)

        @defined.form
        def _(x: Array, *numbers: float) -> Array:
            names = list(defined._signature.parameters)[1:]
            return record(op, [x], x.shape, x.dtype, **dict(zip(names, map(float, numbers))))

        return defined

    return define
