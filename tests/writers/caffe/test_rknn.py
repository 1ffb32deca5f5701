"""Networks for RKNN's Caffe reader. `make test-vendors` runs whole networks in its simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from tests.layers.harness import noise

HEAD = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } }\n'


def write(tmp_path: Path, layer: str) -> list[str]:
    """Write a network with one layer for RKNN, and return the types of the layers in the file."""
    (tmp_path / "in.prototxt").write_text(f'{HEAD}layer {{ name: "y" bottom: "x" top: "y" {layer} }}')
    net = anylayer.read(tmp_path / "in.prototxt", dialect="rknn").fill()
    net.write(tmp_path / "out.prototxt", dialect="rknn")
    written = anylayer.read(tmp_path / "out.prototxt", tmp_path / "out.caffemodel", dialect="rknn")
    return [node.type for node in written.network.nodes]


@pytest.mark.parametrize(
    "layer",
    [
        'type: "Pooling" pooling_param { pool: AVE kernel_size: 2 stride: 2 }',
        'type: "Pooling" pooling_param { pool: AVE global_pooling: true }',
        'type: "LRN" lrn_param { local_size: 3 }',
        'type: "Upsample" upsample_param { scale: 2 }',
        'type: "Permute" permute_param { order: 0 order: 2 order: 3 order: 1 }',
    ],
)
def test_layers_that_rknn_computes_are_written(tmp_path: Path, layer: str) -> None:
    assert f'type: "{write(tmp_path, layer)[0]}"' in layer


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ('type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 }', "AVE windows that reach beyond"),
        (
            'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 }',
            "AVE windows that reach beyond",
        ),
        ('type: "LRN" lrn_param { local_size: 3 k: 2 }', "k other than 1"),
        ('type: "Flatten" flatten_param { axis: 2 }', "ignores axis"),
        ('type: "Upsample" upsample_param { scale: 3 }', "a scale other than 2"),
        ('type: "InnerProduct" inner_product_param { num_output: 2 axis: 2 }', "another axis than 1"),
        ('type: "ELU"', "has no layer ELU"),
    ],
)
def test_layers_that_rknn_computes_differently_are_refused(tmp_path: Path, layer: str, reason: str) -> None:
    with pytest.raises(LayerError, match=reason):
        write(tmp_path, layer)


def test_clip_from_0_to_6_is_written_as_relu6(tmp_path: Path) -> None:
    x = noise(1, 3, 4, 5)
    anylayer.export(lambda x: np.clip(x, 0, 6), x, path=tmp_path / "n.prototxt", dialect="rknn")
    net = anylayer.read(tmp_path / "n.prototxt", dialect="rknn")
    assert [node.type for node in net.network.nodes] == ["ReLU6"]


@pytest.mark.parametrize("dialect", ["rknn", "sophgo"])
def test_a_layer_of_the_user_is_kept_with_a_note(tmp_path: Path, dialect: str) -> None:
    (tmp_path / "mine.py").write_text(
        "import anylayer\n\n\n@anylayer.layer('Mine')\nclass Mine:\n"
        "    def __init__(self, params, blobs):\n        pass\n\n"
        "    def forward(self, inputs):\n        return [inputs[0] * 2]\n"
    )
    (tmp_path / "in.prototxt").write_text(f'{HEAD}layer {{ name: "y" bottom: "x" top: "y" type: "Mine" }}')
    net = anylayer.read(tmp_path / "in.prototxt", layers=[tmp_path / "mine.py"])
    notes = net.write(tmp_path / "out.prototxt", dialect=dialect).notes
    assert notes == [f"'{dialect}' has no layer Mine: define it in the program that reads the file"]
