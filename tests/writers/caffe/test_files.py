"""The contents of the three files (text, binary, schema), and networks that are refused."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import FileError, InputError, LayerError
from anylayer.layer import Enum, Field
from anylayer.network import Flag, Word
from anylayer.protobuf.binary import encode, varint
from anylayer.protobuf.text import float_text, quoted
from anylayer.writers.caffe import caffemodel, save
from anylayer.writers.caffe.caffemodel import prototxt, write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_nodes import net_from_nodes
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.proto import proto_text
from tests.layers.harness import noise

NET = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 5 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "constant" value: 0.5 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "shuffle" type: "ShuffleChannel" bottom: "conv" top: "out" shuffle_channel_param { group: 3 } }
"""


SHARED = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } } }
layer { name: "a" type: "Power" bottom: "data" top: "x" power_param { scale: 2 } }
layer { name: "b" type: "Power" bottom: "x" top: "b" power_param { shift: 1 } }
layer { name: "c" type: "ReLU" bottom: "x" top: "x" }
layer { name: "d" type: "Eltwise" bottom: "x" bottom: "b" top: "y" }
"""


def network(folder: Path, text: str = NET, **options: Any) -> anylayer.Net:
    (folder / "given.prototxt").write_text(text)
    return anylayer.read(folder / "given.prototxt", **options)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (1, "1.0"), (1e-5, "1e-05"), (1 / 255, "0.003921569"), (1e6, "1000000.0"), (1e16, "1e+16"),
        (-2.5, "-2.5"), (float("inf"), "inf"), (float("-inf"), "-inf"), (float("nan"), "nan"),
        (123456789, "123456790.0"),
    ],
)  # fmt: skip
def test_floats_are_shortest_decimals(value: float, text: str) -> None:
    assert float_text(value) == text
    assert np.float32(float(text)) == np.float32(value) or text == "nan"


def test_strings_are_escaped() -> None:
    assert quoted("a\"b\\c\n\té\x01'") == '"a\\"b\\\\c\\n\\té\\001\\\'"'


def test_fields_are_sorted_by_number_and_enums_are_names() -> None:
    layer = CaffeLayer("p", "Pooling", ["x"], ["y"], {"pooling_param": {"stride": 2, "pool": 1, "kernel_size": 3}})
    assert prototxt(CaffeNet(layers=[layer])).splitlines() == [
        "layer {", '  name: "p"', '  type: "Pooling"', '  bottom: "x"', '  top: "y"', "  pooling_param {",
        "    pool: AVE", "    kernel_size: 3", "    stride: 2", "  }", "}",
    ]  # fmt: skip


def test_unknown_layers_get_inferred_schema(tmp_path: Path) -> None:
    """The messages of unknown layers get a schema that is inferred from their values, with unused numbers."""
    params = {
        "mystery_param": {
            "a": 3, "b": [0.5, 1.5], "c": "text", "d": Flag(True), "mode": Word("FAST"),
            "inner": [{"x": 1}, {"y": -2}],
        }
    }  # fmt: skip
    net = CaffeNet("n", [
        CaffeLayer("data", "Input", [], ["data"], {"input_param": {"shape": {"dim": [1, 2]}}}),
        CaffeLayer("m", "Mystery", ["data"], ["m"], params, [noise(2, 3), noise(3)]),
    ])  # fmt: skip
    proto, weights, text = save(net, tmp_path / "net.prototxt")
    for read in (
        anylayer.read(text, weights),
        anylayer.read(text, weights, proto=proto),
        anylayer.read(weights, proto=proto),
    ):
        (node,) = read.network.nodes
        assert node.params == params
        assert [b.shape for b in node.blobs] == [(2, 3), (3,)]
    assert "optional MysteryParameter mystery_param = 100000;" in proto.read_text()
    assert "enum Mode { FAST = 0; }" in proto.read_text()


def test_numbers_are_those_of_dialect(tmp_path: Path) -> None:
    net = network(tmp_path).fill()
    found = {}
    for dialect in ("ascend", "caffe2onnx", "synopsys"):
        net.write(tmp_path / "net.prototxt", dialect=dialect)
        text = (tmp_path / "net.proto").read_text()
        found[dialect] = re.findall(r"shuffle_channel_param = (\d+)", text)
    assert found == {"ascend": ["159"], "caffe2onnx": ["164"], "synopsys": ["166"]}


def test_taken_number_is_not_reused() -> None:
    """The usual number of interp_param is that of input_param in BVLC's Caffe."""
    net = CaffeNet("n", [CaffeLayer("i", "Interp", ["x"], ["y"], {"interp_param": {"height": 3, "width": 3}})])
    text = proto_text(net)
    numbers = re.findall(r"_param = (\d+);", text)
    assert len(numbers) == len(set(numbers))
    assert "input_param = 143;" in text


