"""The contents of ONNX files, their validity, and the results of every runtime."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import anylayer
from anylayer.errors import ConversionError, EngineError, FileError, InputError, LayerError
from anylayer.graph import Dim, Graph
from anylayer.network import TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import record, trace
from anylayer.writers import onnx as files
from anylayer.writers._onnx_model import to_onnx

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "mine" type: "Mine" bottom: "conv" top: "m" mine_param { add: 3 flag: true ratio: 0.5 ratio: 2 } }
layer { name: "again" type: "Mine" bottom: "m" top: "n" mine_param { add: 3 flag: true ratio: 0.5 ratio: 2 } }
layer { name: "other" type: "Mine" bottom: "n" top: "out" mine_param { add: 4 flag: true ratio: 0.5 ratio: 2 } }
"""


class Mine:
    """Mirror the rows and add a number, a row and a table."""

    def __init__(self, params: dict[str, Any], blobs: Any) -> None:
        self.add, self.ratio = np.float32(params["add"]), params["ratio"]

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        row = np.linspace(0, 1, x.shape[-1] * 4, dtype=np.float32)[::4] * np.float32(self.ratio[0])
        table = np.arange(24, dtype=np.float32).reshape(1, 4, 6, 1)
        return [x[:, :, ::-1] + self.add + row + table]


class Branching(Mine):
    """Like Mine, with a branch on data."""

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] + self.add if float(str(inputs[0].max())) > 1e9 else inputs[0]]


class Shapes(Branching):
    """A layer whose forward cannot run, but whose output shapes are known."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return inputs

    def forward(self, inputs: Any) -> Any:
        raise NotImplementedError


def read(folder: Path, cls: Any = Mine, text: str = NET) -> anylayer.Net:
    (folder / "net.prototxt").write_text(text)
    return anylayer.read(folder / "net.prototxt", layers=[("Mine", cls)]).fill(1)


def given() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal((1, 2, 6, 8)).astype(np.float32)


def runtimes(path: Path, x: Any) -> dict[str, Any]:
    """Return the first output on each runtime that reads ONNX."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    compiled = openvino.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    net = cv2.dnn.readNetFromONNX(str(path))
    net.setInput(x)
    return {
        "onnxruntime": session.run(None, {"data": x})[0],
        "openvino": compiled({"data": x})[0],
        "opencv": net.forward(),
    }


def test_all_runtimes_agree(tmp_path: Path) -> None:
    net, path = read(tmp_path), tmp_path / "net.onnx"
    done = net.write(path)
    assert [c.name for c in done.checks] == ["out"] and done.checks[0].ok and done.runs == "onnxruntime"
    want = net.compile("numpy")(given())["out"]
    for name, got in runtimes(path, given()).items():
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max(), err_msg=name)


