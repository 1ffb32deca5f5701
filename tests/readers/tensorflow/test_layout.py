"""A class with OpenCV's interface is given NCHW in a TensorFlow network, unless it states another layout."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import anylayer
from anylayer.cli.stubs import stub_file
from anylayer.errors import LayerError
from anylayer.layer import Layer
from tests.engine_names import ALL, GENERAL
from tests.readers.tensorflow.graphs import operation, placeholder, transpose, vector

ENGINES = ALL
X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)  # NHWC: 3 rows, 4 columns, 5 channels
ONE = placeholder("x", (2, 3, 4, 5)) + operation("mine", "Mine", ["x"])


class Rows:
    """Selects the first two rows, and records the shapes of its blobs and inputs."""

    seen: ClassVar[list[Any]] = []
    anything = True

    def __init__(self, params: Any, blobs: Any) -> None:
        type(self).seen = [tuple(b.shape) for b in blobs]

    def getMemoryShapes(self, inputs: Any) -> Any:
        n, c, _, w = inputs[0]
        type(self).seen = [*type(self).seen, tuple(inputs[0])]
        return [[n, c, 2, w]]

    def forward(self, inputs: Any) -> Any:
        assert inputs[0].shape[1:] == (5, 3, 4) or self.anything
        return [inputs[0][:, :, :2] * np.float32(2)]


def model(tmp_path: Path, text: str, cls: Any, engine: str = "numpy", **options: Any) -> anylayer.Model:
    (tmp_path / "net.pbtxt").write_text(text)
    return anylayer.read(tmp_path / "net.pbtxt", layers=[("Mine", cls)]).compile(engine, **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_class_is_given_nchw_in_an_nhwc_network(tmp_path: Path, engine: str) -> None:
    class Exact(Rows):
        anything = False

    made = model(tmp_path, ONE + operation("y", "Relu", ["mine"]), Exact, engine)
    assert np.array_equal(made({"x": X})["y"], X[:, :2] * 2)
    assert set(Exact.seen) == {(2, 5, 3, 4)}
    assert not made.host_calls


class Last(Rows):
    layout = "NHWC"

    def getMemoryShapes(self, inputs: Any) -> Any:
        n, _, w, c = inputs[0]
        return [[n, 2, w, c]]

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][:, :2] * np.float32(2)]


class Typed(Layer):
    def forward(self, x: Any) -> Any:
        return x[:, :2] * np.float32(2)


@pytest.mark.parametrize("cls", [Last, Typed])
@pytest.mark.parametrize("engine", ENGINES)
def test_class_with_layout_and_typed_class_are_given_nhwc(tmp_path: Path, cls: Any, engine: str) -> None:
    assert np.array_equal(model(tmp_path, ONE, cls, engine)({"x": X})["mine"], X[:, :2] * 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_host_call_is_given_a_writable_contiguous_nchw_array(tmp_path: Path, engine: str) -> None:
    class Host(Rows):
        def forward(self, inputs: Any) -> Any:
            x = inputs[0]
            if float(str(x.max())) > 1e9:
                return [x]
            assert x.flags.c_contiguous and x.shape == (2, 5, 3, 4)
            x += 1
            return [x[:, :, :2]]

    with pytest.warns(UserWarning, match="runs in Python") if engine != "numpy" else _nothing():
        made = model(tmp_path, ONE, Host, engine)
    given = X.copy()
    for _ in range(3):
        assert np.array_equal(made({"x": given})["mine"], X[:, :2] + 1)
    assert np.array_equal(given, X)


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_class_that_assigns_to_an_array_is_traced_in_nchw(tmp_path: Path) -> None:
    class Writes(Rows):
        def forward(self, inputs: Any) -> Any:
            out = np.zeros((2, 5, 2, 4), np.float32)
            out[:, :, 0] = inputs[0][:, :, 1]
            return [out]

    made = model(tmp_path, ONE, Writes, "onnxruntime")
    assert not made.host_calls
    want = np.zeros((2, 2, 4, 5), np.float32)
    want[:, 0] = X[:, 1]
    assert np.array_equal(made({"x": X})["mine"], want)


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (1, 2, 3, 4, 5)])
def test_arrays_of_other_ranks_are_not_transposed(tmp_path: Path, shape: Any) -> None:
    class Plain:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] + np.arange(shape[-1], dtype=np.float32)]

    x = np.ones(shape, np.float32)
    got = model(tmp_path, placeholder("x", shape) + operation("mine", "Mine", ["x"]), Plain)({"x": x})["mine"]
    assert np.array_equal(got, x + np.arange(shape[-1], dtype=np.float32))


def test_constants_are_not_transposed(tmp_path: Path) -> None:
    text = placeholder("x", (2, 3, 4, 5)) + vector("c", [7, 8]) + operation("mine", "Mine", ["x", "c"])
    model(tmp_path, text, Rows)({"x": X})
    assert Rows.seen[0] == (1, 2)


@pytest.mark.parametrize(
    ("before", "after", "layout"),
    [
        (operation("a", "Relu", ["x"], data_format="NCHW"), "", "NCHW"),
        (operation("a", "Relu", ["x"], data_format="NHWC"), "", "NHWC"),
        (operation("a", "Relu", ["x"]), operation("b", "Relu", ["mine"], data_format="NCHW"), "NCHW"),
        (transpose("a", "x", (0, 3, 1, 2)), "", "NCHW"),
        (transpose("a", "x", (0, 2, 3, 1)), "", "NHWC"),
        (operation("a", "Relu", ["x"]), transpose("b", "mine", (0, 2, 3, 1)), "NCHW"),
        (operation("a", "Relu", ["x"]), "", "NHWC"),
    ],
)
def test_layout_is_that_of_the_nearest_operation_that_states_one(
    tmp_path: Path, before: str, after: str, layout: str
) -> None:
    (tmp_path / "net.pbtxt").write_text(
        placeholder("x", (2, 3, 4, 5)) + before + operation("mine", "Mine", ["a"]) + after
    )
    net = anylayer.read(tmp_path / "net.pbtxt", layers=[("Mine", Rows)])
    assert next(n.layout for n in net.network.nodes if n.type == "Mine") == layout


def test_class_is_given_nchw_in_an_nchw_network(tmp_path: Path) -> None:
    text = placeholder("x", (2, 3, 4, 5)) + operation("mine", "Mine", ["x"], data_format="NCHW")
    assert np.array_equal(model(tmp_path, text, Rows)({"x": X})["mine"], X[:, :, :2] * 2)
    text = placeholder("x", (2, 3, 4, 5)) + operation("mine", "Mine", ["x"], data_format="NCHW")
    want = X[:, :, :, :][:, :, :2]
    assert np.array_equal(model(tmp_path, text, Last)({"x": X})["mine"], want * 2)


class BackLast:
    """Returns NHWC although it is given NCHW."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [np.transpose(inputs[0], (0, 2, 3, 1))]


