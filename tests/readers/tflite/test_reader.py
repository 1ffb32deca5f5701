"""Tests of the TFLite reader: what it makes of a file, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, UnknownLayers
from tests.layers.tflite.recorded import recorded

ADD = "ADD constant"
FOLDER = Path(__file__).parents[2] / "data" / "tflite"


def save(folder: Path, content: bytes) -> Path:
    """Write a model, and return its path."""
    path = folder / "net.tflite"
    path.write_bytes(content)
    return path


def special(name: str, file: str = "special") -> bytes:
    """Return a model that was made for a test of the reader."""
    with np.load(FOLDER / f"{file}.npz") as models:
        return models[name].tobytes()


def test_network_has_the_names_and_types_of_the_file(tmp_path: Path) -> None:
    net = anylayer.read(save(tmp_path, recorded()[ADD].model))
    assert [(n.name, n.type, n.inputs, n.outputs) for n in net.network.nodes] == [
        ("const1", "CONSTANT", [], ["const1"]),
        ("out0", "ADD", ["in0", "const1"], ["out0"]),
    ]
    assert str(net.network.inputs["in0"]) == "float32[2, 1, 4, 5]"
    assert net.network.nodes[1].params == {
        "options": {"fused_activation_function": "NONE", "pot_scale_int16": False}
    }


def test_constants_of_a_users_layer_are_blobs(tmp_path: Path) -> None:
    path = save(tmp_path, recorded()[ADD].model)
    file = tmp_path / "add.py"
    file.write_text(
        "import anylayer\n\n@anylayer.layer('ADD')\nclass Add:\n    def __init__(self, params, blobs):\n"
        "        self.blob, self.kind = blobs[0], params['fused_activation_function']\n\n"
        "    def forward(self, inputs):\n        assert self.kind == 'NONE'\n"
        "        return [inputs[0] - self.blob]\n"
    )
    case = recorded()[ADD]
    net = anylayer.read(path, layers=file)
    blob = net.network.nodes[0].blobs[0]
    np.testing.assert_allclose(net.compile("numpy")(case.inputs)["out0"], case.inputs["in0"] - blob)


def test_options_of_a_custom_operator_are_bytes(tmp_path: Path) -> None:
    path = save(tmp_path, special("custom"))
    with pytest.raises(UnknownLayers, match="Twice"):
        anylayer.read(path).compile("numpy")
    file = tmp_path / "twice.py"
    file.write_text(
        "import anylayer\n\n@anylayer.layer('Twice')\nclass Twice:\n    def __init__(self, params, blobs):\n"
        "        self.factor = params['custom_options'][0]\n\n"
        "    def forward(self, inputs):\n        return [inputs[0] * self.factor]\n"
    )
    y = anylayer.read(path, layers=file).compile("numpy")({"in0": np.ones((2, 3), np.float32)})
    assert (y["out0"] == 2).all()


def test_options_of_a_custom_operator_as_flexbuffer_are_params(tmp_path: Path) -> None:
    case = recorded()["Landmarks2TransformMatrix plain"]
    file = tmp_path / "matrix.py"
    file.write_text(
        "import anylayer\n\n@anylayer.layer('Landmarks2TransformMatrix')\nclass Matrix:\n"
        "    def __init__(self, params, blobs):\n        self.params = params\n\n"
        "    def forward(self, inputs):\n        return [inputs[0] * self.params['scale_x']\n"
        "            + self.params['subset_idxs'][2] + self.params['custom_options'][-1]]\n"
    )
    net = anylayer.read(case.save(tmp_path), layers=file)
    y = net.compile("numpy")(case.inputs)
    x = (case.inputs["in0"] / 64 - 2).reshape(1, 24, 3)
    np.testing.assert_allclose(next(iter(y.values())), x * 1.5 + 9 + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blocks", "tensor 'in0' is quantized in blocks or by code that is not in the file"),
        ("scales", "tensor 'in0': it has 3 scales along axis 0 of shape [2, 1, 4, 5]"),
        ("zero scale", "tensor 'in0': its scales must be positive"),
        ("infinite scale", "tensor 'in0': its scales must be positive"),
        ("zero points", "tensor 'in0': it has 2 zero points for 1 scales"),
        ("large zero point", "tensor 'in0': its zero points do not fit int8"),
        ("int4", "tensor 'in0' is computed in int4, which is not supported"),
        ("no scale", "an input of int8 has no scale"),
        ("no output scale", "an output of int8 has no scale"),
        (
            "uint32",
            "tensor 'in0' is of type uint32; supported are float32, float16, int32, int64, bool, int8, uint8",
        ),
        ("variable", "tensor 'in0' is a variable"),
        ("sparse", "tensor 'const1': the places of its values do not fit its shape"),
        ("version", "version 99 is not supported; the newest known is 5"),
        ("named as builtin", "the custom operator 'ADD' has the name of a builtin operator"),
        ("unknown number", "builtin operator 300 is newer than those"),
        ("unproduced", "no operator before it produces tensor 'in0'"),
        ("short constant", "tensor 'const1': it has 4 bytes, expected 60"),
        ("tanh", "fused_activation_function"),
        ("dtypes", "all inputs must have one dtype, got int32, float32"),
    ],
)
def test_file_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    path = save(tmp_path, special(name))
    with pytest.raises(AnyLayerError) as error:
        net = anylayer.read(path)
        inputs = {name: np.zeros(t.shape, t.dtype) for name, t in net.network.inputs.items() if t is not None}
        net.compile("numpy")(inputs)
    assert text in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cycle", "its subgraphs are nested deeper than 32"),
        ("missing", "it runs subgraph 9; there are 1 to 2"),
        ("main", "it runs subgraph 0; there are 1 to 2"),
        ("variables", "it has 0 inputs and 0 outputs"),
    ],
)
def test_subgraph_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(AnyLayerError) as error:
        anylayer.read(save(tmp_path, special(name, "subgraphs")))
    assert text in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("computed", "the first value of the variable 'state' is computed, which is not supported"),
        ("unset", "the variable 'state' has no first value"),
        ("complex output", "output 'out0': complex outputs are not supported"),
        ("complex sum", "complex numbers are supported only in RFFT2D, REAL"),
    ],
)
def test_variable_or_complex_number_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(AnyLayerError) as error:
        anylayer.read(save(tmp_path, special(name, "refused")))
    assert text in str(error.value), str(error.value)


def test_initialization_that_does_nothing_is_left_out(tmp_path: Path) -> None:
    case = recorded()["WHILE counted"]
    net = anylayer.read(save(tmp_path, special("once", "subgraphs")))
    for name, y in net.compile("numpy")(case.inputs).items():
        np.testing.assert_allclose(y, case.outputs[name], 1e-5)


def test_second_subgraph_that_nothing_runs_is_ignored(tmp_path: Path) -> None:
    case = recorded()[ADD]
    net = anylayer.read(save(tmp_path, special("two subgraphs")))
    assert [n.type for n in net.network.nodes] == ["CONSTANT", "ADD"]
    np.testing.assert_array_equal(net.compile("numpy")(case.inputs)["out0"], case.outputs["out0"])


def test_scale_of_floats_is_ignored(tmp_path: Path) -> None:
    path, case = save(tmp_path, special("float with scale")), recorded()[ADD]
    np.testing.assert_array_equal(anylayer.read(path).compile("numpy")(case.inputs)["out0"], case.outputs["out0"])


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_an_operator_computes_an_array_without_elements(engine: str, tmp_path: Path) -> None:
    net = anylayer.read(save(tmp_path, special("empty part")))
    x = np.random.default_rng(0).random((2, 1, 4, 5), np.float32)
    results = net.compile(engine)({"in0": x})
    np.testing.assert_array_equal(results["out0"], x)
    assert results["out1"].shape == (0, 1, 4, 5)


def test_open_sizes_are_those_of_the_signature(tmp_path: Path) -> None:
    path = save(tmp_path, special("open"))
    net = anylayer.read(path)
    assert net.network.open["in0"] == (None, 1, 4, 5)
    x = np.ones((3, 1, 4, 5), np.float32)
    assert net.compile("numpy")({"in0": x})["out0"].shape == (3, 3, 4, 5)
