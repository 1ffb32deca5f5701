"""IR v2 to v7: the spellings of each version, layers that Caffe lacks, and refused files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.api import Net
from anylayer.errors import AnyLayerError, LayerError
from anylayer.network import Array
from anylayer.readers.openvino import read

from .ir import Ir


def noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, W, B = noise(1, 3, 8, 9), noise(4, 3, 3, 3, seed=1), noise(4, seed=2)


def one(
    folder: Path,
    type_: str,
    data: Mapping[str, Any],
    output: Sequence[int],
    *,
    blobs: Mapping[str, Array] | None = None,
    version: int = 4,
    tag: str = "data",
    half: bool = False,
    x: Array = X,
    outputs: int = 1,
) -> Path:
    """Write an IR with an input x and one layer. Return the path of its XML file."""
    ir = Ir(version, half)
    ir.input("x", *x.shape)
    ir.layer("y", type_, ["x"], [output] * outputs, data, blobs, tag)
    return ir.save(folder)


def run(path: Path, x: Array = X, engine: str = "numpy") -> Array:
    return next(iter(Net(read(path), {}).compile(engine=engine)({"x": x}).values()))


def near(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-5 * max(np.abs(want).max(), 1e-6)


ATTRIBUTES = {
    2: {"kernel-x": 3, "kernel-y": 3, "stride-x": 3, "stride-y": 2, "pad-x": 1, "pad-y": 0, "stride": "1,1,2,3"},
    3: {"kernel": "3,3", "strides": "2,3", "pads_begin": "0,1", "pads_end": "0,1", "auto_pad": "explicit"},
}


@pytest.mark.parametrize(("version", "tag"), [(2, "data"), (2, "convolution_data"), (3, "data"), (7, "data")])
def test_convolution_is_read_in_every_ir_version(version: int, tag: str, tmp_path: Path) -> None:
    data = {**ATTRIBUTES[min(version, 3)], "output": 4, "group": 1}
    want = ops.conv(X, W, B, strides=[2, 3], pads=[0, 1, 0, 1])
    path = one(
        tmp_path, "Convolution", data, want.shape, blobs={"weights": W, "biases": B}, version=version, tag=tag
    )
    near(run(path), want)


@pytest.mark.parametrize("pads", [(0, 0, 1, 1), (1, 0, 0, 3), (2, 1, 0, 0), (0, 1, 3, 0)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolution_with_asymmetric_pads_is_sliced(pads: tuple[int, ...], stride: int, tmp_path: Path) -> None:
    want = ops.conv(X, W, strides=stride, pads=list(pads))
    data = {
        "kernel": "3,3", "strides": f"{stride},{stride}", "pads_begin": f"{pads[0]},{pads[1]}",
        "pads_end": f"{pads[2]},{pads[3]}", "output": 4, "dilations": "1,1",
    }  # fmt: skip
    path = one(tmp_path, "Convolution", data, want.shape, blobs={"weights": W})
    near(run(path), want)
    near(run(path, engine="onnxruntime"), want)


def test_pads_at_the_end_in_version_2(tmp_path: Path) -> None:
    want = ops.conv(X, W, strides=2, pads=[0, 0, 1, 1])
    data = {
        "kernel-x": 3, "kernel-y": 3, "stride-x": 2, "stride-y": 2, "pad-x": 0, "pad-y": 0, "pad-r": 1, "pad-b": 1,
        "output": 4,
    }  # fmt: skip
    near(run(one(tmp_path, "Convolution", data, want.shape, blobs={"weights": W}, version=2)), want)


@pytest.mark.parametrize("word", ["same_upper", "same_lower"])
def test_auto_pad_is_replaced_by_numbers(word: str, tmp_path: Path) -> None:
    begin, end = ((0, 0), (1, 1)) if word == "same_upper" else ((1, 1), (0, 0))
    x = noise(1, 3, 8, 10)
    want = ops.conv(x, W, strides=2, pads=[*begin, *end])
    data = {"kernel": "3,3", "strides": "2,2", "auto_pad": word, "output": 4}
    near(run(one(tmp_path, "Convolution", data, want.shape, blobs={"weights": W}, x=x), x), want)


def test_deconvolution_with_asymmetric_pads(tmp_path: Path) -> None:
    w = noise(3, 2, 4, 4)
    want = ops.conv_transpose(X, w, strides=2, pads=[1, 1, 2, 0])
    data = {"kernel": "4,4", "strides": "2,2", "pads_begin": "1,1", "pads_end": "2,0", "output": 2}
    near(run(one(tmp_path, "Deconvolution", data, want.shape, blobs={"weights": w})), want)


def test_max_pooling_with_asymmetric_pads(tmp_path: Path) -> None:
    want = ops.max_pool(X, 3, strides=2, pads=[0, 0, 1, 0])
    data = {
        "kernel": "3,3", "strides": "2,2", "pads_begin": "0,0", "pads_end": "1,0", "pool-method": "max",
        "exclude-pad": "true", "rounding_type": "floor",
    }  # fmt: skip
    near(run(one(tmp_path, "Pooling", data, want.shape)), want)


def test_average_pooling_excludes_pads(tmp_path: Path) -> None:
    want = ops.average_pool(X, 3, strides=2, pads=1)
    data = {
        "kernel": "3,3", "strides": "2,2", "pads_begin": "1,1", "pads_end": "1,1", "pool-method": "avg",
        "exclude-pad": "true",
    }  # fmt: skip
    near(run(one(tmp_path, "Pooling", data, want.shape)), want)


def test_pooling_with_pad_of_one_axis(tmp_path: Path) -> None:
    """The windows are rounded up along the width; along the height the one after the map is dropped."""
    x = noise(1, 3, 4, 4)
    want = ops.max_pool(x, [1, 3], strides=2, pads=[0, 1, 0, 2])
    data = {
        "kernel": "1,3", "strides": "2,2", "pads_begin": "0,1", "pads_end": "0,1", "pool-method": "max",
        "rounding_type": "ceil",
    }  # fmt: skip
    near(run(one(tmp_path, "Pooling", data, want.shape, x=x), x), want)


def test_pooling_with_caffes_attributes(tmp_path: Path) -> None:
    want = ops.max_pool(X, 2, strides=2, ceil_mode=True)
    data = {"kernel_size": 2, "stride": 2, "pad": 0, "pool": "caffe.PoolingParameter.MAX"}
    near(run(one(tmp_path, "Pooling", data, want.shape, version=2, tag="pooling_data")), want)


def test_half_weights_are_widened_exactly(tmp_path: Path) -> None:
    w = W.astype(np.float16).astype(np.float32)
    want = ops.conv(X, w)
    path = one(
        tmp_path, "Convolution", {"kernel": "3,3", "output": 4}, want.shape, blobs={"weights": W}, half=True
    )
    net = Net(read(path), {})
    assert net.network.nodes[0].blobs[0].dtype == np.float32
    near(run(path), want)


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    path = one(tmp_path, "Convolution", {"kernel": "3,3", "output": 4}, (1, 4, 6, 7), blobs={"weights": W})
    assert not read(path).nodes[0].blobs[0].flags.owndata


V = noise(3, seed=3)
LAYERS: dict[str, tuple[str, dict[str, Any], dict[str, Array], Any]] = {
    "scale and shift": (
        "ScaleShift",
        {},
        {"weights": V, "biases": V + 1},
        X * V[:, None, None] + (V + 1)[:, None, None],
    ),
    "one factor": ("ScaleShift", {"broadcast": 1}, {"weights": V[:1]}, X * V[0]),
    "a factor per element": ("ScaleShift", {"broadcast": 0}, {"weights": X}, X * X),
    "shift": ("ScaleShift", {}, {"biases": V}, X + V[:, None, None]),
    "clamp": ("Clamp", {"min": -0.5, "max": "0.5"}, {}, np.clip(X, -0.5, 0.5)),
    "relu6": ("ReLU6", {"n": 6.0}, {}, np.clip(X, 0, 6)),
    "elu": ("Activation", {"type": "elu", "alpha": 0.5}, {}, np.where(X > 0, X, 0.5 * np.expm1(X))),
    "tanh": ("Activation", {"type": "tanh"}, {}, np.tanh(X)),
    "leaky": ("ReLU", {"negative_slope": 0.1}, {}, np.where(X > 0, X, np.float32(0.1) * X)),
    "prelu": ("PReLU", {"channel_shared": 0}, {"weights": V}, np.where(X > 0, X, X * V[:, None, None])),
    "power": ("Power", {"power": 2, "scale": 3, "shift": 1}, {}, (3 * X + 1) ** 2),
    "reshape": ("Reshape", {"dim": "0,-1", "axis": 0, "num_axes": -1}, {}, X.reshape(1, -1)),
    "squeeze": ("Squeeze", {}, {}, X[0]),
    "crop": ("Crop", {"axis": "2,3", "offset": "1,2", "dim": "5,4"}, {}, X[:, :, 1:6, 2:6]),
    "crop one axis": ("Crop", {"axis": "1", "offset": "1"}, {}, X[:, 1:]),
    "permute": ("Permute", {"order": "0,2,3,1"}, {}, X.transpose(0, 2, 3, 1)),
    "tile": ("Tile", {"axis": 1, "tiles": 2}, {}, np.tile(X, (1, 2, 1, 1))),
    "log softmax": ("LogSoftmax", {"axis": 1}, {}, X - np.log(np.exp(X).sum(1, keepdims=True))),
    "dropout": ("Dropout", {"dropout_ratio": 0.5}, {}, X),
    "nothing cropped": ("Crop", {"axis": "2", "offset": "0"}, {}, X),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_numpy(name: str, tmp_path: Path) -> None:
    type_, data, blobs, want = LAYERS[name]
    near(run(one(tmp_path, type_, data, want.shape, blobs=blobs)), np.asarray(want, np.float32))


def test_resizing_layers_match_resize(tmp_path: Path) -> None:
    want = ops.resize(X, (15, 17), coordinates="align_corners")
    data = {"align_corners": 1, "height": 0, "width": 0, "zoom_factor": 2, "pad_beg": 0, "pad_end": 0}
    near(run(one(tmp_path, "Interp", data, (1, 3, 15, 17))), want)
    data = {"type": "caffe.ResampleParameter.NEAREST", "factor": 2.0, "antialias": 0}
    want = X.repeat(2, 2).repeat(2, 3)
    near(run(one(tmp_path, "Resample", data, want.shape)), want)


def test_subtraction_of_a_constant(tmp_path: Path) -> None:
    ir = Ir(5)
    ir.input("x", *X.shape)
    ir.layer("c", "Const", [], [X.shape], blobs={"custom": 2 * X})
    ir.layer("y", "Eltwise", ["x", "c"], [X.shape], {"operation": "sub"})
    near(run(ir.save(tmp_path)), -X)


def test_split_takes_sizes_from_output_ports(tmp_path: Path) -> None:
    ir = Ir(3)
    ir.input("x", *X.shape)
    ir.layer("s", "Split", ["x"], [(1, 1, 8, 9), (1, 2, 8, 9)], {"axis": 1})
    net = Net(read(ir.save(tmp_path)), {})
    got = net.compile(engine="numpy")({"x": X})
    assert list(got) == ["s.0", "s.1"]
    near(got["s.1"], X[:, 1:])


def test_mean_values_are_read(tmp_path: Path) -> None:
    path = one(tmp_path, "ReLU", {}, X.shape)
    text = path.read_text().replace(
        "</net>",
        '<pre-process reference-layer-name="x" mean-precision="FP32">'
        + "".join(f'<channel id="{i}"><mean value="{m}"/></channel>' for i, m in enumerate((104, 117, 123)))
        + "</pre-process></net>",
    )
    path.write_text(text)
    network = read(path)
    assert network.preprocess["x"].mean is not None
    assert network.preprocess["x"].mean.tolist() == [104, 117, 123]
    assert any("arrays are used as they are given" in note for note in network.notes)


class Mine:
    """Multiplies its input by an attribute and adds a blob."""

    def __init__(self, params, blobs):
        self.scale, self.blob = params["scale"], blobs[0]

    def forward(self, inputs):
        return [inputs[0] * np.float32(self.scale) + self.blob.reshape(-1, 1, 1)]


class Halved:
    """A layer class with OpenCV's interface that selects every second column."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.wide = params.get("wide", 2)

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][..., :: self.wide]]


