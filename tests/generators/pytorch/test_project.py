"""The PyTorch project of a network: its files, its test, its names, batch sizes, training and export."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import ConversionError, InputError, LayerError
from anylayer.folders import template
from anylayer.generators import pytorch
from anylayer.generators.pytorch.code import MODULE_ATTRIBUTES
from anylayer.generators.pytorch.weights import to_safetensors
from tests.generators.test_names import ATTACKS

NET = """
name: "small net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 8 } } }
layer { name: "conv/1" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "slope" type: "PReLU" bottom: "conv" top: "slope" }
layer { name: "bn" type: "BatchNorm" bottom: "slope" top: "bn" }
layer { name: "relu" type: "ReLU" bottom: "bn" top: "bn" }
layer { name: "mine" type: "Mine" bottom: "bn" top: "mine" mine_param { add: 3 } }
layer { name: "again" type: "Mine" bottom: "mine" top: "again" mine_param { add: 3 } }
layer { name: "fc" type: "InnerProduct" bottom: "again" top: "fc" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


class Mine:
    """Mirror the rows, add a number and a row."""

    def __init__(self, params: dict[str, Any], blobs: Any) -> None:
        self.add = np.float32(params["add"])

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        return [x[:, :, ::-1] * np.linspace(0, 1, x.shape[-1], dtype=np.float32) + self.add]


def read(folder: Path, text: str = NET, cls: Any = Mine) -> anylayer.Net:
    (folder / "net.prototxt").write_text(text)
    return anylayer.read(folder / "net.prototxt", layers=[("Mine", cls)]).fill(1)


def load(folder: Path) -> Any:
    """Return the generated module with its weights, run as its own file."""
    space: dict[str, Any] = {"__name__": "model", "__file__": str(folder / "model.py")}
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), space)
    return space["load"]()


needs_torch = pytest.mark.needs("torch", "safetensors")


@needs_torch
def test_project_is_written_after_its_test_passed(tmp_path: Path) -> None:
    done = read(tmp_path).generate("pytorch", tmp_path / "project")
    assert done.untested == "" and done.notes == []
    assert [line.split(":")[0] for line in done.report] == ["prob", "prob"]
    names = {"model.py", "model.safetensors", "test_model.py", "test_data.npz", "anylayer.json"}
    assert {p.name for p in (tmp_path / "project").iterdir()} == names


@needs_torch
def test_generated_test_runs_without_anylayer_and_notices_wrong_weights(tmp_path: Path) -> None:
    read(tmp_path).generate("pytorch", tmp_path / "project")
    project = tmp_path / "project"
    hide = "import sys, runpy; sys.modules['anylayer'] = None; sys.path.insert(0, '.'); "
    command = [sys.executable, "-B", "-c", hide + "runpy.run_path('test_model.py', run_name='__main__')"]
    assert subprocess.run(command, cwd=project, capture_output=True, check=False).returncode == 0
    data = bytearray((project / "model.safetensors").read_bytes())
    data[-400:-396] = np.float32(9).tobytes()
    (project / "model.safetensors").write_bytes(data)
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "AssertionError: prob: largest difference" in done.stderr


