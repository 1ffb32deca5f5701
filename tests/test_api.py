"""anylayer.read and Net: refusals before a file is read, options, and what a Net describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import FileError, InputError, LayerError, command_line
from anylayer.readers import load_reader, readers

NET = """
name: "small"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "m" type: "Mystery" bottom: "c" top: "y" mystery_param { a: 1 } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "n.prototxt"
    path.write_text(NET)
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"hello\n", "f: this is nothing anylayer knows; anylayer reads a Caffe network"),
        (
            b'<CustomKernelsMapping>\n<CustomLayer NativeType="Interp"/>',
            r"f: this is a CustomLayersMapping.xml \(it let .* is not needed: read the network with a layers",
        ),
        (b'<CustomLayer name="ReLU" type="SimpleGPU">', "f: this is a configuration of OpenCL kernels; anylayer"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), r"f: this is a picture \(PNG\); anylayer reads a Caffe network"),
    ],
)
def test_file_of_another_format_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FileError, match=text):
        anylayer.read(tmp_path / "f")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "m.pb",
            b"\x0a\x10\x0a\x01a",
            "m.pb: this is not a protobuf file, or it is cut off; expected a TensorFlow graph",
        ),
        ("m.keras", b"PK\x03\x04" + bytes(26) + b"config.json{", "m.keras: this is not a readable zip archive"),
    ],
)
def test_truncated_file_is_refused(tmp_path: Path, name: str, content: bytes, text: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=text):
        anylayer.read(tmp_path / name)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        anylayer.read(tmp_path / "nothing")
    with pytest.raises(FileError, match="this is a folder; anylayer reads a Caffe network"):
        anylayer.read(tmp_path)


def test_index_of_a_checkpoint_names_the_file_to_give() -> None:
    index = Path(__file__).parent / "data" / "tensorflow" / "checkpoint" / "model.index"
    with pytest.raises(FileError, match=r"a TensorFlow checkpoint, judged .* Give the \.meta file of"):
        anylayer.read(index)


def test_unknown_phase_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match="phase must be TEST or TRAIN, got 'DEPLOY'"):
        anylayer.read(file, phase="DEPLOY")


def test_net_describes_its_network(file: Path) -> None:
    net = anylayer.read(file)
    assert {k: str(v) for k, v in net.inputs.items()} == {"x": "float32[1, 3, 4, 4]"}
    assert net.outputs == {"y": None}
    assert [n.name for n in net.unknown] == ["m"]
    assert repr(net) == "<anylayer.Net 'small': 2 nodes, inputs x; outputs y>"
    report = net.inspect()
    conv, mystery = report.nodes
    assert (conv.where, conv.weights, conv.macs) == ("engine", 2 * 27 + 2, 2 * 4 * 27)
    assert (mystery.where, mystery.params) == ("unknown", {"mystery_param": {"a": 1}})
    assert report.totals == {
        "nodes": 2,
        "weights": 56,
        "macs": 216,
        "host": 0,
        "refused": 0,
        "unshaped": 0,
        "unknown": 1,
    }
    assert "kernel_size=3 num_output=2" in str(report)
    assert net._repr_html_().startswith("<table>")
    assert [str(t) for _, t in net.inspect({"x": (2, 3, 8, 8)}).nodes[0].outputs] == ["float32[2, 2, 6, 6]"]


def test_broken_rule_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "n.prototxt").write_text(NET.replace("kernel_size: 3", "kernel_size: 3 group: 2"))
    report = anylayer.read(tmp_path / "n.prototxt").inspect()
    assert [n.where for n in report.nodes] == ["refused", "unknown"]
    assert "group" in report.nodes[0].reason
    assert any("layer 'c' (Convolution)" in note for note in report.notes)


def test_class_in_the_program_defines_a_layer(file: Path) -> None:
    class Mystery:
        def __init__(self, params: dict, blobs: tuple) -> None:
            self.a = params["a"]

        def forward(self, inputs: list) -> list:
            return [inputs[0] * self.a]

    net = anylayer.read(file, layers=[("Mystery", Mystery)])
    assert net.unknown == [] and list(net.user_layers) == ["Mystery"]
    with pytest.raises(LayerError, match="are not given"):
        net.compile(engine="onnxruntime")
    assert net.fill().compile(engine="onnxruntime").outputs["y"].shape == (1, 2, 2, 2)


def test_notes_of_the_tracer_are_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "n.prototxt").write_text(NET.replace("kernel_size: 3", "kernel_size: 1"))
    (tmp_path / "wide.py").write_text(
        "import numpy as np\nimport anylayer\n\n@anylayer.layer('Mystery')\nclass Wide:\n"
        "    def __init__(self, params, blobs): pass\n"
        "    def forward(self, inputs):\n        return [(inputs[0] * np.float64(2)).astype(np.float32)]\n"
    )
    report = anylayer.read(tmp_path / "n.prototxt", layers=[tmp_path / "wide.py"]).inspect()
    assert any("float32 becomes float64" in note for note in report.nodes[1].notes)
    assert any("wide.py:8" in note for note in report.notes)