def halving(folder: Path, width: int) -> Path:
    """Write an IR with a layer of an unknown type, whose output port states `width` columns."""
    ir = Ir()
    ir.input("data", 1, 2, 3, 4)
    ir.layer("mine", "Mine", ["data"], [(1, 2, 3, width)], {"wide": 2})
    ir.layer("end", "ReLU", ["mine"], [(1, 2, 3, width)])
    return ir.save(folder)


def test_ports_give_the_shapes_after_an_unknown_layer(tmp_path: Path) -> None:
    net = anylayer.read(halving(tmp_path, 2))
    report = net.inspect()
    assert [(n.where, [t.shape for _, t in n.outputs if t]) for n in report.nodes] == [
        ("unknown", [(1, 2, 3, 2)]),
        ("engine", [(1, 2, 3, 2)]),
    ]
    assert net.inspect({"data": (1, 2, 3, 8)}).nodes[1].where == "unshaped"


def test_shapes_of_a_users_class_must_match_the_ports(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    net = anylayer.read(halving(tmp_path, 2), layers=[("Mine", Halved)])
    for engine in ("numpy", "onnxruntime"):
        np.testing.assert_array_equal(next(iter(net.compile(engine)(x).values())), x[..., ::2])
    wrong = anylayer.read(halving(tmp_path, 4), layers=[("Mine", Halved)])
    with pytest.raises(LayerError, match=r"output 0 has shape \(1, 2, 3, 2\), the file declares \(1, 2, 3, 4\)"):
        wrong.compile("onnxruntime")
    assert wrong.compile("onnxruntime", {"data": (1, 2, 3, 8)})(np.zeros((1, 2, 3, 8)))


def test_an_unknown_type_keeps_attributes_and_blobs(tmp_path: Path) -> None:
    path = one(tmp_path, "Mine", {"scale": "1.5", "axes": "1,2"}, X.shape, blobs={"custom": V}, version=2)
    node = read(path).nodes[0]
    assert node.params == {"data": {"scale": 1.5, "axes": [1, 2]}}
    assert [n.type for n in anylayer.read(path).unknown] == ["Mine"]
    net = anylayer.read(path, layers=[("Mine", Mine)])
    near(net.compile(engine="onnxruntime")({"x": X})["y"], X * np.float32(1.5) + V.reshape(-1, 1, 1))


def test_a_user_may_define_a_known_type(tmp_path: Path) -> None:
    path = one(tmp_path, "ReLU", {"scale": 2}, X.shape, blobs={"custom": V})
    net = anylayer.read(path, layers=[("ReLU", Mine)])
    near(net.compile(engine="numpy")({"x": X})["y"], X * np.float32(2) + V.reshape(-1, 1, 1))


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, Array], tuple[int, ...], str]] = {
    "an attribute": ("ReLU", {"slope": 1}, {}, X.shape, "attribute 'slope' is unknown for layers of type ReLU"),
    "a type of Caffe's": ("BNLL", {}, {}, X.shape, "layers of type BNLL in IR v2 to v7 are not supported"),
    "weights": (
        "Convolution", {"kernel": "3,3", "output": 4}, {"weights": W[:2]}, (1, 4, 6, 7),
        "its weights have 54 values, but shape (4, 3, 3, 3) needs 108",
    ),
    "an output": (
        "Convolution", {"kernel": "3,3", "output": 4}, {"weights": W}, (1, 4, 6, 9),
        "its windows make an output of [6, 7], but the file states [6, 9]",
    ),
    "corners": ("Interp", {"align_corners": 0}, {}, (1, 3, 16, 18), "align_corners=0 is not supported"),
    "an operation": ("Eltwise", {"operation": "pow"}, {}, X.shape, "operation 'pow' is not supported"),
    "an activation": ("Activation", {"type": "mish"}, {}, X.shape, "activation type 'mish' is not supported"),
    "a group": (
        "Convolution", {"kernel": "3,3", "output": 4, "group": 2}, {"weights": W}, (1, 4, 6, 7),
        "group=2 does not divide 3 channels",
    ),
    "values": ("Reshape", {"dim": "1,-1"}, {}, (1, 7), "shape (1, 3, 8, 9) cannot be reshaped to (1, 7)"),
    "a number": ("Power", {"power": "two"}, {}, X.shape, "attribute 'power' must be a number, got 'two'"),
    "an average with asymmetric pads": (
        "Pooling",
        {"kernel": "3,3", "strides": "2,2", "pads_begin": "0,0", "pads_end": "1,1", "pool-method": "avg"},
        {}, (1, 3, 4, 4), "average pooling with different pads, [0, 0] and [1, 1], is not supported",
    ),
    "an impossible output": (
        "Pooling", {"kernel": "3,3", "strides": "2,2", "pool-method": "max"}, {}, (1, 3, 9, 9),
        "the file states an output of [9, 9], but its windows make [3, 4] (rounded down) or [4, 4] (rounded up)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_layer_is_refused(name: str, tmp_path: Path) -> None:
    type_, data, blobs, output, text = REFUSED[name]
    path = one(tmp_path, type_, data, output, blobs=blobs)
    with pytest.raises(AnyLayerError) as caught:
        read(path)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    path = one(tmp_path, "Convolution", {"kernel": "3,3", "output": 4}, (1, 4, 6, 7), blobs={"weights": W})
    path.write_text(path.read_text().replace("<weights ", '<weights precision="I8" '))
    with pytest.raises(AnyLayerError, match="quantized weights are not supported"):
        read(path)


def test_network_without_weights_can_be_inspected(tmp_path: Path) -> None:
    path = one(tmp_path, "Convolution", {"kernel": "3,3", "output": 4}, (1, 4, 6, 7), blobs={"weights": W})
    path.with_suffix(".bin").unlink()
    net = anylayer.read(path)
    assert "4, 6, 7" in str(net.inspect())
    with pytest.raises(AnyLayerError, match="weights"):
        net.compile(engine="numpy")({"x": X})


def test_round_trip_through_caffe(tmp_path: Path) -> None:
    ir = Ir(2)
    ir.input("x", *X.shape)
    pads = {
        "kernel-x": 3,
        "kernel-y": 3,
        "stride-x": 2,
        "stride-y": 2,
        "pad-x": 0,
        "pad-y": 0,
        "pad-r": 1,
        "pad-b": 1,
    }
    shape = ops.conv(X, W, B, strides=2, pads=[0, 0, 1, 1]).shape
    ir.layer("c", "Convolution", ["x"], [shape], {**pads, "output": 4}, {"weights": W, "biases": B})
    ir.layer("s", "ScaleShift", ["c"], [shape], {}, {"weights": B, "biases": B})
    ir.layer("y", "Activation", ["s"], [shape], {"type": "elu", "alpha": 0.5})
    net = anylayer.read(ir.save(tmp_path))
    done = net.write(tmp_path / "deploy.prototxt")
    assert all(check.ok for check in done.checks)
    again = anylayer.read(tmp_path / "deploy.prototxt", tmp_path / "deploy.caffemodel")
    near(again.compile(engine="numpy")({"x": X})["y"], net.compile(engine="numpy")({"x": X})["y"])


def test_constant_without_values_as_openvino_writes_it(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    ops = openvino.opset13
    x = ops.parameter([2, 3], np.float32, name="x")
    axes = ops.constant(np.zeros(0, np.int64))  # the mean over no axis is the array
    model = openvino.Model([ops.reduce_mean(x, axes, keep_dims=True)], [x])
    path = tmp_path / "net.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    assert 'shape="0" offset="0" size="1"' in path.read_text()
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = anylayer.read(path).compile(engine="numpy")({"x": data}).values()
    assert np.array_equal(found, data)
