"""What this module's functions have in common: their exception, an AnyLayerError that `except cv2.error` catches,
too, and the meaning of None."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from anylayer.errors import AnyLayerError, InputError, UnknownLayers

P = ParamSpec("P")
R = TypeVar("R")

_BAD_ARGUMENT, _UNSPECIFIED = -5, -2
"""OpenCV's numbers of errors."""


class error(AnyLayerError):
    """The exception that functions of this module raise, under OpenCV's name for it.

    Where cv2 is imported, the exception is also a `cv2.error`. `code`, `err`, `msg`, `func`, `file` and `line` are
    those of OpenCV's exceptions. `__cause__` is the AnyLayerError that says which kind of mistake it is.
    """

    code: int = _UNSPECIFIED
    func: str = ""
    file: str = ""
    line: int = 0

    @property
    def err(self) -> str:
        """The message without places."""
        return self.message

    @property
    def msg(self) -> str:
        """The whole message."""
        return str(self)


def converted(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with each AnyLayerError that it raises turned into an `error`, and None as an argument
    that is not given, as in OpenCV."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if any(value is None for value in (*args, *kwargs.values())):
                bound = signature.bind(*args, **kwargs)
                bound.arguments = {k: _or_default(v, signature.parameters[k]) for k, v in bound.arguments.items()}
                return function(*bound.args, **bound.kwargs)
            return function(*args, **kwargs)
        except error:
            raise
        except AnyLayerError as found:
            message = found.message
            if isinstance(found, UnknownLayers):
                message += f", and register the class: dnn_registerLayer({found.types[0]!r}, Class)"
            raised = _class(getattr(sys.modules.get("cv2"), "error", None))(message, *found.places)
            raised.code = _BAD_ARGUMENT if isinstance(found, InputError) else _UNSPECIFIED
            raised.func = function.__name__
            raise raised from found

    return call


def _or_default(value: Any, parameter: inspect.Parameter) -> Any:
    """Return an argument, or the default of its parameter in place of None."""
    return parameter.default if value is None and parameter.default is not parameter.empty else value


@functools.cache
def _class(base: type[Exception] | None) -> type[error]:
    """Return the class of exceptions that is also OpenCV's, where `base` is OpenCV's."""
    return (
        error if base is None else type("error", (error, base), {"__module__": __name__, "__doc__": error.__doc__})
    )
