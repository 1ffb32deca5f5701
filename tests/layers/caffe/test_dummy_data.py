"""DummyData."""

from pathlib import Path

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.network import TensorType
from tests.layers.harness import case, rejects
from tests.readers.files import read_net

test_shape = case(
    "DummyData",
    {"shape": {"dim": [1, 2]}, "data_filler": {"type": "constant", "value": 3.0}},
    outputs=[[[3, 3]]],
)
test_two_outputs = case(
    "DummyData",
    {"shape": [{"dim": 1}, {"dim": [2, 1]}], "data_filler": [{"value": 1.0}, {"value": 2.0}]},
    outputs=[[1], [[2], [2]]],
)
test_older_spelling = case(
    "DummyData",
    {"num": [1, 2], "channels": 3, "height": 1, "width": 1},
    outputs=[np.zeros((1, 3, 1, 1)), np.zeros((2, 3, 1, 1))],
)
test_rejects_random_filler = rejects(
    "DummyData",
    {"shape": {"dim": 2}, "data_filler": {"type": "gaussian"}},
    text="data_filler 0 of type 'gaussian' draws random values",
)
test_rejects_two_shapes_for_three_outputs = rejects(
    "DummyData",
    {"shape": [{"dim": 1}, {"dim": 1}]},
    tops=3,
    text="shape must be given once, or once for each of the 3 outputs, got 2",
)
test_rejects_shape_and_num_together = rejects(
    "DummyData", {"shape": {"dim": 1}, "num": 1}, text="give shape, or num, channels, height and width, not both"
)
test_rejects_negative_dimension = rejects(
    "DummyData", {"shape": {"dim": -1}}, text="dimensions must be 0 or more, got (-1,)"
)


def test_sophgo_makes_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "layer { name: 'd' type: 'DummyData' top: 'd' "
        "dummy_data_param { shape { dim: 2 } data_filler { value: 1 } } }"
    )
    network = read_net(text + "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }", dialect="sophgo")
    assert network.inputs == {"d": TensorType.of((2,))}
    assert [node.type for node in network.nodes] == ["ReLU"]
    with pytest.raises(LayerError, match="give shape: num, channels, height and width make empty arrays"):
        read_net(text.replace("shape { dim: 2 }", "num: 1 channels: 1 height: 1 width: 1"), dialect="sophgo")
