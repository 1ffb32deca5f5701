"""OpenCV 4 reads and runs the files that are written for it: the rules of writers/caffe/opencv_rules.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer import ops
from anylayer.api import Net
from anylayer.errors import AnyLayerError, LayerError
from anylayer.network import Array, Network, TensorType
from tests.layers.harness import Case, cases, noise
from tests.test_output_names import CAFFE
from tests.writers.caffe.harness import layers_of, save, traced
from tests.writers.caffe.opencv4 import opencv4
from tests.writers.caffe.test_operators import CHANNELS, DATA_MOVEMENT, ELEMENTWISE, POSITIVE, X

CASES = {name: case for name, case in cases() if name.startswith("caffe.")}
MODELS = ("lenet", "mtcnn_det1", "squeezenet_v1.1", "mobilenet_ssd", "ultraface_RFB-320")


def assert_same_outputs(got: Mapping[str, Array], want: Mapping[str, Any]) -> None:
    """Check that OpenCV's outputs equal the network's, by name, and that `forward()` alone returns one."""
    assert set(got) - {"", "silence"} == set(want)
    for name, array in want.items():
        array = np.asarray(array, np.float32)
        found = got[name].reshape(array.shape) if array.ndim < 2 and got[name].size == array.size else got[name]
        assert found.shape == array.shape, name
        np.testing.assert_allclose(found, array, rtol=0, atol=1e-4 * max(1e-6, np.abs(array).max(initial=0)))
    assert any(got[""].shape == got[name].shape and np.array_equal(got[""], got[name]) for name in want)


def net_of(case: Case) -> tuple[Net, dict[str, Array]]:
    node, given = case.node(), {f"in{i}": a for i, a in enumerate(case.inputs)}
    types: dict[str, TensorType | None] = {k: TensorType.of(a.shape, a.dtype) for k, a in given.items()}
    outputs = {name: name for name in node.outputs}
    network = Network(
        "n", "caffe", types, [node], outputs, dialect=case.dialect, source="n", dtype=np.dtype(np.float32)
    )
    return Net(network, {}), given


@pytest.mark.parametrize("name", CASES)
def test_layers_match_opencv(tmp_path: Path, name: str) -> None:
    """OpenCV computes the same as NumPy, or the layer is refused."""
    opencv = opencv4()
    net, given = net_of(CASES[name])
    try:
        done = net.write(tmp_path / "net.prototxt", dialect="opencv", verify=given)
    except AnyLayerError:
        return
    *_, weights, text = done.files
    assert_same_outputs(opencv.run(text, weights, given), net.compile("numpy")(given))


FUSED: dict[str, tuple[Callable[..., Any], list[Any], None]] = {
    "number over a blob": (lambda x: np.float32(2) / x, [POSITIVE], None),
    "negative number over a blob": (lambda x: np.float32(-3) / x, [POSITIVE], None),
    "channels over a blob": (lambda x: CHANNELS / x, [POSITIVE], None),
    "square and factor": (lambda x: x * x * np.float32(3), [X], None),
    "root and sum": (lambda x: np.sqrt(x) + np.float32(1), [POSITIVE], None),
    "one over a root": (lambda x: np.float32(1) / np.sqrt(x * x + np.float32(1)), [X], None),
    "power and channels": (lambda x: x ** np.float32(1.5) * CHANNELS, [POSITIVE], None),
    "pad of one axis": (lambda x: ops.conv(x, noise(2, 3, 3, 3), pads=(0, 1, 0, 1)), [X], None),
    "stride of one axis": (lambda x: ops.conv(x, noise(2, 3, 3, 3), strides=(1, 2)), [X], None),
    "slice on both sides": (lambda x: x[:, 1:2], [X], None),
    "two slices on both sides": (lambda x: (x[:, 1:2], x[:, :, 1:3]), [X], None),
}
OPERATORS = {**ELEMENTWISE, **DATA_MOVEMENT, **FUSED}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_match_opencv(tmp_path: Path, name: str) -> None:
    opencv = opencv4()
    function, inputs, _ = OPERATORS[name]
    try:
        *_, weights, text = save(layers_of(traced(function, inputs), "opencv"), tmp_path / "net.prototxt")
    except LayerError:
        return
    want = function(*inputs)
    listed = want if isinstance(want, (list, tuple)) else [want]
    got = opencv.run(text, weights, {f"x{i}": x for i, x in enumerate(inputs)})
    assert_same_outputs(got, {f"y{i}": array for i, array in enumerate(listed)})


def test_concat_of_one_blob_is_written_as_another_layer(tmp_path: Path) -> None:
    """OpenCV 4.14 returns memory that is not initialised for a Concat of the network's input alone."""
    path = tmp_path / "given.prototxt"
    path.write_text(
        'input: "x" input_shape { dim: 1 dim: 2 dim: 2 }\nlayer { name: "y" type: "Concat" bottom: "x" top: "y" }'
    )
    anylayer.read(path).write(tmp_path / "net.prototxt", dialect="opencv")
    assert "Concat" not in (tmp_path / "net.prototxt").read_text()


