"""The traits of operators: rules, corrections and verification ask one book."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.convert.nodes import has_jump
from anylayer.corrections.corrector import Corrector
from anylayer.graph import Graph, Op, operators
from anylayer.graph.operators import DISCONTINUOUS, UNARY, Trait, is_discontinuous
from anylayer.libraries.onnx import histories
from anylayer.network import Node
from anylayer.optimize.rules import Rewriter
from anylayer.source import TracedNode
from tests.readers.onnx.files import model, save, value

MORE: list[tuple[str, dict[str, Any], int]] = [
    ("Cast", {"to": 7}, 1),
    ("GridSample", {"mode": "nearest"}, 1),
    ("RoiAlign", {}, 1),
    ("MaxPool", {"kernel_shape": [1, 1]}, 2),
]


def after_a_sum(op: str, attrs: dict[str, Any], outputs: int, dtype: Any = np.float32) -> Graph:
    """Return the graph of an operator of x + c."""
    graph = Graph()
    x = graph.input("x", (2, 3), np.dtype(dtype))
    (y,) = graph.emit("Add", [x, graph.constant(np.ones((2, 3), dtype))], [((2, 3), np.dtype(dtype))])
    types = [((2, 3), np.dtype(np.int64) if op == "Cast" else np.dtype(dtype))] * outputs
    graph.outputs = graph.emit(op, [y], types, attrs)
    return graph


@pytest.mark.parametrize(("op", "attrs", "outputs"), [*((op, {}, 1) for op in sorted(DISCONTINUOUS)), *MORE])
def test_rules_corrections_and_verification_agree(op: str, attrs: dict[str, Any], outputs: int) -> None:
    graph = after_a_sum(op, attrs, outputs)
    total, last = graph.ops
    assert is_discontinuous(last)
    assert Rewriter(graph).feeds_step(total)
    assert total.outputs[0] in Corrector(graph, False).before_steps
    assert has_jump(TracedNode(Node("n", op, ["x"], ["y"], {}), body=graph))


@pytest.mark.parametrize(
    ("op", "attrs", "dtype"),
    [
        *(("Relu", {}, np.float32), ("MaxPool", {"kernel_shape": [1, 1]}, np.float32)),
        *(("GridSample", {"mode": "bilinear"}, np.float32), ("RoiAlign", {"sampling_ratio": 2}, np.float32)),
        *(("Equal", {}, np.int64), ("Mod", {}, np.int32)),
    ],
)
def test_continuous_operators_and_integers_are_not_steps(op: str, attrs: dict[str, Any], dtype: Any) -> None:
    graph = after_a_sum(op, attrs, 1, dtype)
    assert not is_discontinuous(graph.ops[1])
    assert not Rewriter(graph).feeds_step(graph.ops[0])


@pytest.mark.parametrize("op", ["Hardmax", "ArgMax"])
def test_selection_of_near_ties_matches_numpy(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each cell, two channels differ by the last bits of (x - a) / b * c."""
    monkeypatch.chdir(tmp_path)
    channels = np.arange(1, 97, dtype=np.float32).reshape(96, 1, 1)
    a, b, c = ((channels * np.float32(k)).astype(np.float32) for k in (0.013, 0.017, 0.7))
    x = np.random.default_rng(0).standard_normal((1, 96, 8, 8)).astype(np.float32)
    y = ((x - a) / b * c)[0]
    first = y.argmax(0)
    other = (first + 1) % 96
    rows, columns = np.indices((8, 8))
    x[0, other, rows, columns] = y.max(0) / c[other, 0, 0] * b[other, 0, 0] + a[other, 0, 0]
    steps = [("Sub", "x", "a", "u"), ("Div", "u", "b", "v"), ("Mul", "v", "c", "w")]
    nodes = [helper.make_node(kind, [left, right], [out]) for kind, left, right, out in steps]
    nodes.append(helper.make_node(op, ["w"], ["y"], axis=1))
    net = anylayer.read(save(model(nodes, [value("x", x.shape)], ["y"], {"a": a, "b": b, "c": c})))
    want = net.compile("numpy")({"x": x})["y"]
    np.testing.assert_array_equal(net.compile("onnxruntime")({"x": x})["y"], want)


