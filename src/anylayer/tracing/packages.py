"""The substitute for OpenCV in the second attempt: its functions compute with constants, and some are recorded."""

from __future__ import annotations

import importlib
import sys
import types
from functools import partial
from typing import Any

import numpy as np

from anylayer.errors import LayerError
from anylayer.graph.place import refusal
from anylayer.network import Function
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.dispatch import traced_in
from anylayer.tracing.record import substituted
from anylayer.tracing.rules import creation

_OURS = "anylayer.images.opencv"
"""The module whose FUNCTIONS are recorded in place of OpenCV's of the same name."""
_FUNCTION = types.BuiltinFunctionType


class _OpenCV(types.ModuleType):
    """A module of OpenCV whose functions accept traced arrays."""

    def __init__(self, original: types.ModuleType, prefix: str) -> None:
        super().__init__(original.__name__)
        self._original, self._prefix = original, prefix

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._original, name)
        if type(member) is _FUNCTION:
            member = partial(_call, member, f"{self._prefix}{name}")
        elif self._prefix == "" and name == "dnn":
            member = _OpenCV(member, "dnn.")
        vars(self)[name] = member
        return member


def substitute_for(x: Any) -> Any:
    """Return the substitute for cv2, cv2.dnn or one of their functions, and None for anything else."""
    cv2: Any = sys.modules.get("cv2")
    if cv2 is None or type(x) not in (types.ModuleType, _FUNCTION):
        return None
    for prefix, module in {"": cv2, "dnn.": getattr(cv2, "dnn", cv2)}.items():
        if id(x) == id(module):
            return _OpenCV(x, prefix)
        if type(x) is _FUNCTION and getattr(module, x.__name__, None) == x:
            return partial(_call, x, f"{prefix}{x.__name__}")
    return None


def _call(function: Function, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of OpenCV, or record ours if an argument is known only when the network runs."""
    arguments = list(map(selected, args)), dict(zip(kwargs, map(selected, kwargs.values())))
    traced = [*traced_in([*arguments[0], *arguments[1].values()])]
    if all(x._const() is not None for x in traced):
        return _call_with_values(function, traced, *arguments)
    ours = importlib.import_module(_OURS).FUNCTIONS
    if name not in ours or (name == "warpAffine" and sys.modules["cv2"].__version__ < "5"):
        others = ", ".join(f"cv2.{n}" for n in ours if n != name)
        raise refusal(f"cv2.{name} cannot be recorded; {others} can. Write it with NumPy functions")
    listed = {k: creation.array(v) if type(v) is list else v for k, v in arguments[1].items()}
    positional = [creation.array(v) if type(v) is list else v for v in arguments[0]]
    try:
        return substituted(ours[name])(*positional, **listed)
    except LayerError as error:
        raise refusal(str(error)) from None


def _call_with_values(function: Function, traced: list[TracedArray], args: list[Any], kwargs: Any) -> Any:
    """Call a function with the values of constants. What it draws into an array is written to the constant."""
    plain = {id(x): np.array(x._const()) for x in traced}

    def content(x: Any) -> Any:
        if type(x) is TracedArray:
            return plain[id(x)] if x.ndim else plain[id(x)].item()
        return type(x)(map(content, x)) if type(x) in (tuple, list) else x

    before = {key: array.copy() for key, array in plain.items()}
    result = function(*map(content, args), **{k: content(v) for k, v in kwargs.items()})
    for x in traced:
        if not np.array_equal(plain[id(x)], before[id(x)], equal_nan=x.dtype.kind == "f"):
            x[...] = plain[id(x)]

    def constant(y: Any) -> Any:
        if type(y) is tuple:
            return tuple(map(constant, y))
        if type(y) is not np.ndarray or y.dtype.kind not in "biuf":
            return y
        return next((x for x in traced if plain[id(x)] is y), None) or creation.constant_array(y)

    return constant(result)
