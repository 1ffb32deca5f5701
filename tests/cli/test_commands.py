"""The commands inspect, stub, verify, bench and layers."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import onnx
import pytest

from anylayer import AnyLayerError
from anylayer.cli.commands import verify as verify_command
from anylayer.cli.commands.bench import interleaved_times, percentile
from anylayer.inspect.verify import NodeCheck
from anylayer.libraries.onnxruntime import has_cuda

WITH = ("net.prototxt", "-l", "layers.py")


def rows_of(shown):
    """Return the cells of a printed table by the first column."""
    lines = [line for line in shown.splitlines() if "  " in line]
    return {line.split()[0]: line.split() for line in lines}


def test_inspect_shows_nodes_totals_inputs_and_outputs(anylayer_command, small):
    shown = anylayer_command("inspect", *WITH).stdout
    rows = rows_of(shown)
    assert rows["shuffle"] == ["shuffle", "ShuffleChannel", "group=3", "float32[1,", "3,", "4,", "6]", "engine"]
    assert rows["half"][-2:] == ["engine,", "layers.py"]
    assert "4 nodes, 0 weights (no weights file given), 0 multiply-adds; in Python: 0; unknown: 0" in shown
    assert "inputs: data float32[1, 3, 4, 6]\n" in shown
    assert "outputs: flat float32[1, 1, 4, 6], means float32[1, 3]\n" in shown


def test_inspect_shows_unknown_layers_and_remedy(anylayer_command, small):
    shown = anylayer_command("inspect", "net.prototxt").stdout
    assert rows_of(shown)["half"][:5] == ["half", "Times", "factor=0.5", "?", "unknown:"]  # "did you mean 'Tile'?"
    assert "in Python: 0; unknown: 3" in shown
    assert shown.endswith("To define the unknown layers: anylayer stub net.prototxt -o layers.py\n")
    text = (small / "net.prototxt").read_text().replace("Times", "ReLu").replace("times_param { factor: 0.5 }", "")
    (small / "net.prototxt").write_text(text)
    assert "unknown: did you mean 'ReLU'?" in anylayer_command("inspect", "net.prototxt").stdout


def test_inspect_shows_host_calls_with_reason(anylayer_command, small):
    shown = anylayer_command("inspect", "net.prototxt", "-l", "host.py").stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("means")]
    assert "Python, host.py: " in line
    assert "host.py:" in line.split("Python, host.py: ")[1]


def test_inspect_json_with_shape(anylayer_command, small):
    data = json.loads(anylayer_command("inspect", *WITH, "--json", "--shape", "2,3,8,8").stdout)
    assert data["totals"] == {
        "nodes": 4,
        "weights": 0,
        "macs": 0,
        "host": 0,
        "refused": 0,
        "unshaped": 0,
        "unknown": 0,
    }
    assert data["inputs"] == [{"name": "data", "shape": [2, 3, 8, 8], "dtype": "float32"}]
    assert [n["where"] for n in data["nodes"]] == ["engine"] * 4
    assert data["nodes"][1]["params"] == {"times_param": {"factor": 0.5}}


def test_inspect_suggests_shape_option(anylayer_command, small):
    (small / "data.prototxt").write_text(
        'layer { name: "d" type: "Data" top: "data" } layer { name: "r" type: "ReLU" bottom: "data" top: "r" }'
    )
    shown = anylayer_command("inspect", "data.prototxt").stdout
    assert "To know the shapes: anylayer inspect data.prototxt --shape data=1,3,224,224\n" in shown
    assert "not traced: 1" in shown
    shown = anylayer_command("inspect", "data.prototxt", "--shape", "1,3,4,5").stdout
    assert "not traced" not in shown


def test_inspect_does_not_interpret_markup_in_names(anylayer_command, small):
    (small / "odd.prototxt").write_text('layer { name: "[bold]\\033[2J" type: "[red]X" top: "[/]" }')
    shown = anylayer_command("inspect", "odd.prototxt").stdout
    assert "[bold]?[2J" in shown
    assert "[red]X" in shown


def load(path):
    """Import a Python file as a module."""
    spec = importlib.util.spec_from_file_location("stub_under_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.pop(spec.name, None)
    spec.loader.exec_module(module)
    return module


def test_stub_has_class_and_test_per_unknown_type(anylayer_command, small):
    result = anylayer_command("stub", "net.prototxt", "-o", "stub.py")
    assert result.stderr == "wrote stub.py: 3 layer types (Times, Means, Flat)\n"
    text = (small / "stub.py").read_text()
    assert '@anylayer.layer("Times")\nclass Times:\n' in text
    assert "    half (line 4)\n      in  shuffle: float32[1, 3, 4, 6]\n" in text
    assert "      out half: shape unknown, read by means (Means), flat (Flat)\n" in text
    assert "      out flat: shape unknown, read by output flat of the network\n" in text
    assert 'self.factor = params["factor"]  # 0.5\n' in text
    module = load(small / "stub.py")
    with pytest.raises(
        AnyLayerError, match="the forward of layer type 'Times' is not written yet: compute 1 array"
    ):
        module.test_times()


def test_running_a_stub_names_missing_forward(anylayer_command, small):
    anylayer_command("stub", "net.prototxt", "-o", "stub.py")
    failed = anylayer_command("run", "net.prototxt", "-l", "stub.py", "-i", "x.npy", status=1)
    assert "layer 'half' (Times): the forward of layer type 'Times' is not written yet" in failed.stderr


def test_completed_stub_passes_its_test(anylayer_command, small):
    anylayer_command("stub", "net.prototxt", "-o", "stub.py")
    text = (small / "stub.py").read_text()
    start = text.index("raise anylayer")
    filled = (
        text[:start]
        + "return [x * np.float32(self.factor)]"
        + text[text.index(")\n", text.index("a list with")) + 1 :]
    )
    (small / "filled.py").write_text(filled)
    load(small / "filled.py").test_times()
    anylayer_command("run", "net.prototxt", "-l", "filled.py", "-i", "x.npy", "--blob", "half", "-o", "half.npy")
    assert np.array_equal(np.load("half.npy"), np.load("x.npy") / 2)


def test_stub_after_a_written_layer_knows_its_shapes(anylayer_command, small):
    layer = "import anylayer\n@anylayer.layer('Times')\ndef times(x, *, factor):\n    return x[:, :, :2]\n"
    (small / "first.py").write_text(layer)
    text = anylayer_command("stub", "net.prototxt", "-l", "first.py", "--type", "Means").stdout
    assert "      in  half: float32[1, 3, 2, 6]\n" in text and "class Times" not in text
    assert "anylayer run net.prototxt WEIGHTS -l first.py -l layers.py -i INPUT\n" in text


def test_stub_overwrites_only_with_force(anylayer_command, small):
    failed = anylayer_command("stub", "net.prototxt", "-o", "layers.py", status=1)
    assert failed.stderr == "layers.py exists. --force overwrites it\n"
    anylayer_command("stub", "net.prototxt", "-o", "layers.py", "--force")
    assert "is not written yet" in (small / "layers.py").read_text()


def test_stub_without_unknown_layers_writes_nothing(anylayer_command, small):
    result = anylayer_command("stub", *WITH, "-o", "stub.py")
    assert result.stderr == "net.prototxt: every layer type is known; nothing to write\n"
    assert not (small / "stub.py").exists()


def test_stub_of_known_type_with_type_option(anylayer_command, small):
    shown = anylayer_command("stub", *WITH, "--type", "ShuffleChannel").stdout
    assert "class ShuffleChannel:" in shown
    assert "class Times" not in shown
    failed = anylayer_command("stub", *WITH, "--type", "Shuffle", status=1)
    assert "there is no layer of type 'Shuffle'; did you mean 'ShuffleChannel'?" in failed.stderr


HOSTILE = r"""
layer { name: "a\"\"\"\nimport os" type: "x\"\"\"\n)(\\" top: "t"
  p { lambda: "\"\"\"\\\n" forward: 1 v: inf v: -1 w: nan } }
