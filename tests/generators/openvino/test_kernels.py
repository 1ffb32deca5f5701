"""The OpenCL kernels of a project for OpenVINO compute what NumPy does, on a device of OpenCL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.api import Net
from anylayer.errors import LayerError
from anylayer.layer import load_layers
from anylayer.network import Array, Network, Node, TensorType
from tests.generators.conftest import Attacked
from tests.generators.opencv.test_project import examples
from tests.loops.test_random import collected

openvino = pytest.importorskip("openvino", reason="openvino is not installed")
Forward = Callable[[list[Any]], list[Any]]


def network(layers: Mapping[str, tuple[Forward, Sequence[Array]]]) -> tuple[Net, dict[str, Array]]:
    """Return a network of layers side by side, one for each type, and its inputs."""
    nodes: list[Node] = []
    classes: list[tuple[str, type]] = []
    inputs: dict[str, Array] = {}
    for type_, (function, arrays) in layers.items():
        names = [f"{type_}_in{i}" for i in range(len(arrays))]
        inputs.update(zip(names, arrays))
        count = len(function(list(arrays)))
        nodes.append(Node(type_.lower(), type_, names, [f"{type_}_out{i}" for i in range(count)]))

        class Made:
            def __init__(self, params: Any, blobs: Any, function: Forward = function) -> None:
                self.run = function

            def forward(self, given: Any) -> Any:
                return self.run(list(given))

        classes.append((type_, Made))
    types = {name: TensorType(x.shape, x.dtype) for name, x in inputs.items()}
    outputs = {n: n for node in nodes for n in node.outputs}
    return Net(Network("side by side", "caffe", types, nodes, outputs), load_layers(classes)), inputs


def require_same(net: Net, inputs: Mapping[str, Array], folder: Path) -> None:
    """Generate the project of a network, run its kernels in the model that it contains, and compare."""
    done = net.generate("openvino", folder, inputs=inputs, test=False)
    assert not [note for note in done.notes if "OpenCL" in note]
    kernels = anylayer.OpenCL([str(folder / "kernels.xml")], user_file=False)
    model = anylayer.read(folder / "model.xml", kernels=kernels).compile("openvino")
    got = model({name: x for name, x in inputs.items() if name in model.inputs})
    for name, want in net.compile("numpy")(inputs).items():
        scale = max(1e-6, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
        np.testing.assert_allclose(got[name], want, rtol=0, atol=1e-5 * scale, err_msg=name)


@pytest.mark.usefixtures("opencl_device")
def test_all_example_layers_match_numpy(tmp_path: Path) -> None:
    net, inputs = examples(tmp_path)
    require_same(net, inputs, tmp_path / "project")
    element = ElementTree.fromstring((tmp_path / "project/kernels.xml").read_text().join(("<all>", "</all>")))
    assert len(element) == len(list((tmp_path / "project").glob("*.cl"))) == 17
    sizes = {e.get("global") for e in element.iter("WorkSizes")}
    # a work item for each element of an output, and rows for the three outputs of Yolo
    assert sizes == {"Y,F,B", "X,Y,B*F", "Y*X,16*B"}


def drawn(count: int) -> dict[str, tuple[Forward, Sequence[Array]]]:
    """Return random compositions of operators, as layers of arrays with up to four axes."""
    found: dict[str, tuple[Forward, Sequence[Array]]] = {}

    for _, function, x in collected(count):
        with np.errstate(all="ignore"):
            ranks = [np.ndim(y) for y in [x, *function(x)]]
        if max(ranks) <= 4:
            found[f"Random{len(found)}"] = (lambda arrays, function=function: function(arrays[0])), [x]
    return found


@pytest.mark.hypothesis
@pytest.mark.usefixtures("opencl_device")
def test_random_compositions_of_operators_match_numpy(tmp_path: Path) -> None:
    layers = drawn(40)
    net, inputs = network(layers)
    done = net.generate("openvino", tmp_path / "all", inputs=inputs, test=False)
    for name in [found[1] for note in done.notes if (found := re.match(r"layer type (\w+) has no OpenCL", note))]:
        del layers[name]
    assert len(layers) > 25
    net, inputs = network(layers)
    require_same(net, inputs, tmp_path / "project")


@pytest.mark.usefixtures("opencl_device")
def test_size_of_memory_may_be_a_minimum(tmp_path: Path) -> None:
    x = noise(2, 4, 3, 80)
    net, inputs = network({"Least": (lambda v: [ops.softmax(np.exp(v[0][:, :3]), axis=3)], [x])})
    require_same(net, inputs, tmp_path / "project")


@pytest.mark.usefixtures("opencl_device")
def test_float16_arrays_are_float32_on_a_device_without_half(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    from anylayer.libraries import pyopencl

    x = noise(2, 8)
    net, inputs = network({"HardSwish": (lambda v: [v[0] / (1 + np.exp(-v[0]))], [x])})
    folder = net.generate("openvino", tmp_path / "project", inputs=inputs, test=False).folder
    assert (
        "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif"
        in (folder / "HardSwish.cl").read_text()
    )
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, x.shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("HardSwish", ["x"], ["y"])], "half", kinds[:1], kinds[1:])
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "half.onnx"
    )
    half = anylayer.read(tmp_path / "half.onnx", kernels=folder / "kernels.xml")
    got = half.compile("onnxruntime")(x.astype(np.float16))["y"]
    assert got.dtype == np.float16
    want = x / (1 + np.exp(-x))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 * float(np.abs(want).max()))
    note = "kernels.xml has input 0 as float32: the device has no half"
    assert (note in half.inspect().nodes[0].notes) == (not pyopencl.device("").half)


def noise(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.usefixtures("opencl_device")
def test_long_reductions_run_as_one_work_group(tmp_path: Path) -> None:
    layers: dict[str, tuple[Forward, Sequence[Array]]] = {
        "Wide": (lambda v: [ops.softmax(v[0], axis=1)], [noise(2, 300, 3, 5)]),
        "Sorted": (lambda v: [ops.top_k(np.exp(v[0]).sum(1), 7, axis=-1)[0] * 2], [noise(2, 5, 90)]),
        "Narrow": (lambda v: [ops.softmax(v[0], axis=1)], [noise(2, 30, 3, 5)]),
    }
    net, inputs = network(layers)
    require_same(net, inputs, tmp_path / "project")
    text = (tmp_path / "project/kernels.xml").read_text()
    assert text.count('<WorkSizes global="256" local="256"') == 2 and 'size="4*B*Y*X" ' not in text
    assert "barrier" in (tmp_path / "project/Wide.cl").read_text()
    assert "barrier" not in (tmp_path / "project/Narrow.cl").read_text()


@pytest.mark.usefixtures("opencl_device")
def test_a_work_item_computes_the_sums_that_its_elements_read(tmp_path: Path) -> None:
    def lengths(v: list[Any]) -> list[Any]:
        length = np.sqrt((v[0] * v[0]).sum(axis=(1, 3), keepdims=True))
        return [v[0] / length, length]

    layers: dict[str, tuple[Forward, Sequence[Array]]] = {
        "Normal": (lengths, [noise(20, 30, 16, 4)]),
        "Soft": (lambda v: [ops.softmax(v[0] * 2, axis=2)], [noise(30, 10, 200)]),
        "Other": (lambda v: [v[0] - v[0].sum(axis=2, keepdims=True) + v[1]], [noise(300, 1, 70), noise(1, 5, 1)]),
    }
    net, inputs = network(layers)
    require_same(net, inputs, tmp_path / "project")
    text = (tmp_path / "project/kernels.xml").read_text()
    assert re.findall('global="(.*?)"', text) == ["Y,B", "F,B", "256"]
    assert text.count('type="internal"') == 1  # the sums of Other, which several rows would compute again


@pytest.mark.usefixtures("opencl_device")
def test_outputs_of_different_sizes_are_rows_of_work_items(tmp_path: Path) -> None:
    def parts(v: list[Any]) -> list[Any]:
        (x,) = v
        return [x[:, :2].reshape(2, 2, 12) * 2, np.exp(x).reshape(2, 72), x[:1, 2:].sum(axis=1) - 1]

    net, inputs = network({"Parts": (parts, [noise(2, 6, 3, 4)])})
    require_same(net, inputs, tmp_path / "project")
    assert 'global="12,17"' in (tmp_path / "project/kernels.xml").read_text()
    code = (tmp_path / "project/Parts.cl").read_text()
    assert "for (uint round" not in code and code.count("if (row < ") == 3


def selected(arrays: list[Any]) -> list[Any]:
    return [arrays[0][arrays[1]] * np.float32(2)]


@pytest.mark.usefixtures("opencl_device")
def test_wrong_indices_give_nan_and_wrong_sizes_are_refused(tmp_path: Path) -> None:
    net, inputs = network({"Selected": (selected, [noise(5, 3), np.array([4, 0, -2], np.int32)])})
    require_same(net, inputs, tmp_path / "project")
    kernels = anylayer.OpenCL([str(tmp_path / "project/kernels.xml")], user_file=False)
    model = anylayer.read(tmp_path / "project/model.xml", kernels=kernels).compile("openvino")
    got = model({**inputs, "Selected_in1": np.array([4, 5, -6], np.int32)})["Selected_out0"]
    assert np.isfinite(got[0]).all() and np.isnan(got[1:]).all()


def pixels(arrays: list[Any]) -> list[Any]:
    """Return the pixels of maps (N, H, W) at points (K, 3) = image, row, column, twice: points outside are moved
    inside, or to the last pixel of the row above.
    """
    x, at = arrays
    _, h, w = x.shape
    image = at[:, 0].astype(np.int64)

    def inside(i: int, size: Any, least: int) -> Any:
        place = np.minimum(at[:, i], np.float32(size - 1))
        return np.minimum(np.where(place > 0, place, np.float32(least)).astype(np.int64), size - 1)

    return [np.take(x.reshape(-1), (image * h + inside(1, h, 0)) * w + inside(2, w, least)) for least in (0, -1)]


@pytest.mark.usefixtures("opencl_device")
def test_flat_indices_of_a_row_and_a_column_are_not_divided(tmp_path: Path) -> None:
    rows, columns = [1, 9, np.nan, -4, 1, 1], [2, 1, 3, np.inf, -2, np.nan]
    points = np.stack([[0, -1, 1, 1, 0, -1], rows, columns], axis=1).astype(np.float32)
    net, inputs = network({"Pixels": (pixels, [noise(2, 3, 4), points])})
    require_same(net, inputs, tmp_path / "project")
    loops = (tmp_path / "project/Pixels.cl").read_text().partition("__kernel")[2].partition(" output1[")
    assert not re.search(r"at\d+ /", loops[0]) and re.search(r"at\d+ /", loops[2])
    kernels = anylayer.OpenCL([str(tmp_path / "project/kernels.xml")], user_file=False)
    model = anylayer.read(tmp_path / "project/model.xml", kernels=kernels).compile("openvino")
    points[:, 0] = [2, 1, -3, 0, 1, np.nan]
    got = model({**inputs, "Pixels_in1": points})["Pixels_out0"]
    np.testing.assert_array_equal(np.isnan(got), [True, False, True, False, False, True])


SPREAD = """
import anylayer
import numpy as np

