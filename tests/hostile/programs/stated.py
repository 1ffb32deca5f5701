"""The differences between engines and NumPy that docs/engines.md states: the rows of its table.

A difference that the table states is not a fault of a program.
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
    "t": "np.arange(1, 4) * np.pi",
    "n": "np.array(-0.0, np.float32)",
}
"""The arrays that the table's examples name."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    what: the operation. example: an expression of the arrays in INPUTS. numpy: NumPy's result.
    engines: the result of each engine that differs from NumPy; empty where no engine promises a result.
    pattern: a regular expression that matches the source code of the programs concerned.
    values: the kind of values for which the row holds: "special" (NaN, infinity), "large" (floats beyond 2**31),
    "long" (integers beyond 2**53), "wide" (integers beyond 2**24), "outside" (floats beyond the range of an
    integer dtype of the program), "tiny" (float64 below 1e-15 that is not 0), "minus zero", or "half" (float16:
    the difference is within its rounding, see judge.HALF_TOLERANCE; the row excuses no larger one).
    """

    what: str
    example: str
    numpy: str
    engines: dict[str, str]
    pattern: str
    values: str = "special"


NEVER = r"(?!)"
"""A pattern that matches nothing: the row alone excuses no program."""

_BOTH = ("onnxruntime", "openvino")
ROWS = (
    Row(
        "maximum and minimum of values with NaN",
        "x.max()",
        "NaN",
        dict.fromkeys(_BOTH, "NaN, or ignores NaN"),
        r"\b(max|min|ptp|nanmax|nanmin)\(",
    ),
    Row(
        "index of the maximum or minimum, with NaN",
        "x.argmax(1)",
        "index of NaN",
        dict.fromkeys(_BOTH, "index of NaN, or ignores NaN"),
        r"\b(argmax|argmin)\(",
    ),
    Row(
        "sort values with NaN, or take their median",
        "np.median(x, 1)",
        "NaN (sort: NaN last)",
        {
            "onnxruntime": "a number (sort before 1.32: NaN anywhere)",
            "openvino": "a number (sort: NaN anywhere; argsort: NaN is infinity)",
        },
        r"\b(sort|argsort|median|percentile|quantile|partition)\(",
    ),
    Row(
        "select 0 where a comparison with NaN is false",
        "np.where(x > 0, x, 0)",
        "0",
        {"onnxruntime": "NaN"},
        r"where\(|\[.*[<>].*\]|maximum\(|np\.select|clip\(",
    ),
    Row(
        "elementwise functions of NaN",
        "np.maximum(x, 0)",
        "NaN",
        {"openvino": "a number, or NaN"},
        r"",
    ),
    Row(
        "quotients of infinities",
        "np.arctan2(inf, inf)",
        "an angle",
        dict.fromkeys(_BOTH, "NaN"),
        r"arctan2\(|angle\(|//|floor_divide|divmod|%|remainder|logaddexp|sinc",
    ),
    Row(
        "log1p of an exponential that is infinite",
        "np.log1p(np.exp(big))",
        "infinity",
        {"openvino": "a number"},
        r"log1p\(",
        "large",
    ),
    Row(
        "cast of NaN, infinity or too large numbers to integers",
        "inf.astype(np.uint8)",
        "undefined",
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
        "reciprocal of the integer 0",
        "np.reciprocal(i - i)",
        "undefined",
        {},
        r"reciprocal",
        "wide",
    ),
    Row(
        "powers, quotients, remainders, sums and extremes of integers beyond 2**24",
        "j**k",
        "exact, or modulo 2**bits",
        {"openvino": "refused"},
        NEVER,
        "wide",
    ),
    Row(
        "signs of float64 sines of multiples of pi",
        "np.sin(t) > 0",
        "of about 1e-16",
        {"onnxruntime": "of 0", "openvino": "as in float32"},
        r"\b(sin|sinc|tan)\(",
        "tiny",
    ),
    Row(
        "sign of a sum of negative zeros",
        "np.signbit(n.sum())",
        "False",
        dict.fromkeys(_BOTH, "True, or as NumPy"),
        r"(?s)(?=.*(sum|mean|average|trace|dot|@|einsum|inner|norm)).*(signbit|copysign|arctan2|angle|/|reciprocal)",
        "minus zero",
    ),
    Row(
        "rounding of float16",
        "np.log1p(h).astype(np.float32)",
        "rounds to float16",
        {"openvino": "as in float32"},
        NEVER,
        "half",
    ),
)


def is_stated(text: str, engine: str, values: frozenset[str]) -> bool:
    """Return whether a row states that the engine differs for this program and these kinds of values."""
    return any(
        row.values in values and (engine in row.engines or not row.engines) and re.search(row.pattern, text)
        for row in ROWS
    )


def markdown() -> str:
    """Return the table of docs/engines.md."""
    lines = ["| what | for example | NumPy | ONNX Runtime | OpenVINO |", "|---|---|---|---|---|"]
    for row in ROWS:
        cells = [row.engines.get(e, "as NumPy" if row.engines else "undefined") for e in _BOTH]
        lines.append(f"| {row.what} | `{row.example}` | {row.numpy} | {' | '.join(cells)} |")
    return "\n".join(lines)
