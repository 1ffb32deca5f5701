"""Tests of the calls of TensorFlow in models of Keras 2. tests/readers/keras/test_models.py compares results."""

from __future__ import annotations

from typing import Any

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import KerasCase

X = ramp(2, 3)


def value(kind: str, **kwargs: Any) -> Any:
    params = {"config": {"function": kind[3:]}, "call": {"args": [{"input": 0}], "kwargs": kwargs}}
    return KerasCase(kind, params, [X], format="keras").bind()([X])[0].tolist()


def test_rsub_swaps_operands() -> None:
    assert value("tf.__operators__.rsub", x=1.0) == [[1, 0, -1], [-2, -3, -4]]


def test_getitem_takes_slices_and_indices() -> None:
    rows = {"start": None, "stop": None, "step": None}
    assert value("tf.__operators__.getitem", slice_spec=[rows, 1]) == [1, 4]


def test_split_takes_sizes() -> None:
    assert value("tf.split", num_or_size_splits=[-1, 1], axis=1) == [[0, 1], [3, 4]]


test_split_rejects_indivisible_axis = rejects(
    "tf.split",
    {"num_or_size_splits": 2, "axis": 1},
    inputs=[X],
    text="num_or_size_splits=2 does not divide axis 1 of size 3",
    format="keras",
)


def test_softmax_without_an_axis_takes_the_last() -> None:
    assert value("tf.nn.softmax", axis=None) == value("tf.nn.softmax", axis=-1)
    assert value("tf.nn.log_softmax", axis=None) == value("tf.nn.log_softmax", axis=-1)