@anylayer.layer("Spread")
class Spread:
    def __init__(self, params, blobs):
        pass

    def getMemoryShapes(self, shapes):
        return [[shapes[0][0], 8]]

    def forward(self, inputs):
        x, = inputs
        at = np.arange(8, dtype=np.float32) * (np.float32(32) / np.float32(x.shape[1]))
        at = at.astype(int)
        return [np.take(x, at, 1) + np.take(x, np.minimum(at + 1, x.shape[1] - 1), 1)]
"""
"""A layer that reads columns of an array of at least 15 columns."""


@pytest.mark.usefixtures("opencl_device")
def test_indices_computed_from_sizes_are_checked_in_32_bits(tmp_path: Path) -> None:
    def net(columns: int, **options: Any) -> Net:
        path = tmp_path / "net.prototxt"
        shape = f"input_param {{ shape {{ dim: 2 dim: {columns} }} }}"
        path.write_text(
            f'layer {{ name: "x" type: "Input" top: "x" {shape} }}'
            ' layer { name: "y" type: "Spread" bottom: "x" top: "y" }'
        )
        return anylayer.read(path, layers=tmp_path / "spread.py", **options)

    (tmp_path / "spread.py").write_text(SPREAD)
    require_same(net(16), {"x": noise(2, 16)}, tmp_path / "project")
    code = (tmp_path / "project/Spread.cl").read_text()
    assert "long" not in code and code.count("below_int(") == 2  # its definition, and one of two indices
    kernels = anylayer.OpenCL([str(tmp_path / "project/kernels.xml")], user_file=False)
    got = net(8, kernels=kernels).compile("openvino")({"x": noise(2, 8)})["y"]
    assert np.isfinite(got[:, :2]).all() and np.isnan(got[:, 2:]).all()


@pytest.mark.usefixtures("opencl_device")
def test_integers_beyond_32_bits_stay_in_64(tmp_path: Path) -> None:
    def large(v: list[Any]) -> list[Any]:
        count = (np.arange(50, dtype=np.float32) * np.float32(1e7)).astype(np.int64)
        most = np.minimum((np.arange(50, dtype=np.float32) * np.float32(1e9)).astype(np.int64), 5)
        return [v[0] * (count * 3).astype(np.float32), v[0] + (count * count + most).astype(np.float32)]

    net, inputs = network({"Large": (large, [noise(3, 50)])})
    require_same(net, inputs, tmp_path / "project")


class Cut:
    """Return the first channel."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][:, :1] * 2]


