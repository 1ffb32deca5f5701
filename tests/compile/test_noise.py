"""Noise for networks whose inputs are more than numbers: regions, scores, indices, bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anylayer
from anylayer.compile.noise import noise
from anylayer.errors import LayerError
from anylayer.network import Array, Network, TensorType

MAP = 'input: "x" input_shape { dim: 2 dim: 8 dim: 14 dim: 20 }\n'
ROIS = 'input: "r" input_shape { dim: 40 dim: 5 }\n'
BINS = "pooled_h: 3 pooled_w: 3 spatial_scale: 0.0625"
POOLING = [
    ("ROIPooling", f"roi_pooling_param {{ {BINS} }}"),
    ("ROIAlign", f"roi_align_param {{ {BINS} sampling_ratio: 2 }}"),
    ("PSROIPooling", "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 2 }"),
]


def read(folder: Path, text: str) -> anylayer.Net:
    (folder / "n.prototxt").write_text(text)
    return anylayer.read(folder / "n.prototxt")


def drawn(net: anylayer.Net, seed: int = 0) -> dict[str, Array]:
    return noise(net.network, net.definitions, net.network.inputs, seed)


def test_noise_has_the_types_of_the_inputs_and_is_seeded() -> None:
    types: dict[str, Any] = {
        "x": TensorType((3, 4)),
        "i": TensorType.of((50,), np.int64),
        "u": TensorType.of((5000,), np.uint8),
        "s": TensorType.of((5000,), np.int8),
        "b": TensorType.of((2,), bool),
        "n": None,
    }
    network = Network("n", "caffe", types, [], {}, source="n")
    arrays, other = noise(network, {}, types, 1), noise(network, {}, types, 2)
    assert [(n, a.dtype.name, a.shape) for n, a in arrays.items()] == [
        ("x", "float32", (3, 4)),
        ("i", "int64", (50,)),
        ("u", "uint8", (5000,)),
        ("s", "int8", (5000,)),
        ("b", "bool", (2,)),
    ]
    assert set(arrays["i"].tolist()) == {0, 1}
    assert [arrays[n].min() for n in "us"] == [0, -128] and [arrays[n].max() for n in "us"] == [255, 127]
    assert all(np.array_equal(a, noise(network, {}, types, 1)[n]) for n, a in arrays.items())
    assert not np.array_equal(arrays["x"], other["x"])


@pytest.mark.parametrize(("type_", "params"), POOLING)
@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_regions_lie_in_the_pictures(tmp_path: Path, type_: str, params: str, suffix: str) -> None:
    net = read(
        tmp_path, f'{MAP}{ROIS}layer {{ name: "p" type: "{type_}" bottom: "x" bottom: "r" top: "p" {params} }}'
    )
    image, x1, y1, x2, y2 = drawn(net)["r"].T
    assert set(image.tolist()) == {0, 1}
    assert (x1 >= 0).all() and (x1 <= x2).all() and (x2 < 320).all() and x2.max() > 200
    assert (y1 >= 0).all() and (y1 <= y2).all() and (y2 < 224).all() and y2.max() > 140
    (check,) = net.write(tmp_path / f"n{suffix}").checks
    assert check.ok and check.spread is not None and check.spread > 1


def test_regions_suit_generated_code(tmp_path: Path) -> None:
    type_, params = POOLING[0]
    text = f'{MAP}{ROIS}layer {{ name: "p" type: "{type_}" bottom: "x" bottom: "r" top: "p" {params} }}'
    assert read(tmp_path, text).generate("pytorch", tmp_path / "code", test=False).files


def test_regions_of_a_wrong_shape_are_refused_by_their_layer(tmp_path: Path) -> None:
    text = MAP + ROIS.replace("dim: 5", "dim: 4")
    text += f'layer {{ name: "p" type: "ROIPooling" bottom: "x" bottom: "r" top: "p" {POOLING[0][1]} }}'
    net = read(tmp_path, text)
    assert drawn(net)["r"].shape == (40, 4)
    with pytest.raises(LayerError, match=r"rois must be of shape \(R, 5\), got \(40, 4\)"):
        net.write(tmp_path / "n.onnx")


def test_proposals_of_noise_are_regions_of_the_picture(tmp_path: Path) -> None:
    text = """
    input: "s" input_shape { dim: 1 dim: 6 dim: 10 dim: 12 }
    input: "d" input_shape { dim: 1 dim: 12 dim: 10 dim: 12 }
    input: "info" input_shape { dim: 1 dim: 3 }
    layer { name: "p" type: "Proposal" bottom: "s" bottom: "d" bottom: "info" top: "p" proposal_param {
      feat_stride: 16 base_size: 16 min_size: 4 ratio: 1 scale: 1 scale: 2 scale: 4 post_nms_topn: 20 } }
    """
    net = read(tmp_path, text)
    given = drawn(net)
    assert given["info"].tolist() == [[160, 192, 1]] and given["s"].min() >= 0 and given["s"].max() <= 1
    rois = net.compile("numpy")(given)["p"]
    assert len(rois) == 20 and np.ptp(rois[:, 1]) > 50


def test_detections_are_found_in_noise(tmp_path: Path) -> None:
    text = """
    input: "loc" input_shape { dim: 1 dim: 80 }
    input: "conf" input_shape { dim: 1 dim: 60 }
    input: "priors" input_shape { dim: 1 dim: 2 dim: 80 }
    layer { name: "d" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" top: "d"
      detection_output_param { num_classes: 3 confidence_threshold: 0.6 nms_param { nms_threshold: 0.5 } } }
    """
    net = read(tmp_path, text)
    found = net.compile("numpy")(drawn(net))["d"][0, 0]
    assert len(found) > 5 and (found[:, 2] > 0.6).all()


def model(path: Path, nodes: list[Any], table: Array | None = None) -> anylayer.Net:
    """Write an ONNX file that reads integers (2, 9) and returns float32."""
    weights = [] if table is None else [onnx.numpy_helper.from_array(table, "table")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT32, [2, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return anylayer.read(path)


def test_indices_of_a_table_cover_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["i"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["wide", "shape"], ["flat"]),
        helper.make_node("Gather", ["table", "flat"], ["y"]),
    ]
    nodes.insert(0, helper.make_node("Constant", [], ["shape"], value_ints=[-1]))
    net = model(tmp_path / "n.onnx", nodes, np.eye(200, 4, dtype=np.float32))
    found = drawn(net)["i"]
    assert found.dtype == np.int32 and 100 < found.max() < 200 and found.min() >= 0


def test_bytes_before_a_one_hot_cover_its_depth(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["depth"], value_int=257),
        helper.make_node("Constant", [], ["values"], value_floats=[0.0, 1.0]),
        helper.make_node("OneHot", ["i", "depth", "values"], ["y"]),
    ]
    assert 128 < drawn(model(tmp_path / "n.onnx", nodes))["i"].max() < 257


def test_caffe_embed_reads_rows_of_its_table(tmp_path: Path) -> None:
    text = """
    input: "i" input_shape { dim: 30 }
    layer { name: "e" type: "Embed" bottom: "i" top: "e"
      embed_param { num_output: 2 input_dim: 50 bias_term: false } }
    """
    found = drawn(read(tmp_path, text))["i"]
    assert (found == np.floor(found)).all() and found.min() >= 0 and 25 < found.max() < 50