layer { name: "b" type: "anylayer" bottom: "t" bottom: "t" top: "u" top: "v" p { forward: 2 k: SUM f: true } }
layer { name: "c" type: "1.5 def" bottom: "u" top: "w" }
layer { name: "d" type: "1_5 def" bottom: "v" top: "z" }
"""


def test_stub_quotes_text_of_the_file(anylayer_command, small):
    (small / "hostile.prototxt").write_text(HOSTILE)
    anylayer_command("stub", "hostile.prototxt", "-o", "stub.py")
    module = load(small / "stub.py")
    assert not hasattr(module, "os")
    classes = [v for v in vars(module).values() if isinstance(v, type)]
    assert len(classes) == 4
    first = classes[0]({"lambda": "a", "forward": 1, "v": (1, 2), "w": 0}, [])
    assert (first.lambda_, first.forward_, first.v) == ("a", 1, (1, 2))
    assert callable(first.forward)
    tests = [v for n, v in vars(module).items() if n.startswith("test_")]
    assert len(tests) == 4
    for test in tests:
        with pytest.raises(AnyLayerError, match="is not written yet"):
            test()


def test_verify_agrees_on_every_engine(anylayer_command, small):
    shown = anylayer_command("verify", *WITH).stdout
    assert [line.split(": ")[1] for line in shown.splitlines()[-2:]] == [
        "all 4 nodes compared agree with NumPy"
    ] * 2
    assert rows_of(shown)["half"][:4] == ["half", "Times", "ok", "0.0e+00"]


SKIPPED = "constant, host call or kernel without a class, or nothing to see in its output"


def test_verify_skips_host_calls(anylayer_command, small):
    shown = anylayer_command("verify", "net.prototxt", "-l", "host.py", "-e", "onnxruntime").stdout
    assert f"all 3 nodes compared agree with NumPy (1 node not compared: {SKIPPED})" in shown


@pytest.mark.parametrize(
    ("notes", "verdict"),
    [
        (["constant"], f"no node was compared (1 node: {SKIPPED})"),
        ([""], "the 1 node compared agrees with NumPy"),
        (
            ["", "constant", "constant"],
            f"the 1 node compared agrees with NumPy (2 nodes not compared: {SKIPPED})",
        ),
    ],
)
def test_verify_counts_nodes_in_words(anylayer_command, small, monkeypatch, notes, verdict):
    checks = [NodeCheck("a", "A", 0.0, 1.0, True, note) for note in notes]
    monkeypatch.setattr("anylayer.inspect.verify.verify", lambda *a, **k: iter(checks))
    shown = anylayer_command("verify", *WITH, "-e", "onnxruntime").stdout
    assert shown.splitlines()[-1] == f"onnxruntime: {verdict}"


def test_verify_has_no_row_for_a_constant_node(anylayer_command, small):
    (small / "constant.prototxt").write_text("""
        input: "data" input_shape { dim: [1, 2, 4, 4] }
        layer { name: "exp" type: "Exp" bottom: "data" top: "exp" }
        layer { name: "boxes" type: "PriorBox" bottom: "exp" bottom: "data" top: "boxes"
                prior_box_param { min_size: 2 } }
    """)
    shown = anylayer_command("verify", "constant.prototxt", "-e", "onnxruntime").stdout
    assert "exp   Exp   ok" in shown and "boxes: constant" in shown and "PriorBox" not in shown


SATURATED = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 } } }
layer { name: "high" type: "Power" bottom: "x" top: "a" power_param { scale: 1e-9 shift: 99 } }
layer { name: "sig" type: "Sigmoid" bottom: "a" top: "b" }
"""


