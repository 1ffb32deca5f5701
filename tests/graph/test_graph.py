"""Graphs: equal constants and operators, inlining, simplification, comparison."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from anylayer.graph import Graph
from anylayer.network import TensorType
from anylayer.optimize.rules import RULES
from anylayer.optimize.simplify import simplify
from anylayer.testing import run_graph
from anylayer.tracing import compare, record, record_many, trace

T = TensorType.of((2, 3, 4))
X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)


def of(function: Any, *types: TensorType, **kwargs: Any) -> Graph:
    return trace(lambda arrays: [function(*arrays)], types or [T], **kwargs)


def test_equal_operators_and_constants_are_entered_once() -> None:
    graph = of(lambda x: (x * np.float32(2) + 1) - (x * np.array(2, np.float32) + 1.0))
    assert [o.op for o in graph.ops] == ["Mul", "Add", "Sub"]
    large = np.arange(5000, dtype=np.float32)
    large.flags.writeable = False
    graph = of(lambda x: (x + large) * large[:], TensorType.of((5000,)))
    assert graph.ops[0].inputs[1] is graph.ops[1].inputs[1]
    assert graph.ops[0].inputs[1].const is large  # shared, not copied


def test_operators_have_place_of_users_line() -> None:
    def forward(x: Any) -> Any:
        y = np.arctan2(x, 2)
        return np.einsum("abc,abd->acd", y, x)

    first = forward.__code__.co_firstlineno
    graph = of(forward)
    assert {o.place for o in graph.ops} == {f"test_graph.py:{first + 1}", f"test_graph.py:{first + 2}"}


def test_names_begin_with_prefix() -> None:
    graph = of(lambda x: np.exp(x) + np.float32(1), prefix="conv1/", scope="conv1")
    names = [v.name for o in graph.ops for v in [*o.inputs, *o.outputs] if v is not None]
    assert all(n.startswith("conv1/") for n in names) and len(set(names)) == 4
    assert {o.scope for o in graph.ops} == {"conv1"}


def test_operators_without_uses_are_removed() -> None:
    def forward(x: Any) -> Any:
        np.exp(x).sum()
        return x * np.float32(2)

    assert [o.op for o in of(forward).ops] == ["Mul"]


def test_inlined_graph_computes_the_same() -> None:
    weights = np.random.default_rng(0).standard_normal((4, 5000)).astype(np.float32)
    weights.flags.writeable = False
    a = of(lambda x: (x @ weights) * np.float32(2), prefix="a/")
    b = of(lambda x, y: (x @ weights + y) * np.float32(2), T, TensorType.of((2, 3, 5000)), prefix="b/")
    whole = Graph()
    x = whole.input("data", (2, 3, 4), np.dtype(np.float32))
    (mid,) = whole.inline(a, [x], "a")
    whole.outputs = whole.inline(b, [x, mid], "b")
    assert [o.op for o in whole.ops] == ["MatMul", "Mul", "Add", "Mul"]  # MatMul is shared
    assert [o.scope for o in whole.ops] == ["a", "a", "b", "b"]
    assert whole.ops[0].place == a.ops[0].place
    assert mid.name == a.outputs[0].name
    assert whole.ops[1].inputs[1] is whole.ops[3].inputs[1]
    want = (X @ weights + (X @ weights) * 2) * 2
    np.testing.assert_allclose(run_graph(whole, [X], "onnxruntime")[0], want, rtol=1e-4, atol=1e-4)


def test_inline_twice_gives_different_names() -> None:
    body = of(lambda x: np.exp(x), prefix="body/")
    whole = Graph()
    x = whole.input("data", (2, 3, 4), np.dtype(np.float32))
    for _ in range(3):
        (x,) = whole.inline(body, [x])
    names = [o.outputs[0].name for o in whole.ops]
    assert len(set(names)) == 3
    whole.outputs = [x]
    np.testing.assert_allclose(run_graph(whole, [X * 0], "onnxruntime")[0][0, 0, 0], np.exp(np.exp(1)), rtol=1e-6)


def test_inline_of_inputs_and_constants_as_outputs() -> None:
    body = trace(lambda arrays: [arrays[0], np.arange(3), arrays[0].reshape(2, 3, 4)], [T])
    whole = Graph()
    x = whole.input("data", (2, 3, 4), np.dtype(np.float32))
    a, b, c = whole.inline(body, [x])
    assert a is x and c is x and b.const is not None and b.const.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "1 inputs are needed, got 0"),
        ([((2, 3), "f4")], r"input_0: float32\[2, 3, 4\] is needed, got x0: float32\[2, 3\]"),
        ([((2, 3, 4), "i8")], r"input_0: float32\[2, 3, 4\] is needed, got x0: int64\[2, 3, 4\]"),
    ],
)
def test_inline_refuses_other_inputs(inputs: Any, text: str) -> None:
    whole = Graph()
    given = [whole.input(f"x{i}", s, np.dtype(d)) for i, (s, d) in enumerate(inputs)]
    with pytest.raises(ValueError, match=text):
        whole.inline(of(lambda x: x + 1), given)


def test_compare_names_the_first_difference_of_two_graphs() -> None:
    a = of(lambda x: np.exp(x) + np.float32(1))
    assert compare(a, of(lambda x: np.exp(x) + np.float32(1), prefix="other/")) is None
    for other, text in (
        (lambda x: np.exp(x) + np.float32(2), "Add reads different values"),
        (lambda x: np.exp(x) - np.float32(1), "Add and Sub differ"),
        (lambda x: np.exp(x), "the first records 2 operators, the second 1"),
        (lambda x: np.exp(x) + x, "Add reads different values"),
    ):
        difference = compare(a, of(other))
        assert difference is not None and text in difference[0]
        assert difference[1] == "" or re.match(r"test_graph\.py:\d+", difference[1])


def test_graph_is_printed_with_types_and_operators() -> None:
    text = str(of(lambda x: np.exp(x)))
    assert text.splitlines()[1].strip().startswith("exp_1: float32[2, 3, 4] = Exp(input_0)")


def test_record_many_returns_all_outputs_of_an_operator() -> None:
    def forward(x: Any) -> Any:
        values, _ = record_many("TopK", [x, np.array([2])], [((2, 3, 2), "f4"), ((2, 3, 2), "i8")], axis=2)
        return record("Relu", [values], values.shape, values.dtype)

    got = run_graph(of(forward), [X], "onnxruntime")[0]
    np.testing.assert_array_equal(got, np.maximum(-np.sort(-X, 2)[..., :2], 0))


# ------------------------------------------------------------------ simplifying


def _raw(build: Any) -> Graph:
    """Return the graph that `build` emits, without tracing."""
    graph = Graph()
    x = graph.input("x", (2, 3, 4), np.dtype(np.float32))

    def emit(op: str, inputs: Any, shape: Any, dtype: Any = np.float32, **attrs: Any) -> Any:
        values = [v if not isinstance(v, (list, np.ndarray)) else graph.constant(np.array(v)) for v in inputs]
        return graph.emit(op, values, [(shape, dtype)], attrs, place="")[0]

    graph.outputs = [build(emit, x)]
    return graph


SIMPLE: list[tuple[str, Any, list[str]]] = [
    ("identity", lambda e, x: e("Exp", [e("Identity", [x], (2, 3, 4))], (2, 3, 4)), ["Exp"]),
    ("cast to the same", lambda e, x: e("Exp", [e("Cast", [x], (2, 3, 4), to=1)], (2, 3, 4)), ["Exp"]),
    (
        "cast there and back",
        lambda e, x: e("Cast", [e("Cast", [x], (2, 3, 4), "f8", to=11)], (2, 3, 4), to=1),
        [],
    ),
    (
        "narrowing casts stay",
        lambda e, x: e("Cast", [e("Cast", [x], (2, 3, 4), "i4", to=6)], (2, 3, 4), to=1),
        ["Cast", "Cast"],
    ),
    (
        "reshapes in a row",
        lambda e, x: e("Reshape", [e("Reshape", [x, [6, 4]], (6, 4)), [24]], (24,)),
        ["Reshape"],
    ),
    ("reshapes undone", lambda e, x: e("Reshape", [e("Reshape", [x, [24]], (24,)), [2, 3, 4]], (2, 3, 4)), []),
    (
        "transposes undone",
        lambda e, x: e("Transpose", [e("Transpose", [x], (4, 2, 3), perm=[2, 0, 1])], (2, 3, 4), perm=[1, 2, 0]),
        [],
    ),
    (
        "transposes in a row",
        lambda e, x: e("Transpose", [e("Transpose", [x], (4, 2, 3), perm=[2, 0, 1])], (2, 4, 3), perm=[1, 0, 2]),
        ["Transpose"],
    ),
    (
        "a transpose of ones is a reshape",
        lambda e, x: e("Transpose", [e("Reshape", [x, [2, 1, 12]], (2, 1, 12))], (2, 12, 1), perm=[0, 2, 1]),
        ["Reshape"],
    ),
    ("expand to the same", lambda e, x: e("Expand", [x, [2, 3, 4]], (2, 3, 4)), []),
    (
        "joins of joins",
        lambda e, x: e("Concat", [e("Concat", [x, x], (2, 6, 4), axis=1), x], (2, 9, 4), axis=1),
        ["Concat"],
    ),
    (
        "a slice of what was joined",
        lambda e, x: e(
            "Slice",
            [e("Concat", [e("Exp", [x], (2, 3, 4)), x], (2, 6, 4), axis=1), [3], [6], [1], [1]],
            (2, 3, 4),
        ),
        [],
    ),
    ("dead code", lambda e, x: (e("Exp", [x], (2, 3, 4)), x)[1], []),
]


@pytest.mark.parametrize(("build", "ops"), [s[1:] for s in SIMPLE], ids=[s[0] for s in SIMPLE])
def test_exact_rules_simplify_the_graph(build: Any, ops: list[str]) -> None:
    graph = _raw(build)
    before = [o.op for o in graph.ops]
    simple = simplify(graph, exact=True)
    assert [o.op for o in simple.ops] == ops
    assert [o.op for o in graph.ops] == before  # the given graph stays
    assert [(v.shape, v.dtype) for v in simple.outputs] == [(v.shape, v.dtype) for v in graph.outputs]
    np.testing.assert_array_equal(
        run_graph(simple, [X], "onnxruntime")[0], run_graph(graph, [X], "onnxruntime")[0]
    )


def test_rules_for_some_engines_have_a_figure() -> None:
    assert all(r.figure for r in RULES if r.kind == "faster" or (r.kind == "exact" and r.targets))


def test_rule_for_one_engine_is_not_applied_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.optimize.rules import Rule

    rule = Rule(
        ("Exp",), lambda new, o: new.emit(o, "Relu", o.inputs), "faster", frozenset(["onnxruntime"]), "faster"
    )
    monkeypatch.setattr("anylayer.optimize.simplify.RULES", [*RULES, rule])
    graph = of(lambda x: np.exp(x))
    assert [o.op for o in simplify(graph, "onnxruntime").ops] == ["Relu"]
    assert [o.op for o in simplify(graph, "onnxruntime", exact=True).ops] == ["Exp"]
    assert [o.op for o in simplify(graph, "openvino").ops] == ["Exp"]
    assert [o.op for o in simplify(graph).ops] == ["Exp"]
