"""The text of a stub is valid Python for any text in a network's file."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer.cli.stubs import stub_file
from anylayer.network import Flag, Network, Node, TensorType, Word

TEXT = st.text(max_size=12) | st.sampled_from(
    ['"""', "\\", "'", "\n#", "class", "np", "forward", "1x", "\x85", "ａ"]
)
SCALAR = st.integers() | st.floats() | TEXT | TEXT.map(Word) | st.booleans().map(Flag)
FIELDS = st.dictionaries(TEXT, SCALAR | st.lists(SCALAR, min_size=2, max_size=3), max_size=4)
PARAMS = st.dictionaries(TEXT, FIELDS, max_size=2)


@st.composite
def networks(draw):
    """Draw a network and the rows of a report on it."""
    nodes, rows = [], []
    for i in range(draw(st.integers(1, 4))):
        blobs = [np.zeros((2, 3), np.float32)] if draw(st.booleans()) else []
        node = Node(draw(TEXT), draw(TEXT), draw(st.lists(TEXT, max_size=3)), [f"v{i}"], draw(PARAMS), blobs)
        kinds = [draw(st.sampled_from([None, TensorType((1, 2, 3))])) for _ in node.inputs]
        nodes.append(node)
        rows.append(SimpleNamespace(inputs=list(zip(node.inputs, kinds)), outputs=[(f"v{i}", None)]))
    return Network("n", "caffe", {}, nodes, {draw(TEXT): "v0"}, source=draw(TEXT)), rows


@settings(max_examples=150, deadline=None)
@given(networks(), TEXT)
def test_stub_is_python_with_class_and_test_per_type(made, command):
    network, rows = made
    types = list(dict.fromkeys(n.type for n in network.nodes))
    text = stub_file(network, rows, types, command)
    tree = ast.parse(text)
    kinds = [type(node).__name__ for node in tree.body]
    count = len(types)
    assert kinds == ["Expr", "Import", "Import", *["ClassDef"] * count, *["FunctionDef"] * count]
    names = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert len(set(names)) == 2 * count
    registered = [ast.literal_eval(c.decorator_list[0].args[0]) for c in tree.body if isinstance(c, ast.ClassDef)]
    assert registered == types
    for test in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        assert test.name.startswith("test_")


def test_params_missing_in_some_layers_are_optional():
    nodes = [
        Node("a", "T", [], ["a"], {"p": {"k": 1, "s": Word("MAX")}}),
        Node("b", "T", [], ["b"], {"p": {"k": 2}}),
    ]
    rows = [SimpleNamespace(inputs=[], outputs=[(n.name, None)]) for n in nodes]
    text = stub_file(Network("n", "caffe", {}, nodes, {}), rows, ["T"], "anylayer run n")
    assert 'self.k = params["k"]  # 1, 2\n' in text
    assert 'self.s = params.get("s")  # "MAX"; not in 1 of 2 layers\n' in text