def test_verify_says_where_outputs_tell_little(anylayer_command, small):
    (small / "flat.prototxt").write_text(SATURATED)
    shown = anylayer_command("verify", "flat.prototxt", "-e", "onnxruntime").stdout
    little = "the output is empty, constant, saturated or tiny for these inputs:"
    lines = " ".join(shown.split())
    assert f"high: {little} nothing was compared; compare on data of the kind" in lines
    assert f"sig: {little} it was compared on noise, too" in lines
    assert lines.endswith(f"the 1 node compared agrees with NumPy (1 node not compared: {SKIPPED})")
    nodes = json.loads(anylayer_command("verify", "flat.prototxt", "-e", "onnxruntime", "--json").stdout)
    told = [(n["name"], n["tells"], n["on_noise"]) for n in nodes["onnxruntime"]["nodes"]]
    assert told == [("high", False, False), ("sig", False, True)]


def test_verify_names_first_node_that_differs(anylayer_command, small, monkeypatch):
    checks = [
        NodeCheck("a", "A", 1e-7, 1.0, True),
        NodeCheck("b", "B", 0.5, 2.0, False),
        NodeCheck("c", "C", 9, 1, False),
    ]
    monkeypatch.setattr("anylayer.inspect.verify.verify", lambda *a, **k: iter(checks))
    result = anylayer_command("verify", *WITH, "-e", "onnxruntime", status=1)
    assert result.stdout.endswith(
        "onnxruntime: 2 nodes differ, the first is 'b' (B): largest difference 0.5, largest value 2\n"
    )
    data = json.loads(anylayer_command("verify", *WITH, "-e", "onnxruntime", "--json", status=1).stdout)
    assert (data["onnxruntime"]["ok"], data["onnxruntime"]["first"]) == (False, "b")
    assert data["onnxruntime"]["nodes"][1]["error"] == 0.5