def test_names_of_network_are_kept(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    assert [i.name for i in model.graph.input] == ["data"]
    assert [o.name for o in model.graph.output] == ["out"]
    assert model.graph.name == "small"
    nodes = {n.name: n for n in model.graph.node}
    assert list(nodes)[:3] == ["conv", "relu", "mine"]
    assert list(nodes["conv"].input) == ["data", "conv/W", "conv/B"]
    assert list(nodes["conv"].output) == ["conv@conv"]
    assert {n.op_type for n in model.graph.node} <= {"Conv", "Relu", "Slice", "Gather", "Add"}
    assert {p.key: p.value for p in model.metadata_props} == {"source": "net.prototxt", "format": "caffe"}
    assert (model.producer_name, model.producer_version) == ("anylayer", anylayer.__version__)


def test_layout_of_input_is_written(tmp_path: Path) -> None:
    net = read(tmp_path)
    net.network.layouts["data"] = "NHWC"
    net.write(tmp_path / "net.onnx")
    assert anylayer.read(tmp_path / "net.onnx").network.layouts == {"data": "NHWC"}


def test_file_contains_no_local_paths(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "net.onnx", functions=True)
    content = (tmp_path / "net.onnx").read_bytes()
    assert str(tmp_path).encode() not in content and str(Path(__file__).parent).encode() not in content
    model = onnx.load(tmp_path / "net.onnx")
    assert {n.doc_string.rpartition(":")[0] for f in model.functions for n in f.node} == {"test_onnx.py", ""}


def test_output_is_deterministic(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        read(tmp_path).write(tmp_path / name, functions=True)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_one_function_per_distinct_body(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "net.onnx", functions=True)
    model = onnx.load(tmp_path / "net.onnx")
    calls = {n.name: n for n in model.graph.node if n.domain}
    assert {name: n.op_type for name, n in calls.items()} == {"mine": "Mine", "again": "Mine", "other": "Mine_2"}
    assert [f.name for f in model.functions] == ["Mine", "Mine_2"]
    assert all(f.domain == "anylayer" for f in model.functions)
    assert calls["mine"].input[0] == "conv" and len(calls["mine"].input) == 2, "the table is an input"
    assert calls["mine"].input[1] == calls["other"].input[1]


def test_functions_option_with_types(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "net.onnx", functions=["ReLU"])
    model = onnx.load(tmp_path / "net.onnx")
    assert [n.name for n in model.graph.node if n.domain] == ["relu"]
    assert [n.op_type for f in model.functions for n in f.node] == ["Relu"]


@pytest.mark.parametrize("cls", [Mine, Branching, Shapes])
def test_kept_layer_has_params_and_shapes(tmp_path: Path, cls: Any) -> None:
    net = read(tmp_path, cls)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = net.write(tmp_path / "net.onnx", keep=["Mine"])
    model = onnx.load(tmp_path / "net.onnx")
    (mine, again, other) = [n for n in model.graph.node if n.domain == "anylayer"]
    assert [n.op_type for n in (mine, again, other)] == ["Mine"] * 3 and not model.functions
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in mine.attribute}
    assert attributes == {"add": 3, "flag": 1, "ratio": [0.5, 2.0]}
    stored = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.value_info}
    assert stored["m"] == [1, 4, 6, 8]
    assert {o.domain for o in model.opset_import} == {"", "anylayer"}
    if cls is Mine:
        assert done.checks and all(c.ok for c in done.checks)
    else:
        assert done.unchecked == "nothing here computes the kept layers: Mine"


def test_domain_of_layer_is_kept(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "kept.onnx", keep=["Mine"])
    model = onnx.load(tmp_path / "kept.onnx")
    for node in model.graph.node:
        node.domain = node.domain and "com.acme"
    model.opset_import[1].domain, model.opset_import[1].version = "com.acme", 3
    onnx.save(model, tmp_path / "acme.onnx")
    net = anylayer.read(tmp_path / "acme.onnx", layers=[("Mine", Mine)])
    assert net.write(tmp_path / "again.onnx", keep=["Mine"]).checks[0].ok
    again = onnx.load(tmp_path / "again.onnx")
    assert {o.domain: o.version for o in again.opset_import} == {"": 18, "com.acme": 3}
    assert [n for n in again.graph.node if n.domain] == [n for n in model.graph.node if n.domain]
    assert net.write(tmp_path / "called.onnx", functions=True).checks[0].ok
    assert [(f.domain, f.name) for f in onnx.load(tmp_path / "called.onnx").functions] == [
        ("com.acme", "Mine"),
        ("com.acme", "Mine_2"),
    ]


def test_kept_layer_has_weights(tmp_path: Path) -> None:
    read(tmp_path).write(tmp_path / "net.onnx", keep=["Convolution"])
    model = onnx.load(tmp_path / "net.onnx")
    (conv,) = [n for n in model.graph.node if n.op_type == "Convolution"]
    shapes = {i.name: list(i.dims) for i in model.graph.initializer}
    assert [shapes.get(name) for name in conv.input] == [None, [4, 2, 3, 3], [4]]
    assert {a.name for a in conv.attribute} == {"num_output", "kernel_size", "pad"}


def test_kept_constants_stay_calls(tmp_path: Path) -> None:
    text = """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "box" type: "PriorBox" bottom: "x" bottom: "x" top: "box" prior_box_param { min_size: 2 } }
    layer { name: "twice" type: "Power" bottom: "box" top: "twice" power_param { scale: 2 } }"""
    net = read(tmp_path, text=text)
    assert net.write(tmp_path / "net.onnx", keep=["PriorBox"]).checks[0].ok
    model = onnx.load(tmp_path / "net.onnx")
    assert [n.op_type for n in model.graph.node] == ["PriorBox", "Mul"]


