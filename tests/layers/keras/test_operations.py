"""Tests of the calls of keras.ops. tests/readers/keras/test_models.py compares their results with Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
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


def test_number_as_first_argument() -> None:
    assert value(called("ops.Subtract", 1.0, {"input": 0})) == [[1, 0, -1], [-2, -3, -4]]


def test_arguments_from_the_configuration() -> None:
    assert value(called("ops.Sum", {"input": 0}, config={"name": "sum_3", "axis": [1], "keepdims": True})) == [
        [3],
        [12],
    ]


def test_get_item_takes_slices_and_indices() -> None:
    key = [
        {"class_name": "__ellipsis__", "config": {}},
        {"class_name": "__slice__", "config": {"start": 1, "stop": None}},
    ]
    assert value(called("ops.GetItem", {"input": 0}, key)) == [[1, 2], [4, 5]]
    assert value(called("ops.GetItem", {"input": 0}, 1)) == [3, 4, 5]


def test_attention_hides_masked_and_later_steps() -> None:
    x = ramp(1, 2, 1, 3)
    refs = [{"input": i} for i in range(3)]
    call = {"args": refs, "kwargs": {"is_causal": True}}
    case = KerasCase("ops.DotProductAttention", {"config": {}, "call": call}, [x, x, x], format="keras")
    assert case.bind()([x, x, x])[0][0, 0, 0].tolist() == [0, 1, 2]
    call = {"args": refs, "kwargs": {"mask": {"input": 3}, "scale": 0.5}}
    mask = np.array([[False, True], [True, False]])
    case = KerasCase("ops.DotProductAttention", {"config": {}, "call": call}, [x, x, x, mask], format="keras")
    assert case.bind()([x, x, x, mask])[0].tolist() == x[:, ::-1].tolist()


def test_float64_becomes_float32() -> None:
    assert called("ops.Divide", {"input": 0}, 2).bind()([X.astype("i4")])[0].dtype == "float32"


def refused(text: str, kind: str, config: dict[str, Any]) -> Any:
    return rejects(kind, config, inputs=[X], text=text, format="keras")


test_rejects_unknown_argument = refused("has no argument 'axes'; did you mean 'axis'?", "ops.Sum", {"axes": 1})
test_rejects_missing_argument = refused("does not take these arguments (", "ops.Clip", {})
test_rejects_unknown_dtype = refused("dtype must be one of float32, ", "ops.Cast", {"dtype": "complex64"})
test_rejects_order_of_norm = refused(
    "order must be an integer of 1 or more, got 0.5", "ops.Normalize", {"order": 0.5}
)
test_rejects_part_outside_the_array = refused(
    "start_indices=[1] and sizes [2] do not fit into the shape (2, 3)",
    "ops.Slice",
    {"start_indices": [1], "shape": [2]},
)
test_rejects_quantile_that_is_not_interpolated = refused(
    "method must be linear, got 'lower'", "ops.Quantile", {"q": 0.5, "method": "lower"}
)
test_rejects_image_with_an_unknown_border = rejects(
    "ops.PadImages",
    {"top_padding": 1},
    inputs=[ramp(2, 3, 1)],
    text="two of the two borders and the target size must be given",
    format="keras",
)


def test_index_outside_the_classes_is_encoded_as_zeros() -> None:
    ids = np.array([[1, -1], [5, 2]], np.int32)
    for kind, want in (
        ("OneHot", [[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]]),
        ("MultiHot", [[0, 1, 0], [0, 0, 1]]),
    ):
        made = KerasCase(
            f"ops.{kind}", {"config": {"num_classes": 3}}, [ids], [np.array(want, "f4")], format="keras"
        )
        made.run()


def test_numpy_errors_are_reworded() -> None:
    case = called("ops.Add", {"input": 0}, [[1.0, 2.0]])
    with pytest.raises(
        LayerError, match=r"does not take inputs of shape \(2, 3\): they do not broadcast together$"
    ):
        case.bind()([X])
    case = called("ops.Reshape", {"input": 0}, config={"newshape": [4]})
    rule = r"does not take inputs of shape \(2, 3\): they cannot be reshaped to the shape of the output$"
    with pytest.raises(LayerError, match=rule):
        case.bind()([X])
