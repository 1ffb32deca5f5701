"""The contents of OpenVINO IR files, kept layers, symbolic batches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openvino as ov
import pytest

import anylayer
from anylayer import ops
from anylayer.errors import FileError, InputError, LayerError
from anylayer.network import Array
from tests.engine_names import ALL

NET = """
input: "data" input_shape { dim: 1 dim: 4 dim: 6 dim: 5 }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param {
  num_output: 4 kernel_size: 3 weight_filler { type: "constant" value: 0.1 } } }
layer { name: "m" type: "Mine" bottom: "c" top: "m" mine_param { scale: 2.5 axes: 1 axes: 2 word: "a" } }
layer { name: "n" type: "Mine" bottom: "m" top: "n" mine_param { scale: 0.5 } }
layer { name: "r" type: "ReLU" bottom: "n" top: "r" }
"""


class Mine:
    """Multiply by `scale` and add 1."""

    def __init__(self, params, blobs):
        self.scale = np.float32(params["scale"])

    def forward(self, inputs):
        return [inputs[0] * self.scale + np.float32(1)]


def net(folder: Path, text: str = NET) -> anylayer.Net:
    path = folder / "deploy.prototxt"
    path.write_text(text)
    return anylayer.read(path, layers=[("Mine", Mine)])


def x(batch: int = 1) -> Array:
    return np.random.default_rng(0).standard_normal((batch, 4, 6, 5)).astype(np.float32)


def test_openvino_matches_numpy(tmp_path: Path) -> None:
    source = net(tmp_path)
    done = source.write(tmp_path / "net.xml")
    assert [file.name for file in done.files] == ["net.bin", "net.xml"]
    assert done.runs == "openvino"
    assert all(check.ok for check in done.checks)
    model = ov.Core().read_model(tmp_path / "net.xml")
    assert [port.get_any_name() for port in (*model.inputs, *model.outputs)] == ["data", "r"]
    text = (tmp_path / "net.xml").read_text()
    assert '<net name="' in text and 'version="11"' in text
    assert "ShapeOf" not in text  # shape computations are folded


DEEP = """
input: "data" input_shape { dim: 1 dim: 8 dim: 16 dim: 16 }
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param {
  num_output: 16 kernel_size: 3 weight_filler { type: "gaussian" std: 1 } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "r" }
layer { name: "i" type: "InnerProduct" bottom: "r" top: "i" inner_product_param {
  num_output: 10 weight_filler { type: "gaussian" std: 1 } } }
