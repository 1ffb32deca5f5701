"""Places in the user's code: the line that records an operator, and errors that name this line."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from anylayer.errors import TraceError

_PACKAGE = Path(__file__).parent.parent
_LAYERS, _OPERATORS = str(_PACKAGE / "layers"), str(_PACKAGE / "ops")
_USERS, _RECORDER, _PACKAGES, _CALLER = range(4)
_KINDS = (
    *((str(_PACKAGE / room), _RECORDER) for room in ("graph", "tracing", "ops")),
    (str(Path(np.__file__).parent), _RECORDER),
    ("<__array_function__", _RECORDER),
    (_LAYERS, _USERS),
    (str(_PACKAGE), _CALLER),
    *((sysconfig.get_path(name), _PACKAGES) for name in ("purelib", "platlib", "stdlib", "platstdlib")),
)
"""(prefix of a path, kind of the code there). The first prefix that matches decides. A built-in layer is treated
as the user's code."""
_DISPLAY_MODULES = frozenset(("logging", "pdb", "bdb", "reprlib", "traceback", "unittest", "_pytest", "anylayer"))
"""Modules that ask for a text only to show it to a person."""
_kinds: dict[str, int] = {}
_names: dict[str, str] = {}

refused: ContextVar[list[TraceError] | None] = ContextVar("refused", default=None)
"""The errors of the current trace. A trace with an error has failed, even if the user's code caught the error."""


def _kind(file: str) -> int:
    kind = _kinds.get(file)
    if kind is None:
        kind = _kinds[file] = next((k for path, k in _KINDS if file.startswith(path)), _USERS)
    return kind


@cache
def _is_shared(file: str) -> bool:
    """Return whether built-in layers share the code of a file: its name begins with _."""
    return file.startswith(_LAYERS) and Path(file).name.startswith("_")


class Lost(str):
    """A note on something that traced code does and its graph does not: it writes a text."""

    __slots__ = ()


class JoinError(TraceError):
    """The results of two paths between which the values of the arrays decide cannot be joined."""


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """Return the innermost frame of the user's code.

    Frames of the tracer, the operators and NumPy are passed over. Frames of other installed packages are passed
    over too, where the user's code called them. Otherwise the user's layer is itself in an installed package, and
    its innermost frame is returned.
    """
    return _frames(frame or sys._getframe(1))[0]


def package_frame() -> FrameType | None:
    """Return the innermost frame of the installed package that the user's line called, or None."""
    user, package = _frames(sys._getframe(1))
    return None if package is user else package


def _frames(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """Return the innermost frame of the user's code, and the innermost frame of an installed package inside it."""
    package = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == _USERS:
            return frame, package
        if kind == _CALLER and package is not None:
            break
        if kind == _PACKAGES and package is None:
            package = frame
        frame = frame.f_back
    return package, package


def is_users(frame: FrameType, skipped: Sequence[str] = ()) -> bool:
    """Return whether a frame is one of the user's code. skipped: modules whose frames are ignored."""
    return _kind(frame_outside(frame, skipped).f_code.co_filename) == _USERS


def frame_outside(frame: FrameType, modules: Sequence[str]) -> FrameType:
    """Return the innermost frame, from this one on, that runs code of none of these modules."""
    while frame.f_back is not None and frame.f_globals.get("__name__") in modules:
        frame = frame.f_back
    return frame


def runs_operator() -> bool:
    """Return whether the caller works for a function of anylayer.ops, not for a line of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _kind(frame.f_code.co_filename) == _RECORDER:
        if frame.f_code.co_filename.startswith(_OPERATORS):
            return True
        frame = frame.f_back
    return False


def may_decide_by_text(frame: FrameType) -> bool:
    """Return whether a frame, whose code asks for the text of an array or a size, may base a decision on it."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0] not in _DISPLAY_MODULES


def place_of(frame: FrameType | None) -> str:
    """Return `file.py:line` of a frame, or "" for None."""
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    name = _names.get(file)
    if name is None:
        name = _names[file] = Path(file).name
    return f"{name}:{frame.f_lineno}"


def position_of(frame: FrameType) -> Any:
    """Return the lines and columns of the expression that runs in a frame.

    Its bytecode may stand in several places, and Python may run a call in one instruction or in two.
    """
    return next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))


def user_place() -> str:
    """Return `file.py:line` of the user's code that runs now, or "".

    Code that built-in layers share is passed over: a line of it says nothing about the layer that called it.
    """
    frame = user_frame(sys._getframe(1))
    while frame is not None and _is_shared(frame.f_code.co_filename):
        frame = frame.f_back
        if frame is not None and _kind(frame.f_code.co_filename) != _USERS:
            return ""
    return place_of(frame)


def refusal(message: str, *, place: str | None = None, kind: type[TraceError] = TraceError) -> TraceError:
    """Return a TraceError at the user's line, and add it to `refused`.

    place: `file.py:line`; the user's line if it is None.
    kind: the class of the error.
    """
    where = user_place() if place is None else place
    error = kind(message, *([where] if where else []))
    remembered = refused.get()
    if remembered is not None:
        remembered.append(error)
    return error


def describe(x: Any) -> str:
    """Return the dtype and shape of an array as text: "float32[1, 3]"."""
    return f"{x.dtype.name}[{', '.join(map(str, x.shape))}]"


def place_of_error(error: BaseException) -> str:
    """Return `file.py:line` of the innermost line of the user's code that an exception passed through.

    Returns the innermost line of an installed package if the exception passed through no code of the user.
    """
    users_line, library, trace = "", "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        kind = _kind(file) if not file.startswith(str(_PACKAGE)) else _CALLER
        place = f"{Path(file).name}:{trace.tb_lineno}"
        users_line = place if kind == _USERS else users_line
        library = place if kind == _PACKAGES else library
        trace = trace.tb_next
    return users_line or library
