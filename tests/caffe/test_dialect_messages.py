"""caffe_pb2 with the messages of forks of Caffe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.unknown_fields import UnknownFieldSet
from tools.reference import REFERENCE, needs_data

import anylayer.caffe as caffe
from anylayer.caffe import alias
from anylayer.caffe.proto import caffe_pb2
from anylayer.errors import InputError
from anylayer.writers.caffe.dialects import dialect_names


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test call install() for the process, and undo it."""
    monkeypatch.setattr(alias, "_process", {"dialect": None})
    for name in [n for n in sys.modules if n == "caffe" or n.startswith("caffe.")]:
        monkeypatch.delitem(sys.modules, name)
    yield
    caffe_pb2.use("bvlc")
    for name in [n for n in sys.modules if n == "caffe" or n.startswith("caffe.")]:
        monkeypatch.delitem(sys.modules, name)


def layer_fields(dialect: str) -> dict[int, str]:
    return {f.number: f.name for f in caffe_pb2.dialect(dialect).LayerParameter.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("dialect", "numbers"),
    [
        ("ssd", {202: "permute_param", 203: "prior_box_param", 204: "detection_output_param", 206: "norm_param"}),
        ("segnet", {45: "bn_param", 137: "upsample_param", 138: "dense_image_data_param"}),
        ("pspnet", {143: "interp_param", 152: "bn_param"}),
        ("yolov2", {147: "reorg_param", 204: "detection_output_param"}),
        ("opencv", {147: "detection_output_param", 148: "permute_param", 149: "norm_param"}),
        ("ncnn", {145: "shuffle_channel_param", 147: "reorg_param", 149: "psroi_pooling_param"}),
        ("sophgo", {148: "smooth_l1_loss_param", 161: "interp_param", 165: "clip_param"}),
    ],
)
def test_fork_has_its_own_numbers(dialect: str, numbers: dict[int, str]) -> None:
    found = layer_fields(dialect)
    assert {n: found.get(n) for n in numbers} == numbers


def offered() -> list[str]:
    found = []
    for name in dialect_names():
        try:
            caffe_pb2.dialect(name)
        except InputError as error:
            assert f"in dialect '{name}' are not known" in str(error)
        else:
            found.append(name)
    return found


def test_number_of_a_fork_is_never_a_field_of_another_meaning() -> None:
    common = layer_fields("bvlc")
    names = offered()
    assert {"ssd", "segnet", "pspnet", "deeplab", "opencv", "ascend", "sophgo", "intel"} <= set(names)
    for name in names:
        module, fields = caffe_pb2.dialect(name), layer_fields(name)
        given = module.NetParameter()
        given.layer.add(name="a", type="A")
        own = {n: f for n, f in fields.items() if common.get(n) != f}
        for field in own.values():
            getattr(given.layer[0], field).SetInParent()
        again = module.NetParameter.FromString(given.SerializeToString())
        assert again == given and len(UnknownFieldSet(again.layer[0])) == 0
        raw = caffe_pb2.dialect("bvlc").NetParameter.FromString(given.SerializeToString()).layer[0]
        misread = {f.number for f, _ in raw.ListFields() if f.number >= 100}
        assert misread == set(own) & set(common)  # BVLC's classes misread these, so the fork's have other names
        assert not {common[n] for n in misread} & {f for n, f in fields.items() if n in misread}


def test_fields_that_only_forks_have_are_not_in_bvlcs_messages() -> None:
    bvlc = caffe_pb2.dialect("bvlc")
    for message, field, fork in (
        ("PoolingParameter", "ceil_mode", "opencv"),
        ("BatchNormParameter", "update_global_stats", "pspnet"),
        ("DropoutParameter", "scale_train", "opencv"),
        ("ConvolutionParameter", "hole", "deeplab"),
        ("DropoutParameter", "sample_weights_test", "segnet"),
    ):
        assert field not in getattr(bvlc, message).DESCRIPTOR.fields_by_name
        assert field in getattr(caffe_pb2.dialect(fork), message).DESCRIPTOR.fields_by_name
    assert bvlc.PoolingParameter.DESCRIPTOR.fields_by_number[13].name == "round_mode"
    assert caffe_pb2.dialect("opencv").PoolingParameter.DESCRIPTOR.fields_by_number[13].name == "ceil_mode"