def test_old_forks_have_inputs_without_layer(tmp_path: Path) -> None:
    net = network(tmp_path, NET.split('layer { name: "shuffle"')[0]).fill()
    net.write(tmp_path / "net.prototxt", dialect="deeplab")
    text = (tmp_path / "net.prototxt").read_text()
    assert text.startswith('name: "net"\ninput: "data"\ninput_shape {\n  dim: 1\n')
    assert '"Input"' not in text


def test_layers_missing_in_dialect_become_others(tmp_path: Path) -> None:
    net = network(tmp_path).fill()
    done = net.write(tmp_path / "net.prototxt", dialect="bvlc")
    assert [c.ok for c in done.checks] == [True]
    read = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    assert [n.type for n in read.network.nodes] == ["Convolution", "ReLU", "Convolution"]
    net.write(tmp_path / "net.prototxt", dialect="bvlc", keep=["ShuffleChannel"])
    read = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    assert [n.type for n in read.network.nodes] == ["Convolution", "ReLU", "ShuffleChannel"]


def test_user_layers_are_written_unchanged(tmp_path: Path) -> None:
    class Mine:
        """Double the input."""

        def __init__(self, params: dict[str, Any], blobs: list[Any]) -> None:
            self.factor = params["factor"]

        def forward(self, inputs: list[Any]) -> list[Any]:
            return [inputs[0] * np.float32(self.factor)]

    text = NET.replace("ShuffleChannel", "Mine").replace(
        "shuffle_channel_param { group: 3 }", "mine_param { factor: 2.5 }"
    )
    net = network(tmp_path, text, layers=[("Mine", Mine)]).fill()
    done = net.write(tmp_path / "net.prototxt", dialect="bvlc")
    assert [c.ok for c in done.checks] == [True]
    assert "mine_param {\n    factor: 2.5\n  }" in (tmp_path / "net.prototxt").read_text()
    assert "message MineParameter {\n  optional float factor = 1;\n}" in (tmp_path / "net.proto").read_text()


def test_v1_network_is_written_as_v2(tmp_path: Path) -> None:
    old = """
    input: "data" input_dim: 1 input_dim: 1 input_dim: 4 input_dim: 4
    layers { name: "pool" type: POOLING bottom: "data" top: "pool" pooling_param { pool: AVE kernel_size: 2 } }
    """
    network(tmp_path, old).write(tmp_path / "new.prototxt")
    text = (tmp_path / "new.prototxt").read_text()
    assert "layers" not in text
    assert 'type: "Pooling"' in text and "pool: AVE" in text