@pytest.mark.parametrize(
    ("layer", "dialect"),
    [
        ('type: "Reorg" reorg_param { stride: 2 }', "darknet"),
        ('type: "Scale" scale_param { axis: -1 filler { type: "constant" value: 2 } }', None),
        ('type: "Scale" scale_param { axis: -2 num_axes: 1 filler { type: "constant" value: 3 } }', None),
    ],
)
def test_layer_is_written_as_itself_and_read_by_opencv(tmp_path: Path, layer: str, dialect: str | None) -> None:
    path, x = tmp_path / "given.prototxt", noise(1, 4, 6, 2)
    path.write_text(
        'input: "x" input_shape { dim: 1 dim: 4 dim: 6 dim: 2 }'
        f'layer {{ name: "y" bottom: "x" top: "y" {layer} }}'
    )
    net = anylayer.read(path, dialect=dialect)
    *weights, text = net.write(tmp_path / "net.prototxt", dialect="opencv").files
    assert layer.split('"')[1] in text.read_text()
    got = opencv4().run(text, weights[-1] if weights else None, {"x": x})
    assert_same_outputs(got, net.compile("numpy")({"x": x}))


@pytest.mark.parametrize("name", CAFFE)
def test_output_names(tmp_path: Path, name: str) -> None:
    opencv = opencv4()
    (tmp_path / "given.prototxt").write_text(CAFFE[name])
    net = anylayer.read(tmp_path / "given.prototxt", dialect="opencv").fill()
    given = {n: noise(*kind.shape) for n, kind in net.inputs.items() if kind is not None}
    *_, weights, text = net.write(tmp_path / "net.prototxt").files
    assert_same_outputs(opencv.run(text, weights, given), net.compile("numpy")(given))


TEXTS = {
    "only pad_w": "Convolution convolution_param { num_output: 2 kernel_size: 3 pad_w: 1 }",
    "only pad_h": "Convolution convolution_param { num_output: 2 kernel_size: 3 pad_h: 1 }",
    "only stride_w": "Convolution convolution_param { num_output: 2 kernel_size: 3 stride_w: 2 }",
    "only stride_h, transposed": "Deconvolution convolution_param { num_output: 2 kernel_size: 3 stride_h: 2 }",
    "no pooling method": "Pooling pooling_param { global_pooling: true }",
    "windows rounded down": "Pooling pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }",
    "a filler": 'PReLU prelu_param { filler { type: "constant" value: 0.1 } }',
    "a message of another layer": "Power power_param { shift: 1 } interp_param { height: 3 }",
    "negative axis": "Slice slice_param { axis: -1 slice_point: 2 }",
}


@pytest.mark.parametrize("name", TEXTS)
def test_fields_that_opencv_ignores_or_requires_are_written(tmp_path: Path, name: str) -> None:
    """Fields that OpenCV ignores without a second field, or requires, are written."""
    opencv = opencv4()
    type_, _, params = TEXTS[name].partition(" ")
    tops = 'top: "y"' if type_ != "Slice" else 'top: "y" top: "z"'
    (tmp_path / "given.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 7 dim: 7 } } }\n'
        f'layer {{ name: "l" type: "{type_}" bottom: "x" {tops} {params} }}'
    )
    net = anylayer.read(tmp_path / "given.prototxt").fill()
    *_, weights, text = net.write(tmp_path / "net.prototxt", dialect="opencv").files
    given = {"x": noise(1, 3, 7, 7)}
    want = net.compile("numpy")(given)
    got = opencv.run(text, weights, given)
    for key in want:
        np.testing.assert_allclose(got[key], want[key], atol=1e-5)


@needs_data("models")
@pytest.mark.parametrize("name", MODELS)
def test_models_match_opencv(tmp_path: Path, name: str) -> None:
    folder = REFERENCE / "models" / name
    opencv = opencv4()
    net = anylayer.read(folder / "deploy.prototxt", folder / "weights.caffemodel", dialect="opencv")
    *_, weights, text = net.write(tmp_path / "net.prototxt", verify=False).files
    given = {n: noise(*kind.shape) for n, kind in net.inputs.items() if kind is not None}
    assert_same_outputs(opencv.run(text, weights, given), net.compile("numpy")(given))


# ---- verification of a conversion

