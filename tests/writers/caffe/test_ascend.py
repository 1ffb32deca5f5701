"""Files for Ascend follow the definitions in its documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import anylayer
from anylayer.errors import LayerError
from anylayer.network import Array
from tests.layers.harness import noise

X = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 21 dim: 4 dim: 4 } } }\n'
YOLO = (
    'layer { name: "y" type: "Yolo" bottom: "x" top: "a" top: "b" top: "c" '
    'yolo_param { boxes: 3 coords: 4 classes: 2 yolo_version: "V3" %s } }'
)


def network(folder: Path, text: str, **options: str) -> anylayer.Net:
    (folder / "given.prototxt").write_text(X + text)
    return anylayer.read(folder / "given.prototxt", **options)


def proto(folder: Path) -> str:
    return (folder / "net.proto").read_text()


@pytest.mark.parametrize("more", ["", "padded: true"])
def test_unwritten_field_is_in_no_file(tmp_path: Path, more: str) -> None:
    """The layer pads its outputs to the length of Ascend's buffers; no field of Ascend says so."""
    done = network(tmp_path, YOLO % more, dialect="ascend").write(tmp_path / "net.prototxt")
    assert all(check.ok for check in done.checks)
    for name in ("net.prototxt", "net.proto"):
        assert "padded" not in (tmp_path / name).read_text()


@pytest.mark.parametrize(("more", "read"), [("padded: false", "ascend"), ("", None)])
def test_other_value_of_unwritten_field_is_refused(tmp_path: Path, more: str, read: str | None) -> None:
    net = network(tmp_path, YOLO % more, **({"dialect": read} if read else {}))
    rule = r"layer 'y' \(Yolo\): padded is False here, but always True in dialect 'ascend', .*\(dialect='ascend'\)"
    with pytest.raises(LayerError, match=rule):
        net.write(tmp_path / "net.prototxt", dialect="ascend")


ROIS = """
layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 1 dim: 5 } } }
layer { name: "y" type: "ROIAlign" bottom: "x" bottom: "r" top: "y" roi_align_param { pooled_h: 2 pooled_w: 2 } }
"""


def test_default_sampling_ratio_is_that_of_documentation(tmp_path: Path) -> None:
    """Ascend's caffe.proto states the default -1, but its plugin uses 2 x 2 samples, also with that schema."""
    given = {"x": noise(1, 21, 4, 4), "r": np.array([[0, 0, 0, 5, 5]], np.float32)}
    net = network(tmp_path, ROIS, dialect="ascend")
    net.write(tmp_path / "net.prototxt", verify=given)
    assert "optional int32 sampling_ratio = 4 [default = -1];" in proto(tmp_path)
    again = anylayer.read(tmp_path / "net.prototxt", dialect="ascend", proto=tmp_path / "net.proto")
    assert np.array_equal(again.compile("numpy")(given)["y"], net.compile("numpy")(given)["y"])
    text = ROIS.replace("pooled_w: 2", "pooled_w: 2 sampling_ratio: -1")
    other = network(tmp_path, text, dialect="ascend").compile("numpy")(given)["y"]
    assert not np.array_equal(other, net.compile("numpy")(given)["y"])


PRIORS = """
layer { name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "p"
  prior_box_param { min_size: 2 variance: [0.1, 0.1, 0.2, 0.2] } }
"""
DETECTIONS = """
layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 1 dim: 8 } } }
layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "q" type: "Input" top: "q" input_param { shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: "d" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "q" top: "d"
  detection_output_param { num_classes: 2 code_type: CENTER_SIZE } }
"""
CODES = "enum CodeType { CORNER = 1; CENTER_SIZE = 2; CORNER_SIZE = 3; }"