def test_nhwc_result_of_an_nchw_class_is_refused(tmp_path: Path) -> None:
    rule = (
        "output 0 of forward has shape (2, 3, 4, 5), which is NHWC; the class is given NCHW, here (2, 5, 3, 4), "
        'and must return it. To work on NHWC, write layout = "NHWC" in the class; if the shape is meant, '
        'layout = "NCHW"'
    )
    for engine in ("numpy", "onnxruntime"):
        with pytest.raises(LayerError, match=re.escape(f"layer 'mine' (Mine): {rule}")):
            model(tmp_path, ONE, BackLast, engine)({"x": X})

    class Meant(BackLast):
        layout = "NCHW"

    assert model(tmp_path, ONE, Meant)({"x": X})["mine"].shape == (2, 4, 5, 3)

    class Declares(BackLast):
        def getMemoryShapes(self, inputs: Any) -> Any:
            n, c, h, w = inputs[0]
            return [[n, h, w, c]]

    with pytest.raises(LayerError, match=r"output 0 of getMemoryShapes has shape \(2, 3, 4, 5\), which is NHWC"):
        model(tmp_path, ONE, Declares)({"x": X})


def test_unknown_layout_is_refused(tmp_path: Path) -> None:
    class Odd(Rows):
        layout = "channels_last"

    with pytest.raises(LayerError, match='the class says layout = "channels_last", expected "NCHW" or "NHWC"'):
        model(tmp_path, ONE, Odd)({"x": X})