def test_dialect_without_known_numbers_is_refused() -> None:
    with pytest.raises(InputError, match=r"the field numbers of normalize_param in dialect 'amsoftmax' are not"):
        caffe_pb2.dialect("amsoftmax")
    with pytest.raises(InputError, match="there is no dialect 'sdd'; did you mean 'ssd'"):
        caffe_pb2.dialect("sdd")
    with pytest.raises(AttributeError, match="no message 'ClipParameter': it has those of dialect 'ssd'"):
        _ = caffe_pb2.dialect("ssd").ClipParameter
    with pytest.raises(text_format.ParseError, match='no field named "clip_param"'):
        text_format.Parse("layer { clip_param { min: 0 } }", caffe_pb2.dialect("ssd").NetParameter())


GOLDEN = [
    file
    for name in ("golden", "golden_sophgo")
    for file in sorted((REFERENCE / name).glob("*/*/weights.caffemodel"))
    if "WeightsFile" not in file.parts
]


@needs_data("golden", "golden_sophgo")
def test_files_of_real_forks_have_the_fields_of_their_text() -> None:
    compared: dict[str, int] = {}
    for file in GOLDEN:
        dialect = json.loads((file.parent / "case.json").read_text()).get("dialect") or "bvlc"
        if dialect not in ("bvlc", "ssd", "sophgo"):
            continue
        module = caffe_pb2.dialect(dialect)
        try:
            text = text_format.Parse((file.parent / "deploy.prototxt").read_text(), module.NetParameter())
        except text_format.ParseError as error:
            assert "has no field named" in str(error)
            continue
        binary = module.NetParameter.FromString(file.read_bytes())
        texts = {layer.name: layer for layer in text.layer}
        for layer in binary.layer:
            assert len(UnknownFieldSet(layer)) == 0, file
            for field, value in layer.ListFields():
                if field.number >= 100 and layer.name in texts:
                    assert getattr(texts[layer.name], field.name) == value, (file, field.name)
                    compared[dialect] = compared.get(dialect, 0) + 1
    assert compared["bvlc"] > 50 and compared["sophgo"] > 50 and compared["ssd"] >= 3


def saved(text: str, stem: str, dialect: str) -> caffe.Net:
    """Write the files of a network of a fork with random weights, and return it. The scripts below read them."""
    Path(f"{stem}.prototxt").write_text(text)
    caffe.install(dialect=dialect)
    net = caffe.Net(f"{stem}.prototxt", caffe.TEST)
    rng = np.random.default_rng(0)
    for blob in (blob for values in net.params.values() for blob in values):
        blob.data[...] = rng.uniform(0.5, 2, blob.data.shape)
    net.save(f"{stem}.caffemodel")
    return net


def assert_same_outputs(script: str, net: caffe.Net, stem: str) -> caffe.Net:
    """Run a script, and compare the network that it writes with the one whose files it reads."""
    exec(compile(script, "script.py", "exec"), {})
    written = caffe.Net(f"{stem}.prototxt", f"{stem}.caffemodel", caffe.TEST)
    image = np.random.default_rng(1).standard_normal(net.blobs["data"].shape).astype(np.float32)
    expected, actual = net.forward(data=image), written.forward(data=image)
    assert set(actual) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    return written


SSD = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "conv/bn" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "conv/scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "perm" type: "Permute" bottom: "conv" top: "perm"
  permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "flat" type: "Flatten" bottom: "perm" top: "loc" }
layer { name: "priors" type: "PriorBox" bottom: "conv" bottom: "data" top: "priors"
  prior_box_param { min_size: 4 aspect_ratio: 2 flip: false variance: 0.1 } }
"""

MERGE_BN = """
import numpy as np
import caffe
from caffe.proto import caffe_pb2
from google.protobuf import text_format

model = caffe_pb2.NetParameter()
text_format.Merge(open("train.prototxt").read(), model)
source = caffe.Net("train.prototxt", "train.caffemodel", caffe.TEST)
dropped = [layer for layer in model.layer if layer.type in ("BatchNorm", "Scale")]
for layer in dropped:
    model.layer.remove(layer)
for layer in model.layer:
    if layer.type == "Convolution":
        layer.convolution_param.bias_term = True
