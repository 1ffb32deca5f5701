"""caffe_pb2, caffe.draw and caffe.coord_map."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer.caffe as caffe
from anylayer.caffe import coord_map
from anylayer.caffe import layers as L
from anylayer.caffe import params as P
from anylayer.caffe.proto import caffe_pb2
from anylayer.errors import FileError, InputError

MODELS = REFERENCE / "models"


def parsed(text: str) -> Any:
    from google.protobuf import text_format

    return text_format.Merge(text, caffe_pb2.NetParameter())


def test_names_of_classes_are_read_from_a_label_map() -> None:
    from google.protobuf import text_format

    text = "item { name: 'none' display_name: 'background' label: 0 } item { display_name: 'cat' label: 7 }"
    names = text_format.Merge(text, caffe_pb2.LabelMap())
    assert {item.label: item.display_name for item in names.item} == {0: "background", 7: "cat"}


def test_phases_have_names_and_values() -> None:
    assert (caffe_pb2.Phase.Value("TEST"), caffe_pb2.Phase.Name(caffe_pb2.TRAIN)) == (1, "TRAIN")


def test_messages_have_the_defaults_and_enums_of_caffe() -> None:
    layer = caffe_pb2.LayerParameter()
    assert (layer.convolution_param.group, layer.lrn_param.local_size, layer.dropout_param.dropout_ratio) == (
        1,
        5,
        0.5,
    )
    assert layer.convolution_param.bias_term is True
    assert (caffe_pb2.PoolingParameter.MAX, caffe_pb2.PoolingParameter.AVE) == (0, 1)
    assert (caffe_pb2.TRAIN, caffe_pb2.TEST) == (0, 1)
    assert caffe_pb2.V1LayerParameter.CONVOLUTION == 4
    solver = caffe_pb2.SolverParameter(base_lr=0.5)
    assert (solver.solver_mode, solver.type, solver.iter_size) == (caffe_pb2.SolverParameter.GPU, "SGD", 1)
    with pytest.raises(AttributeError, match="caffe_pb2 has no message 'NoSuch': it has those of BVLC Caffe"):
        _ = caffe_pb2.NoSuch


def test_network_written_by_a_script_is_read_unchanged(tmp_path: Path) -> None:
    net = caffe_pb2.NetParameter(name="made")
    data = net.layer.add(name="data", type="Input", top=["data"])
    data.input_param.shape.add().dim.extend([1, 4])
    layer = net.layer.add(name="ip", type="InnerProduct", bottom=["data"], top=["ip"])
    layer.inner_product_param.num_output = 2
    (tmp_path / "net.prototxt").write_text(str(net))
    weights = net.__deepcopy__()
    for values in (np.arange(8).reshape(2, 4), [1, 2]):
        weights.layer[1].blobs.append(caffe.io.array_to_blobproto(np.array(values, np.float32)))
    (tmp_path / "net.caffemodel").write_bytes(weights.SerializeToString())
    found = caffe.Net(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", caffe.TEST, engine="onnxruntime")
    assert found.forward(data=np.ones((1, 4)))["ip"].tolist() == [[7, 24]]
    found.save(tmp_path / "again.caffemodel")
    again = caffe_pb2.NetParameter.FromString((tmp_path / "again.caffemodel").read_bytes())
    assert [list(blob.data) for blob in again.layer[1].blobs] == [list(range(8)), [1, 2]]


@needs_data("models")
def test_networks_of_bvlc_caffe_are_parsed() -> None:
    net = parsed((MODELS / "squeezenet_v1.1" / "deploy.prototxt").read_text())
    assert len(net.layer) > 60 and net.layer[-1].type == "Softmax"


NET = """name: "n\\"1" input: "data" layer { name: "c" type: "Convolution" bottom: "data" top: "c" }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" include { phase: TRAIN } }
layer { name: "l" type: "Accuracy" bottom: "c" top: "l" exclude { phase: TRAIN } }"""


def test_drawing_has_a_node_per_layer_and_blob() -> None:
    text = caffe.draw.draw_net(parsed(NET), "TB", "dot").decode()
    assert text.startswith('digraph "n\\"1" {\n  rankdir=TB;\n')
    assert 'layer0 [label="c\\n(Convolution)", shape=box' in text
    assert 'blob0 [label="data", shape=octagon' in text
    assert "blob0 -> layer0;" in text and "layer2 -> blob2;" in text
    for phase, wanted in ((caffe.TRAIN, ("ReLU", "Accuracy")), (caffe.TEST, ("Accuracy", "ReLU"))):
        found = caffe.draw.draw_net(parsed(NET), ext="dot", phase=phase).decode()
        assert f"({wanted[0]})" in found and f"({wanted[1]})" not in found
    with pytest.raises(InputError, match="rankdir must be one of LR, TB, BT, RL, got 'X'"):
        caffe.draw.draw_net(parsed(NET), "X")
    old = parsed('layers { name: "c" type: CONVOLUTION bottom: "data" top: "c" }')
    assert "(CONVOLUTION)" in caffe.draw.draw_net(old, ext="dot").decode()


def test_drawing_names_learning_rates() -> None:
    text = (
        'layer { name: "c" type: "Convolution" bottom: "x" top: "c" param { lr_mult: 2 } param { lr_mult: 0.5 } }'
    )
    found = caffe.draw.draw_net(parsed(text + NET), "LR", "dot", caffe.TEST, True).decode()
    assert '"c\\n(Convolution)\\nlr mult: 2, 0.5"' in found and '"l\\n(Accuracy)"' in found
    assert "lr mult" not in caffe.draw.draw_net(parsed(text), ext="dot").decode()


def test_drawing_without_graphviz_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FileError, match=r"to draw \.png files install Graphviz"):
        caffe.draw.draw_net_to_file(parsed(NET), tmp_path / "net.png")
    assert not (tmp_path / "net.png").exists()
    caffe.draw.draw_net_to_file(parsed(NET), tmp_path / "net.dot", "LR", None, False)
    assert (tmp_path / "net.dot").read_text().startswith("digraph")


def chain(kernel: Any = 3, stride: Any = 1, pad: Any = 0, pool: int = 2, up: int = 2) -> caffe.NetSpec:
    """Return a convolution, a pooling, and a deconvolution that undoes the pooling."""
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 1, 50, 50]})
    n.conv = L.Convolution(n.data, num_output=2, kernel_size=kernel, stride=stride, pad=pad)
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, pool=P.Pooling.MAX, kernel_size=pool, stride=pool)
    n.up = L.Deconvolution(n.pool, num_output=2, kernel_size=2 * up, stride=up)
    return n


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(3, 1, 0), (5, 2, 1), (7, 3, 3)])
def test_map_follows_the_centers_of_windows(kernel: int, stride: int, pad: int) -> None:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 1, 50, 50]})
    n.conv = L.Convolution(n.data, num_output=2, kernel_size=kernel, stride=stride, pad=pad)
    axis, a, b = coord_map.coord_map_from_to(n.conv, n.data)
    assert (axis, a.tolist(), b.tolist()) == (1, [stride], [(kernel - 1) / 2 - pad])
    assert coord_map.coord_map_from_to(n.data, n.conv)[1].tolist() == [1 / stride]


def test_crop_aligns_two_tops() -> None:
    n = chain(pad=4)
    n.crop = coord_map.crop(n.up, n.data)
    layer = n.to_proto().layer[-1]
    assert (layer.type, layer.fields) == (
        "Crop",
        {"crop_param": {"axis": 2, "offset": [4]}},
    )  # 3 of the convolution, 1 of pool and up
    axis, a, b = coord_map.coord_map_from_to(n.crop, n.data)
    assert (axis, a.tolist(), b.tolist()) == (1, [1], [0])


def test_tops_that_cannot_be_aligned_are_refused() -> None:
    n = chain(pool=3)
    with pytest.raises(AssertionError, match=r"the tops differ in scale by \[1\.5\], so no crop aligns them"):
        coord_map.crop(n.up, n.data)
    with pytest.raises(AssertionError, match=r"the crop would start at \[-1\.0\], before the first pixel"):
        coord_map.crop(*shifted())
    n = chain()
    n.ip = L.InnerProduct(n.up, num_output=2)
    with pytest.raises(RuntimeError, match="no layers that map pixels to pixels connect the tops of InnerProduct"):
        coord_map.coord_map_from_to(n.ip, n.data)
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 1, 50, 50]})
    n.conv = L.Convolution(n.data, num_output=2, kernel_h=3, kernel_w=1)
    with pytest.raises(InputError, match="Convolution has kernel_h, kernel_w; write kernel_size, stride and pad"):
        coord_map.coord_map_from_to(n.conv, n.data)


def shifted() -> tuple[Any, Any]:
    """Return two tops whose alignment would need an offset of -1."""
    n = chain(kernel=5)
    return n.conv, L.Convolution(n.data, num_output=2, kernel_size=3)
