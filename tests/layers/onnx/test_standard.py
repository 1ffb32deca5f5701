"""Tests of operators of older operator sets, against ONNX Runtime on the file itself.

tests/readers/onnx/test_node_tests.py covers the other operators with ONNX's own tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import anylayer
from anylayer.errors import LayerError
from anylayer.layer import Registry
from tests.engine_names import ALL
from tests.readers.onnx.files import model, save, value

node = helper.make_node
PICTURE = np.random.default_rng(0).standard_normal((1, 4, 6, 8)).astype(np.float32)
STATISTICS = {n: np.float32([0.5, 1, 1.5, 2]) for n in ("scale", "bias", "mean", "var")}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


_PYTORCH = {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}
_FOR_NEAREST = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
_BY_SCALES = {"e": np.zeros(0, np.float32), "s": np.float32([1, 1, 2, 1.3])}
BACKWARDS = {"high": np.int64([-200, -200]), "axes": np.int64([2, 3]), "steps": np.int64([-1, -2])}
CASES: list[tuple[int, Any, dict[str, Any]]] = [
    (7, node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"), {}),
    (9, node("Upsample", ["x", "s"], ["y"], mode="linear"), {"s": np.float32([1, 1, 2, 2])}),
    (10, node("Resize", ["x", "s"], ["y"], mode="linear"), {"s": np.float32([1, 1, 2, 1.5])}),
    (  # as PyTorch 1.3 to 1.6 writes it
        11,
        node("Resize", ["x", "e", "e", "z"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric"),
        {"e": np.zeros(0, np.float32), "z": np.int64([1, 4, 9, 16])},
    ),
    (11, node("Resize", ["x", "e", "s"], ["y"], **_PYTORCH), _BY_SCALES),
    *(
        (
            11,
            node("Resize", ["x", "e", "s"], ["y"], mode=mode, coordinate_transformation_mode="align_corners"),
            {**_BY_SCALES, "s": np.float32(scales)},
        )
        for mode in ("nearest", "linear", "cubic")
        for scales in ([1, 1, 1.7, 0.6], [1, 1, 0.4, 2.3])
    ),
    (1, node("LpNormalization", ["x"], ["y"], p=1, axis=2), {}),
    (1, node("LpNormalization", ["x"], ["y"]), {}),
    *(
        (
            11,
            node("Resize", ["x", "e", "s"], ["y"], mode=mode, **_FOR_NEAREST),
            {**_BY_SCALES, "s": np.float32(scales)},
        )
        for mode in ("nearest", "linear", "cubic")
        for scales in ([1, 1, 2, 1.5], [1, 1, 1.7, 2.3])
    ),
    (7, node("DepthToSpace", ["x"], ["y"], blocksize=2), {}),
    (7, node("SpaceToDepth", ["x"], ["y"], blocksize=2), {}),
    (7, node("Clip", ["x"], ["y"], min=-0.5, max=0.25), {}),
    (7, node("Softmax", ["x"], ["y"], axis=2), {}),
    (11, node("LogSoftmax", ["x"], ["y"]), {}),
    (7, node("Slice", ["x"], ["y"], axes=[1, 3], starts=[1, -4], ends=[3, 1000]), {}),
    *(
        (18, node("Slice", ["x", "low", "high", "axes", "steps"], ["y"]), {**BACKWARDS, "low": np.int64(low)})
        for low in ([-100, 100], [-6, -9], [-7, -1])
    ),
    (7, node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 3, 0], value=1.5), {}),
    (7, node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 3, 0], mode="reflect"), {}),
    (7, node("Squeeze", ["x"], ["y"], axes=[0]), {}),
    (7, node("Unsqueeze", ["x"], ["y"], axes=[1, 3]), {}),
    (7, node("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), {}),
    (7, node("Split", ["x"], ["y", "z"], axis=2), {}),
    (7, node("TopK", ["x"], ["y", "z"], axis=3, k=3), {}),
    (7, node("Dropout", ["x"], ["y"], ratio=0.5), {}),
    (7, node("ReduceMean", ["x"], ["y"], axes=[2, -1], keepdims=0), {}),
    (11, node("ReduceSum", ["x"], ["y"], axes=[1]), {}),
    (7, node("BatchNormalization", ["x", *STATISTICS], ["y"], epsilon=0.01), STATISTICS),
    (7, node("Cast", ["x"], ["y"], to=7), {}),
    (
        7,
        node("Gemm", ["m", "w", "b"], ["y"], transB=1, alpha=0.5),
        {"m": PICTURE[0, 0], "w": PICTURE[0, 1], "b": np.float32(1)},
    ),
    (7, node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"), {}),
    (7, node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), {}),
    (7, node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 1]), {"w": PICTURE[:, :, :3, :2]}),
    (7, node("Flatten", ["x"], ["y"], axis=2), {}),
    (9, node("Scatter", ["x", "i", "u"], ["y"], axis=1), {"i": np.int64([[[[2]]]]), "u": np.float32([[[[9]]]])}),
    (7, node("PRelu", ["x", "w"], ["y"]), {"w": np.float32([[[0.1]], [[0.2]], [[0.3]], [[0.4]]])}),
    (
        16,
        node("GridSample", ["x", "g"], ["y"], mode="bicubic"),
        {"g": PICTURE[:, :1, :4, :2].reshape(1, 2, 2, 2) / 3},
    ),
    (
        20,
        node("GridSample", ["x", "g"], ["y"], mode="cubic"),
        {"g": PICTURE[:, :1, :4, :2].reshape(1, 2, 2, 2) / 3},
    ),
    (20, node("Gelu", ["x"], ["y"], approximate="tanh"), {}),
    (21, node("GroupNormalization", ["x", "w", "w"], ["y"], num_groups=2), {"w": np.float32([1, 2, 3, 4])}),
    (13, node("Softmax", ["x"], ["y"], axis=1), {}),
    (19, node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), {}),
]


def path_of(opset: int, made: Any, constants: dict[str, Any]) -> Path:
    return save(model([made], [value("x", list(PICTURE.shape))], list(made.output), constants, opset))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1].op_type}-{c[0]}")
def test_matches_onnx_runtime(case: tuple[int, Any, dict[str, Any]]) -> None:
    opset, made, constants = case
    path = path_of(opset, made, constants)
    want = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": PICTURE})
    net = anylayer.read(path)
    for engine in ALL:
        got = net.compile(engine)(PICTURE)
        for name, array in zip(made.output, want):
            assert got[name].dtype == array.dtype
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=f"{engine}, {name}")


@pytest.mark.parametrize(
    ("opset", "made", "message"),
    [
        (11, node("Resize", ["x", "e", "e", "e"], ["y"]), "needs scales or sizes, but both are missing"),
        (7, node("Dropout", ["x"], ["y"], seed=1), "Dropout has no attribute 'seed' in operator set 7"),
        (
            6,
            node("BatchNormalization", ["x", *STATISTICS], ["y", "a"]),
            "has the outputs of training, which are not supported",
        ),
        (6, node("Add", ["x", "scale"], ["y"]), r"without broadcast=1 its inputs must have equal shapes"),
        (18, node("Reshape", ["x", "shape"], ["y"]), "layer 'Reshape_0' .Reshape.:"),
        (18, node("Reshape", ["x", "seven"], ["y"]), r"shape \[7\] does not fit an array of shape "),
        (
            18,
            node("MaxPool", ["x"], ["y"], kernel_shape=[2**31, 2], strides=[2, 2]),
            r"output 0 would have shape \[1, 4, -\d+, 4\]: a window must fit the padded input",
        ),
    ],
)
def test_invalid_arguments_are_refused(opset: int, made: Any, message: str) -> None:
    constants = {**STATISTICS, "shape": np.int64([5, -1]), "seven": np.int64([7]), "e": np.zeros(0, np.float32)}
    path = path_of(opset, made, constants)
    with pytest.raises(LayerError, match=message):
        anylayer.read(path).compile("onnxruntime")(PICTURE)


def test_center_crop_pad_with_too_many_computed_sizes_is_refused() -> None:
    ends = [value("x", [3, 4]), value("shape", [3], np.int64)]
    path = save(model([node("CenterCropPad", ["x", "shape"], ["y"])], ends, ["y"], {}, 18))
    with pytest.raises(LayerError, match="shape must have 2 elements, one per axis, got 3"):
        anylayer.read(path).compile("onnxruntime")


def test_empty_scales_convert(tmp_path: Path) -> None:
    constants = {"e": np.zeros(0, np.float32), "z": np.int64([1, 4, 12, 16])}
    path = path_of(11, node("Resize", ["x", "e", "e", "z"], ["y"], mode="linear"), constants)
    for name in ("done.onnx", "done.xml", "done.prototxt"):
        assert anylayer.read(path).write(tmp_path / name).checks[0].ok


def test_training_is_refused() -> None:
    constants = {"r": np.float32(0.5), "t": np.array(True)}
    path = path_of(18, node("Dropout", ["x", "r", "t"], ["y"]), constants)
    with pytest.raises(LayerError, match="training_mode is true, so its output is random"):
        anylayer.read(path).compile("onnxruntime")


def test_random_numbers_are_a_host_call() -> None:
    path = path_of(18, node("RandomNormalLike", ["x"], ["y"]), {})
    with pytest.warns(UserWarning, match="RandomNormalLike draws random numbers"):
        made = anylayer.read(path).compile("onnxruntime")
    assert made(PICTURE)["y"].shape == PICTURE.shape


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_sign_of_large_unsigned_integers(engine: str) -> None:
    path = save(model([node("Sign", ["x"], ["y"])], [value("x", [3], np.uint64)], ["y"]))
    x = np.array([0, 7, 2**64 - 1], np.uint64)
    assert anylayer.read(path).compile(engine)(x)["y"].tolist() == [0, 1, 1]


def test_every_operator_has_a_class_with_its_attributes() -> None:
    found = {d.type: d.cls for d in Registry.of("onnx").definitions()}
    assert len(found) > 170
    assert {"strides", "pads", "auto_pad"} <= set(found["Conv"].fields)
    assert found["Conv"].__doc__ and "convolution" in found["Conv"].__doc__.lower()


def test_an_unchanged_operator_is_recorded_as_itself() -> None:
    weights = {"w": PICTURE[:, :, :3, :2]}
    path = path_of(18, node("Conv", ["x", "w"], ["y"], pads=[1, 0, 1, 0]), weights)
    (step,) = anylayer.read(path).compile("onnxruntime").plan.steps
    (conv,) = step.graph.ops
    assert (conv.op, conv.attrs["pads"]) == ("Conv", [1, 0, 1, 0])
    assert (
        np.shares_memory(conv.inputs[1].const, numpy_helper.to_array(numpy_helper.from_array(weights["w"])))
        is False
    )


UNFIT = {
    "does not fit weights of shape (4, 3, 3, 3)": (
        node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 1]),
        {"w": np.ones((4, 3, 3, 3), np.float32)},
    ),
    "shape [1, 7] does not fit an array of shape (1, 4, 6, 8)": (
        node("Reshape", ["x", "s"], ["y"]),
        {"s": np.int64([1, 7])},
    ),
    "shape [-1, 7] does not fit an array of shape (1, 4, 6, 8)": (
        node("Reshape", ["x", "s"], ["y"]),
        {"s": np.int64([-1, 7])},
    ),
    "perm [1, 0] must be a permutation of the 4 axes of the input": (
        node("Transpose", ["x"], ["y"], perm=[1, 0]),
        {},
    ),
    "size must be at least 1, got 0": (node("LRN", ["x"], ["y"], size=0), {}),
    "does not take inputs of shape (1, 4, 6, 8), (5,): ": (
        node("Mod", ["x", "b"], ["y"], fmod=1),
        {"b": np.ones(5, np.float32)},
    ),
}


@pytest.mark.parametrize("rule", UNFIT)
@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_inputs_that_do_not_fit_are_refused(rule: str, engine: str) -> None:
    made, constants = UNFIT[rule]
    x = PICTURE[:, :3] if made.op_type == "Conv" else PICTURE
    path = save(model([made], [value("x", x.shape)], ["y"], constants))
    with pytest.raises(LayerError) as caught:
        anylayer.read(path).compile(engine)({"x": x})
    assert rule in str(caught.value)


def test_axes_in_an_attribute_are_constant_at_open_sizes(tmp_path: Path) -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)]
    path = save(model(nodes, [value("x", [None, 2, 3])], ["y"], opset=15), str(tmp_path / "net.onnx"))
    done = anylayer.read(path).write(tmp_path / "out.onnx", shapes={"x": ("N", 2, 3)})
    assert all(check.ok for check in done.checks)