@pytest.mark.parametrize("cls", [Rows, Last])
@pytest.mark.parametrize("name", ["net.onnx", "net.prototxt"])
def test_kept_layer_is_given_the_layout_of_its_class(tmp_path: Path, name: str, cls: Any) -> None:
    (tmp_path / "net.pbtxt").write_text(ONE + operation("y", "Relu", ["mine"]))
    net = anylayer.read(tmp_path / "net.pbtxt", layers=[("Mine", cls)])
    net.write(tmp_path / name, keep=["Mine"])
    again = anylayer.read(
        tmp_path / name,
        *([tmp_path / "net.caffemodel"] if (tmp_path / "net.caffemodel").exists() else []),
        layers=[("Mine", cls)],
    ).compile("numpy")
    caffe = name.endswith("prototxt")
    (got,) = again({n: X.transpose(0, 3, 1, 2) if caffe else X for n in again.inputs}).values()
    assert np.array_equal(got.transpose(0, 2, 3, 1) if caffe else got, X[:, :2] * 2)


def test_class_with_nhwc_gets_nhwc_arrays_in_a_caffe_network(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 2 dim: 5 dim: 3 dim: 4 } } }\n'
        'layer { name: "m" type: "Mine" bottom: "d" top: "m" }\n'
    )
    first = X.transpose(0, 3, 1, 2).copy()
    got = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Last)]).compile("numpy")({"d": first})["m"]
    assert np.array_equal(got, first[:, :, :2] * 2)


def test_inspect_notes_the_layout_of_a_class(tmp_path: Path) -> None:
    (tmp_path / "net.pbtxt").write_text(ONE)
    notes = anylayer.read(tmp_path / "net.pbtxt", layers=[("Mine", Rows)]).inspect().notes
    assert any(
        n.endswith(
            "layer 'mine' (Mine): the class sees arrays of rank 4 as NCHW, as in OpenCV, and the file has NHWC; "
            'to see those, write layout = "NHWC" in the class'
        )
        for n in notes
    )
    assert not any(
        "rank 4" in n for n in anylayer.read(tmp_path / "net.pbtxt", layers=[("Mine", Last)]).inspect().notes
    )


def test_stub_states_the_layout(tmp_path: Path) -> None:
    (tmp_path / "net.pbtxt").write_text(ONE)
    net = anylayer.read(tmp_path / "net.pbtxt")
    text = stub_file(net.network, net.inspect().nodes, ["Mine"], "anylayer run")
    line = '    layout = "NCHW"  # the layout of arrays of rank 4, as in OpenCV; the file has "NHWC"\n'
    assert line in text
    assert "(x,) = inputs  # float32[2, 5, 3, 4]\n" in text
    assert "noise.standard_normal((2, 5, 3, 4), np.float32)" in text


SIZES = " ".join(f"dim {{ size: {d} }}" for d in (2, 2, 4, 5))
STATED = f' attr {{ key: "_output_shapes" value {{ list {{ shape {{ {SIZES} }} }} }} }}'


@pytest.mark.parametrize("engine", GENERAL)
def test_result_with_another_shape_than_the_file_states_is_refused(tmp_path: Path, engine: str) -> None:
    """A class written for channels last slices the wrong axis, which nothing else would notice."""

    class Columns(Rows):
        getMemoryShapes = None

        def forward(self, inputs: Any) -> Any:
            return [inputs[0][:, :2] * np.float32(2)]

    text = ONE.replace(' op: "Mine"', f'{STATED} op: "Mine"')
    assert np.array_equal(model(tmp_path, text, Rows, engine)({"x": X})["mine"], X[:, :2] * 2)
    rule = r"layer 'mine' \(Mine\): output 0 has shape \(2, 3, 4, 2\), the file declares \(2, 2, 4, 5\)\. Correct"
    with pytest.raises(LayerError, match=rule):
        model(tmp_path, text, Columns, engine)


def test_example_layer_for_opencv_runs_in_a_tensorflow_network(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "layers" / "resize_bilinear.py"
    text = (
        placeholder("x", (2, 3, 4, 5)) + vector("size", [6, 8]) + operation("y", "ResizeBilinear", ["x", "size"])
    )
    (tmp_path / "net.pbtxt").write_text(text)
    want = anylayer.read(tmp_path / "net.pbtxt").compile("numpy")({"x": X})["y"]
    assert want.shape == (2, 6, 8, 5)
    got = anylayer.read(tmp_path / "net.pbtxt", layers=[example]).compile("numpy")({"x": X})["y"]
    assert np.allclose(got, want, atol=1e-5)
