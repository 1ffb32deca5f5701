"""Tests of TFLite's recurrent operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.layer import Registry, TensorType, bind

from .recorded import as_recorded, recorded

test_operators_match_the_recorded_results = as_recorded(
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "RNN", "SVDF",
)  # fmt: skip


def test_state_of_a_run_is_the_input_of_the_next(tmp_path: Path) -> None:
    case, first = recorded()["READ_VARIABLE later"], recorded()["READ_VARIABLE first"]
    model = anylayer.read(case.save(tmp_path)).compile("numpy")
    x, state = first.inputs["in0"], {}
    for run in range(3):  # as make_states.py runs it
        results = model({"in0": np.roll(x, run), **state})
        state = {"state": results["state/next"]}
    np.testing.assert_allclose(results["out0"], case.outputs["out0"], 1e-6)


def test_quantized_inputs_are_refused(tmp_path: Path) -> None:
    case = next(c for name, c in recorded().items() if name.startswith("UNIDIRECTIONAL_SEQUENCE_RNN"))
    node = anylayer.read(case.save(tmp_path)).network.nodes[-1]
    x = np.zeros((2, 3, 4), np.float32)
    node.settings["steps"] = [[(np.float32(1), np.int8(0), 0), *[None] * (len(node.inputs) - 1)], [None], []]
    with pytest.raises(LayerError, match=r"only an LSTM over sequences .* may have a quantized input"):
        bind(node, Registry.of("tflite").find(node.type), [TensorType.of(x.shape)] * len(node.inputs))(
            [x] * len(node.inputs)
        )
