"""Why the values of a traced array were asked for, and what to write instead: read from the user's bytecode."""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from anylayer.errors import TraceError
from anylayer.graph.place import describe, package_frame, place_of, refusal, user_frame

_MAKE = "make it with np.zeros_like(x) or np.zeros(shape, dtype, like=x)"
_OWN = "NumPy's functions and anylayer.ops"
_GENERAL = "use NumPy's functions, operators and indexing on the array itself"

_SHOWING = frozenset(("logging", "pdb", "bdb", "reprlib", "traceback", "unittest", "_pytest", "anylayer"))
"""Modules that ask for an array's text to show it to a person."""

_CALLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("np.asarray", "np.ascontiguousarray", "np.asanyarray", "np.asfortranarray"), "leave it out"),
    (("np.array",), "leave it out, or write x.copy()"),
    (("np.float", "np.int", "np.uint", "np.bool"), "write x.astype(dtype)"),
    (("np.full",), "write np.broadcast_to(x, shape), or np.full(shape, x, like=x)"),
    (("np.vectorize",), "write the function for whole arrays"),
    (("np.take",), "write np.asarray(a, like=x) for the array that is taken from"),
    (("np.",), "NumPy does not look for traced arrays there: " + _GENERAL),
    (("cv2.", "cv."), "OpenCV computes nothing that can be recorded: write it with " + _OWN),
)
_JOINS = (
    "np.array",
    "np.asarray",
    "np.sum",
    "np.mean",
    "np.max",
    "np.min",
    "np.prod",
    "np.any",
    "np.all",
    "np.std",
)


def _running_expression(frame: FrameType | None) -> tuple[str, str]:
    """The opcode that runs in a frame, and the source of its expression where Python tells (3.11 and later)."""
    if frame is None:
        return "", ""
    code, at = frame.f_code, frame.f_lasti
    while at > 0 and dis.opname[code.co_code[at]] == "CACHE":  # where a call into Python code stands
        at -= 2
    opcode = dis.opname[code.co_code[at]]
    if not hasattr(code, "co_positions"):
        return opcode, ""
    line, end, first, last = list(code.co_positions())[at // 2]
    if line is None or first is None or last is None:
        return opcode, ""
    text = linecache.getline(code.co_filename, line).encode()
    return opcode, text[first : last if line == end else None].decode(errors="replace")


def _values_refusal(x: Any, what: str, remedy: str) -> TraceError:
    package = package_frame()
    if package is not None:  # the user's line called a function of a package, which asked
        called = _running_expression(user_frame())[1].partition("(")[0] or package.f_code.co_name
        what, remedy = f"{called}() (at {place_of(package)})", "write it with " + _OWN
    return refusal(
        f"{what} needs the values of a traced array ({describe(x)}), which are known only when the network runs; "
        f"{remedy}"
    )


def array_refusal(x: Any) -> TraceError:
    """NumPy asked for the data (__array__)."""
    opcode, text = _running_expression(user_frame())
    if opcode == "STORE_SUBSCR" or opcode.startswith("STORE_SLICE"):
        return _values_refusal(x, "assignment into a NumPy array", _MAKE)
    if opcode.startswith(("BINARY_SUBSCR", "BINARY_SLICE")):
        return _indexing(x)
    if opcode.startswith(("BINARY", "INPLACE", "COMPARE")):
        return _values_refusal(x, "an operator of this type", _GENERAL)
    if not text or not opcode.startswith(("CALL", "KW")):
        return _values_refusal(
            x, "np.asarray(), np.array() or assignment into a NumPy array", f"leave it out, or {_MAKE}"
        )
    name, _, arguments = text.partition("(")
    return _values_refusal(x, f"{name}()", _remedy(name, arguments))


def _indexing(x: Any) -> TraceError:
    return _values_refusal(x, "indexing a NumPy array", "write np.asarray(a, like=x)[i] for a[i]")


def _remedy(name: str, arguments: str) -> str:
    short = name.replace("numpy.", "np.")
    if short.startswith(_JOINS) and arguments.startswith(("[", "(")):
        return "join the arrays with np.stack first"
    if short.endswith(".dot"):
        return "write a @ x"
    if short.endswith((".take", ".choose", ".searchsorted")):
        return "write np.asarray(a, like=x) for the NumPy array"
    for starts, remedy in _CALLS:
        if short.startswith(starts):
            return remedy
    return _GENERAL


def shown_to_user_code() -> bool:
    """Whether the text of an array is asked for by code that may decide by it."""
    module = sys._getframe(2).f_globals.get("__name__", "")
    return str(module).split(".")[0] not in _SHOWING


def text_refusal(x: Any) -> TraceError:
    """Python asked for the text of the array."""
    return _values_refusal(
        x, "str(), print() or an f-string", "write x.shape and x.dtype, or print in engine 'numpy'"
    )


def errstate_refusal(found: Mapping[str, Any]) -> TraceError:
    """Floating-point errors would raise or call, by the values of the arrays."""
    settings = ", ".join(
        f"{kind}='{how}'" for kind, how in found.items() if how not in ("ignore", "warn", "print")
    )
    return refusal(
        f"np.errstate({settings}) lets the values of the arrays decide what is computed, and they are known only "
        "when the network runs; use np.where with np.isfinite, np.isinf or a test of the operands"
    )


def float_refusal(x: Any) -> TraceError:
    """Python asked for a number (__float__); NumPy does so for `a[i, j] = x`."""
    opcode, text = _running_expression(user_frame())
    if opcode == "STORE_SUBSCR":
        return _values_refusal(x, "assignment into a NumPy array", _MAKE)
    name = text.partition("(")[0] if opcode.startswith("CALL") and "(" in text else "float()"
    name = name if name.endswith(")") else f"{name}()"
    return _values_refusal(
        x, name, "keep the array and use NumPy's functions: np.sqrt, np.exp, .astype(np.float32)"
    )


def bool_refusal(x: Any) -> TraceError:
    """Python asked for a truth value."""
    opcode, text = _running_expression(user_frame())
    if opcode.startswith("CALL") and text.startswith(("max(", "min(", "sorted(")):
        return _values_refusal(
            x, f"{text.partition('(')[0]}() of Python", "use np.maximum, np.minimum, np.max, np.sort"
        )
    if opcode.startswith("CALL") and text.startswith(("any(", "all(", "bool(")):
        return _values_refusal(
            x, f"{text.partition('(')[0]}() of Python", "use x.any(), x.all() and keep the array"
        )
    if opcode.startswith("CONTAINS"):
        return _values_refusal(x, "'in'", "use (x == value).any() and keep the array")
    return _values_refusal(
        x, "if, while, and, or, not (also a < x < b)", "use np.where, &, |, ~, np.logical_and, or np.maximum"
    )


def index_refusal(x: Any) -> TraceError:
    """Python asked for an integer."""
    opcode, text = _running_expression(user_frame())
    if text.startswith("range("):
        what = "range()"
    elif opcode.startswith("BINARY_SUBSCR") and text and ":" not in text:
        return _indexing(x)
    elif opcode.startswith(("BINARY_S", "STORE_S")):
        what = "indexing or slicing"
    else:
        what = "a size, a slice's bound or int()"
    return _values_refusal(
        x, what, "sizes must follow from shapes and parameters; values stay arrays (.astype(np.int64), x[i])"
    )