def test_silence_is_kept(tmp_path: Path) -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 } } }
    layer { name: "s" type: "Slice" bottom: "x" top: "a" top: "b" }
    layer { name: "q" type: "Silence" bottom: "b" }
    """
    net = network(tmp_path, text)
    net.write(tmp_path / "net.prototxt")
    assert list(anylayer.read(tmp_path / "net.prototxt").network.outputs) == ["a"]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**64 - 1, -1])
def test_varint_is_encoded_in_groups_of_seven_bits(value: int) -> None:
    number = shift = 0
    for byte in varint(value):
        number |= (byte & 0x7F) << shift
        shift += 7
    assert number == value % 2**64


@pytest.mark.parametrize("kind", ["int32", "int64", "fixed64", Enum("A", "B")])
@pytest.mark.parametrize("value", [1.5, [1, 2.5], [1.0, 2]])
def test_real_number_in_an_integer_field_is_refused_by_name(kind: Any, value: Any) -> None:
    fields = {"dim": Field(3, kind, repeated=True, name="dim")}
    assert encode({"dim": [1, np.int64(0), True]}, fields)
    with pytest.raises(LayerError, match=r"parameter 'dim' must be an integer, got (1\.5|2\.5|1\.0)"):
        encode({"dim": value}, fields)


def test_too_large_caffemodel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caffemodel, "MAX_BYTES", 100)
    net = CaffeNet("n", [CaffeLayer("a", "Scale", ["x"], ["y"], {}, [noise(100)])])
    out = io.BytesIO()
    with pytest.raises(
        FileError, match=r"the \.caffemodel would have 4\d\d bytes, but Caffe reads at most 100. Write ONNX"
    ):
        write_caffemodel(net, out)
    assert out.getvalue() == b""


def test_refused_network_leaves_no_file(tmp_path: Path) -> None:
    text = NET.replace("ShuffleChannel", "Permute").replace(
        "shuffle_channel_param { group: 3 }", "permute_param { order: 0 order: 2 }"
    )
    net = network(tmp_path, text).fill()
    (tmp_path / "out").mkdir()
    with pytest.raises(
        LayerError, match=r"given.prototxt:7: layer 'shuffle' \(Permute\): Caffe \(dialect 'bvlc'\) has no Permute"
    ):
        net.write(tmp_path / "out" / "net.prototxt", dialect="bvlc")
    assert list((tmp_path / "out").iterdir()) == []


def test_unknown_dialect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no dialect 'bvcl'; did you mean 'bvlc'"):
        network(tmp_path).fill().write(tmp_path / "net.prototxt", dialect="bvcl")
    assert dialect_of("ssd").has("Permute") and not dialect_of("bvlc").has("Permute")
    assert dialect_of("bvlc").has("Clip") and not dialect_of("ssd").has("Clip")


def test_exclusive_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fold and blog_compat exclude each other"):
        network(tmp_path).fill().write(tmp_path / "net.prototxt", fold=True, blog_compat=True)


def test_symbolic_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Caffe's files have fixed sizes: give each size a number"):
        network(tmp_path).fill().write(tmp_path / "net.prototxt", batch="N")
    network(tmp_path).fill().write(tmp_path / "net.prototxt", batch=3)
    assert anylayer.read(tmp_path / "net.prototxt").inputs["data"].shape == (3, 4, 6, 5)


def test_field_without_name_is_refused(tmp_path: Path) -> None:
    text = NET.replace("group: 3", "group: 3 [some.extension]: 1").replace("ShuffleChannel", "Unheard")
    net = network(tmp_path, text)
    with pytest.raises(
        LayerError, match=r"layer 'shuffle' \(Unheard\): field '\[some.extension\]' has no name that"
    ):
        save(net_from_nodes(net.network, CaffeNet()), tmp_path / "net.prototxt")


def test_input_and_layer_with_same_name(tmp_path: Path) -> None:
    net = network(tmp_path, NET.replace('name: "conv"', 'name: "data"')).fill()
    net.write(tmp_path / "net.prototxt")
    read = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel").network
    assert [n.name for n in read.nodes][:2] == ["data_", "relu"]


def test_differing_defaults_are_written(tmp_path: Path) -> None:
    """The default scale of ROIPooling is 1 in Ascend and 1/16 elsewhere. PriorBox clips by default in OpenCV."""
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 8 dim: 8 } } }
    layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 1 dim: 5 } } }
    layer { name: "p" type: "ROIPooling" bottom: "x" bottom: "r" top: "y"
      roi_pooling_param { pooled_h: 2 pooled_w: 2 } }
    """
    rois = np.array([[0, 0, 0, 6, 7]], np.float32)
    network(tmp_path, text).write(
        tmp_path / "net.prototxt", dialect="ascend", verify={"x": noise(1, 2, 8, 8), "r": rois}
    )
    assert "spatial_scale: " in (tmp_path / "net.prototxt").read_text()
    boxes = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
    layer { name: "i" type: "Input" top: "i" input_param { shape { dim: 1 dim: 3 dim: 32 dim: 32 } } }
    layer { name: "p" type: "PriorBox" bottom: "x" bottom: "i" top: "y"
      prior_box_param { min_size: 30 variance: [0.1, 0.1, 0.2, 0.2] } }
    """
    network(tmp_path, boxes, dialect="ssd").write(tmp_path / "net.prototxt", dialect="opencv")
    assert "clip: false" in (tmp_path / "net.prototxt").read_text()


def test_layer_with_other_meaning_is_refused(tmp_path: Path) -> None:
    """OpenCV pads the rows of DetectionOutput."""
    text = """
    layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 1 dim: 8 } } }
    layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 1 dim: 4 } } }
    layer { name: "p" type: "Input" top: "p" input_param { shape { dim: 1 dim: 2 dim: 8 } } }
    layer { name: "d" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "p" top: "y"
      detection_output_param { num_classes: 2 } }
    """
    for keep, more in (
        ((), r"It cannot be written as other layers: Caffe .* has no "),
        (("DetectionOutput",), "$"),
    ):
        with pytest.raises(LayerError) as caught:
            network(tmp_path, text, dialect="ssd").write(tmp_path / "net.prototxt", dialect="opencv", keep=keep)
        assert re.search(
            r"layer 'd' \(DetectionOutput\): DetectionOutput has another meaning in dialect 'opencv': "
            r".*read the network in that dialect \(dialect='opencv'\)(\. )?" + more,
            str(caught.value),
        )
    text = text.replace("num_classes: 2", "num_classes: 2 keep_top_k: 5")
    network(tmp_path, text, dialect="opencv").write(tmp_path / "net.prototxt")


def test_lowered_layer_between_in_place_layers(tmp_path: Path) -> None:
    """The blobs of its operators do not clash with blobs that are rewritten in place later."""
    text = NET.replace('type: "Convolution"', 'type: "DepthwiseConvolution"').replace(
        "num_output: 6", "num_output: 4"
    )
    net = network(tmp_path, text.split('layer { name: "shuffle"')[0]).fill()
    done = net.write(tmp_path / "net.prototxt", dialect="bvlc")
    assert [c.ok for c in done.checks] == [True]


def test_in_place_layer_of_shared_blob_gets_own_blob(tmp_path: Path) -> None:
    """Caffe refuses the source: a layer cannot work in place on a blob that a Split has copied."""
    net = network(tmp_path, SHARED)
    net.write(tmp_path / "written.prototxt")
    written = anylayer.read(tmp_path / "written.prototxt", tmp_path / "written.caffemodel")
    assert (written.network.notes, [n.in_place for n in written.network.nodes]) == ([], [False] * 4)
    x = noise(1, 2, 3, 4)
    got = written.compile("numpy")({"data": x})["y"]
    np.testing.assert_allclose(got, np.maximum(2 * x, 0) + 2 * x + 1, rtol=1e-6)


def test_random_and_filled_weights_are_written(tmp_path: Path) -> None:
    """Caffe refuses a layer of the .caffemodel with too few weights."""
    text = (
        NET.split('layer { name: "relu"')[0]
        + """
    layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" }
    layer { name: "sc" type: "Scale" bottom: "bn" top: "sc" scale_param { bias_term: true } }
    layer { name: "pr" type: "PReLU" bottom: "sc" top: "pr" }
    layer { name: "bi" type: "Bias" bottom: "pr" top: "y" }
    """
    )
    network(tmp_path, text).fill().write(tmp_path / "net.prototxt")
    shapes = {n.name: [b.shape for b in n.blobs] for n in anylayer.read(tmp_path / "net.caffemodel").network.nodes}
    assert shapes == {
        "conv": [(6, 4, 3, 3), (6,)], "bn": [(6,), (6,), (1,)], "sc": [(6,), (6,)], "pr": [(6,)], "bi": [(6,)],
    }  # fmt: skip


def test_calls_of_a_shared_keras_layer_are_numbered(tmp_path: Path) -> None:
    net = anylayer.read(Path(__file__).parents[2] / "data" / "keras" / "nested.keras")
    net.write(tmp_path / "net.prototxt", dialect="ssd", verify=False)
    names = re.findall(r'^  name: "(shared.*)"', (tmp_path / "net.prototxt").read_text(), re.MULTILINE)
    assert names == ["shared", "shared_1"]