@pytest.mark.parametrize(
    ("op", "attrs", "more"),
    [
        ("LeakyRelu", {"alpha": 0.5}, None),
        ("PRelu", {}, np.full((4, 1, 1), 0.5, np.float32)),
        ("Sum", {}, np.ones((4, 1, 1), np.float32)),
        ("Flatten", {}, None),
        ("DepthToSpace", {"blocksize": 2}, None),
        ("MaxPool", {"kernel_shape": [2, 2]}, None),
        ("Trilu", {}, None),
    ],
)
def test_openvino_divides_exactly_before_operators_that_keep_last_bits(
    op: str, attrs: dict[str, Any], more: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quotients are integers, so that an error in the last bit changes their floor."""
    monkeypatch.chdir(tmp_path)
    divisors = np.array([41, 47, 49, 55], np.float32).reshape(1, 4, 1, 1)
    x = np.random.default_rng(0).integers(1, 4000, (1, 4, 64, 64)).astype(np.float32) * divisors
    inputs, constants = ["u"], {"b": divisors}
    if more is not None:
        inputs, constants = ["u", "c"], {"b": divisors, "c": more}
    nodes = [helper.make_node("Div", ["x", "b"], ["u"]), helper.make_node(op, inputs, ["v"], **attrs)]
    nodes.append(helper.make_node("Floor", ["v"], ["y"]))
    net = anylayer.read(save(model(nodes, [value("x", x.shape)], ["y"], constants)))
    want = net.compile("numpy")({"x": x})["y"]
    np.testing.assert_array_equal(net.compile("openvino")({"x": x})["y"], want)


def test_traits_name_operators_of_onnx() -> None:
    names = {name for trait in vars(operators).values() if isinstance(trait, Trait) for name in trait}
    assert names - set(histories()) == set()
    assert len(names) > 120


def test_operator_of_another_domain_has_no_trait() -> None:
    assert Op("Relu", [], []) in UNARY
    assert Op("Relu", [], [], domain="mine") not in UNARY
    assert None not in UNARY


ROOMS_OF_TARGETS = {"corrections", "engines", "generators", "writers"}
"""Rooms whose lists say what a target supports. A constant there has a docstring that says it."""
BOOK = "graph/operators.py"


def constants(node: ast.AST) -> Iterator[str]:
    """Yield the strings of a tuple, list or set, and of those that it unpacks."""
    for element in getattr(node, "elts", []):
        if isinstance(element, ast.Starred):
            yield from constants(element.value)
        elif isinstance(element, ast.Constant) and isinstance(element.value, str):
            yield element.value


def listed(node: ast.AST) -> set[str]:
    """Return the operators that a literal lists: three or more, with at most one other name among every four."""
    names = {*constants(node)}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        names = {*node.value.split()}
    kinds = {name for name in names if name in histories()}
    return kinds if len(kinds) >= 3 and len(names - kinds) * 4 <= len(names) else set()


def is_mapped(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a literal is a part of a mapping from operators, or is unpacked into another literal."""
    while (node := parents.get(node, node)) in parents and not isinstance(node, ast.stmt):
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys"
        if is_call or isinstance(node, (ast.Dict, ast.DictComp, ast.Starred)):
            return True
    return False


def lists_of_operators(source: str, room: str) -> list[int]:
    """Return the lines of lists of operators that are neither mappings nor what a target supports."""
    if len(histories().keys() & re.findall(r"\w+", source)) < 3:
        return []
    tree = ast.parse(source)
    parents = {below: node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
    documented = {
        first.lineno
        for first, second in pairwise(tree.body)
        if isinstance(first, ast.Assign)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if not listed(node) or is_mapped(node, parents):
            continue
        statement = node
        while not isinstance(statement, ast.stmt):
            statement = parents[statement]
        is_constant = statement in tree.body and isinstance(statement, ast.Assign)
        if room not in ROOMS_OF_TARGETS or (is_constant and statement.lineno not in documented):
            found.append(statement.lineno)
    return found


def test_no_list_of_operators_outside_the_book() -> None:
    """What kind an operator is, the book says. Other lists say what a target supports, or map operators."""
    root = Path(anylayer.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).as_posix() != BOOK
        for line in lists_of_operators(path.read_text("utf-8"), path.relative_to(root).parts[0])
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "room", "found"),
    [
        ('KIND = ("Add", "Sub", "Mul")', "optimize", [1]),
        ('KIND = frozenset((*("Add", "Sub", "Mul"), *MORE))', "optimize", [1]),
        ('KIND = frozenset("Add Sub Mul".split())', "loops", [1]),
        ('if o.op in {"Add", "Sub", "Mul"}:\n    pass', "graph", [1]),
        ('KIND = ("Add", "Sub", "Mul")', "writers", [1]),
        ('KIND = ("Add", "Sub", "Mul")\n"""Operators that the format has."""', "writers", []),
        ('KIND = {"Add": 1, "Sub": 2, "Mul": 3}', "optimize", []),
        ('KIND = dict.fromkeys(("Add", "Sub", "Mul"), 1)', "optimize", []),
        ('KIND = ("Reshape", "Squeeze", "ExpandDims")', "readers", []),
        ('KIND = ("Add", "Sub", "Mul", "Inside")', "loops", [1]),
    ],
)
def test_list_of_operators_is_found(source: str, room: str, found: list[int]) -> None:
    assert lists_of_operators(source, room) == found
