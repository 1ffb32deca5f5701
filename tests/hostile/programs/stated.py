"""The differences from NumPy that docs/engines.md states, as its table has them.

A program that meets one of them, with values for which it holds, is not wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

INPUTS = {
    "x": "np.array([[1, np.nan, 3], [np.nan, -2, 5]], np.float32)",
    "big": "np.array([1e30, -3e38], np.float32)",
    "inf": "np.array([np.inf, -np.inf], np.float32)",
    "j": "np.array([200, 3, 7, 200], np.int32)",
    "k": "np.array([5, 25, 20, 7], np.int32)",
    "i": "np.array([2**53, 1, 1, 1])",
    "h": "np.array([1, 3], np.float16)",
}
"""The arrays of the table's examples."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: `example` is an expression of INPUTS, `engines` say what an engine gives that differs.

    `pattern` finds the code that it is about; `values` are those for which it holds: "special" (NaN, infinity),
    "large" (floats beyond 2**31), "long" (integers beyond 2**53), "wide" (beyond 2**24), "outside" (floats that an
    integer dtype of the program does not hold) or "half" (float16: the difference is within its rounding, see
    judge.HALF_TOLERANCE, and excuses no larger one).
    """

    what: str
    example: str
    numpy: str
    engines: dict[str, str]
    pattern: str
    values: str = "special"


NEVER = r"(?!)"
"""A pattern that matches nothing: the row excuses no program by itself."""

_BOTH = ("onnxruntime", "openvino")
ROWS = (
    Row(
        "the largest and the least of NaN",
        "x.max()",
        "NaN",
        dict.fromkeys(_BOTH, "leaves NaN out, or not"),
        r"\b(max|min|ptp|nanmax|nanmin)\(",
    ),
    Row(
        "where they are, with NaN",
        "x.argmax(1)",
        "that of NaN",
        dict.fromkeys(_BOTH, "leaves NaN out, or not"),
        r"\b(argmax|argmin)\(",
    ),
    Row(
        "the order of NaN",
        "np.sort(x, 1)",
        "NaN last",
        dict.fromkeys(_BOTH, "anywhere"),
        r"\b(sort|argsort|median|percentile|quantile|partition)\(",
    ),
    Row(
        "a mask that is false for NaN, put to 0",
        "np.where(x > 0, x, 0)",
        "0",
        {"onnxruntime": "NaN"},
        r"where\(|\[.*[<>].*\]|maximum\(|np\.select|clip\(",
    ),
    Row(
        "comparisons with NaN",
        "x > 0",
        "False",
        {"openvino": "True, or not"},
        r"",
    ),
    Row(
        "elementwise functions of NaN",
        "np.maximum(x, 0)",
        "NaN",
        {"openvino": "a number, or NaN"},
        r"",
    ),
    Row(
        "a quotient of infinities",
        "np.arctan2(inf, inf)",
        "an angle",
        dict.fromkeys(_BOTH, "NaN"),
        r"arctan2\(|angle\(|//|floor_divide|divmod|%|remainder|logaddexp|sinc",
    ),
    Row(
        "squares beyond the dtype",
        "np.hypot(big, 0)",
        "a number",
        dict.fromkeys(_BOTH, "infinity"),
        r"hypot\(|norm\(|std\(|var\(",
        "large",
    ),
    Row(
        "integers of NaN, of infinity, of what they do not hold",
        "inf.astype(np.uint8)",
        "left open",
        {},
        r"astype|uint|int|\[.*\]|//|np\.put|fill|copyto|bool",
        "outside",
    ),
    Row(
        "sums of integers beyond 2**53",
        "i.sum()",
        "exact",
        {"onnxruntime": "as in float64", "openvino": "refused beyond 2**31"},
        r"sum\(|mean\(|average\(|trace\(|dot|@|einsum|inner|matmul|std\(|var\(",
        "long",
    ),
    Row(
        "the reciprocal of the integer 0",
        "np.reciprocal(i - i)",
        "left open",
        {},
        r"reciprocal",
        "wide",
    ),
    Row(
        "powers of integers by data, beyond 2**24",
        "j**k",
        "exact, or wrapped",
        {"openvino": "as in float32"},
        r"\*\*|power|//|%",
        "wide",
    ),
    Row(
        "the rounding of float16",
        "np.log1p(h).astype(np.float32)",
        "float16",
        {"openvino": "as in float32"},
        NEVER,
        "half",
    ),
)


def is_stated(text: str, engine: str, values: frozenset[str]) -> bool:
    """Whether the table states that this engine differs for what the program does with such values."""
    return any(
        row.values in values and (engine in row.engines or not row.engines) and re.search(row.pattern, text)
        for row in ROWS
    )


def markdown() -> str:
    """The table as the page has it."""
    lines = ["| what | for example | NumPy | ONNX Runtime | OpenVINO |", "|---|---|---|---|---|"]
    for row in ROWS:
        cells = [row.engines.get(e, "as NumPy" if row.engines else "left open") for e in _BOTH]
        lines.append(f"| {row.what} | `{row.example}` | {row.numpy} | {' | '.join(cells)} |")
    return "\n".join(lines)