POOL = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 6 } } }
layer { name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param { kernel_size: 2 stride: 2 } }
"""


def converted(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `anylayer convert` for OpenCV in the Python that has OpenCV 4."""
    (folder / "given.prototxt").write_text(text)
    source = str(Path(anylayer.__file__).parents[1])
    start = ["-c", "from anylayer.cli import main; main()"]
    command = ["convert", "given.prototxt", "-o", "net.prototxt", "--to-dialect", "opencv"]
    return subprocess.run(
        [opencv4().python, *start, *command, *options],
        capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip


def test_convert_runs_file_in_opencv(tmp_path: Path) -> None:
    done = converted(tmp_path, POOL)
    version = opencv4().version
    assert re.search(rf"^y in OpenCV {re.escape(version)}: largest difference 0, ", done.stdout, re.MULTILINE), (
        done.stderr
    )
    assert f"1 output, run by numpy, OpenCV {version}, compared with the layers in NumPy" in done.stderr


def test_convert_refuses_file_that_opencv_reads_differently(tmp_path: Path) -> None:
    """The layers file disables a rule of the writer, as if that rule were missing."""
    (tmp_path / "layers.py").write_text(
        "import anylayer.writers.caffe.outputs as outputs\n"
        "outputs._separate_powers = lambda net: None\n"
        "import anylayer\n"
        '@anylayer.layer("Unused")\n'
        "class Unused:\n    def forward(self, inputs):\n        return inputs\n"
    )
    text = POOL.split("layer { name: \"p\"")[0] + "".join(
        f'layer {{ name: "{name}" type: "Power" bottom: "{bottom}" top: "{name}" power_param {{ {params} }} }}\n'
        for name, bottom, params in (("a", "x", "power: 2"), ("y", "a", "scale: 3"))
    )  # fmt: skip
    done = converted(tmp_path, text, "-l", "layers.py")
    assert re.search(
        r"net\.prototxt: output 'y' differs in OpenCV 4\S* from the source: largest difference ", done.stderr
    )
    assert not (tmp_path / "net.prototxt").exists()
    assert converted(tmp_path, text).returncode == 0


def test_note_without_opencv_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given.prototxt").write_text(POOL)
    monkeypatch.setitem(sys.modules, "cv2", None)
    monkeypatch.delitem(sys.modules, "anylayer.libraries.opencv", raising=False)
    monkeypatch.delattr("anylayer.libraries.opencv", raising=False)
    done = anylayer.read(tmp_path / "given.prototxt").write(tmp_path / "net.prototxt", dialect="opencv")
    assert done.notes == [
        "the file was not run by OpenCV itself, which is not installed: pip install 'opencv-python-headless<5'"
    ]
    assert done.runs == "numpy"


# ---- user-defined layers


class Mine:
    """Return the input unchanged."""

    def __init__(self, params: dict[str, Any], blobs: list[Any]) -> None:
        pass

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [inputs[0] + 0]


def mine(folder: Path, params: str) -> list[str]:
    """Write a network with a user's layer for OpenCV and return the notes."""
    text = POOL.split('layer { name: "p"')[0] + f'layer {{ name: "m" type: "Mine" bottom: "x" top: "y" {params} }}'
    (folder / "given.prototxt").write_text(text)
    net = anylayer.read(folder / "given.prototxt", layers=[("Mine", Mine)])
    return net.write(folder / "net.prototxt", dialect="opencv").notes


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ("mine_param { a: -1 }", "field 'mine_param.a' is -1, and the class gets '1'"),
        ("mine_param { a: 1 b: -0.5 }", "field 'mine_param.b' is -0.5, and the class gets '0.5'"),
        (
            'mine_param { mode: "max" }',
            "field 'mine_param.mode' is the quoted string \"max\", at which ",
        ),
        ("mine_param { a: 1 a: 2 }", "field 'mine_param.a' has 2 values, and the class gets only one"),
        ("mine_param { in { a: -2 } }", "field 'mine_param.in.a' is -2, and the class gets '2'"),
        (
            "mine_param { a: 1 in { a: 2 } }",
            "field 'mine_param.in.a' has the name of 'mine_param.a', and ",
        ),
        (
            "power_param { scale: 1 } mine_param { scale: 1 }",
            "field 'mine_param.scale' has the name of 'power_p",
        ),
    ],
)
def test_params_that_opencv_changes_are_refused(tmp_path: Path, params: str, what: str) -> None:
    rule = f"layer 'm' (Mine): OpenCV passes other parameters to the class of a layer than the file has: {what}"
    with pytest.raises(LayerError, match=re.escape(rule) + ".*python_param { param_str"):
        mine(tmp_path, params)


@pytest.mark.parametrize(
    "params", ["mine_param { a: 1 b: 0.5 c: true d: MAX e: 1e-5 }", 'python_param { param_str: "-1" }',
               "power_param { shift: -1 }", "reshape_param { shape { dim: 1 dim: -1 } }"],
)  # fmt: skip
def test_params_that_opencv_keeps_are_written(tmp_path: Path, params: str) -> None:
    assert mine(tmp_path, params) == ["the file was not run by OpenCV itself, which has no layer Mine"]
