"""ndarray's methods and properties, each as the function that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.tracing.array import ATTRIBUTES, Traced, fresh, lifted
from anylayer.tracing.dispatch import call_function
from anylayer.tracing.place import refusal
from anylayer.tracing.primitives import cast


def _method(function: Callable[..., Any]) -> Callable[[Traced], Any]:
    return lambda x: lambda *args, **kwargs: call_function(function, (x, *args), kwargs)


for _name in [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "clip",
    "compress",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "ravel",
    "repeat",
    "round",
    "searchsorted",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "var",
    "choose",
]:
    ATTRIBUTES[_name] = _method(getattr(np, _name))


def _reshape(x: Traced) -> Any:
    def reshape(*shape: Any, order: str = "C", copy: Any = None) -> Any:
        return call_function(
            np.reshape, (x, shape[0] if len(shape) == 1 else shape), {"order": order, "copy": copy}
        )

    return reshape


def _transpose(x: Traced) -> Any:
    def transpose(*axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes
        return call_function(np.transpose, (x, order or None), {})

    return transpose


def astype(
    x: Traced, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: Any = True
) -> Any:
    """ndarray.astype: a copy, unless the dtype is the same and copy=False."""
    dtype = np.dtype(dtype)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule '{casting}'")
    if not copy and dtype == x.dtype:
        return x
    result = lifted(x._graph, cast(x._plain(), dtype))
    result._scalar = x._scalar
    return _laid_out(result, x)


def copy(x: Traced, order: str = "C") -> Any:
    """ndarray.copy."""
    result = fresh(x)
    result._scalar = x._scalar
    return result if order in ("C", None) else _laid_out(result, x)


def _laid_out(result: Traced, x: Traced) -> Traced:
    if x._view is not None or x._layout is not None:
        result._layout = lambda: x._shadow().astype(result.dtype)
    return result


def _dim_free(x: Traced) -> Any:
    raise refusal("ndarray.strides cannot be recorded")


ATTRIBUTES |= {
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": lambda x: lambda *args, **kwargs: astype(x, *args, **kwargs),
    "copy": lambda x: lambda order="C": copy(x, order),
    "flatten": lambda x: lambda order="C": copy(call_function(np.ravel, (x, order), {})),
    "conj": lambda x: lambda: np.conjugate(x),
    "conjugate": lambda x: lambda: np.conjugate(x),
    "T": lambda x: call_function(np.transpose, (x,), {}),
    "mT": lambda x: call_function(np.matrix_transpose, (x,), {}),
    "real": lambda x: call_function(np.real, (x,), {}),
    "imag": lambda x: call_function(np.imag, (x,), {}),
}
