"""Where the user's code stands: the line that an operator came from, and the refusals made on it."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from anylayer.errors import TraceError

_PACKAGE = Path(__file__).parent.parent
_INSIDE = (
    str(_PACKAGE / "tracing"),
    str(_PACKAGE / "ops"),
    str(Path(np.__file__).parent),
    "<__array_function__",
)
_inside: dict[str, bool] = {}
_names: dict[str, str] = {}

refused: ContextVar[list[TraceError] | None] = ContextVar("refused", default=None)
"""The refusals of the trace under way: a trace with one has failed, even where the user's code swallowed it."""


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame outside the tracer, the operators and NumPy."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        inside = _inside.get(file)
        if inside is None:
            inside = _inside[file] = file.startswith(_INSIDE)
        if not inside:
            return frame
        frame = frame.f_back
    return None


def place_of(frame: FrameType | None) -> str:
    """`file.py:line` of a frame."""
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    name = _names.get(file)
    if name is None:
        name = _names[file] = Path(file).name
    return f"{name}:{frame.f_lineno}"


def user_place() -> str:
    """`file.py:line` of the user's code that runs now."""
    return place_of(user_frame(sys._getframe(1)))


def refusal(message: str, *, place: str | None = None, kind: type[TraceError] = TraceError) -> TraceError:
    """A TraceError at the user's line, remembered so that swallowing it does not hide it."""
    where = user_place() if place is None else place
    error = kind(message, *([where] if where else []))
    remembered = refused.get()
    if remembered is not None:
        remembered.append(error)
    return error


def describe(x: Any) -> str:
    """`float32[1, 3]`."""
    return f"{x.dtype.name}[{', '.join(map(str, x.shape))}]"


def place_of_error(error: BaseException) -> str:
    """`file.py:line` of the user's line that an exception passed through last."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((*_INSIDE, str(_PACKAGE))):
            found = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found or ""