@pytest.mark.parametrize("text", [PRIORS, DETECTIONS, PRIORS + DETECTIONS])
def test_code_type_enum_is_declared_like_ssd(tmp_path: Path, text: str) -> None:
    network(tmp_path, text, dialect="ssd").write(tmp_path / "net.prototxt", verify=text is not DETECTIONS)
    (message,) = re.findall(r"message PriorBoxParameter \{(.*?)\n?\}", proto(tmp_path), re.S | re.M)[:1]
    assert CODES.removesuffix(" }") in message + " }"
    assert proto(tmp_path).count("enum CodeType") == 1
    if text is not PRIORS:
        assert "optional PriorBoxParameter.CodeType code_type = 6 [default = CORNER];" in proto(tmp_path)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_scale_of_normalize_is_always_a_blob(tmp_path: Path, shared: str) -> None:
    text = (
        'layer { name: "n" type: "Normalize" bottom: "x" top: "y" norm_param { across_spatial: false '
        f'scale_filler {{ type: "constant" value: 20 }} channel_shared: {shared} }} }}'
    )
    network(tmp_path, text, dialect="ascend").write(tmp_path / "net.prototxt")
    (node,) = anylayer.read(tmp_path / "net.caffemodel", dialect="ascend").network.nodes
    assert [(set(b.reshape(-1)), b.size) for b in node.blobs] == [({20.0}, 1 if shared == "true" else 21)]


# ---- operators of other formats that Ascend's layers compute

MAPS = {"x": [2, 8, 4, 6]}
SCALE = np.arange(1, 9, dtype=np.float32).reshape(1, 8, 1, 1)


def onnx_net(folder: Path, nodes: list[Any], inputs: dict[str, list[int]], **constants: Any) -> anylayer.Net:
    """Return an ONNX network whose output is y."""
    opset = 20 if any(node.op_type in ("AffineGrid", "GridSample") for node in nodes) else 18
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    out = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", values, out, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    (folder / "given.onnx").write_bytes(model.SerializeToString())
    return anylayer.read(folder / "given.onnx")


def written(net: anylayer.Net, folder: Path, **given: Array) -> list[tuple[str, dict[str, Any]]]:
    """Return the types and fields of the layers of the network in Ascend's dialect, and compare their numbers."""
    inputs = given or {name: noise(*t.shape) for name, t in net.network.inputs.items() if t is not None}
    done = net.write(folder / "net.prototxt", dialect="ascend", verify=inputs)
    assert done.checks and all(check.ok for check in done.checks)
    again = anylayer.read(folder / "net.prototxt", folder / "net.caffemodel", dialect="ascend")
    return [(n.type, dict(next(iter(n.params.values()), {}))) for n in again.network.nodes]


N = helper.make_node


@pytest.mark.parametrize("shape", [[2, 8, 4, 6], [2, 8, 5], [2, 8]])
def test_lp_normalization_becomes_normalize(tmp_path: Path, shape: list[int]) -> None:
    x = noise(*shape)
    x[1] *= 1e-6
    if len(shape) > 2:
        x[:, :, :1] = 0  # vectors of zeros stay zeros
    net = onnx_net(tmp_path, [N("LpNormalization", ["x"], ["y"], axis=1)], {"x": shape})
    layers = dict(written(net, tmp_path, x=x))
    assert not layers["Normalize"]["across_spatial"] and set(layers) <= {"Normalize", "Reshape", "Flatten"}
    got = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", dialect="ascend")
    length = np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))
    want = x / np.where(length == 0, 1, length)
    np.testing.assert_allclose(got.compile("numpy")({"x": x})["y"], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("axis", "p", "dialect"), [(1, 1, "ascend"), (-1, 2, "ascend"), (1, 2, "bvlc")])
def test_other_lp_normalizations_are_sums_and_products(tmp_path: Path, axis: int, p: int, dialect: str) -> None:
    net = onnx_net(tmp_path, [N("LpNormalization", ["x"], ["y"], axis=axis, p=p)], MAPS)
    done = net.write(tmp_path / "net.prototxt", dialect=dialect)
    assert all(check.ok for check in done.checks)
    assert '"Normalize"' not in (tmp_path / "net.prototxt").read_text()


