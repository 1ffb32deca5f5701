"""Net and the functions that read it: what is special to anylayer, against NumPy and the file's own outputs."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import anylayer
import anylayer.opencv as dnn
from tests.opencv.conftest import SMALL
from tests.opencv.programs import SIZES, noise
from tests.readers.tensorflow import files

Floats = NDArray[np.float32]


def small(networks: Path) -> dnn.Net:
    return dnn.readNetFromCaffe(networks / "small.prototxt", networks / "small.caffemodel")


def test_forward_matches_the_model(networks: Path) -> None:
    net, x = small(networks), noise(*SIZES["small"])
    net.setInput(x)
    want = anylayer.read(networks / "small.prototxt", networks / "small.caffemodel").compile("numpy")(x)
    np.testing.assert_allclose(net.forward(), want["prob"], rtol=0, atol=1e-6)
    outputs = net.forward(net.getUnconnectedOutLayersNames())
    assert [o.shape for o in outputs] == [want["side"].shape, want["prob"].shape]


def test_forward_takes_opencvs_three_forms(networks: Path) -> None:
    net = small(networks)
    net.setInput(noise(*SIZES["small"]))
    first = net.forward("conv")
    for answer in (
        net.forward(outputName="conv"),
        net.forward(None, "conv")[0],
        net.forward(["conv"])[0],
        net.forward(outBlobNames=("conv",))[0],
        net.forward([np.zeros(1)], "conv")[0],
        net.forwardAndRetrieve(["conv"])[0][0],
    ):
        assert np.array_equal(answer, first)
    halves = net.forwardAndRetrieve(["parts"])[0]
    assert len(halves) == 2
    np.testing.assert_allclose(np.concatenate(halves, 1), net.forward("scale"), rtol=0, atol=1e-4)
    with pytest.raises(dnn.error, match="forward has no argument 'names'"):
        net.forward(names=["conv"])


def test_set_input_copies_the_array(networks: Path) -> None:
    net, x = small(networks), noise(*SIZES["small"])
    net.setInput(x)
    want = net.forward()
    x[:] = 0
    assert np.array_equal(net.forward(), want)
    net.setInput(noise(*SIZES["small"], seed=1))
    assert not np.array_equal(net.forward(), want)


def test_outputs_stay_when_the_network_runs_again(networks: Path) -> None:
    net = small(networks)
    net.setInput(noise(*SIZES["small"]))
    first = net.forward("conv")
    kept = first.copy()
    net.setInput(noise(*SIZES["small"], seed=1))
    net.forward("conv")
    assert np.array_equal(first, kept)


def test_runs_that_are_started_keep_their_inputs(networks: Path) -> None:
    net, wanted, started = small(networks), [], []
    for seed in range(6):
        net.setInput(noise(*SIZES["small"], seed=seed))
        wanted.append(net.forward())
    for seed in range(6):
        net.setInput(noise(*SIZES["small"], seed=seed))
        started.append(net.forwardAsync())
    for run, want in zip(started, wanted):
        ready, array = run.get(timeoutNs=20e9)
        assert ready and np.array_equal(array, want)
        assert np.array_equal(run.get(), want) and run.wait_for(0) and run.valid()


def test_result_that_is_not_ready_in_time_is_none(networks: Path) -> None:
    go = threading.Event()

    class Waits:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def getMemoryShapes(self, inputs: Any) -> Any:
            return [inputs[0]]

        def forward(self, inputs: Any) -> Any:
            go.wait(20)
            return [np.array([[float(str(number)) for number in inputs[0][0]]], np.float32)]

    dnn.dnn_registerLayer("Waits", Waits)
    net = dnn.readNetFromCaffe(
        b'input: "x" input_shape { dim: 1 dim: 2 } layer { name: "w" type: "Waits" bottom: "x" top: "y" }'
    )
    net.setInput(np.ones((1, 2), np.float32))
    with pytest.warns(UserWarning, match=r"layer 'w' \(Waits\) runs in Python"):
        run = net.forwardAsync()
        early = run.get(timeoutNs=1e6)
        go.set()
        late = run.get()
    dnn.dnn_unregisterLayer("Waits")
    assert early == (False, None) and late.tolist() == [[1, 1]]


def test_error_of_a_started_run_is_raised_by_get(networks: Path) -> None:
    net = small(networks)
    net.setInput(noise(1, 5, 16, 20))
    with pytest.raises(dnn.error, match="layer 'first'"):
        net.forwardAsync().get()


def test_layers_are_listed_with_opencvs_names(networks: Path) -> None:
    net = small(networks)
    assert net.getLayerNames() == ("conv", "relu", "bn", "scale", "parts", "parts_1", "side", "fc", "prob")
    assert [net.getLayer(i).type for i in (1, 5, 8)] == ["Convolution", "Slice", "InnerProduct"]
    assert net.getUnconnectedOutLayers().tolist() == [7, 9]


def test_numbers_of_outputs_suit_scripts_of_opencv_3_and_4(networks: Path) -> None:
    net = small(networks)
    names, numbers = net.getLayerNames(), net.getUnconnectedOutLayers()
    want = list(net.getUnconnectedOutLayersNames())
    assert numbers.shape == (len(want),) and numbers.dtype == np.int32
    assert [names[i[0] - 1] for i in numbers] == [names[i - 1] for i in numbers] == want
    assert [names[i - 1] for i in numbers.flatten()] == want and names[numbers[0] - 1] == want[0]


def test_axpy_counts_as_two_layers() -> None:
    text = (
        'input: "s" input: "x" input: "y" input_shape { dim: 1 dim: 2 dim: 1 dim: 1 } '
        "input_shape { dim: 1 dim: 2 dim: 3 dim: 3 } input_shape { dim: 1 dim: 2 dim: 3 dim: 3 } "
        'layer { name: "a" type: "Axpy" bottom: "s" bottom: "x" bottom: "y" top: "a" } '
        'layer { name: "r" type: "ReLU" bottom: "a" top: "r" }'
    )
    net = dnn.readNetFromCaffe(text.encode())
    assert net.getLayerNames() == ("a/scale", "a", "r") and net.getLayer(2).type == "Eltwise"
    with pytest.raises(dnn.error, match="layer 'a/scale' has no outputs"):
        net.forward("a/scale")


def test_operations_are_two_per_multiply_add(networks: Path) -> None:
    macs = 16 * 20 * 4 * 27 + (2 * 4 * 5) * 6
    counted = small(networks).getFLOPS([1, 3, 16, 20])
    assert 2 * macs <= counted <= 2.2 * macs


def test_profile_is_the_time_of_the_last_run(networks: Path) -> None:
    net = small(networks)
    assert net.getPerfProfile()[0] == 0
    net.setInput(noise(*SIZES["small"]))
    net.forward()
    ticks, layers = net.getPerfProfile()
    assert 0 < ticks < 60e9 and layers.shape == (9,)


def test_assigned_blobs_are_used() -> None:
    """Weights of layers that no file holds, as scripts for colorization set them."""
    text = (
        'input: "x" input_shape { dim: 1 dim: 3 dim: 2 dim: 2 } '
        'layer { name: "mix" type: "Convolution" bottom: "x" top: "mix" '
        "convolution_param { num_output: 2 kernel_size: 1 bias_term: false } } "
        'layer { name: "scale" type: "Scale" bottom: "mix" top: "scale" scale_param { bias_term: false } }'
    )
    net = dnn.readNetFromCaffe(bytearray(text.encode()))
    kernel = noise(2, 3, 1, 1)
    net.getLayer("mix").blobs = [kernel]
    net.getLayer(net.getLayerId("scale")).blobs = [np.full([1, 2], 2.606, np.float32)]
    x = noise(1, 3, 2, 2, seed=1)
    net.setInput(x)
    want = np.einsum("oc,nchw->nohw", kernel[:, :, 0, 0], x) * np.float32(2.606)
    np.testing.assert_allclose(net.forward(), want, rtol=1e-5)
    net.setParam("scale", 0, np.full((2, 1), -1, np.float32))
    np.testing.assert_allclose(net.forward(), want / -2.606, rtol=1e-5)
    assert net.getParam("scale").shape == (2, 1)
    with pytest.raises(dnn.error, match="the weight has 6 values, got 5"):
        net.setParam("mix", 0, np.zeros(5, np.float32))
    with pytest.raises(dnn.error, match="layer '_input' has no weights"):
        net.setParam(0, 0, kernel)


def test_weights_of_an_onnx_node_are_its_constants(networks: Path, tmp_path: Path) -> None:
    anylayer.read(networks / "small.prototxt", networks / "small.caffemodel").write(tmp_path / "net.onnx")
    net, x = dnn.readNetFromONNX(str(tmp_path / "net.onnx")), noise(*SIZES["small"])
    net.setInput(x)
    before = net.forward("onnx_node!first")
    kernel, bias = net.getLayer("onnx_node!first").blobs[:2]
    net.setParam("onnx_node!first", 1, bias + 1)
    assert kernel.shape == (4, 3, 3, 3)
    kernel[:] = 0  # a copy, as in OpenCV
    np.testing.assert_allclose(net.forward("onnx_node!first"), before + 1, rtol=0, atol=1e-5)


def test_onnx_outputs_are_layers(networks: Path, tmp_path: Path) -> None:
    anylayer.read(networks / "small.prototxt", networks / "small.caffemodel").write(tmp_path / "net.onnx")
    buffer = np.fromfile(tmp_path / "net.onnx", np.uint8)
    for net in (dnn.readNet("onnx", buffer), dnn.readNetFromONNX(buffer), dnn.readNet(tmp_path / "net.onnx")):
        assert net.getUnconnectedOutLayersNames() == ("prob", "side")
        net.setInput(noise(*SIZES["small"]))
        assert np.array_equal(net.forward(), net.forward("side"))
        assert "onnx_node!prob" in net.getLayerNames() and net.getLayersCount("Constant") == 0


def test_openvino_files_and_buffers_are_read(networks: Path, tmp_path: Path) -> None:
    net = anylayer.read(networks / "small.prototxt", networks / "small.caffemodel")
    net.write(tmp_path / "net.xml", verify=False)
    xml, weights = tmp_path / "net.xml", tmp_path / "net.bin"
    x = noise(*SIZES["small"])
    want = net.compile("numpy")(x)
    for found in (
        dnn.readNetFromModelOptimizer(str(xml), str(weights)),
        dnn.readNetFromModelOptimizer(xml.read_bytes(), weights.read_bytes()),
        dnn.readNet(str(weights), str(xml)),
        dnn.Net.readFromModelOptimizer(str(xml), str(weights)),
    ):
        found.setInput(x)
        for name, array in zip(found.getUnconnectedOutLayersNames(), found.forward(list(want))):
            np.testing.assert_allclose(array, want[name], rtol=0, atol=1e-5)


LIST = [1, 1, 1, 1]


def convolution(name: str, source: str, kernel: Floats, layout: str = "NHWC") -> list[bytes]:
    """Return a convolution of a TensorFlow graph, with its kernel."""
    attributes = {"strides": LIST, "dilations": LIST, "padding": "SAME", "data_format": layout}
    return [files.const(f"{name}/w", kernel), files.node(name, "Conv2D", source, f"{name}/w", **attributes)]


def order(name: str, *axes: int) -> bytes:
    return files.const(name, np.array(axes, np.int32))


KERNEL = noise(1, 1, 3, 4)
GRAPHS = {
    "channels last": [
        files.placeholder("x", 1, 6, 8, 3),
        *convolution("c", "x", KERNEL),
        files.node("r", "Relu", "c"),
    ],
    "channels first": [
        files.placeholder("x", 1, 3, 6, 8),
        *convolution("c", "x", KERNEL, "NCHW"),
        files.node("r", "Relu", "c"),
    ],
    "transposed input": [
        files.placeholder("x", 1, 6, 8, 3),
        order("p", 0, 3, 1, 2),
        files.node("t", "Transpose", "x", "p"),
        *convolution("c", "t", KERNEL, "NCHW"),
        files.node("r", "Relu", "c"),
    ],
    "transposed output": [
        files.placeholder("x", 1, 6, 8, 3),
        *convolution("c", "x", KERNEL),
        order("p", 0, 3, 1, 2),
        files.node("t", "Transpose", "c", "p"),
        files.node("r", "Relu", "t"),
    ],
}


@pytest.mark.one_per()
@pytest.mark.parametrize("name", GRAPHS)
def test_tensorflow_blobs_are_channels_first(name: str) -> None:
    """Whatever the order of the graph, as in OpenCV."""
    net, x = dnn.readNetFromTensorflow(files.graph(*GRAPHS[name])), noise(1, 3, 6, 8)
    net.setInput(x)
    want = np.maximum(np.einsum("co,nchw->nohw", KERNEL[0, 0], x), 0)
    np.testing.assert_allclose(net.forward(), want, rtol=0, atol=1e-5)
    assert net.getLayersShapes([1, 3, 6, 8])[2][-1][0].tolist() == [1, 4, 6, 8]


def test_tensorflow_volumes_are_channels_first_where_the_graph_states_its_order() -> None:
    """OpenCV 4.14 gives the same shapes and values for these graphs."""
    kernel, attributes = noise(1, 1, 1, 2, 4), {"strides": [1] * 5, "padding": "VALID", "data_format": "NDHWC"}
    nodes = [files.placeholder("x", 1, 3, 4, 5, 2), files.const("w", kernel)]
    net = dnn.readNetFromTensorflow(files.graph(*nodes, files.node("c", "Conv3D", "x", "w", **attributes)))
    x = noise(1, 2, 3, 4, 5)
    net.setInput(x)
    want = np.einsum("co,ncdhw->nodhw", kernel[0, 0, 0], x)
    np.testing.assert_allclose(net.forward(), want, rtol=0, atol=1e-5)
    assert net.getLayersShapes([1, 2, 3, 4, 5])[2][-1][0].tolist() == [1, 4, 3, 4, 5]
    plain = dnn.readNetFromTensorflow(files.graph(nodes[0], files.node("r", "Relu", "x")))
    x = noise(1, 3, 4, 5, 2)
    plain.setInput(x)
    assert np.array_equal(plain.forward(), np.maximum(x, 0))


def test_tensorflow_outputs_have_opencvs_order() -> None:
    nodes = [files.placeholder("x", 1, 6, 8, 3), *convolution("c", "x", KERNEL), files.node("r", "Relu", "c")]
    nodes += [*convolution("d", "r", noise(1, 1, 4, 5)), files.node("s", "Sigmoid", "r")]
    net = dnn.readNet("tensorflow", files.graph(*nodes))
    assert net.getUnconnectedOutLayersNames() == ("s", "d") and net.getLayerNames() == ("c", "r", "s", "d")


def test_size_of_the_input_may_change(networks: Path) -> None:
    net = small(networks)
    for shape in ((1, 3, 16, 20), (2, 3, 16, 20), (1, 3, 9, 7)):
        net.setInput(noise(*shape))
        assert net.forward("relu").shape == (shape[0], 4, *shape[2:])


def test_inputs_can_be_renamed_and_given_a_shape() -> None:
    text = 'input: "x" input: "y" layer { name: "s" type: "Eltwise" bottom: "x" bottom: "y" top: "s" }'
    net = dnn.readNetFromCaffe(text.encode())
    net.setInputsNames(["left", "right"])
    net.setInputShape("left", (1, 2))
    net.setInput(np.float32([[1, 2]]), "left")
    net.setInput(np.float32([[3, 4]]), "right")
    assert net.forward().tolist() == [[4, 6]]
    with pytest.raises(dnn.error, match="there is no input 'x'; inputs: left, right"):
        net.setInput(np.float32([[1, 2]]), "x")
    with pytest.raises(dnn.error, match="the network has 2 inputs, got 1 name"):
        net.setInputsNames(["left"])


@pytest.mark.needs("openvino")
def test_backend_of_openvino_computes_with_openvino(networks: Path) -> None:
    net = small(networks)
    net.setPreferableBackend(dnn.DNN_BACKEND_INFERENCE_ENGINE)
    net.setPreferableTarget(dnn.DNN_TARGET_CPU)
    net.setInput(noise(*SIZES["small"]))
    net.forward()
    assert [model.engine for model in net._models.values()] == ["openvino"]


def test_target_that_is_not_the_cpu_is_reported(networks: Path) -> None:
    with pytest.warns(UserWarning, match="target 6 is not used: the network runs on the CPU"):
        small(networks).setPreferableTarget(dnn.DNN_TARGET_CUDA)


def test_graph_in_dot_names_each_layer_and_value(networks: Path, tmp_path: Path) -> None:
    net = small(networks)
    net.dumpToFile(tmp_path / "net.dot")
    text = (tmp_path / "net.dot").read_text()
    with pytest.raises(dnn.error, match="is a folder; the output must be a file"):
        net.dumpToFile(tmp_path)
    assert text == net.dump() and text.startswith('digraph "small" {') and text.count(" -> ") == 9
    assert '"conv" [label="conv: Convolution" shape=box]' in text and '"bn" -> "scale"' in text


def test_registration_holds_for_networks_that_have_not_run(networks: Path) -> None:
    class Negative:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def getMemoryShapes(self, inputs: Any) -> Any:
            return [inputs[0]]

        def forward(self, inputs: Any) -> Any:
            return [-inputs[0]]

    class Twice(Negative):
        def forward(self, inputs: Any) -> Any:
            return [2 * inputs[0]]

    text = b'input: "x" input_shape { dim: 1 dim: 2 } layer { name: "a" type: "Mine" bottom: "x" top: "y" }'
    before = dnn.readNetFromCaffe(text)
    unknown = dnn.readNetFromCaffe(text)
    x = np.float32([[1, -2]])
    unknown.setInput(x)
    with pytest.raises(
        dnn.error, match=r"^buffer\.prototxt: 1 unknown layer .* dnn_registerLayer\('Mine', Class\)$"
    ):
        unknown.forward()
    dnn.dnn_registerLayer("Mine", Negative)
    dnn.dnn_registerLayer("Mine", Twice)
    before.setInput(x)
    assert before.forward().tolist() == [[2, -4]]
    dnn.dnn_unregisterLayer("Mine")
    after = dnn.readNetFromCaffe(text)
    after.setInput(x)
    assert after.forward().tolist() == [[-1, 2]]
    dnn.dnn_unregisterLayer("Mine")
    dnn.dnn_unregisterLayer("Mine")
    assert before.forward().tolist() == [[2, -4]], "a network that has run keeps its classes"
    with pytest.raises(TypeError, match="class must be callable"):
        dnn.dnn_registerLayer("Mine", "Negative")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dnn.readNetFromONNX(SMALL.encode()), "the buffer is a network of format caffe, not onnx"),
        (lambda: dnn.readNetFromCaffe("missing.prototxt"), "missing.prototxt: there is no such file"),
        (lambda: dnn.readNetFromCaffe(b"layer {"), r"^buffer\.prototxt"),
        (lambda: dnn.readNetFromCaffe(None), "the network is missing: give the path of a .prototxt"),
        (lambda: dnn.readNetFromCaffe(np.zeros(3)), "a .prototxt is a path or a buffer of bytes .*, got ndarray"),
        (lambda: dnn.readNet(""), "readNet needs the file of a network"),
        (lambda: dnn.readNet("torch", b"1", b"2"), "framework is one of caffe, .*, got 'torch'"),
        (lambda: dnn.readNet("net.pb", "net.pbtxt"), r"net\.pbtxt: a text graph \(\.pbtxt\) beside the \.pb"),
        (lambda: dnn.readNetFromTorch("net.t7"), "networks of Torch 7 .* are not read"),
        (lambda: dnn.readNetFromTFLite("missing.tflite"), "missing.tflite: there is no such file"),
        (lambda: dnn.readNetFromTFLite(b""), "the network is missing: give the path of a .tflite, or a buffer"),
        (lambda: dnn.Net().setInput(np.zeros(1)), "the network is empty; read one with readNet"),
        (lambda: dnn.Net().forward(), "the network is empty|the network has no outputs"),
        (lambda: dnn.Net().addLayerToPrev("a", "Pooling", 5, {}), "a network is read from a file or buffer"),
    ],
)
def test_mistakes_are_refused_by_name(call: Any, text: str) -> None:
    with pytest.raises(dnn.error, match=text):
        call()


@pytest.mark.filterwarnings("ignore:layer 'Cast_0'")
def test_input_takes_the_arrays_of_its_own_dtype() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    ends = [
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    ]
    net = dnn.readNetFromONNX(helper.make_model(helper.make_graph([node], "g", *ends)).SerializeToString())
    blob = np.array([[1, -2, 0.5, 8]], net.net.inputs["x"].dtype)
    net.setInput(blob)
    assert net.forward().tolist() == [[1, -2, 0.5, 8]]


def test_mistakes_in_calls_are_refused(networks: Path) -> None:
    net = small(networks)
    with pytest.raises(dnn.error, match="there is no layer 99; layers have the numbers 0 to 9"):
        net.getLayer(99)
    with pytest.raises(dnn.error, match="input 'data' must be an array of numbers"):
        net.setInput(np.array(["x"]))
    with pytest.raises(dnn.error, match="a mean needs a blob with 1 to 4 channels"):
        net.setInput(noise(1, 5, 2, 2), mean=(1, 2, 3))
    with pytest.raises(dnn.error, match="a scalar has at most 4 numbers, got 5"):
        net.setInput(noise(1, 3, 2, 2), mean=(1, 2, 3, 4, 5))
    with pytest.raises(dnn.error, match="input 'data' is missing"):
        net.forward()
    with pytest.raises(dnn.error, match="the network has 1 input, got 2 shapes"):
        net.getFLOPS([[1, 3, 4, 4], [1, 3, 4, 4]])
    with pytest.raises(dnn.error, match="layer 'relu' has 0 weights, there is no 0"):
        net.getParam("relu")


def test_page_names_what_exists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "opencv.md").read_text("utf-8")
    section = page.split("## Functions and classes")[1].split("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    named = {name for name in re.findall(r"`(\w+)`", table) if not name.isupper()}
    known = {*dir(dnn), *dir(dnn.Net), *dir(dnn.Layer), "name", "type", "scalefactor", "mean"}
    assert len(named) > 40 and named <= known