def refusing(monkeypatch, kept):
    """Make every engine except `kept` refuse, like an engine that is not installed."""
    from anylayer import engines
    from anylayer.errors import EngineError

    load = engines.load_engine

    def load_engine(name):
        if name != kept:
            raise EngineError(f"engine '{name}' needs: pip install {name}")
        return load(name)

    for room in ("inspect.verify", "runtime.compilation", "runtime.run", "engines"):
        monkeypatch.setattr(f"anylayer.{room}.load_engine", load_engine, raising=False)


def test_verify_continues_after_engine_refuses(anylayer_command, small, monkeypatch):
    refusing(monkeypatch, "onnxruntime")
    words = ("verify", *WITH, "-e", "openvino", "-e", "onnxruntime")
    shown = anylayer_command(*words, status=1).stdout
    assert shown.splitlines()[-2:] == [
        "onnxruntime: all 4 nodes compared agree with NumPy",
        "openvino: engine 'openvino' needs: pip install openvino",
    ]
    data = json.loads(anylayer_command(*words, "--json", status=1).stdout)
    assert data["onnxruntime"]["ok"]
    assert data["openvino"] == {"ok": False, "error": "engine 'openvino' needs: pip install openvino"}
    alone = anylayer_command("verify", *WITH, "-e", "openvino", status=1)
    assert (alone.stdout, alone.stderr) == ("", "engine 'openvino' needs: pip install openvino\n")


def test_verify_shows_refused_node(anylayer_command, small, monkeypatch):
    checks = [
        NodeCheck("a", "A", 1e-7, 1.0, True),
        NodeCheck("b", "B", float("inf"), 0.0, False, "engine 'x' cannot express 'B'", refused=True),
    ]
    monkeypatch.setattr("anylayer.inspect.verify.verify", lambda *a, **k: iter(checks))
    shown = anylayer_command("verify", *WITH, "-e", "onnxruntime", status=1).stdout
    assert rows_of(shown)["b"][:3] == ["b", "B", "refused"]
    assert shown.splitlines()[-2:] == [
        "b: engine 'x' cannot express 'B'",
        "onnxruntime: 1 node refused, the first is 'b' (B)",
    ]


def test_verify_without_weights_names_remedy(anylayer_command, small):
    text = (
        (small / "net.prototxt")
        .read_text()
        .replace('"Flat"', '"InnerProduct" inner_product_param { num_output: 9 }')
    )
    (small / "net.prototxt").write_text(text)
    assert anylayer_command("verify", *WITH, "-e", "onnxruntime", status=1).stderr == (
        "net.prototxt:6: layer 'flat' (InnerProduct): its weights are not given. Give the .caffemodel that "
        "belongs to this file, or random weights: --random-weights\n"
    )
    run = ("run", *WITH, "-e", "onnxruntime", "-i", "x.npy")
    assert anylayer_command(*run, status=1).stderr.endswith("or random weights: --random-weights\n")
    assert "flat float32[1, 9]" in anylayer_command(*run, "--random-weights").stdout
    text = "".join(line for line in text.splitlines(True) if "input_param" not in line)
    (small / "net.prototxt").write_text('input: "data"\n' + text)  # the array has the shape
    assert "flat float32[1, 9]" in anylayer_command(*run, "--random-weights").stdout