@pytest.mark.usefixtures("opencl_device")
def test_a_kernel_writes_nothing_for_sizes_without_code(tmp_path: Path) -> None:
    net, inputs = network({"Cut": (lambda v: [v[0][:, :2] * 2], [noise(1, 3, 4, 5)])})
    require_same(net, inputs, tmp_path / "project")
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }'
        ' layer { name: "cut" type: "Cut" bottom: "x" top: "cut" }'
    )
    kernels = anylayer.OpenCL([str(tmp_path / "project/kernels.xml")], user_file=False)
    other = anylayer.read(tmp_path / "net.prototxt", layers={"Cut": Cut}, kernels=kernels)
    with pytest.raises(LayerError, match=r"layer 'cut' \(Cut\): kernels.xml"):
        other.compile("openvino")({"x": noise(1, 3, 4, 5)})


def test_layers_without_a_kernel_are_named(tmp_path: Path) -> None:
    layers: dict[str, tuple[Forward, Sequence[Array]]] = {
        "Deep": (lambda v: [v[0] + 1], [noise(1, 2, 1, 2, 1)]),
        "Flat": (lambda v: [v[0] + 1], [noise(2, 3)]),
    }
    net, inputs = network(layers)
    done = net.generate("openvino", tmp_path / "project", inputs=inputs, test=False)
    why = "layer type Deep has no OpenCL kernel: input 0 has 5 axes; an OpenCL kernel has at most 4: B, F, Y and X"
    assert [note for note in done.notes if note.startswith(why)]
    names = {file.name for file in done.files}
    assert "Flat.cl" in names and not names & {"Deep.cl", "test_kernels.py"}


