"""Calls of TensorFlow in models of Keras 2; their numbers are held in tests/readers/keras/test_models.py."""

from __future__ import annotations

from typing import Any

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import KerasCase

X = ramp(2, 3)


def value(kind: str, **kwargs: Any) -> Any:
    params = {"config": {"function": kind[3:]}, "call": {"args": [{"input": 0}], "kwargs": kwargs}}
    return KerasCase(kind, params, [X], format="keras").bind()([X])[0].tolist()


def test_swapped_operands() -> None:
    assert value("tf.__operators__.rsub", x=1.0) == [[1, 0, -1], [-2, -3, -4]]


def test_slices() -> None:
    rows = {"start": None, "stop": None, "step": None}
    assert value("tf.__operators__.getitem", slice_spec=[rows, 1]) == [1, 4]


def test_sizes_of_parts() -> None:
    assert value("tf.split", num_or_size_splits=[-1, 1], axis=1) == [[0, 1], [3, 4]]


test_parts = rejects(
    "tf.split",
    {"num_or_size_splits": 2, "axis": 1},
    inputs=[X],
    text="2 parts do not divide 3 cells",
    format="keras",
)
