"""Offsets of Crop from the network's geometry, as in HED's fork of Caffe."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import LayerError

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 20 dim: 20 } } }\n'


def offsets(tmp_path: Path, text: str) -> list[list[int]]:
    (tmp_path / "n.prototxt").write_text(INPUT + text)
    net = anylayer.read(tmp_path / "n.prototxt", dialect="hed")
    return [n.params["crop_param"]["offset"] for n in net.network.nodes if n.type == "Crop"]


def layer(type_: str, bottoms: str, top: str, params: str = "") -> str:
    tops = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    return f'layer {{ name: "{top}" type: "{type_}" {tops} top: "{top}" {params} }}\n'


def test_crop_removes_the_padding_of_a_convolution(tmp_path: Path) -> None:
    """Padding 5 with kernel 3 adds 4 pixels on each side."""
    text = layer("Convolution", "x", "c", "convolution_param { num_output: 1 kernel_size: 3 pad: 5 }")
    text += layer("ReLU", "c", "r") + layer("Crop", "r x", "y")
    assert offsets(tmp_path, text) == [[4, 4]]


def test_crop_after_pooling_and_deconvolution(tmp_path: Path) -> None:
    """Pooling by 2 and a deconvolution with kernel 4 and stride 2 shift pixels by 1 in total."""
    text = layer("Pooling", "x", "p", "pooling_param { kernel_size: 2 stride: 2 }")
    text += layer("Deconvolution", "p", "d", "convolution_param { num_output: 1 kernel_size: 4 stride: 2 }")
    text += layer("Crop", "d x", "y")
    assert offsets(tmp_path, text) == [[1, 1]]


def test_written_offset_is_kept(tmp_path: Path) -> None:
    text = layer("Convolution", "x", "c", "convolution_param { num_output: 1 kernel_size: 3 pad: 5 }")
    text += layer("Crop", "c x", "y", "crop_param { axis: 2 offset: 7 }")
    (tmp_path / "n.prototxt").write_text(INPUT + text)
    net = anylayer.read(tmp_path / "n.prototxt", dialect="hed")
    assert net.network.nodes[-1].params["crop_param"]["offset"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            layer("Pooling", "x", "p", "pooling_param { kernel_size: 2 stride: 2 }") + layer("Crop", "p x", "y"),
            r"layer 'y' \(Crop\): its two inputs differ in scale by (2|0.5), so no offset aligns them",
        ),
        (
            layer("Convolution", "x", "c", "convolution_param { num_output: 1 kernel_size: 2 pad: 4 }")
            + layer("Crop", "c x", "y"),
            r"its two inputs are aligned by an offset of 3.5, expected an integer that is not negative",
        ),
        (
            layer("Softmax", "x", "s") + layer("Flatten", "s", "f") + layer("Crop", "f x", "y"),
            r"layer 'f' \(Flatten\) between its inputs does not map pixels to pixels",
        ),
    ],
)
def test_unalignable_inputs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        offsets(tmp_path, text)


@needs_data("models/hed")
def test_published_hed_network_has_the_known_offsets() -> None:
    net = anylayer.read(REFERENCE / "models" / "hed" / "deploy.prototxt", dialect="hed")
    found = [n.params["crop_param"]["offset"] for n in net.network.nodes if n.type == "Crop"]
    assert found == [[n, n] for n in (34, 35, 36, 38, 42)]