"""


def deep(folder: Path) -> anylayer.Net:
    path = folder / "deep.prototxt"
    path.write_text(DEEP)
    return anylayer.read(path).fill()


def error(path: Path, source: anylayer.Net, config: dict[str, str]) -> float:
    """Return the error of an IR in OpenVINO compared with NumPy, relative to the largest value."""
    given = np.random.default_rng(0).standard_normal((1, 8, 16, 16)).astype(np.float32)
    want = source.compile("numpy")({"data": given})["i"]
    core = ov.Core()
    got = core.compile_model(core.read_model(path), "CPU", config)([given])["i"]
    return float(np.abs(got - want).max() / np.abs(want).max())


def test_note_on_bfloat16(tmp_path: Path) -> None:
    source = deep(tmp_path)
    done = source.write(tmp_path / "net.xml")
    assert error(tmp_path / "net.xml", source, {"INFERENCE_PRECISION_HINT": "f32"}) < 1e-5
    if "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        assert error(tmp_path / "net.xml", source, {}) > 1e-4
    (note,) = done.notes
    assert note.startswith("the comparison is in float32. On CPUs with bfloat16, OpenVINO computes in bfloat16 by")
    assert "{'INFERENCE_PRECISION_HINT': 'f32'}" in note


def test_both_files_or_none_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(LayerError):
        net(tmp_path, NET.replace("kernel_size: 3", "kernel_size: 9")).write(folder / "net.xml")
    assert not list(folder.iterdir())


def test_written_ir_is_read_back_with_the_same_outputs(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.write(tmp_path / "net.xml")
    again = anylayer.read(tmp_path / "net.xml")
    want = source.compile("numpy")({"data": x()})["r"]
    got = again.compile("numpy")({"data": x()})["r"]
    assert np.abs(got - want).max() < 1e-5


def test_kept_layer_is_operation_of_extension(tmp_path: Path) -> None:
    source = net(tmp_path)
    done = source.write(tmp_path / "net.xml", keep=["Mine"])
    assert all(check.ok for check in done.checks)
    text = (tmp_path / "net.xml").read_text()
    found = re.findall(r'<layer id="\d+" name="(\w)" type="Mine" version="(\w+)">\s*<data (.*?) />', text)
    assert found == [
        ("m", "extension", 'scale="2.5" axes="1, 2" word="a"'),
        ("n", "extension", 'scale="0.5"'),
    ]
    with pytest.raises(RuntimeError, match="extension"):
        ov.Core().read_model(tmp_path / "net.xml")
    again = anylayer.read(tmp_path / "net.xml", layers=[("Mine", Mine)])
    want = source.compile("numpy")({"data": x()})["r"]
    assert np.abs(again.compile("numpy")({"data": x()})["r"] - want).max() < 1e-5


@pytest.mark.parametrize(("type_", "name"), [("ReLU", "Relu"), ("Softmax", "Softmax")])
def test_note_names_extension_of_kept_type_that_an_ir_spells_differently(
    type_: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "deep.prototxt").write_text(DEEP.replace("ReLU", type_))
    done = anylayer.read(tmp_path / "deep.prototxt").fill().write(tmp_path / "net.xml", keep=[type_])
    (note,) = (n for n in done.notes if n.startswith(f"kept layers of type '{type_}' have the type "))
    assert note.endswith(f"for which OpenVINO looks for an extension called '{name}'")

    def infer(self: Any) -> None:
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

    members = {
        "__init__": lambda self, inputs=None: ov.Op.__init__(self, self, inputs),
        "validate_and_infer_types": infer,
        "clone_with_new_inputs": lambda self, inputs: type(self)(inputs),
        "visit_attributes": lambda self, visitor: True,
    }
    core = ov.Core()
    core.add_extension(type(name, (ov.Op,), members))
    assert name in [o.get_type_name() for o in core.read_model(tmp_path / "net.xml").get_ops()]


def test_runtime_with_extension_runs_kept_layer(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.write(tmp_path / "net.xml", keep=["Mine"])

    class Mine(ov.Op):
        def __init__(self, inputs=None):
            super().__init__(self, inputs)
            self.attributes = {"scale": "0"}

        def validate_and_infer_types(self) -> None:
            self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

        def clone_with_new_inputs(self, inputs):
            made = Mine(inputs)
            made.attributes = self.attributes
            return made

        def visit_attributes(self, visitor) -> bool:
            visitor.on_attributes(self.attributes)
            return True

        def evaluate(self, outputs, inputs) -> bool:
            outputs[0].data[:] = inputs[0].data * np.float32(self.attributes["scale"]) + 1
            return True

        def has_evaluate(self) -> bool:
            return True

    core = ov.Core()
    core.add_extension(Mine)
    compiled = core.compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    want = source.compile("numpy")({"data": x()})["r"]
    assert np.abs(compiled({"data": x()})["r"] - want).max() < 1e-5


def test_ir_with_symbolic_batch_runs_with_any_batch_size(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.write(tmp_path / "net.xml", batch="N")
    compiled = ov.Core().compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    want = source.compile("numpy", shapes={"data": (3, 4, 6, 5)})({"data": x(3)})["r"]
    assert np.abs(compiled({"data": x(3)})["r"] - want).max() < 1e-5


def test_functions_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="functions"):
        net(tmp_path).write(tmp_path / "net.xml", functions=True)


def test_weights_stay_float32(tmp_path: Path) -> None:
    net(tmp_path).write(tmp_path / "net.xml")
    assert (tmp_path / "net.bin").stat().st_size >= 4 * 4 * 4 * 9
    assert "f16" not in (tmp_path / "net.xml").read_text()


def test_layout_of_input_is_written(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.network.layouts["data"] = "NHWC"
    source.write(tmp_path / "net.xml")
    parameter = ov.Core().read_model(tmp_path / "net.xml").get_parameters()[0]
    assert parameter.get_layout() == ov.Layout("NHWC")
    assert anylayer.read(tmp_path / "net.xml").network.layouts == {"data": "NHWC"}


@pytest.mark.parametrize("engine", ALL)
def test_data_dependent_nms_is_read_back(tmp_path: Path, engine: str) -> None:
    def regions(boxes: Any, scores: Any) -> Any:
        selected, count = ops.nms(
            boxes[None], scores[None, None], max_per_class=5, iou_threshold=0.5, score_threshold=0.2
        )
        return ops.head(boxes[np.maximum(selected[:, 2], 0)], count)

    random = np.random.default_rng(0)
    low = random.random((20, 2)).astype(np.float32)
    boxes, scores = np.concatenate([low, low + np.float32(0.3)], axis=1), random.random(20).astype(np.float32)
    anylayer.export(regions, boxes, scores, path=tmp_path / "regions.xml")
    model = anylayer.read(tmp_path / "regions.xml").compile(engine)
    assert not model.host_calls
    for given in (scores, scores * (scores > 0.97), scores * 0):
        (got,) = model({"boxes": boxes, "scores": given}).values()
        want = regions(boxes, given)
        assert got.shape == want.shape and np.allclose(got, want)


CONTROLS = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "a\\001\\n<b" type: "ReLU" bottom: "data" top: "t\\014" }
layer { name: "t\\\\x0c" type: "ReLU" bottom: "t\\014" top: "t\\\\x0c" }
layer { name: "last" type: "ReLU" bottom: "t\\\\x0c" top: "y" }
"""


def test_characters_that_xml_cannot_have_are_escaped_in_names(tmp_path: Path) -> None:
    net(tmp_path, CONTROLS).write(tmp_path / "net.xml")
    ElementTree.parse(tmp_path / "net.xml")
    model = ov.Core().read_model(tmp_path / "net.xml")
    assert "a\\x01\n<b" in {op.get_friendly_name() for op in model.get_ops()}
    names = [name for op in model.get_ops() for output in op.outputs() for name in output.get_names()]
    assert {"t\\x0c", "t\\x0c_"} <= {*names}
    x = np.array([[-1, 2]], np.float32)
    assert np.array_equal(ov.Core().compile_model(model, "CPU")(x)["y"], [[0, 2]])


def test_characters_that_xml_cannot_have_are_refused_in_public_names(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the name 'y\\x1f' has the character '\\x1f', which XML cannot have"):
        net(tmp_path, CONTROLS.replace('"y"', '"y\\037"')).write(tmp_path / "net.xml")
    assert not (tmp_path / "net.xml").exists()


def test_characters_that_xml_cannot_have_are_refused_in_attributes(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match=r"layer 'm' \(Mine\): attribute 'word' is 'a\\x01', with a character"):
        net(tmp_path, NET.replace('word: "a"', 'word: "a\\001"')).write(tmp_path / "net.xml", keep=["Mine"])
