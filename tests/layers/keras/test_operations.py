"""Calls of keras.ops. What they compute is held against Keras in tests/readers/keras/test_models.py."""

from __future__ import annotations

from typing import Any

import pytest

from anylayer.errors import LayerError
from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import KerasCase

X = ramp(2, 3)


def called(kind: str, *args: Any, config: dict[str, Any] | None = None, **kwargs: Any) -> KerasCase:
    return KerasCase(
        kind, {"config": config or {}, "call": {"args": list(args), "kwargs": kwargs}}, [X], format="keras"
    )


def value(case: KerasCase) -> Any:
    return case.bind()([X])[0].tolist()


def test_a_number_before_the_input() -> None:
    assert value(called("ops.Subtract", 1.0, {"input": 0})) == [[1, 0, -1], [-2, -3, -4]]


def test_arguments_of_the_configuration() -> None:
    assert value(called("ops.Sum", {"input": 0}, config={"name": "sum_3", "axis": [1], "keepdims": True})) == [
        [3],
        [12],
    ]


def test_slices() -> None:
    key = [
        {"class_name": "__ellipsis__", "config": {}},
        {"class_name": "__slice__", "config": {"start": 1, "stop": None}},
    ]
    assert value(called("ops.GetItem", {"input": 0}, key)) == [[1, 2], [4, 5]]
    assert value(called("ops.GetItem", {"input": 0}, 1)) == [3, 4, 5]


def test_float64_becomes_float32() -> None:
    assert called("ops.Divide", {"input": 0}, 2).bind()([X.astype("i4")])[0].dtype == "float32"


def refused(text: str, kind: str, config: dict[str, Any]) -> Any:
    return rejects(kind, config, inputs=[X], text=text, format="keras")


test_unknown_argument = refused("has no argument 'axes'; did you mean 'axis'?", "ops.Sum", {"axes": 1})
test_missing_argument = refused("does not take these arguments (", "ops.Clip", {})
test_dtype = refused("dtype 'complex64' is none of float32, ", "ops.Cast", {"dtype": "complex64"})
test_order = refused("order=1 is not supported, 2 is", "ops.Normalize", {"order": 1})


def test_numpys_words_become_a_rule() -> None:
    case = called("ops.Add", {"input": 0}, [[1.0, 2.0]])
    with pytest.raises(
        LayerError, match=r"does not take inputs of shape \(2, 3\): they do not broadcast together$"
    ):
        case.bind()([X])
    case = called("ops.Reshape", {"input": 0}, config={"newshape": [4]})
    rule = (
        r"does not take inputs of shape \(2, 3\): their elements do not fit into the shape that the layer gives$"
    )
    with pytest.raises(LayerError, match=rule):
        case.bind()([X])