SPELLINGS = {
    "sum and eps": (["Pow x two", "ReduceSum _ axes", "Add _ eps", "Sqrt _", "Div x _", "Mul scale _"], 1e-10),
    "length and eps": (["Mul x x", "ReduceSum _ axes", "Sqrt _", "Add _ eps", "Div x _", "Mul scale _"], 1e-20),
    "clipped length": (["ReduceL2 x axes", "Clip _ eps", "Expand _ shape", "Div x _", "Mul _ scale"], 1e-20),
    "reciprocal": (["ReduceSumSquare x axes", "Sqrt _", "Reciprocal _", "Mul x _", "Mul _ scale"], 0.0),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelled_out_length_is_one_normalize_with_its_scale(tmp_path: Path, spelling: str) -> None:
    steps, eps = SPELLINGS[spelling]
    nodes, last = [], ""
    for i, step in enumerate(steps):
        op, *names = step.split()
        out = "y" if i == len(steps) - 1 else f"v{i}"
        nodes.append(N(op, [last if name == "_" else name for name in names], [out]))
        last = out
    constants = {"two": np.float32(2), "eps": np.float32(1e-10), "axes": [1], "shape": MAPS["x"], "scale": SCALE}
    used = {k: v for k, v in constants.items() if any(k in node.input for node in nodes)}
    ((type_, fields),) = written(onnx_net(tmp_path, nodes, MAPS, **used), tmp_path)
    assert type_ == "Normalize" and fields["eps"] == pytest.approx(eps, rel=1e-6)
    (node,) = anylayer.read(tmp_path / "net.caffemodel", dialect="ascend").network.nodes
    assert np.array_equal(node.blobs[0].reshape(-1), SCALE.reshape(-1))


def test_length_of_other_axes_is_no_match(tmp_path: Path) -> None:
    """The lengths of rows have the shape of those of columns, and are in another place."""
    nodes = [
        N("ReduceL2", ["x", "axes"], ["l"], keepdims=0),
        N("Reshape", ["l", "shape"], ["m"]),
        N("Div", ["x", "m"], ["y"]),
    ]
    net = onnx_net(tmp_path, nodes, {"x": [1, 4, 4, 4]}, axes=[2], shape=[1, 1, 4, 4])
    assert "Normalize" not in dict(written(net, tmp_path))


@pytest.mark.parametrize("steps", [("ReduceL2", "Add"), ("ReduceL2", "Max")])
def test_number_that_matters_is_no_epsilon(tmp_path: Path, steps: tuple[str, str]) -> None:
    """x / (|x| + 0.5) and x / max(|x|, 0.5) are not what Normalize computes."""
    nodes = [N(steps[0], ["x", "axes"], ["l"]), N(steps[1], ["l", "least"], ["m"]), N("Div", ["x", "m"], ["y"])]
    net = onnx_net(tmp_path, nodes, MAPS, axes=[1], least=np.float32(0.5))
    assert "Normalize" not in dict(written(net, tmp_path))


ROI_FIELDS = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5, "sampling_ratio": 2}
BOXES = np.array([[0, 1, 1, 9, 7], [1, 2, 0, 5, 5.5], [1, 0, 0, 4, 3]], np.float32)
COLUMNS = {
    "gather": [N("Gather", ["r", "first"], ["b"], axis=1), N("Gather", ["r", "others"], ["c"], axis=1)],
    "split": [N("Split", ["r", "sizes"], ["b", "c"], axis=1)],
}


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("images", [[0, 0, 0], [1, 1, 1], [0, 1, 1]])
def test_roi_align_with_constant_images(tmp_path: Path, images: list[int], ratio: int, mode: str) -> None:
    fields: dict[str, Any] = {**ROI_FIELDS, "sampling_ratio": ratio, "coordinate_transformation_mode": mode}
    node = N("RoiAlign", ["x", "c", "images"], ["y"], **fields)
    net = onnx_net(tmp_path, [node], {**MAPS, "c": [3, 4]}, images=images)
    type_, got = written(net, tmp_path, x=noise(2, 8, 4, 6), c=BOXES[:, 1:])[-1]
    assert type_ == "ROIAlign" and got["roi_end_mode"] == (2 if mode == "half_pixel" else 0)
    assert (got["pooled_h"], got["pooled_w"], got["sampling_ratio"]) == (2, 3, ratio)