def test_option_of_another_format_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anylayer.readers.caffe.OPTIONS", {})
    text = r"n.prototxt: stages: a Caffe network \(.prototxt, .caffemodel\) has no such option; its options: none"
    with pytest.raises(InputError, match=text):
        anylayer.read(file, stages=["a"])
    with command_line(), pytest.raises(InputError, match=r"n.prototxt: --stage: a Caffe network"):
        anylayer.read(file, stages=["a"])
    assert anylayer.read(file, stages=None).network.nodes


def test_unknown_option_is_refused_with_the_options_of_the_reader(file: Path) -> None:
    text = (
        "phrase: a Caffe network .* has no such option; did you mean 'phase'.; its options: dialect, proto, phase,"
    )
    with pytest.raises(InputError, match=text):
        anylayer.read(file, phrase="TEST")


def test_readers_describe_their_options() -> None:
    options = {name: option for format in readers() for name, option in load_reader(format).OPTIONS.items()}
    assert sorted(options) == ["dialect", "level", "outputs", "phase", "proto", "raw", "stages"]
    for name, option in options.items():
        assert option.name == name and option.doc.endswith(".")
        assert name in (anylayer.read.__doc__ or "")
    assert options["stages"].type == "str | Sequence[str] | None"


def test_layers_may_be_none(file: Path) -> None:
    assert anylayer.read(file, layers=None).user_layers == {}


def test_folder_is_refused_with_the_networks_in_it(file: Path) -> None:
    (file.parent / "layers.py").write_text("")
    with pytest.raises(
        FileError, match=r"this is a folder that holds n.prototxt: give one of these files; anylayer reads"
    ):
        anylayer.read(file.parent)


def test_python_file_is_refused_with_the_way_to_give_layers(file: Path) -> None:
    path = file.with_name("layers.py")
    path.write_text("")
    with pytest.raises(FileError, match=r"this is a Python file, not a network; give layers as anylayer.read"):
        anylayer.read(path)


def test_mapping_of_model_optimizer_is_not_needed(file: Path) -> None:
    path = file.with_name("CustomLayersMapping.xml")
    path.write_text("<CustomKernelsMapping/>")
    with pytest.raises(FileError, match=r"must be a Python file \(.py\); a CustomLayersMapping.xml is not needed"):
        anylayer.read(file, layers=path)


@pytest.mark.parametrize(("name", "meant"), [("layer", "layers"), ("wieghts", "weights"), ("dialec", "dialect")])
def test_misspelled_argument_of_read_is_named(file: Path, name: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        anylayer.read(file, **{name: "x"})


def test_wrong_number_of_channels_names_the_input(tmp_path: Path) -> None:
    path = tmp_path / "n.prototxt"
    conv = 'layer { name: "c" type: "Convolution" bottom: "data" top: "c" '
    conv += "convolution_param { num_output: 2 kernel_size: 1 } }"
    path.write_text(f'input: "data" input_shape {{ dim: 1 dim: 1 dim: 4 dim: 4 }} {conv}')
    net = anylayer.read(path).fill()
    with pytest.raises(LayerError, match=r"Input 'data' has shape \(1, 3, 4, 4\), and \(1, 1, 4, 4\) in the file"):
        net.compile("onnxruntime")(np.zeros((1, 3, 4, 4), np.float32))


def test_missing_outputs_are_explained(tmp_path: Path) -> None:
    file = tmp_path / "loss.prototxt"
    file.write_text(
        "input: 'a' input_shape { dim: 1 dim: 2 } input: 'b' input_shape { dim: 1 dim: 2 } "
        "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: 'loss' }"
    )
    net = anylayer.read(file)
    rule = r"no outputs; layer 'loss' \(EuclideanLoss\) serves training and is left out; it reads 'a'$"
    for act in (net.compile, lambda: net.write(tmp_path / "x.onnx")):
        with pytest.raises(InputError, match=rule):
            act()


NAMES = """import sys
import anylayer
from anylayer import ops

assert not [name for name in sys.modules if name.startswith("anylayer.ops.")], "operators are loaded at once"
import anylayer.ops.elu, anylayer.export
assert callable(ops.elu) and callable(anylayer.export) and callable(anylayer.identify) and callable(ops.gelu)
assert {"softmax", "conv"} <= {*dir(ops)} and {"export", "ops"} <= {*dir(anylayer)}
try:
    ops.elus
except AttributeError as error:
    print(error)
"""


def test_name_is_what_its_file_defines_whoever_loads_the_file() -> None:
    done = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True)
    assert done.stdout == "module 'anylayer.ops' has no attribute 'elus'\n", done.stderr


def test_a_network_without_outputs_is_refused_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "silent.prototxt"
    file.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }\n'
        'layer { name: "quiet" type: "Silence" bottom: "data" }\n'
    )
    with pytest.raises(InputError, match=r"silent.prototxt: the network has no outputs"):
        anylayer.read(file).compile()
