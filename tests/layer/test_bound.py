"""Binding a node to its class: dialects, OpenCV's contract, weights."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from anylayer.errors import DialectError, LayerError
from anylayer.layer import Definition, Layer, bind, field
from anylayer.layer.opencv import opencv_params
from anylayer.network import Flag, Node, TensorType, Word

X = np.arange(6, dtype=np.float32).reshape(1, 6)
TYPE = TensorType.of((1, 6))


class Doubled(Layer):
    """Multiply values."""

    message = "some_param"
    scale: float = field(1, "float", 2.0)

    def forward(self, x: Any) -> Any:
        return x * np.float32(self.scale)


class Grown(Layer):
    """Repeat values."""

    message = "some_param"
    scale: int = field(1, "int32", 1)
    extra: int = field(2, "int32", 0)

    def forward(self, x: Any) -> Any:
        return np.repeat(x, self.scale, axis=1)


class Constant:
    """The values of a weight without a file."""

    def fill(self, shape: tuple[int, ...]) -> Any:
        return np.full(shape, 1.5, np.float32)


class Weighted(Layer):
    """Add a weight."""

    def forward(self, x: Any) -> Any:
        return x + self.blob(0, (6,), Constant(), what="bias")


BOTH = [Definition("Some", Doubled, "built-in", ("one",)), Definition("Some", Grown, "built-in", ("two",))]


def node(params: dict[str, Any] | None = None, **kwargs: Any) -> Node:
    return Node("n", "Some", ["x"], ["y"], params or {}, place="f.prototxt:3: layer 'n' (Some)", **kwargs)


def run(definitions: Any, n: Node, dialect: str | None = None, dtype: Any = None) -> np.ndarray:
    return bind(n, definitions, [TYPE], dialect, dtype)([X])[0]


def test_dialect_decides_between_classes() -> None:
    params = {"some_param": {"scale": 3}}
    assert run(BOTH, node(params), "one").shape == (1, 6)
    assert run(BOTH, node(params), "two").shape == (1, 18)


def test_fields_decide_between_classes() -> None:
    assert run(BOTH, node({"some_param": {"scale": 2, "extra": 1}})).shape == (1, 12)


def test_ambiguous_class_is_refused_with_the_candidates() -> None:
    text = "f.prototxt:3: layer 'n' (Some): 'Some' can mean 2 things, give dialect=...: one: Multiply values;"
    with pytest.raises(DialectError, match=re.escape(text)):
        run(BOTH, node({"some_param": {"scale": 3}}))


def test_field_that_no_class_declares_is_refused_by_name() -> None:
    misspelt = node({"some_param": {"extr": 3}}, lines={"some_param.extr": 5})
    rule = "layer 'n' (Some): some_param has no field 'extr' (line 5); did you mean 'extra'?"
    with pytest.raises(LayerError, match=re.escape(rule)):
        run(BOTH, misspelt)
    with pytest.raises(LayerError, match=r"some_param has no field 'weight'; it has: scale, extra$"):
        run(BOTH, node({"some_param": {"weight": 3}}))


def test_fields_that_fit_no_single_class_are_refused_with_the_candidates() -> None:
    class Other(Doubled):
        """Add values."""

        only: int = field(2, "int32", 0)

    found = [*BOTH, Definition("Some", Other, "built-in", ("three",))]
    with pytest.raises(
        DialectError, match=r"'Some' fits none of 3 things, give dialect=[.]{3}: one: Multiply values"
    ):
        run(found, node({"some_param": {"extra": 3, "only": 1}}))


def test_weights_come_from_filler_or_file() -> None:
    one = [Definition("Some", Weighted, "built-in")]
    assert run(one, node())[0, 0] == 1.5
    assert run(one, node(blobs=[np.ones((1, 1, 1, 6), np.float32)]))[0, 0] == 1
    with pytest.raises(
        LayerError, match=re.escape("blob 0 (bias) has shape (5,) in the weights file, expected (6,)")
    ):
        run(one, node(blobs=[np.ones(5, np.float32)]))
    with pytest.raises(LayerError, match="the weights file has 2 blobs, expected 1"):
        run(one, node(blobs=[np.ones(6, np.float32)] * 2))


def test_opencv_params_are_flat_signed_and_complete() -> None:
    params = {
        "a_param": {
            "f": -0.5,
            "k": [1, 2, 3],
            "mode": Word("MAX"),
            "on": Flag(True),
            "filler": {"type": "x", "f": 9},
        },
        "b_param": {"f": 7},
    }
    flat = opencv_params(params)
    assert flat == {"f": -0.5, "k": (1, 2, 3), "mode": "MAX", "on": Flag(True), "type": "x"}
    assert type(flat["mode"]) is str
    assert flat["on"] == "true" and flat["on"] == 1 and flat["on"] != "false"


def contract(forward: Any, shapes: Any = None) -> list[Definition]:
    class User:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.params, self.blobs = params, blobs

    User.forward = forward
    if shapes is not None:
        User.getMemoryShapes = shapes
    return [Definition("Some", User, "user.py")]


def test_class_with_opencvs_contract_is_called() -> None:
    seen: list[Any] = []

    def shapes(self: Any, inputs: Any) -> Any:
        seen.append(inputs)
        return [inputs[0]]

    got = run(contract(lambda self, inputs: [inputs[0] * 2], shapes), node(blobs=[np.ones(3)]))
    assert np.array_equal(got, X * 2)
    assert seen == [[[1, 6]]]


@pytest.mark.parametrize(
    ("forward", "shapes", "text"),
    [
        (lambda self, i: i[0], None, "forward must return a list of arrays, got an array"),
        (lambda self, i: [i[0], i[0]], None, "forward returns 2 outputs, the node has 1"),
        (lambda self, i: [3], None, "output 0 of forward is a int, not an array"),
        (lambda self, i: i, lambda self, i: [1, 6], "getMemoryShapes must return a list of shapes, got [1, 6]"),
        (lambda self, i: i, lambda self, i: [], "getMemoryShapes returns 0 shapes, the node has 1 output"),
        (
            lambda self, i: i,
            lambda self, i: [[2, 6]],
            "output 0 has shape (1, 6), getMemoryShapes declares (2, 6)",
        ),
    ],
)
def test_mistakes_in_opencvs_contract_are_refused(forward: Any, shapes: Any, text: str) -> None:
    with pytest.raises(LayerError, match=re.escape("f.prototxt:3: layer 'n' (Some): " + text)):
        run(contract(forward, shapes), node())


@pytest.mark.parametrize("shapes", [None, lambda self: [[1, 6]]])
def test_method_with_another_signature_is_refused(shapes: Any) -> None:
    class Bare:
        def forward(self, inputs: Any) -> Any:
            return inputs

    found = contract(lambda self, i: i, shapes) if shapes else [Definition("Some", Bare, "user.py")]
    with pytest.raises(
        LayerError, match=r"raises TypeError: .*\. Its methods are __init__\(self, params, blobs\)"
    ):
        run(found, node())


def test_other_dtype_is_cast_with_a_note() -> None:
    bound = bind(node(), contract(lambda self, i: [i[0] * np.float64(2)]), [TYPE], None, np.dtype(np.float32))
    assert bound([X])[0].dtype == np.float32
    assert bound.notes == ["output 0 is float64, cast to float32: write .astype(np.float32)"]