@pytest.mark.parametrize("columns", COLUMNS)
def test_roi_align_reads_blob_of_regions(tmp_path: Path, columns: str) -> None:
    """Regions whose images are a column of the same array are Ascend's input as it is."""
    nodes = [
        *COLUMNS[columns],
        N("Squeeze", ["b", "one"], ["s"]),
        N("Cast", ["s"], ["i"], to=7),
        N("RoiAlign", ["x", "c", "i"], ["y"], **ROI_FIELDS),
    ]
    constants = {"first": [0], "others": [1, 2, 3, 4], "sizes": [1, 4], "one": [1]}
    used = {k: v for k, v in constants.items() if any(k in node.input for node in nodes)}
    net = onnx_net(tmp_path, nodes, {**MAPS, "r": [3, 5]}, **used)
    assert [t for t, _ in written(net, tmp_path, x=noise(2, 8, 4, 6), r=BOXES)] == ["ROIAlign"]


def test_roi_align_with_images_as_input(tmp_path: Path) -> None:
    nodes = [N("Cast", ["b"], ["i"], to=7), N("RoiAlign", ["x", "c", "i"], ["y"], **ROI_FIELDS)]
    net = onnx_net(tmp_path, nodes, {**MAPS, "c": [3, 4], "b": [3]})
    layers = written(net, tmp_path, x=noise(2, 8, 4, 6), c=BOXES[:, 1:], b=BOXES[:, 0])
    assert [t for t, _ in layers] == ["Reshape", "Concat", "ROIAlign"]


@pytest.mark.parametrize(
    ("mode", "dialect", "rule"), [("max", "ascend", "only avg"), ("avg", "bvlc", "'ascend' has it")]
)
def test_other_roi_align_is_refused(tmp_path: Path, mode: str, dialect: str, rule: str) -> None:
    node = N("RoiAlign", ["x", "c", "images"], ["y"], mode=mode, **ROI_FIELDS)
    net = onnx_net(tmp_path, [node], {**MAPS, "c": [3, 4]}, images=[0, 0, 0])
    with pytest.raises(LayerError, match=rf"layer 'RoiAlign_0' \(RoiAlign\): Caffe .* RoiAlign.*{rule}"):
        net.write(tmp_path / "net.prototxt", dialect=dialect, verify={"x": noise(2, 8, 4, 6), "c": BOXES[:, 1:]})


def sampled(grid: int = 0, sample: int = 0, **more: Any) -> list[Any]:
    """Return AffineGrid and GridSample with these align_corners."""
    first = N("AffineGrid", ["theta", "size"], ["g"], align_corners=grid)
    return [first, N("GridSample", ["x", "g"], ["y"], **{"align_corners": sample, **more})]


def maps(n: int) -> Array:
    return (np.eye(2, 3) + 0.3 * noise(n, 2, 3)).astype(np.float32)


@pytest.mark.parametrize(("grid", "sample"), [(0, 0), (1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 3, 5, 7), (6, 4)), ((1, 1, 4, 4), (4, 4)), ((1, 2, 1, 6), (2, 3)), ((3, 1, 9, 5), (2, 8))],
)
def test_affine_grid_becomes_spatial_transformer(
    tmp_path: Path, shape: tuple[int, ...], size: tuple[int, int], grid: int, sample: int
) -> None:
    given = {"x": noise(*shape), "theta": maps(shape[0])}
    inputs = {"x": [*shape], "theta": [shape[0], 2, 3]}
    net = onnx_net(tmp_path, sampled(grid, sample), inputs, size=[*shape[:2], *size])
    (_, product), (type_, fields) = written(net, tmp_path, **given)
    same = size == shape[2:]
    assert type_ == "SpatialTransformer" and product["num_output"] == 6
    assert fields == ({} if same else {"output_H": size[0], "output_W": size[1]})
    (want,) = onnxruntime.InferenceSession(tmp_path / "given.onnx").run(None, given)
    again = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", dialect="ascend")
    np.testing.assert_allclose(again.compile("numpy")(given)["y"], want, rtol=0, atol=1e-5)


