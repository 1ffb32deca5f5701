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
    "BIDIRECTIONAL_SEQUENCE_RNN",
)  # fmt: skip


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    case = next(c for name, c in recorded().items() if name.startswith("UNIDIRECTIONAL_SEQUENCE_RNN"))
    node = anylayer.read(case.save(tmp_path)).network.nodes[-1]
    x = np.zeros((2, 3, 4), np.float32)
    node.settings["steps"] = [[None] * len(node.inputs), [None], []]
    with pytest.raises(LayerError, match="quantized recurrent operators are not supported"):
        bind(node, Registry.of("tflite").find(node.type), [TensorType.of(x.shape)] * len(node.inputs))(
            [x] * len(node.inputs)
        )
