"""The exception of this module's functions: an AnyLayerError that `except cv2.error` catches, too."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
    """Return the function with each AnyLayerError that it raises turned into an `error`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
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


@functools.cache
def _class(base: type[Exception] | None) -> type[error]:
    """Return the class of exceptions that is also OpenCV's, where `base` is OpenCV's."""
    return (
        error if base is None else type("error", (error, base), {"__module__": __name__, "__doc__": error.__doc__})
    )
