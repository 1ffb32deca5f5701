"""NetSpec: a script for pycaffe prints the same, and fields are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.caffe as caffe
from anylayer.caffe import NetSpec
from anylayer.caffe import layers as L
from anylayer.caffe import params as P
from anylayer.errors import InputError, LayerError


def text_of(*tops: Any, **named: Any) -> str:
    """Return the text of a network."""
    spec = NetSpec()
    for name, top in named.items():
        spec[name] = top
    return str(spec.to_proto() if named else caffe.to_proto(*tops))


def test_script_for_pycaffe_prints_the_same() -> None:
    """The expected text is that of protobuf 7.36 for Python."""
    n = NetSpec()
    n.data = L.Input(shape=[{"dim": [1, 3, 8, 8]}])
    n.conv1 = L.Convolution(
        n.data, name="first", kernel_size=3, num_output=2, pad=1, weight_filler={"type": "xavier"}
    )
    n.relu1 = L.ReLU(n.conv1, in_place=True, negative_slope=0.1)
    n.pool1 = L.Pooling(n.relu1, kernel_size=2, stride=2, pool=P.Pooling.AVE)
    n.crop = L.Crop(n.pool1, n.pool1, axis=2, offset=1)
    n.fc = L.InnerProduct(n.pool1, num_output=4, param=[{"lr_mult": 1, "decay_mult": 0.5}, {"lr_mult": 2}])
    assert str(n.to_proto()) == (Path(__file__).parent / "script.prototxt").read_text()


def test_layers_are_named_by_attribute_or_type() -> None:
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, 2]})
    n.out = L.ReLU(L.Sigmoid(L.ReLU(n.data)))
    assert [(x.name, x.top) for x in n.to_proto().layer] == [
        ("data", ["data"]), ("ReLU1", ["ReLU1"]), ("Sigmoid1", ["Sigmoid1"]), ("out", ["out"]),
    ]  # fmt: skip
    assert [x.name for x in n.out.to_proto().layer] == ["Input1", "ReLU1", "Sigmoid1", "ReLU2"]


def test_layers_with_several_tops_and_without_tops() -> None:
    n = NetSpec()
    n.data, n.label = L.Data(
        source="db", backend=P.Data.LMDB, batch_size=4, ntop=2, include={"phase": caffe.TRAIN}
    )
    n.quiet = L.Silence(n.label, ntop=0)
    proto = n.to_proto()
    assert [(x.name, x.bottom, x.top) for x in proto.layer] == [
        ("data", [], ["data", "label"]), ("quiet", ["label"], []),
    ]  # fmt: skip
    assert "include {\n    phase: TRAIN\n  }" in str(proto)
    assert 'data_param {\n    source: "db"\n    batch_size: 4\n    backend: LMDB\n  }' in str(proto)


def test_in_place_layer_has_its_bottoms_as_tops() -> None:
    n = NetSpec()
    n.x = L.Input(shape={"dim": [1, 2]})
    n.y = L.ReLU(n.x, in_place=True)
    layer = n.to_proto().layer[1]
    assert (layer.name, layer.bottom, layer.top) == ("y", ["x"], ["x"])


def test_unknown_layer_takes_any_field() -> None:
    text = text_of(
        m=L.Mystery(alpha=0.5, sizes=[1, 2], mode=P.Mystery.FAST, text="t", on=True, other_param={"a": 1})
    )
    assert text.splitlines() == [
        "layer {", '  name: "m"', '  type: "Mystery"', '  top: "m"', "  mystery_param {", "    alpha: 0.5",
        "    sizes: 1", "    sizes: 2", "    mode: FAST", '    text: "t"', "    on: true", "  }",
        "  other_param {", "    a: 1", "  }", "}",
    ]  # fmt: skip


def test_layers_of_forks_have_their_fields() -> None:
    text = text_of(n=L.Normalize(across_spatial=False, scale_filler={"type": "constant", "value": 20}))
    assert 'norm_param {\n    across_spatial: false\n    scale_filler {\n      type: "constant"' in text


def test_numpy_numbers_are_accepted() -> None:
    text = text_of(
        c=L.Convolution(num_output=np.int64(4), kernel_size=np.array([3, 5]), bias_term=np.bool_(False))
    )
    assert "num_output: 4\n    bias_term: false\n    kernel_size: 3\n    kernel_size: 5" in text


def test_values_of_enums_are_numbers() -> None:
    assert (P.Pooling.MAX, P.Pooling.AVE, P.Eltwise.SUM, P.Reduction.MEAN, P.Filler.AVERAGE) == (0, 1, 1, 4, 2)
    with pytest.raises(AttributeError, match="PoolingParameter has no word 'MXA'; did you mean 'MAX'"):
        _ = P.Pooling.MXA


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: text_of(c=L.Convolution(kernel=3)),
            r"layer 'c' \(Convolution\): convolution_param has no field 'kernel'",
        ),
        (lambda: text_of(c=L.Convolution(num_output="4")), "parameter 'num_output': must be an integer, got '4'"),
        (lambda: text_of(c=L.Convolution(weight_filler="gaussian")), "'weight_filler': must be a dict, got 'gau"),
        (
            lambda: text_of(c=L.Convolution(weight_filler={"typ": "x"})),
            "FillerParameter has no field 'typ'; did you mean 'type'",
        ),
        (lambda: text_of(p=L.Pooling(pool=7)), "'pool': must be one of MAX, AVE, STOCHASTIC, got 7"),
        (lambda: L.ReLU("data"), r"^ReLU input 0 is not a Top \(type is <class 'str'>\)$"),
        (lambda: text_of(d=L.Data(ntop=2)), "'d' must be a top, got tuple. A layer with several tops returns"),
    ],
)  # fmt: skip
def test_wrong_fields_are_refused(make: Any, text: str) -> None:
    with pytest.raises((InputError, LayerError), match=text):
        make()


def test_missing_name_is_refused() -> None:
    n = NetSpec()
    n.conv1 = L.Input()
    with pytest.raises(AttributeError, match="the NetSpec has no top 'conv2'; did you mean 'conv1'"):
        _ = n.conv2


def test_saved_network_is_read(tmp_path: Path) -> None:
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, 3, 4, 4]})
    n.out = L.Power(n.data, scale=2.0, shift=1.0)
    proto = n.to_proto()
    proto.name = "named"
    net = anylayer.read(proto.save(tmp_path / "net.prototxt"))
    assert net.network.name == "named"
    x = np.ones((1, 3, 4, 4), np.float32)
    assert (net.compile("numpy")({"data": x})["out"] == 3).all()
    (tmp_path / "net.caffemodel").write_bytes(proto.SerializeToString())
    assert [x.type for x in anylayer.read(tmp_path / "net.caffemodel").network.nodes] == ["Power"]
    assert "message PowerParameter {" in proto.proto()


def test_deep_network_does_not_recurse() -> None:
    n = NetSpec()
    top = n.data = L.Input(shape={"dim": [1, 2]})
    for _ in range(3000):
        top = L.ReLU(top)
    n.out = top
    assert len(n.to_proto().layer) == 3001


def test_layer_prints_its_text() -> None:
    assert str(caffe.to_proto(L.ReLU(L.Input())).layer[1]) == (
        'name: "ReLU1"\ntype: "ReLU"\nbottom: "Input1"\ntop: "ReLU1"\n'
    )
