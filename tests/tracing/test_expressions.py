"""Every expression of the table gives NumPy's result when it is traced and run on each engine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from anylayer.graph import Graph
from anylayer.testing import assert_same
from tests.engine_names import GENERAL

from . import harness
from .expressions import cases

EXCUSES: dict[tuple[str, str, str], str] = {
    # OpenVINO computes float64 in float32, so that a small difference is lost
    ("openvino", "f8", "x - x.astype(np.float32)"): "float64 is computed in float32",
    # ... and near a pole of the tangent, the error of the rounded argument grows a thousandfold
    ("openvino", "f8", "np.tan(x)"): "float64 is computed in float32",
    # OpenVINO does not round to float16 between two operators
    ("openvino", "f2", "np.percentile(x, [10, 50, 90], axis=2)"): "float16 is computed in float32",
}
"""(engine, dtype, expression) of results that differ, with the reason."""


DTYPES = list(dict.fromkeys(dtype for dtype, _ in cases()))


def texts(dtype: str) -> list[str]:
    """Return the expressions of a dtype."""
    return [text for d, text in cases() if d == dtype]


def listed(problems: dict[str, str]) -> str:
    """Return a line for each expression with a problem."""
    return "\n".join(f"{text}: {problem}" for text, problem in problems.items() if problem)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_dtypes_match_numpy(dtype: str) -> None:
    wrong = listed({text: wrong_type(dtype, text) for text in texts(dtype)})
    assert not wrong, wrong


def wrong_type(dtype: str, text: str) -> str:
    """Return how the trace of an expression differs from NumPy in exception, shape or dtype; "" if it does not."""
    want, graph = harness.expected(dtype, text), harness.traced(dtype, text)
    if isinstance(want, Exception):
        return "" if type(graph) is type(want) else f"NumPy raises {want!r}, tracing gives {graph!r}"
    if not isinstance(graph, Graph):
        return repr(graph)
    value = graph.outputs[0]
    same = (value.shape, value.dtype) == (want.shape, want.dtype)
    return "" if same else f"{value.dtype}{list(value.shape)}, NumPy returns {want.dtype}{list(want.shape)}"


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_match_numpy(dtype: str, engine: str) -> None:
    computed = [text for text in texts(dtype) if not isinstance(harness.expected(dtype, text), Exception)]
    assert computed
    wrong = listed({text: wrong_value(dtype, text, engine) for text in computed})
    assert not wrong, wrong


def wrong_value(dtype: str, text: str, engine: str) -> str:
    """Return how a result of an engine differs from NumPy; "" if it does not, or as EXCUSES lists."""
    got = harness.results(dtype, engine).get(text)
    if isinstance(got, Exception):
        return repr(got)
    if got is None:
        return "the expression was not traced"
    want: Any = harness.expected(dtype, text)
    excused = (engine, dtype, text) in EXCUSES
    try:
        assert_same(got, want)
    except AssertionError as error:
        return "" if excused else str(error)
    return "it matches, and needs no excuse" if excused else ""


def test_every_function_with_a_rule_has_an_expression() -> None:
    from anylayer.folders import load_all
    from anylayer.tracing.dispatch import FUNCTIONS

    load_all("tracing/rules")
    texts = " ".join(t for _, t in cases())
    unnamed = [
        f.__name__
        for f in FUNCTIONS
        if f.__name__ not in texts and f.__name__ not in _ELSEWHERE.split() and not f.__name__.startswith("unique")
    ]
    assert not unnamed, f"no expression for {sorted(unnamed)}"


_ELSEWHERE = """
amin matrix_norm array_str array2string array_repr iscomplexobj isrealobj common_type min_scalar_type nonzero
flatnonzero argwhere extract intersect1d union1d setdiff1d setxor1d trim_zeros bincount ix_ ones put_along_axis put
putmask place copyto fill_diagonal full array asarray asanyarray ascontiguousarray asfortranarray identity tri
linspace fromfunction empty empty_like fft ifft rfft irfft det solve
"""
"""Aliases, functions tested in other files of this folder, and functions without values to compare."""


def test_simplify_keeps_the_values_of_all_float_expressions() -> None:
    from anylayer.optimize.simplify import simplify

    arrays = list(harness.inputs("f4").values())
    texts = [t for d, t in cases() if d == "f4" and isinstance(harness.traced(d, t), Graph)]
    whole = Graph()
    given = [whole.input(n, a.shape, a.dtype) for n, a in zip(harness.NAMES, arrays)]
    whole.outputs = [whole.inline(harness.traced("f4", t), given)[0] for t in texts]
    simple = simplify(whole, exact=True)
    assert len(simple.ops) < len(whole.ops)
    got = harness.run_graph(simple, arrays, "onnxruntime")
    for text, value in zip(texts, got):
        np.testing.assert_array_equal(value, harness.results("f4", "onnxruntime")[text], err_msg=text)


def test_rule_is_found_without_loading_all_files() -> None:
    code = (
        "import sys, numpy as np\nfrom anylayer.tracing.dispatch import FUNCTIONS, UFUNCS\n"
        "assert FUNCTIONS.find(np.median) and UFUNCS.find(np.matmul) and UFUNCS.find(np.exp)\n"
        "print(*sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('anylayer.tracing.rules.')))\n"
        "assert FUNCTIONS.find(np.zeros) and FUNCTIONS.find(np.linalg.svd) is None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "concatenation linear sorting ufuncs\n"