def test_numbers_of_spatial_transformer_equal_formula(tmp_path: Path) -> None:
    """The formula is that of docs/ascend.md: rows come first, and Caffe's grid begins half a pixel earlier."""
    (rows, columns), (h, w) = (5, 7), (6, 4)
    net = onnx_net(tmp_path, sampled(), {"x": [1, 2, rows, columns], "theta": [1, 2, 3]}, size=[1, 2, h, w])
    written(net, tmp_path, x=noise(1, 2, rows, columns), theta=maps(1))
    matrix, offset = anylayer.read(tmp_path / "net.caffemodel", dialect="ascend").network.nodes[0].blobs
    row = [[0, 1, 0], [1, 0, 0], [1 / w, 1 / h, 1]]
    want = np.block([[np.zeros((3, 3)), np.array(row)], [np.array(row), np.zeros((3, 3))]])
    np.testing.assert_allclose(matrix, want, rtol=0, atol=1e-6)
    np.testing.assert_allclose(offset, [0, 0, -1 / rows, 0, 0, -1 / columns], rtol=0, atol=1e-6)


def test_grid_that_exporters_spell_out_becomes_spatial_transformer(tmp_path: Path) -> None:
    """torch.nn.functional.affine_grid is a product of fixed points with the transposed maps."""
    y, x = np.meshgrid(np.linspace(-0.8, 0.8, 5), np.linspace(-0.75, 0.75, 4), indexing="ij")
    points = np.stack([x, y, np.ones_like(x)], axis=-1).reshape(20, 3).astype(np.float32)
    nodes = [
        N("Reshape", ["p", "six"], ["theta"]),
        N("Transpose", ["theta"], ["t"], perm=[0, 2, 1]),
        N("MatMul", ["points", "t"], ["m"]),
        N("Reshape", ["m", "shape"], ["g"]),
        N("GridSample", ["x", "g"], ["y"], mode="linear", align_corners=0),
    ]
    constants = {"points": points, "six": [2, 2, 3], "shape": [2, 5, 4, 2]}
    net = onnx_net(tmp_path, nodes, {"x": [2, 8, 4, 6], "p": [2, 6]}, **constants)
    layers = written(net, tmp_path, x=noise(2, 8, 4, 6), p=maps(2).reshape(2, 6))
    assert [t for t, _ in layers] == ["InnerProduct", "SpatialTransformer"]


def test_constant_map_is_written_into_spatial_transformer(tmp_path: Path) -> None:
    theta = np.array([[[0, 1, 0.25], [-1, 0, 0]]], np.float32)
    net = onnx_net(tmp_path, sampled(), {"x": [1, 2, 4, 8]}, size=[1, 2, 4, 8], theta=theta)
    ((type_, fields),) = written(net, tmp_path)
    want = [0, -1, -1 / 8 - 1 / 4, 1, 0, 0.25 + 1 / 4 - 1 / 8]
    got = [fields[f"theta_{i}_{j}"] for i in (1, 2) for j in (1, 2, 3)]
    assert type_ == "SpatialTransformer" and got == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(
    ("nodes", "dialect", "rule"),
    [
        (sampled(mode="nearest"), "ascend", "no GridSample other than bilinear samples with zeros outside"),
        (sampled(padding_mode="border"), "ascend", "no GridSample other than bilinear samples"),
        ([N("Sigmoid", ["theta"], ["z"]), N("AffineGrid", ["z", "size"], ["h"]), N("Mul", ["h", "h"], ["g"]),
          sampled()[1]], "ascend", "at the points of one affine map per image"),
        (sampled(), "bvlc", "'ascend' has one for bilinear samples"),
    ],
)  # fmt: skip
def test_other_grid_samples_are_refused(tmp_path: Path, nodes: list[Any], dialect: str, rule: str) -> None:
    net = onnx_net(tmp_path, nodes, {"x": [1, 2, 4, 8], "theta": [1, 2, 3]}, size=[1, 2, 4, 8])
    with pytest.raises(LayerError, match=rf"\(GridSample\): Caffe .* GridSample.*{rule}|GridSample.*{rule}"):
        net.write(tmp_path / "net.prototxt", dialect=dialect, verify={"x": noise(1, 2, 4, 8), "theta": maps(1)})


def test_different_constant_maps_of_images_are_refused(tmp_path: Path) -> None:
    net = onnx_net(tmp_path, sampled(), {"x": [2, 2, 4, 8]}, size=[2, 2, 4, 8], theta=maps(2))
    with pytest.raises(LayerError, match="no GridSample other than"):
        net.write(tmp_path / "net.prototxt", dialect="ascend")