_TINY = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4096 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 9 } }
layer { name: "end" type: "Sigmoid" bottom: "fc" top: "end" }
"""


@needs_torch
def test_tiny_outputs_of_a_small_range_may_differ_by_its_rounding(tmp_path: Path) -> None:
    net = read(tmp_path, _TINY)
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 4096)).astype(np.float32)
    weights = random.standard_normal((9, 4096)).astype(np.float32)
    bias = (-13 - weights.astype(np.float64) @ x[0].astype(np.float64)).astype(np.float32)
    (fc,) = (node for node in net.network.nodes if node.name == "fc")
    fc.blobs = [weights, bias]
    done = net.generate("pytorch", tmp_path / "project", inputs={"data": x})
    assert done.untested == "" and "saturated or tiny" in done.notes[0]
    (line,) = done.report
    error, largest = (float(part.split()[-1]) for part in line.split(","))
    assert error > 1e-5 * largest
    assert "FLOORS = [9.54e-07]\n" in (tmp_path / "project" / "test_model.py").read_text()


def test_code_is_readable(tmp_path: Path) -> None:
    read(tmp_path).generate("pytorch", tmp_path / "project", test=False)
    text = (tmp_path / "project" / "model.py").read_text()
    for line in (
        "self.conv_1 = nn.Conv2d(2, 4, 3, stride=2, padding=1)",
        "self.slope = nn.PReLU(4)",
        "self.fc = nn.Linear(48, 5)",
        "self.bn = nn.BatchNorm2d(4, eps=1e-05, affine=False)",
        "conv = self.conv_1(data)",
        "bn = F.relu(bn)",
        "slope = self.slope(conv)",
        "mine = mine_layer(bn, self.mine_scale)",
        "again = mine_layer(mine, self.mine_scale)",
        "class SmallNet(nn.Module):",
        "# Input data: float32[N, 2, 6, 8]",
    ):
        assert line in text
    assert text.count("def mine_layer(") == 1 and "return [x[:, :, ::-1] * np.linspace(0, 1" in text
    assert "anylayer" not in [
        a.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for a in n.names
    ]


@needs_torch
def test_module_takes_other_batch_sizes_and_trains(tmp_path: Path) -> None:
    import torch

    net = read(tmp_path)
    net.generate("pytorch", tmp_path / "project", test=False)
    module = load(tmp_path / "project")
    x = np.random.default_rng(0).standard_normal((5, 2, 6, 8)).astype(np.float32)
    want = net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    result = module(torch.from_numpy(x))
    np.testing.assert_allclose(result.detach().numpy(), want, atol=1e-6)
    result[:, 0].log().sum().backward()
    gradients = {name: p.grad for name, p in module.named_parameters()}
    assert set(gradients) == {"conv_1.weight", "conv_1.bias", "slope.weight", "fc.weight", "fc.bias"}
    assert all(g is not None and bool(g.abs().sum() > 0) for g in gradients.values())


@needs_torch
def test_other_sizes_are_refused_when_the_module_runs(tmp_path: Path) -> None:
    import torch

    read(tmp_path).generate("pytorch", tmp_path / "project", test=False)
    module = load(tmp_path / "project")
    for shape in ((1, 2, 6, 9), (1, 3, 6, 8), (2, 6, 8)):
        with pytest.raises(ValueError, match=r"input data must have the shape \(None, 2, 6, 8\), got"):
            module(torch.zeros(shape))
    read(tmp_path, cls=AsText).generate("pytorch", tmp_path / "one", test=False)
    with pytest.raises(ValueError, match=r"must have the shape \(1, 2, 6, 8\), got \(4, 2, 6, 8\)"):
        load(tmp_path / "one")(torch.zeros(4, 2, 6, 8))


def test_names_of_files_do_not_become_code(tmp_path: Path) -> None:
    model, layers = tmp_path / "a\nimport os #.prototxt", tmp_path / "b\nimport os #.py"
    model.write_text(NET)
    source = "import numpy as np\n\n\nclass Mine:\n    def __init__(self, params, blobs):\n        pass\n\n"
    layers.write_text(source + "    def forward(self, inputs):\n        return [np.abs(inputs[0])]\n")
    anylayer.read(model, layers=[f"Mine={layers}:Mine"]).fill(1).generate("pytorch", tmp_path / "p", test=False)
    tree = ast.parse((tmp_path / "p" / "model.py").read_text())
    assert "os" not in [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_torch_exports_the_module_with_a_free_batch(tmp_path: Path) -> None:
    import torch

    net = read(tmp_path)
    net.generate("pytorch", tmp_path / "project", test=False)
    batch = torch.export.Dim("batch", min=1, max=64)
    example = torch.zeros(2, 2, 6, 8)
    program = torch.export.export(load(tmp_path / "project"), (example,), dynamic_shapes=({0: batch},))
    x = np.random.default_rng(1).standard_normal((7, 2, 6, 8)).astype(np.float32)
    want = net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    np.testing.assert_allclose(program.module()(torch.from_numpy(x)).detach().numpy(), want, atol=1e-6)


@needs_torch
def test_safetensors_reads_the_weights(tmp_path: Path) -> None:
    from safetensors.numpy import load as load_bytes

    arrays = {
        f"{np.dtype(name)} {shape}": np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(name)
        for name in ("bool", "int8", "uint8", "int16", "float16", "float32", "int32", "float64", "int64")
        for shape in ((), (0, 3), (2, 3))
    }
    found = load_bytes(b"".join(to_safetensors(arrays)))
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


@needs_torch
def test_no_layer_replaces_an_attribute_of_modules() -> None:
    import torch

    public = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert public <= MODULE_ATTRIBUTES


def test_project_says_what_its_test_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "_PACKAGES", ("a_package_that_nobody_has",))
    done = read(tmp_path).generate("pytorch", tmp_path / "project")
    assert done.untested == "this needs a_package_that_nobody_has (pip install a_package_that_nobody_has)"
    assert done.report == [] and (tmp_path / "project" / "model.py").exists()


@needs_torch
def test_no_folder_appears_where_the_test_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = template(pytorch.__file__, "test_model.py.in").replace("want, FLOORS[i]", "want + 1, FLOORS[i]")
    monkeypatch.setattr(pytorch, "template", lambda module, name: text)
    with pytest.raises(ConversionError, match=r"(?s)project: .* own test fails:.*prob: largest difference"):
        read(tmp_path).generate("pytorch", tmp_path / "project")
    assert [p.name for p in tmp_path.iterdir()] == ["net.prototxt"]


def test_options_and_targets_are_checked(tmp_path: Path) -> None:
    net = read(tmp_path)
    with pytest.raises(InputError, match="there is no target 'pytorhc'; did you mean 'pytorch'"):
        net.generate("pytorhc", tmp_path / "project")
    with pytest.raises(InputError, match="a PyTorch module has no such option; its options: batch"):
        net.generate("pytorch", tmp_path / "project", precision="float16")
    assert not (tmp_path / "project").exists()


class PerSample(Mine):
    """Add each sample to all samples, in a loop over the batch."""

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        for i in range(len(x)):
            x = x + x[i]
        return [x]


@needs_torch
@pytest.mark.parametrize("batch", [1, 2, 9])
def test_loop_over_the_batch_takes_other_batch_sizes(batch: int, tmp_path: Path) -> None:
    import torch

    net = read(tmp_path, cls=PerSample)
    assert net.generate("pytorch", tmp_path / "project").notes == []
    x = np.random.default_rng(batch).standard_normal((batch, 2, 6, 8)).astype(np.float32)
    want = net.compile("numpy", shapes={"data": x.shape})(x)["prob"]
    got = load(tmp_path / "project")(torch.from_numpy(x))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-5, atol=1e-5)


class AsText(Mine):
    """Multiply by the batch size, which is read as text."""

    def forward(self, inputs: Any) -> Any:
        (x,) = inputs
        return [x * np.float32(str(len(x)))]


def test_network_of_one_batch_size_gets_a_note(tmp_path: Path) -> None:
    done = read(tmp_path, cls=AsText).generate("pytorch", tmp_path / "project", test=False)
    assert len(done.notes) == 1 and done.notes[0].startswith("the code is for one batch size: ")
    assert "# Input data: float32[1, 2, 6, 8]" in (tmp_path / "project" / "model.py").read_text()


class Complex(Mine):
    """Call what no operator of torch's stands for."""

    def forward(self, inputs: Any) -> Any:
        return [anylayer.ops.nms(inputs[0][:, 0, :, :4], inputs[0][:, :2, :, 0], max_output=3)]