def test_output_that_is_input_constant_or_other_output(tmp_path: Path) -> None:
    text = """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "box" type: "PriorBox" bottom: "x" bottom: "x" top: "box" prior_box_param { min_size: 2 } }
    layer { name: "same" type: "Power" bottom: "x" top: "same" }
    layer { name: "a" type: "Power" bottom: "x" top: "a" power_param { scale: 2 } }
    layer { name: "b" type: "Power" bottom: "x" top: "b" power_param { scale: 2 } }"""
    done = read(tmp_path, text=text).write(tmp_path / "net.onnx")
    assert sorted(c.name for c in done.checks) == ["a", "b", "box", "same"]
    assert all(c.ok for c in done.checks)


def test_output_with_name_of_input_is_renamed(tmp_path: Path) -> None:
    text = """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "x_out" type: "Power" bottom: "x" top: "x_out" power_param { scale: 3 } }
    layer { name: "a" type: "Power" bottom: "x" top: "x" power_param { scale: 2 } }"""
    done = read(tmp_path, text=text).write(tmp_path / "net.onnx")
    assert [(c.name, c.ok) for c in done.checks] == [("x", True), ("x_out", True)]
    assert done.notes[1:] == ["output 'x' is called 'x_out_' in the file, because an input has its name"]
    assert [o.name for o in onnx.load(tmp_path / "net.onnx").graph.output] == ["x_out_", "x_out"]


def test_batch_option_fixes_the_batch_size(tmp_path: Path) -> None:
    done = read(tmp_path).write(tmp_path / "net.onnx", batch=3)
    (given,) = onnx.load(tmp_path / "net.onnx").graph.input
    assert [d.dim_value for d in given.type.tensor_type.shape.dim] == [3, 2, 6, 8]
    assert done.checks[0].ok


class PadThenPool(Mine):
    """Pad negative values with zeros and take the maximum of each window."""

    def forward(self, inputs: Any) -> Any:
        below = -np.abs(inputs[0]) - np.float32(1)
        return [anylayer.ops.max_pool(np.pad(below, ((0, 0), (0, 0), (1, 1), (1, 1))), 3)]


@pytest.mark.parametrize("functions", [False, True])
def test_pad_before_max_pool(tmp_path: Path, functions: bool) -> None:
    done = read(tmp_path, PadThenPool).write(tmp_path / "net.onnx", functions=functions)
    assert done.checks[0].ok


class ReshapeWithBatch(Mine):
    """Reshape each sample with a shape that contains the batch size."""

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        n, c, h, w = x.shape
        return [x.reshape(n, c, h * w).transpose(0, 2, 1).reshape(n, c, h, w)]


class LoopOverBatch(Mine):
    """Add each sample to the others, in a loop that becomes the operator Loop."""

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        for i in range(len(x)):
            x = x + x[i]
        return [x]


class DependsOnBatch(Mine):
    """Multiply each sample, in a generator that the trace unrolls."""

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        return [np.stack(tuple(x[i] * i for i in range(len(x))))]


@pytest.mark.parametrize("how", [{}, {"functions": True}, {"keep": ["Mine"]}])
def test_symbolic_batch(tmp_path: Path, how: Any) -> None:
    net = read(tmp_path, ReshapeWithBatch)
    done = net.write(tmp_path / "net.onnx", batch=True, **how)
    assert [(c.name, c.sizes, c.ok) for c in done.checks] == [
        ("out", {"data": (n, 2, 6, 8)}, True) for n in (1, 4, 5, 6, 7)
    ]
    graph = onnx.load(tmp_path / "net.onnx").graph
    assert [v.type.tensor_type.shape.dim[0].dim_param for v in (*graph.input, *graph.output)] == ["N", "N"]
    if "keep" not in how:
        x = np.random.default_rng(3).standard_normal((5, 2, 6, 8)).astype(np.float32)
        want = net.compile("numpy", shapes={"data": x.shape})(x)["out"]
        got = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(None, {"data": x})[0]
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_loop_over_a_symbolic_batch(tmp_path: Path) -> None:
    done = read(tmp_path, LoopOverBatch).write(tmp_path / "net.onnx", batch="N")
    assert len(done.checks) == 5 and all(c.ok for c in done.checks)


