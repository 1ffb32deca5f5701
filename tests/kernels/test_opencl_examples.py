"""The OpenCL kernels of examples/opencl against the NumPy layers of the same types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.inspect.verify import verify
from tests.kernels.opencl import COPY, IN, OUT, configuration, ir_2018
from tests.kernels.test_examples import RESIZES, interp_net, noise

ROOT = Path(__file__).parent.parent.parent
SEED = "seeds/002_fa21e22e0753b723.txt"
KERNELS = ROOT / "examples/opencl/kernels.xml"
pytestmark = pytest.mark.usefixtures("opencl_device")


@pytest.mark.parametrize(("shape", "size"), RESIZES)
def test_interp_matches_numpy(tmp_path: Path, shape: tuple[int, ...], size: tuple[int, int]) -> None:
    path = interp_net(tmp_path, shape, *size)
    x = noise(shape)
    want = anylayer.read(path).compile("numpy")(x)["out"]
    model = anylayer.read(path, kernels=KERNELS).compile("onnxruntime")
    assert [name for name, _, _ in model.native_layers] == ["relu", "interp"]
    for _ in range(3):
        np.testing.assert_allclose(model(x)["out"], want, atol=1e-6)


def test_one_model_takes_several_sizes_and_batches(tmp_path: Path) -> None:
    path = interp_net(tmp_path, (1, 3, 4, 5), 9, 8)
    model = anylayer.read(path, kernels=KERNELS).compile("onnxruntime")
    reference = anylayer.read(path).compile("numpy")
    for shape in [(1, 3, 4, 5), (2, 3, 6, 7), (5, 3, 4, 5), (1, 3, 4, 5)]:
        x = noise(shape)
        np.testing.assert_allclose(model(x)["out"], reference(x)["out"], atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 96, 55, 55), (3, 2, 5), (4, 7), (6,)])
@pytest.mark.parametrize("slope", ["0.0", "0.10", "1e-2"])
def test_relu_matches_numpy(tmp_path: Path, shape: tuple[int, ...], slope: str) -> None:
    dims = " ".join(f"dim: {d}" for d in shape)
    path = tmp_path / "relu.prototxt"
    path.write_text(
        f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "out"\n'
        f"  relu_param {{ negative_slope: {slope} }} }}\n"
    )
    x = noise(shape)
    got = anylayer.read(path, kernels=[KERNELS]).compile("onnxruntime")(x)["out"]
    np.testing.assert_allclose(got, np.where(x < 0, np.float32(slope) * x, x), rtol=1e-6)


@needs_data(SEED)
@pytest.mark.parametrize("data", ["", 'negative_slope="0.10"'])
def test_example_of_the_document_matches_numpy(tmp_path: Path, data: str) -> None:
    text = (REFERENCE / SEED).read_text()
    example = text[text.index("<!-- the config file introduces") : text.index("Built-In Defines for Custom")]
    (tmp_path / "example.xml").write_text(example)
    kernel = text[
        text.index("#pragma OPENCL EXTENSION") : text.index("Note: As described in the previous section")
    ]
    (tmp_path / "custom_layer_kernel.cl").write_text(kernel)
    path = ir_2018(tmp_path, "ReLU", (2, 96, 55, 55), data)
    net = anylayer.read(path, kernels=tmp_path / "example.xml")
    assert all(check.ok and not check.note for check in verify(net, {"data": noise((2, 96, 55, 55))}))
    model, reference = net.compile("onnxruntime"), anylayer.read(path).compile("numpy")
    for shape in [(2, 96, 55, 55), (1, 3, 7, 4)]:
        x = noise(shape)
        np.testing.assert_allclose(model(x)["it"], reference(x)["it"], rtol=1e-6)


def test_a_kernel_computes_an_operator_of_another_domain(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    graph = helper.make_graph(
        [helper.make_node("Plus", ["x", "c"], ["y"], domain="mine", twice=2.5)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
        [numpy_helper.from_array(np.arange(8, dtype=np.float32), "c")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "n.onnx")
    source = COPY.replace("* y)", "* y, const __global float* c)").replace("= x[i]", "= N * x[i] + c[i % 8]")
    kernels = configuration(
        tmp_path,
        "Plus",
        source,
        defines='<Define name="N" type="float" param="twice"/>',
        buffers=IN + OUT + '<Data name="weights" arg-index="2"/>',
    )
    x = noise((2, 8))
    got = anylayer.read(tmp_path / "n.onnx", kernels=kernels).compile("onnxruntime")(x)["y"]
    np.testing.assert_allclose(got, 2.5 * x + np.arange(8, dtype=np.float32), rtol=1e-6)


def test_verify_compares_the_kernel_with_its_numpy_class(tmp_path: Path) -> None:
    net = anylayer.read(interp_net(tmp_path, (2, 3, 4, 5), 9, 8), kernels=KERNELS)
    checks = {check.name: check for check in verify(net, {"data": noise((2, 3, 4, 5))})}
    for name in ("relu", "interp"):
        assert checks[name].ok
        assert not checks[name].note
        assert checks[name].scale > 0