@pytest.mark.one_per()
@pytest.mark.parametrize("words", [True, False])
def test_attacks_become_neither_code_nor_elements(words: bool, attacked: Attacked) -> None:
    done = attacked("openvino") if words else attacked("openvino", words=False)
    folder = done.folder
    refused = [note for note in done.notes if "which OpenCL C cannot compare with that of another layer" in note]
    assert bool(refused) == words
    elements = ElementTree.fromstring((folder / "kernels.xml").read_text("utf-8").join(("<all>", "</all>")))
    known = {"CustomLayer", "Kernel", "Source", "Define", "Buffers", "Tensor", "WorkSizes"}
    assert {e.tag for e in elements.iter()} - {"all"} == known
    assert {e.get("name") for e in elements.iter("Define")} == {"PARAM_add", *(["PARAM_word"] if words else [])}
    sources = {e.get("filename") for e in elements.iter("Source")}
    assert sources == {file.name for file in folder.glob("*.cl")}
    assert all(re.fullmatch(r"[A-Za-z]\w*\.cl", name or "", re.ASCII) for name in sources)
    for file in folder.glob("*.cl"):
        code = re.sub(r"//[^\n]*", "", file.read_text("utf-8"))
        for word in ("system", "pwned", "CMAKE_COMMAND", "ENV", "coding", "printf"):
            assert not re.search(rf"\b{word}\b", code), (file.name, word)