def test_verify_with_given_inputs(anylayer_command, small):
    data = json.loads(anylayer_command("verify", *WITH, "-i", "x.npy", "-e", "onnxruntime", "--json").stdout)
    scales = {n["name"]: n["scale"] for n in data["onnxruntime"]["nodes"]}
    assert scales == {
        "shuffle": 71,
        "half": 35.5,
        "means": pytest.approx(29.75),
        "flat": 1,  # its values are smaller than the rounding of what it reads
    }


def test_verify_refuses_numpy(anylayer_command, small):
    failed = anylayer_command("verify", *WITH, "-e", "numpy", status=2)
    assert "engines are compared with numpy; name another engine" in failed.stderr


def test_verify_uses_installed_engines(monkeypatch, capsys):
    from anylayer.engines import load_engine
    from anylayer.errors import EngineError

    def without_openvino(name):
        if name == "openvino":
            raise EngineError("engine 'openvino' needs: pip install openvino")
        return load_engine(name)

    monkeypatch.setattr(verify_command, "load_engine", without_openvino)
    assert verify_command._engines(("all",), False) == ["onnxruntime"]
    assert capsys.readouterr().err == "skipped: engine 'openvino' needs: pip install openvino\n"


def test_bench_shows_engines_side_by_side(anylayer_command, small):
    shown = anylayer_command("bench", *WITH, "-e", "numpy", "-e", "onnxruntime", "-n", 5).stdout
    rows = rows_of(shown)
    assert (rows["numpy"][4:], rows["onnxruntime"][4]) == (["5", "1.00"], "5")


def test_bench_shows_refusing_engine_as_row(anylayer_command, small, monkeypatch):
    refusing(monkeypatch, "onnxruntime")
    words = ("bench", *WITH, "-e", "openvino", "-e", "onnxruntime", "-n", 2)
    shown = anylayer_command(*words, status=1).stdout
    rows = rows_of(shown)
    assert rows["openvino"] == ["openvino", "refused", "-", "-", "-", "-"]
    assert rows["onnxruntime"][4:] == ["2", "1.00"]
    assert shown.endswith("openvino: engine 'openvino' needs: pip install openvino\n")
    data = json.loads(anylayer_command(*words, "--json", status=1).stdout)["engines"]
    assert data["openvino"]["error"] == "engine 'openvino' needs: pip install openvino"
    assert data["onnxruntime"]["ms"]["runs"] == 2
    alone = anylayer_command("bench", *WITH, "-e", "openvino", "-n", 2, status=1)
    assert alone.stderr == "engine 'openvino' needs: pip install openvino\n"


def test_bench_writes_json(anylayer_command, small):
    words = ("-e", "onnxruntime", "--threads", 1, "-n", 3, "--json")
    data = json.loads(anylayer_command("bench", *WITH, *words).stdout)
    assert (data["threads"], data["inputs"]) == (1, {"data": [1, 3, 4, 6]})
    found = data["engines"]["onnxruntime"]
    assert found["ms"]["runs"] == 3
    assert 0 < found["ms"]["best"] <= found["ms"]["median"] <= found["ms"]["p95"]


def test_bench_reports_host_calls(anylayer_command, small):
    result = anylayer_command("bench", "net.prototxt", "-l", "host.py", "-e", "onnxruntime", "-n", 1)
    assert "layer 'means' (Means) runs in Python: " in result.stderr


def test_calls_are_timed_in_turns():
    order = []
    ticks = iter(range(1000))
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = interleaved_times(calls, 3, 0, lambda: next(ticks))
    assert "".join(order) == "ababab"
    assert times == {"a": [1, 1, 1], "b": [1, 1, 1]}
    order.clear()
    interleaved_times(calls, None, 40, iter(range(1000)).__next__)
    assert len(order) == 18  # 3 rounds of 4 ticks, then of 5 with the look at the clock: the last at tick 38
    order.clear()
    interleaved_times(calls, None, 0, iter(range(1000)).__next__)
    assert len(order) == 6


@pytest.mark.parametrize(
    ("values", "p95"), [([3], 3), (range(1, 21), 19), (range(1, 101), 95), ([5, 1, 9], 9), (range(1, 22), 20)]
)
def test_percentile_is_a_measured_value(values, p95):
    assert percentile(list(values), 0.95) == p95


