"""Error messages for code that needs the values of a traced array.

Each message says what asked for the values, which is read from the user's bytecode, and what to write instead.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Mapping
from types import FrameType

from anylayer.errors import TraceError
from anylayer.graph.place import JoinError, describe, package_frame, place_of, refusal, user_frame
from anylayer.network import Array

_CREATE = "make that array with np.zeros_like(x) or np.zeros(shape, dtype, like=x)"
_FUNCTIONS = "NumPy's functions and anylayer.ops"
_USE_FUNCTIONS = "use NumPy's functions, operators and indexing on the array itself"

_CALLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("np.asarray", "np.ascontiguousarray", "np.asanyarray", "np.asfortranarray"), "remove this call"),
    (("np.array",), "remove this call, or write x.copy()"),
    (("np.float", "np.int", "np.uint", "np.bool"), "write x.astype(dtype)"),
    (("np.full",), "write np.broadcast_to(x, shape), or np.full(shape, x, like=x)"),
    (("np.vectorize",), "write the function for whole arrays"),
    (("np.take",), "write np.asarray(a, like=x) for the first argument"),
    (("np.",), "NumPy does not recognize traced arrays there: " + _USE_FUNCTIONS),
    (("cv2.", "cv."), "this function of OpenCV cannot be recorded: write it with " + _FUNCTIONS),
)
_COMBINING = tuple(
    f"np.{name}" for name in ["array", "asarray", "sum", "mean", "max", "min", "prod", "any", "all", "std"]
)


def running_expression(frame: FrameType | None) -> tuple[str, str]:
    """Return the opcode that runs in a frame, and its source text ("" if Python does not provide it)."""
    if frame is None:
        return "", ""
    code, at = frame.f_code, frame.f_lasti
    while at > 0 and dis.opname[code.co_code[at]] == "CACHE":  # the position of a call into Python code
        at -= 2
    # Python 3.11 makes a call either in PRECALL or in CALL, depending on how often the line has run.
    opcode = dis.opname[code.co_code[at]].replace("PRECALL", "CALL")
    line, end, first, last = list(code.co_positions())[at // 2]
    if line is None or end is None or first is None or last is None:
        return opcode, ""
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, end + 1)]
    lines[-1] = lines[-1][:last]
    lines[0] = lines[0][first:]
    text = b"".join(lines).decode(errors="replace")
    return "BINARY_SUBSCR" if opcode == "CALL" and text.endswith("]") else opcode, text  # see loop_items.item_at


def running_call(frame: FrameType | None) -> str:
    """Return the source text of the call that runs in a frame, without its arguments, or ""."""
    opcode, text = running_expression(frame)
    return text.partition("(")[0] if opcode.startswith("CALL") else ""


def _values_refusal(x: Array, what: str, remedy: str, kind: type[TraceError] = TraceError) -> TraceError:
    """Return the TraceError for an operation `what` that needs the values of `x`.

    If the user's line called a function of an installed package, the message names that function instead.
    """
    package = package_frame()
    if package is not None:  # the request came from a package function that the user's line called
        called = running_expression(user_frame())[1].partition("(")[0] or package.f_code.co_name
        what, remedy = f"{called}() (at {place_of(package)})", "write it with " + _FUNCTIONS
    return refusal(
        f"{what} needs the values of a traced array ({describe(x)}), which are known only when the network runs; "
        f"{remedy}",
        kind=kind,
    )


def array_refusal(x: Array) -> TraceError:
    """Return the error for a request for the data as a NumPy array (__array__)."""
    opcode, text = running_expression(user_frame())
    if opcode == "STORE_SUBSCR" or opcode.startswith("STORE_SLICE"):
        return _values_refusal(x, "assignment into a NumPy array", _CREATE)
    if opcode.startswith(("BINARY_SUBSCR", "BINARY_SLICE")):
        return _indexing(x)
    if opcode.startswith(("BINARY", "INPLACE", "COMPARE")):
        return _values_refusal(x, "this operator", _USE_FUNCTIONS)
    if not text or not opcode.startswith(("CALL", "KW")):
        return _values_refusal(
            x, "np.asarray(), np.array() or assignment into a NumPy array", f"remove this call, or {_CREATE}"
        )
    name, _, arguments = text.partition("(")
    return _values_refusal(x, f"{name}()", _remedy(name, arguments))


def _indexing(x: Array) -> TraceError:
    remedy = "write np.asarray(a, like=x)[i] for a[i]"
    return _values_refusal(x, "indexing a NumPy array", remedy, JoinError)


def _has_single_index(text: str) -> bool:
    """Return whether the text of an expression is `x[i]`, in which `i` is not a slice."""
    try:
        expression = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(expression, ast.Subscript):
        return False
    index = expression.slice
    return not any(isinstance(n, ast.Slice) for n in (index.elts if isinstance(index, ast.Tuple) else [index]))


def _remedy(name: str, arguments: str) -> str:
    """Return what to write instead of a call of the function `name` with the source text `arguments`."""
    short = name.replace("numpy.", "np.")
    if short.startswith(_COMBINING) and arguments.startswith(("[", "(")):
        return "combine the arrays with np.stack first"
    if short.endswith(".dot"):
        return "write a @ x"
    if short.endswith((".take", ".choose", ".searchsorted")):
        return "write np.asarray(a, like=x) for the NumPy array"
    for starts, remedy in _CALLS:
        if short.startswith(starts):
            return remedy
    return _USE_FUNCTIONS


def text_refusal(x: Array) -> TraceError:
    """Return the error for a request for the text of an array."""
    return _values_refusal(
        x, "str(), print() or an f-string", "write x.shape and x.dtype, or print with engine='numpy'"
    )


def errstate_refusal(handling: Mapping[str, object]) -> TraceError:
    """Return the error for NumPy error handling `handling` that raises an exception or calls a function."""
    settings = ", ".join(
        f"{kind}='{how}'" for kind, how in handling.items() if how not in ("ignore", "warn", "print")
    )
    return refusal(
        f"np.errstate({settings}) lets the values of the arrays decide what is computed, but they are known only "
        "when the network runs; use np.where with np.isfinite, np.isinf or a test of the operands"
    )


def float_refusal(x: Array) -> TraceError:
    """Return the error for a request for a float (__float__). NumPy requests one for `a[i, j] = x`."""
    opcode, text = running_expression(user_frame())
    if opcode == "STORE_SUBSCR":
        return _values_refusal(x, "assignment into a NumPy array", _CREATE)
    name = text.partition("(")[0] if opcode.startswith("CALL") and "(" in text else "float()"
    name = name if name.endswith(")") else f"{name}()"
    return _values_refusal(
        x, name, "keep the array and use NumPy's functions: np.sqrt, np.exp, .astype(np.float32)"
    )


def bool_refusal(x: Array) -> TraceError:
    """Return the error for a request for a truth value."""
    opcode, text = running_expression(user_frame())
    if opcode.startswith("CALL") and text.startswith(("max(", "min(", "sorted(")):
        return _values_refusal(
            x, f"Python's {text.partition('(')[0]}()", "use np.maximum, np.minimum, np.max, np.sort"
        )
    if opcode.startswith("CALL") and text.startswith(("any(", "all(", "bool(")):
        return _values_refusal(
            x, f"Python's {text.partition('(')[0]}()", "use x.any(), x.all() and keep the array"
        )
    if opcode.startswith("CONTAINS"):
        return _values_refusal(x, "'in'", "use (x == value).any() and keep the array")
    return _values_refusal(
        x, "if, while, and, or, not (also a < x < b)", "use np.where, &, |, ~, np.logical_and, or np.maximum"
    )


def index_refusal(x: Array) -> TraceError:
    """Return the error for a request for an integer."""
    opcode, text = running_expression(user_frame())
    if text.startswith("range("):
        return _values_refusal(x, "range()", "loop over it in a statement for, or over a fixed range", JoinError)
    if opcode.startswith("BINARY_SUBSCR") and _has_single_index(text):
        return _indexing(x)
    if opcode.startswith(("BINARY_S", "STORE_S")):
        what = "indexing or slicing"
    else:
        what = "a size, a slice bound or int()"
    remedy = "sizes must follow from shapes and parameters; values stay arrays (.astype(np.int64), x[i])"
    return _values_refusal(x, what, remedy)