@pytest.mark.parametrize("how", [{}, {"functions": True}])
def test_batch_that_cannot_be_symbolic_is_refused(tmp_path: Path, how: Any) -> None:
    with pytest.raises(LayerError, match=r"layer 'mine'.* a loop runs once for each element of an open size"):
        read(tmp_path, DependsOnBatch).write(tmp_path / "net.onnx", batch="N", **how)
    assert read(tmp_path, DependsOnBatch).write(tmp_path / "net.onnx", batch=2, **how).checks[0].ok


def test_external_option_writes_weights_to_a_second_file(tmp_path: Path) -> None:
    text = NET.replace("num_output: 4", "num_output: 40").replace('type: "Mine"', 'type: "ReLU"')
    net = read(tmp_path, text=re.sub("mine_param { .* } }", "}", text))
    done = net.write(tmp_path / "net.onnx", external=True)
    assert [f.name for f in done.files] == ["net.onnx.data", "net.onnx"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data", "net.prototxt"]
    stored = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    (weights,) = [i for i in stored.graph.initializer if i.external_data]
    location = {e.key: e.value for e in weights.external_data}
    assert location == {"location": "net.onnx.data", "offset": "0", "length": str(40 * 2 * 9 * 4)}
    x = given()
    want = net.compile("numpy")(x)["out"]
    got = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(None, {"data": x})[0]
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_large_weights_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE", 100)
    rows = np.arange(600, dtype=np.float32).reshape(30, 20)
    for array in (rows, rows.T, np.broadcast_to(rows[:1], (50, 20)), np.asfortranarray(rows)):
        pieces = list(files._pieces(array))
        assert len(pieces) > 5
        assert b"".join(np.ascontiguousarray(p).tobytes() for p in pieces) == np.ascontiguousarray(array).tobytes()


# ---- refusals


def test_host_call_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        LayerError, match=r"layer 'mine' \(Mine\): runs in Python, which a file cannot hold: .*test_on"
    ):
        read(tmp_path, Branching).write(tmp_path / "net.onnx")
    with pytest.raises(LayerError, match=r"or keep it for a runtime that has the layer: keep=\['Mine'\]$"):
        read(tmp_path, Branching).write(tmp_path / "net.onnx")


@pytest.mark.parametrize("option", ["keep", "functions"])
def test_unknown_type_in_option_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(
        InputError, match=f"{option}: there is no layer of type 'Mime' in the network; did you mean"
    ):
        read(tmp_path).write(tmp_path / "net.onnx", **{option: ["Mime"]})


def test_options_of_other_formats(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"dialect: an ONNX model .* has no such option; its options: batch, calibrate, external"
    ):
        read(tmp_path).write(tmp_path / "net.onnx", dialect="ssd")
    with pytest.raises(InputError, match=r"extrenal: an ONNX model .* did you mean 'external'"):
        read(tmp_path).write(tmp_path / "net.onnx", extrenal=True)


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"net.onx: its suffix means no format; it must be one of .*\.onnx \(onnx\)"
    ):
        read(tmp_path).write(tmp_path / "net.onx")
    with pytest.raises(InputError, match="there is no writer for format 'onx'; did you mean 'onnx'"):
        read(tmp_path).write(tmp_path / "net", "onx")
    with pytest.raises(InputError, match="there is no writer for format 'ncnn'"):
        read(tmp_path).write(tmp_path / "net", "ncnn")


def test_folder_at_output_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    with pytest.raises(InputError, match=r"net.onnx is a folder; the output must be a file"):
        read(tmp_path).write(tmp_path / "net.onnx")


# ---- verification


def broken(graph: Any, engine: str | None = None, **options: Any) -> Any:
    """Return a version of simplify that changes the result of layer 'again'."""
    done = simplify(graph, engine, **options)
    for o in done.ops:
        if o.scope == "again" and o.op == "Add":
            o.op = "Sub"
    return done


