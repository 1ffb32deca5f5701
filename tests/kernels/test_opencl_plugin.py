"""OpenVINO's GPU plugin gets the user's configuration of kernels. There is no GPU here, so the plugin is a
mock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.kernels.opencl.files import OpenCL
from anylayer.runtime.run import PlanRunner
from tests.kernels.opencl import COPY, IN, OUT, configuration

pytest.importorskip("openvino", reason="openvino is not installed")

from anylayer.engines import openvino
from anylayer.libraries.openvino import ov, shared_core

X = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2) - 9
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 2 } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
layer { name: "it" type: "Scaled" bottom: "relu" top: "it" scaled_param { factor: 2.50 eps: 1e-10 } }
layer { name: "end" type: "ReLU" bottom: "it" top: "end" }
"""
DEFINES = '<Define name="FACTOR" param="factor" type="float"/><Define name="EPS" param="eps" type="float"/>'


class Scaled:
    """Multiply the input by a number."""

    def __init__(self, params: dict[str, Any], blobs: list[Any]) -> None:
        self.factor = params["factor"]

    def getMemoryShapes(self, inputs: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [inputs[0]]

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [(inputs[0] * np.float32(self.factor)).astype(np.float32)]


class Plugin:
    """A core with a GPU. Operations of type "Scaled" are replaced by products, and the CPU computes the model."""

    def __init__(self) -> None:
        self.real = shared_core()
        self.available_devices = ["CPU", "GPU"]
        self.files: list[str] = []
        self.params: list[dict[str, Any]] = []

    def compile_model(self, model: Any, device: str, config: dict[str, Any]) -> Any:
        assert device == "GPU"
        config = dict(config)
        self.files += [config.pop("CONFIG_FILE")] if "CONFIG_FILE" in config else []
        for node in model.get_ops():
            if node.get_type_name() == "Scaled":
                params = node.get_attributes()
                self.params.append(params)
                factor = ov.op.Constant(np.array(params["factor"], np.float32))
                ov.utils.replace_node(node, ov.opset15.multiply(node.input_value(0), factor))
        return self.real.compile_model(model, "CPU", config)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Plugin:
    made = Plugin()
    monkeypatch.setattr(openvino, "shared_core", lambda: made)
    return made


def network(folder: Path, kernels: Path | OpenCL, text: str = NET) -> anylayer.Net:
    (folder / "net.prototxt").write_text(text)
    return anylayer.read(folder / "net.prototxt", layers=[("Scaled", Scaled)], kernels=kernels)


def calls(model: anylayer.Model) -> int:
    """Return the number of calls that a run of the model makes."""
    runner = next(iter(model._runners.values()))
    assert isinstance(runner, PlanRunner)
    return len(runner._steps)


def test_the_plugin_computes_the_layer_by_the_users_file(tmp_path: Path, plugin: Plugin) -> None:
    file = configuration(tmp_path, "Scaled", defines=DEFINES)
    model = network(tmp_path, file).compile("openvino", device="gpu")
    assert calls(model) == 1
    assert plugin.files == [str(file)]
    assert plugin.params == [{"factor": "2.50", "eps": "1e-10"}]  # as the file spells them
    np.testing.assert_array_equal(model(X)["end"], np.maximum(X, 0) * np.float32(2.5))


def test_a_model_without_kernels_has_no_configuration(tmp_path: Path, plugin: Plugin) -> None:
    net = network(tmp_path, configuration(tmp_path, "Other"))
    assert calls(net.compile("openvino", device="gpu")) == 1
    assert plugin.files == []


@pytest.mark.parametrize("why", ["data", "device"])
def test_layer_that_the_plugin_lacks_stays_a_step(
    tmp_path: Path, plugin: Plugin, why: str, opencl_device: str
) -> None:
    source = COPY.replace("__global OUTPUT0_TYPE* y", "__global OUTPUT0_TYPE* y, __global float* z")
    weights = '<Data name="weights" arg-index="2"/>' if why == "data" else ""
    file = configuration(
        tmp_path / "kernels", "Scaled", source if why == "data" else COPY, buffers=IN + OUT + weights
    )
    kernels = OpenCL([file], device=opencl_device if why == "device" else "")
    net = network(tmp_path, kernels)
    if why == "data":
        net.network.nodes[1].blobs.append(np.ones(1, np.float32))
    model = net.compile("openvino", device="gpu")
    assert calls(model) == 3 and plugin.files == []
    np.testing.assert_array_equal(model(X)["end"], np.maximum(X, 0))  # the kernel copies


def test_a_file_with_types_of_openvino_stays_a_step(tmp_path: Path, plugin: Plugin, opencl_device: str) -> None:
    file = configuration(tmp_path, "Scaled")
    other = configuration(tmp_path, "Relu", name="other.xml")
    file.write_text(file.read_text() + other.read_text())
    model = network(tmp_path, file).compile("openvino", device="gpu")
    assert calls(model) == 3 and plugin.files == []


def test_two_files_stay_steps(tmp_path: Path, plugin: Plugin, opencl_device: str) -> None:
    files = [configuration(tmp_path, "Scaled"), configuration(tmp_path, "Copied", name="copied.xml")]
    text = NET + 'layer { name: "two" type: "Copied" bottom: "end" top: "two" }\n'
    (tmp_path / "net.prototxt").write_text(text)
    copied = ("Copied", lambda params, blobs: Scaled({"factor": 1}, blobs))
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Scaled", Scaled), copied], kernels=files)
    assert calls(net.compile("openvino", device="gpu")) > 1
    assert plugin.files == []


def test_a_model_that_the_plugin_refuses_is_cut(
    tmp_path: Path, plugin: Plugin, opencl_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: Any, device: str, config: dict[str, Any]) -> Any:
        if "CONFIG_FILE" in config:
            raise RuntimeError("Invalid WG dim source")
        return Plugin.compile_model(plugin, model, device, config)

    monkeypatch.setattr(plugin, "compile_model", refuse)
    model = network(tmp_path, configuration(tmp_path, "Scaled")).compile("openvino", device="gpu")
    assert calls(model) == 3
    np.testing.assert_array_equal(model(X)["end"], np.maximum(X, 0))