def test_operator_that_torch_lacks_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anylayer.generators.pytorch.operators import HANDLERS

    read(tmp_path).generate("pytorch", tmp_path / "project", test=False)
    monkeypatch.delitem(HANDLERS, "Slice")
    with pytest.raises(LayerError) as caught:
        read(tmp_path).generate("pytorch", tmp_path / "other", test=False)
    assert "layer 'mine' (Mine): PyTorch code cannot express the operator Slice (Slice, which test_" in str(
        caught.value
    )
    assert not (tmp_path / "other").exists()


IMPORTS = [
    "from pathlib import Path",
    "from safetensors.torch import load_file",
    "from torch import Tensor, nn",
    "from torch.nn import functional as F",
    "import torch",
]


def quoted(text: str) -> str:
    """Return text as a string of a prototxt file."""
    return '"' + "".join(f"\\{b:03o}" if not 48 <= b < 123 or b == 92 else chr(b) for b in text.encode()) + '"'


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_names_from_files_do_not_become_code(attack: Path, tmp_path: Path) -> None:
    text = quoted(attack.read_bytes().decode())
    net = f"""
    name: {text}
    layer {{ name: {text} type: "Input" top: {text} input_param {{ shape {{ dim: 1 dim: 2 dim: 4 dim: 4 }} }} }}
    layer {{ name: {quoted("1" + attack.stem)} type: "Convolution" bottom: {text} top: "conv"
             convolution_param {{ num_output: 2 kernel_size: 1 }} }}
    layer {{ name: {text} type: {text} bottom: "conv" top: "out" mine_param {{ add: 1 text: {text} }} }}
    layer {{ name: {quoted(attack.read_bytes().decode() + "2")} type: "ReLU" bottom: "out" top: "relu" }}
    """
    (tmp_path / "net.prototxt").write_text(net)
    net_ = anylayer.read(tmp_path / "net.prototxt", layers=[(attack.read_bytes().decode(), Mine)]).fill(1)
    done = net_.generate("pytorch", tmp_path / "out" / "project", test=False)
    files = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {
        "net.prototxt",
        *(f.relative_to(tmp_path).as_posix() for f in done.files),
        "out/project/anylayer.json",
    }
    tree = ast.parse((tmp_path / "out" / "project" / "model.py").read_text())
    nodes = list(ast.walk(tree))
    imports = [ast.unparse(n) for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert sorted(imports) == IMPORTS
    known = {"torch", "nn", "F", "self", "super", "Path", "load_file", "network"}
    known |= {"any", "len", "tuple", "x", "zip", "ValueError"}  # of the function that checks the input's shape
    own = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for node in nodes:
        if isinstance(node, ast.Call):
            called = node.func
            while isinstance(called, (ast.Attribute, ast.Call)):
                called = called.value if isinstance(called, ast.Attribute) else called.func
            assert isinstance(called, ast.Name)
            assert called.id in known | own
    top = {type(n) for n in tree.body}
    assert top <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef, ast.ClassDef}
    assert all(isinstance(n.value, ast.Constant) for n in tree.body if isinstance(n, ast.Expr))