@pytest.mark.usefixtures("opencl_device")
def test_attacks_compile_and_match_numpy(attacked: Attacked) -> None:
    folder = attacked("openvino", words=False).folder
    command = [sys.executable, "-B", "test_kernels.py"]
    path = str(Path(anylayer.__file__).parent.parent)
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0 and "largest difference 0," in ran.stdout, ran.stdout + ran.stderr
    assert not list(folder.parent.rglob("pwned"))


class Chosen:
    """Scale by numbers that decide about the code, and add weights."""

    def __init__(self, params: Any, blobs: Any) -> None:
        mode, power, sizes, turned = (params.get(n) for n in ("mode", "power", "sizes", "turned"))
        self.factor = (
            np.float32(2 if mode == "double" else 3) * np.float32(np.ceil(power)) * np.float32(sum(sizes))
        )
        self.step, self.shift = (-1 if turned else 1), [] if not blobs else blobs[0].astype(np.float64)

    def forward(self, inputs: Any) -> Any:
        y = inputs[0][:, :: self.step] * self.factor
        return [y + np.float32(np.sum(self.shift))]


CHOSEN = {"mode": '"double"', "power": "0.5", "sizes": "[1, 2]", "turned": "true"}


@pytest.mark.usefixtures("opencl_device")
def test_kernels_refuse_params_and_weights_without_code(tmp_path: Path) -> None:
    def net(blobs: Sequence[Array] = (), **options: Any) -> Net:
        params = " ".join(f"{name}: {value}" for name, value in {**CHOSEN, **options.pop("params", {})}.items())
        (tmp_path / "net.prototxt").write_text(
            'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }'
            f' layer {{ name: "y" type: "Chosen" bottom: "x" top: "y" chosen_param {{ {params} }} }}'
        )
        found = anylayer.read(tmp_path / "net.prototxt", layers={"Chosen": Chosen}, **options)
        found.network.nodes[0].blobs = list(blobs)
        return found

    x = {"x": noise(1, 3, 4, 5)}
    require_same(net(), x, tmp_path / "plain")
    kernels = anylayer.OpenCL([str(tmp_path / "plain/kernels.xml")], user_file=False)
    got = net(kernels=kernels, params={"power": "5e-1", "turned": "1"}).compile("openvino")(x)["y"]
    np.testing.assert_allclose(got, net().compile("numpy")(x)["y"], rtol=1e-6)
    for name, value in {"mode": '"triple"', "power": "1.5", "sizes": "[1, 3]", "turned": "false"}.items():
        with pytest.raises(
            LayerError, match=rf"(?s)layer 'y' \(Chosen\).*parameter[ _]{name}[ _]has[ _]a[ _]value"
        ):
            net(kernels=kernels, params={name: value}).compile("openvino")(x)
    require_same(net([noise(3)]), x, tmp_path / "weights")
    kernels = anylayer.OpenCL([str(tmp_path / "weights/kernels.xml")], user_file=False)
    with pytest.raises(LayerError, match="the layer has no parameter 'weights_in_code'"):
        net([noise(3)], kernels=kernels).compile("openvino")(x)