SLICES = {
    "whole": ([-1], [-9], [3], [("Reverse", 3)]),
    "two axes": ([-1, -1], [-9, -9], [1, 2], [("Reverse", [1, 2])]),
    "batch": ([-1], [-9], [0], [("Reverse", 0)]),
    "part": ([2], [0], [2], [("Slice", None), ("Reverse", 2)]),
}


@pytest.mark.parametrize("which", SLICES)
def test_slice_with_step_minus_one_becomes_reverse(tmp_path: Path, which: str) -> None:
    starts, ends, axes, want = SLICES[which]
    node = N("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])
    steps = [-1] * len(axes)
    net = onnx_net(tmp_path, [node], MAPS, starts=starts, ends=ends, axes=axes, steps=steps)
    assert [(t, f.get("axis") if t == "Reverse" else None) for t, f in written(net, tmp_path)] == want


def test_gather_backwards_becomes_reverse(tmp_path: Path) -> None:
    net = onnx_net(tmp_path, [N("Gather", ["x", "i"], ["y"], axis=2)], MAPS, i=[3, 2, 1, 0])
    assert written(net, tmp_path) == [("Reverse", {"axis": 2})]


BLOCKS = {
    "SpaceToDepth": ({}, ("Reorg", {"stride": 2})),
    "DepthToSpace": ({}, ("Reorg", {"reverse": True, "stride": 2})),
    "DepthToSpace of the other order": ({"mode": "CRD"}, ("Deconvolution", None)),
}


@pytest.mark.parametrize("which", BLOCKS)
def test_blocks_of_pixels_become_reorg(tmp_path: Path, which: str) -> None:
    more, (type_, fields) = BLOCKS[which]
    net = onnx_net(tmp_path, [N(which.split()[0], ["x"], ["y"], blocksize=2, **more)], MAPS)
    ((got, values),) = written(net, tmp_path)
    assert got == type_ and fields in (None, values)


KERAS = {
    "keras.src.layers.UnitNormalization": ({"axis": -1}, "Normalize"),
    "keras.src.ops.numpy.Flip": ({"axis": 2}, "Reverse"),
    "keras.src.ops.nn.SpaceToDepth": ({"block_size": 2}, "Reorg"),
    "keras.src.ops.nn.DepthToSpace": ({"block_size": 2}, "Reorg"),
    "keras.src.layers.UpSampling2D": ({"size": [2, 2], "interpolation": "nearest"}, "Upsample"),
}


@pytest.mark.parametrize("name", KERAS)
def test_keras_layers_become_those_of_ascend(tmp_path: Path, name: str) -> None:
    """Keras has the channels last, Caffe first."""
    fields, want = KERAS[name]
    module, type_ = name.rsplit(".", 1)
    x = {
        "class_name": "__keras_tensor__",
        "config": {"shape": [1, 4, 6, 8], "dtype": "float32", "keras_history": ["x", 0, 0]},
    }
    start: dict[str, Any] = {
        "module": "keras.layers",
        "class_name": "InputLayer",
        "name": "x",
        "inbound_nodes": [],
    }
    start["config"] = {"name": "x", "batch_shape": [1, 4, 6, 8], "dtype": "float32"}
    pool: dict[str, Any] = {"module": "keras.layers", "class_name": "MaxPooling2D", "name": "p"}
    pool["config"] = {"name": "p", "pool_size": [2, 2], "strides": [1, 1], "padding": "same"}
    pool["inbound_nodes"] = [{"args": [x], "kwargs": {}}]
    y = json.loads(json.dumps(x).replace('"x"', '"p"'))
    layer: dict[str, Any] = {"module": module, "class_name": type_, "name": "y", "config": {"name": "y", **fields}}
    layer["inbound_nodes"] = [{"args": [y], "kwargs": {}}]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["y", 0, 0]]}
    config = {"name": "m", "layers": [start, pool, layer], **ends}
    model = {"module": "keras.src.models.functional", "class_name": "Functional", "config": config}
    (tmp_path / "given.json").write_text(json.dumps(model))
    layers = [t for t, _ in written(anylayer.read(tmp_path / "given.json"), tmp_path)]
    assert want in layers and set(layers) <= {want, "Pooling", "Crop", "Permute"}