def test_layers_lists_types(anylayer_command):
    shown = anylayer_command("layers").stdout
    assert "Shuffle the channels: reshape them to (group, C / group), transpose, and flatten" in shown
    assert shown.splitlines()[-1].endswith("layer types; anylayer layers TYPE shows its fields")


def test_layers_shows_fields_of_type(anylayer_command):
    shown = anylayer_command("layers", "shufflechannel").stdout
    assert shown.startswith("ShuffleChannel\n")
    assert "shuffle_channel_param" in shown
    assert rows_of(shown)["group"][:4] == ["group", "1", "uint32", "1"]


def test_layers_writes_json(anylayer_command):
    data = json.loads(anylayer_command("layers", "--json").stdout)
    assert len({d["type"] for d in data}) > 20
    (found,) = json.loads(anylayer_command("layers", "ShuffleChannel", "--json").stdout)
    assert found["numbers"]["ascend"] == 159
    assert found["fields"] == [
        {
            "name": "group",
            "number": 1,
            "type": "uint32",
            "doc": "number of groups; must divide the channels",
            "required": False,
            "default": 1,
        }
    ]


def test_layers_suggests_nearest_type(anylayer_command):
    failed = anylayer_command("layers", "ShufleChannel", status=1)
    assert failed.stderr == "there is no built-in layer type 'ShufleChannel'; did you mean 'ShuffleChannel'?\n"


def test_layers_names_the_formats_that_have_a_type(anylayer_command):
    failed = anylayer_command("layers", "Conv2D", status=1)
    text = "there is no built-in layer type 'Conv2D'; formats that have it: keras, tensorflow (--format keras)\n"
    assert failed.stderr == text


def test_layers_of_other_formats(anylayer_command):
    shown = anylayer_command("layers", "--format", "keras").stdout
    assert rows_of(shown)["Conv2D"][1:3] == ["Convolve", "over"]
    assert shown.endswith("; anylayer layers TYPE --format keras shows its fields\n")
    shown = anylayer_command("layers", "conv2d", "--format", "tensorflow").stdout
    assert rows_of(shown)["padding"][:4] == ["padding", "SAME", "|", "VALID"]
    text = "there are no layers of format 'kera'; did you mean 'keras'?; formats: caffe, darknet, keras"
    assert anylayer_command("layers", "--format", "kera", status=1).stderr.startswith(text)


def test_inspect_shows_symbolic_sizes(anylayer_command, small):
    anylayer_command("convert", *WITH, "-o", "net.onnx", "--batch", "n", "-q")
    assert "inputs: data float32[1, 3, 4, 6]\n" in anylayer_command("inspect", "net.onnx").stdout
    model = onnx.load("net.onnx")
    for axis, name in ((2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    onnx.save(model, "open.onnx")
    shown = anylayer_command("inspect", "open.onnx").stdout
    assert "inputs: data [?, 3, ?, ?]\n" in shown
    assert "To know the shapes: anylayer inspect open.onnx --shape data=1,3,224,224\n" in shown
    shown = anylayer_command("verify", "open.onnx", status=1).stderr
    assert "the shape of input 'data' is [?, 3, ?, ?] in the file. Give --shape data=1,3,224,224" in shown


@pytest.mark.parametrize("device", ["nvidia", "cuda1", "NPU"])
def test_unknown_device_is_refused(small, anylayer_command, device) -> None:
    words = ["run", "net.prototxt", "-l", "layers.py", "-i", "x.npy", "-e", "onnxruntime", "--device", device]
    said = anylayer_command(*words, status=1).stderr
    assert said == f"--device: there is no device '{device}'; give cpu, gpu, cuda, or one of several: cuda:1\n"


@pytest.mark.one_per()
@pytest.mark.parametrize("command", ["run", "bench", "profile", "verify"])
def test_device_is_the_one_of_the_engines(small, anylayer_command, command) -> None:
    if has_cuda():
        pytest.skip("ONNX Runtime is installed with CUDA")
    words = [command, "net.prototxt", "-l", "layers.py", "-i", "x.npy", "-e", "onnxruntime", "--device", "cuda"]
    assert (
        "engine 'onnxruntime': the installed package is without CUDA" in anylayer_command(*words, status=1).output
    )
    words[-1] = "CPU"
    anylayer_command(*words)