@needs_torch
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_code_of_hostile_names_runs(attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_names_from_files_do_not_become_code(attack, tmp_path)
    monkeypatch.chdir(tmp_path)
    import torch

    with torch.no_grad():
        assert load(tmp_path / "out" / "project")(torch.zeros(1, 2, 4, 4)).shape == (1, 2, 4, 4)
    assert not list(tmp_path.rglob("pwned"))
    assert json.loads((tmp_path / "out" / "project" / "anylayer.json").read_text())["generator"]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_exponent_and_factor_keep_their_values(shape: tuple[int, ...], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weights = [
        onnx.numpy_helper.from_array(np.full(shape, number, np.float32), name)
        for name, number in (("two", 2), ("ten", 10))
    ]
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 6]) for n in "xy")
    nodes = [onnx.helper.make_node("Pow", ["x", "two"], ["p"]), onnx.helper.make_node("Mul", ["p", "ten"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], weights)
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    anylayer.read(tmp_path / "net.onnx").generate("pytorch", tmp_path / "project", test=False)
    module = load(tmp_path / "project")
    import torch

    assert module(torch.tensor([[-2.0, -1, 0, 1, 2, 3]])).tolist() == [[40, 10, 0, 10, 40, 90]]


@pytest.mark.parametrize(
    ("first", "second", "two"),
    [
        *(("Equal", "Not", two) for two in ([2], [2] * 6)),
        *(("Mod", "Floor", two) for two in ([2], [2] * 6)),
        ("Div", "Floor", [2]),  # an array that scales is a parameter, which is rounded
    ],
)
def test_operands_of_functions_that_jump_keep_their_values(
    first: str, second: str, two: list[int], tmp_path: Path
) -> None:
    """Noise is on neither side of a jump that the rounding of an operand moves."""
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    node = make.make_node(first, ["x", "two"], ["z"], **({"fmod": 1} if first == "Mod" else {}))
    nodes = [node, make.make_node(second, ["z"], ["w"]), make.make_node("Cast", ["w"], ["y"], to=1)]
    x, y = (make.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 6]) for n in "xy")
    weights = [onnx.numpy_helper.from_array(np.array(two, np.float32), "two")]
    graph = make.make_graph(nodes, "net", [x], [y], weights)
    opsets = [make.make_opsetid("", 18)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    net = anylayer.read(tmp_path / "net.onnx")
    net.generate("pytorch", tmp_path / "project", test=False)
    import torch

    numbers = np.array([[-2, -1, 0, 1, 2, 4]], np.float32)
    got = load(tmp_path / "project")(torch.tensor(numbers)).tolist()
    assert got == net.compile("numpy")({"x": numbers})["y"].tolist()