def test_differing_layer_is_named_and_file_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, path = read(tmp_path), tmp_path / "net.onnx"
    net.write(path)
    before = path.read_bytes()
    monkeypatch.setattr(files, "simplify", broken)
    text = (
        r"net.onnx: output 'out' differs from the source: largest difference \d+.*, largest value \d+.*; "
        r"the tolerance is 1e-05 of the largest value. "
        r"The first node that differs is 'again' \(Mine\): largest difference \d+"
    )
    with pytest.raises(ConversionError, match=text):
        net.write(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.prototxt"]
    assert net.write(path, verify=False).unchecked == "not asked for"
    assert path.read_bytes() != before


def test_verify_with_given_inputs(tmp_path: Path) -> None:
    net = read(tmp_path)
    done = net.write(tmp_path / "net.onnx", verify={"data": given() * 1000})
    assert done.checks[0].scale > 100
    with pytest.raises(InputError, match="input 'data' is missing; the network's inputs: data"):
        net.write(tmp_path / "net.onnx", verify={})


def test_file_refused_by_checker_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(graph: Any, *rest: Any, **options: Any) -> Any:
        done = simplify(graph, *rest, **options)
        done.ops[0].attrs["nonsense"] = 1
        return done

    monkeypatch.setattr(files, "simplify", nonsense)
    with pytest.raises(FileError, match=r"net.onnx: onnx's checker refuses the file: .*nonsense"):
        read(tmp_path).write(tmp_path / "net.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["net.prototxt"]


@pytest.mark.parametrize("value", [2**63, [1, -(2**63) - 1]])
def test_integer_attribute_beyond_64_bits_is_refused(value: Any) -> None:
    graph = trace(lambda xs: [record("Softmax", [xs[0]], (2,), np.float32, axis=value)], [TensorType((2,))])
    with pytest.raises(EngineError, match=r"axis=-?9223372036854775\d+ of operator 'Softmax' needs more than"):
        to_onnx(graph, "net")


def test_dynamic_size_of_an_output_is_named_after_the_output() -> None:
    graph = Graph()
    x = graph.input("x", (4, 7), np.dtype(np.float32))
    rows = Dim("detections/where_161", 4)
    (y,) = graph.emit("Identity", [x], [((rows, 7), x.dtype)], place="")
    graph.outputs = [y]
    (end,) = to_onnx(graph).graph.output
    assert [d.dim_param or d.dim_value for d in end.type.tensor_type.shape.dim] == [f"{end.name}_size0", 7]


def strongest_first(rows: Any) -> Any:
    """Return the rows above 0.5, the strongest first, of which none lies near a stronger one."""
    left, chosen = rows[rows[:, 0] > 0.5], []
    while left.shape[0] > 0:
        k = np.argmax(left[:, 0])
        best = left[k]
        chosen.append(best)
        left = np.delete(left, k, axis=0)
        left = left[np.abs(left[:, 1] - best[1]) > 0.2]
    return np.array(chosen)


def test_loop_without_a_step_returns_no_rows_in_plain_openvino(tmp_path: Path) -> None:
    """Without a step, OpenVINO returns the rows of the run before. The file can be read again, too."""
    path = tmp_path / "f.onnx"
    rows = np.random.default_rng(0).random((12, 2)).astype(np.float32)
    anylayer.export(strongest_first, rows, path=path)
    network = anylayer.read(path)
    runs = [network.compile(engine=engine, threads=1) for engine in ("onnxruntime", "openvino")]
    plain = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for x in (rows, rows / 2, rows, rows * np.float32(0)):
        want = strongest_first(x).reshape(-1, 2)
        for got in (plain(x)[0], *(next(iter(run({"rows": x}).values())) for run in runs)):
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)


def test_product_of_no_rows_has_no_rows_in_plain_openvino(tmp_path: Path) -> None:
    """OpenVINO computes `ones(n, 1) * factor` with n = 0 as one row."""

    def factors(x: Any) -> Any:
        return np.ones((len(x[x[:, 0] > 0]), 1), np.float32) * x[0, 1]

    x = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    anylayer.export(factors, x, path=tmp_path / "f.onnx")
    plain = openvino.Core().compile_model(str(tmp_path / "f.onnx"), "CPU")
    for rows in (x, -np.abs(x), x):
        assert plain(rows)[0].shape == factors(rows).shape
        np.testing.assert_array_equal(plain(rows)[0], factors(rows))