with open("deploy.prototxt", "w") as file:
    file.write(text_format.MessageToString(model))

target = caffe.Net("deploy.prototxt", caffe.TEST)
mean, variance, factor = [blob.data for blob in source.params["conv/bn"]]
scale, shift = [blob.data for blob in source.params["conv/scale"]]
gain = scale / np.sqrt(variance / factor[0] + 1e-5)
target.params["conv"][0].data[...] = source.params["conv"][0].data * gain[:, None, None, None]
target.params["conv"][1].data[...] = shift - mean / factor[0] * gain
target.save("deploy.caffemodel")
"""


def test_script_that_merges_batch_norm_of_ssd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: None
) -> None:
    monkeypatch.chdir(tmp_path)
    net = saved(SSD, "train", "ssd")
    assert {*net.outputs} == {"loc", "priors"}
    merged = assert_same_outputs(MERGE_BN, net, "deploy")
    assert "conv/bn" not in merged.params
    np.testing.assert_array_equal(merged.blobs["priors"].data, net.blobs["priors"].data)
    stored = caffe_pb2.dialect("ssd").NetParameter.FromString(Path("deploy.caffemodel").read_bytes())
    assert list(stored.layer[-1].prior_box_param.min_size) == [4]


SEGNET = """name: "seg" input: "data" input_shape { dim: 1 dim: 2 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BN" bottom: "conv" top: "conv" bn_param { bn_mode: INFERENCE
  scale_filler { type: "constant" value: 1 } shift_filler { type: "constant" value: 0.001 } } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" top: "mask"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "up" type: "Upsample" bottom: "pool" bottom: "mask" top: "up" upsample_param { scale: 2 } }
"""

ABSORB = """
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

net, weights = caffe_pb2.NetParameter(), caffe_pb2.NetParameter()
text_format.Merge(open("seg.prototxt").read(), net)
weights.ParseFromString(open("seg.caffemodel", "rb").read())
for model in (net, weights):
    for i in reversed(range(len(model.layer))):
        layer = model.layer[i]
        if layer.type != "BN":
            continue
        if layer.bn_param.bn_mode != caffe_pb2.BNParameter.INFERENCE:
            raise ValueError(layer.name)
        if layer.blobs:
            scale, shift = [np.array(blob.data) for blob in layer.blobs]
            weight, bias = model.layer[i - 1].blobs
            values = np.array(weight.data).reshape(len(scale), -1) * scale[:, None]
            weight.data[:] = values.ravel().tolist()
            bias.data[:] = (np.array(bias.data) * scale + shift).tolist()
        del model.layer[i]
open("absorbed.prototxt", "w").write(text_format.MessageToString(net))
open("absorbed.caffemodel", "wb").write(weights.SerializeToString())
"""


def test_script_that_absorbs_batch_norm_of_segnet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: None
) -> None:
    monkeypatch.chdir(tmp_path)
    net = saved(SEGNET, "seg", "segnet")
    assert net.outputs == ["up"]
    assert_same_outputs(ABSORB, net, "absorbed")
    stored = caffe_pb2.NetParameter.FromString(Path("absorbed.caffemodel").read_bytes())
    assert stored.layer[-1].upsample_param.scale == 2 and len(stored.layer) == 3


def test_install_refuses_a_dialect_beside_another_caffe(monkeypatch: pytest.MonkeyPatch, process: None) -> None:
    monkeypatch.setitem(sys.modules, "caffe", type(sys)("caffe"))
    with pytest.raises(InputError, match="dialect='ssd' has no effect: another caffe is imported already"):
        caffe.install(dialect="ssd")
    assert "ClipParameter" in vars(caffe_pb2)


def test_nested_messages_of_ssd_have_their_names() -> None:
    ssd: Any = caffe_pb2.dialect("ssd")
    text = "nms_param { top_k: 400 } save_output_param { resize_param { resize_mode: WARP height: 300 } }"
    found = text_format.Parse(text, ssd.DetectionOutputParameter())
    assert isinstance(found.nms_param, ssd.NonMaximumSuppressionParameter) and found.nms_param.top_k == 400
    assert found.save_output_param.resize_param.height == 300
    assert ssd.PriorBoxParameter.CENTER_SIZE == 2
