"""Crop offsets from the network's geometry, as HED's fork takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import anylayer
from anylayer.errors import LayerError

from ...conformance.conftest import SHARED

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 20 dim: 20 } } }\n'


def offsets(tmp_path: Path, text: str) -> list[list[int]]:
    (tmp_path / "n.prototxt").write_text(INPUT + text)
    net = anylayer.read(tmp_path / "n.prototxt", dialect="hed")
    return [n.params["crop_param"]["offset"] for n in net.network.nodes if n.type == "Crop"]


def layer(type_: str, bottoms: str, top: str, params: str = "") -> str:
    tops = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    return f'layer {{ name: "{top}" type: "{type_}" {tops} top: "{top}" {params} }}\n'


def test_a_padded_convolution_undone_by_a_crop(tmp_path: Path) -> None:
    """Padding 5 with kernel 3 puts the map 4 pixels further out on each side."""
    text = layer("Convolution", "x", "c", "convolution_param { num_output: 1 kernel_size: 3 pad: 5 }")
    text += layer("ReLU", "c", "r") + layer("Crop", "r x", "y")
    assert offsets(tmp_path, text) == [[4, 4]]


def test_pooled_and_upsampled(tmp_path: Path) -> None:
    """Pooling by 2 puts pixel i at 2i + 0.5; a deconvolution k4 s2 at 2i - 1.5 + ... : together 1 pixel."""
    text = layer("Pooling", "x", "p", "pooling_param { kernel_size: 2 stride: 2 }")
    text += layer("Deconvolution", "p", "d", "convolution_param { num_output: 1 kernel_size: 4 stride: 2 }")
    text += layer("Crop", "d x", "y")
    assert offsets(tmp_path, text) == [[1, 1]]


def test_written_offsets_stay(tmp_path: Path) -> None:
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
def test_what_no_offset_aligns_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        offsets(tmp_path, text)


@pytest.mark.skipif(not (SHARED / "models").exists(), reason="../shared/models is absent")
def test_the_published_hed_network() -> None:
    net = anylayer.read(SHARED / "models" / "hed" / "deploy.prototxt", dialect="hed")
    found = [n.params["crop_param"]["offset"] for n in net.network.nodes if n.type == "Crop"]
    assert found == [[n, n] for n in (34, 35, 36, 38, 42)]
