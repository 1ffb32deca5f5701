"""OpenCL kernels on a device: layouts, blobs, several programs, errors of compiler and device, printf."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import AnyLayerError, EngineError, LayerError
from anylayer.inspect.verify import verify
from anylayer.kernels.opencl.files import OpenCL
from anylayer.network import Array
from tests.kernels.opencl import COPY, IN, OUT, configuration, ir_2018
from tests.kernels.test_examples import noise

pytestmark = pytest.mark.usefixtures("opencl_device")
SHAPE = (2, 3, 4, 5)
PLACE = """
int at(int b, int f, int y, int x) {
    return b * T_PITCHES[0] + f * T_PITCHES[1] + y * T_PITCHES[2] + x * T_PITCHES[3];
}
"""
INDEX = PLACE.replace("at(", "in(").replace("T_", "INPUT0_") + PLACE.replace("at(", "out(").replace(
    "T_", "OUTPUT0_"
)
WEIGHTED = (
    INDEX
    + """
__kernel void run(const __global INPUT0_TYPE* input, __global OUTPUT0_TYPE* output) {
    const int x = get_global_id(0), y = get_global_id(1);
    const int b = get_global_id(2) / INPUT0_DIMS[1], f = get_global_id(2) % INPUT0_DIMS[1];
    output[out(b, f, y, x)] = input[in(b, f, y, x)] + 1000 * b + 100 * f + 10 * y + x;
}
"""
)
SIZES = '<WorkSizes global="X,Y,B*F"/>'


def weighted(x: Array) -> Array:
    b, f, y, x_ = np.indices(x.shape)
    return np.asarray(x + 1000 * b + 100 * f + 10 * y + x_, np.float32)


def formats(first: str, second: str) -> str:
    return IN.replace("/>", f' format="{first}"/>') + OUT.replace("/>", f' format="{second}"/>')


@pytest.fixture(params=[True, False], ids=["shared", "buffers"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device use memory that it shares with the host, and buffers of its own."""
    from anylayer.libraries.pyopencl import device

    if request.param and not device("").shared:
        pytest.skip("the OpenCL device does not share memory with the host")
    monkeypatch.setattr(device(""), "shared", request.param)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("first", ["BFYX", "BYXF", "YXFB", "FYXB", "ANY"])
@pytest.mark.parametrize("second", ["BFYX", "YXFB"])
def test_a_kernel_sees_the_formats_that_it_asks_for(tmp_path: Path, first: str, second: str) -> None:
    kernels = configuration(tmp_path, "It", WEIGHTED, buffers=formats(first, second), rest=SIZES)
    x = noise(SHAPE)
    model = anylayer.read(ir_2018(tmp_path, "It", SHAPE), kernels=kernels).compile("onnxruntime")
    for _ in range(2):
        np.testing.assert_allclose(model(x)["it"], weighted(x), rtol=1e-6)


@needs_data("tf_keras/resize_bilinear.pb")
@pytest.mark.parametrize("format_", ["BFYX", "BYXF", "ANY"])
def test_axes_have_their_names_in_a_channels_last_network(tmp_path: Path, format_: str) -> None:
    tf = REFERENCE / "tf_keras" / "resize_bilinear.pb"

    class Class:
        def __init__(self, params: object, blobs: object) -> None: ...

        def forward(self, inputs: list[Array]) -> list[Array]:
            x = inputs[0]
            b, f, y, x_ = np.indices(x.shape)
            return [(x + 1000 * b + 100 * f + 10 * y + x_).astype(np.float32)]

    kernels = configuration(tmp_path, "ResizeBilinear", WEIGHTED, buffers=formats(format_, format_), rest=SIZES)
    net = anylayer.read(tf, layers=[("ResizeBilinear", Class)], kernels=kernels)
    (given,) = net.inputs
    x = noise(SHAPE)
    (got,) = net.compile("onnxruntime", {given: x.shape})(x).values()
    np.testing.assert_allclose(got, weighted(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1), rtol=1e-6)
    assert all(check.ok for check in verify(net, {given: x}))


@pytest.mark.usefixtures("memory")
def test_data_are_blobs_by_their_names(tmp_path: Path) -> None:
    source = """__kernel void run(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y,
                                  const __global float* shift, const __global float* factor) {
        const int i = get_global_id(0);
        y[i] = x[i] * factor[i / 20 % 3] + shift[0];
    }"""
    buffers = IN + OUT + '<Data name="biases" arg-index="2"/><Data name="weights" arg-index="3"/>'
    kernels = configuration(tmp_path, "It", source, buffers=buffers)
    blobs = '<weights offset="0" size="12"/><biases offset="12" size="4"/>'
    net = ir_2018(tmp_path, "It", SHAPE, extra=blobs)
    (tmp_path / "net.bin").write_bytes(np.array([2, 3, 4, 7], np.float32).tobytes())
    x = noise(SHAPE)
    got = anylayer.read(net, kernels=kernels).compile("onnxruntime")(x)["it"]
    np.testing.assert_allclose(got, x * np.array([2, 3, 4], np.float32).reshape(1, 3, 1, 1) + 7, rtol=1e-6)
    kernels.write_text(kernels.read_text().replace('"biases"', '"custom"'))
    with pytest.raises(LayerError, match="the layer has no blob 'custom'; it has: weights, biases"):
        anylayer.read(net, kernels=kernels).compile("onnxruntime")


def test_an_internal_tensor_is_memory_of_its_own(tmp_path: Path) -> None:
    source = COPY.replace("* y)", "* y, __global float* w)").replace("y[i] = x[i]", "w[i] = x[i]; y[i] = 2 * w[i]")
    buffers = IN + OUT + '<Tensor arg-index="2" type="internal" size="B*F*Y*X*4"/>'
    kernels = configuration(tmp_path, "It", source, buffers=buffers)
    x = noise(SHAPE)
    got = anylayer.read(ir_2018(tmp_path, "It", SHAPE), kernels=kernels).compile("onnxruntime")(x)["it"]
    np.testing.assert_array_equal(got, 2 * x)


def test_nodes_with_other_parameters_have_programs_of_their_own(tmp_path: Path) -> None:
    kernels = configuration(
        tmp_path,
        "ReLU",
        COPY.replace("= x[i]", "= x[i] < 0 ? x[i] * slope : x[i]"),
        defines='<Define name="slope" type="float" param="negative_slope" default="0.0f"/>',
    )
    net = tmp_path / "net.prototxt"
    slopes = {"a": 0.5, "b": 0.25, "c": 0.5}
    layers = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 8 } } }\n'
    for name, slope in slopes.items():
        layers += (
            f'layer {{ name: "{name}" type: "ReLU" bottom: "data" top: "{name}"\n'
            f"  relu_param {{ negative_slope: {slope} }} }}\n"
        )
    net.write_text(layers)
    x = noise((2, 8))
    opencl = OpenCL([kernels], dump=tmp_path / "dump")
    results = anylayer.read(net, kernels=opencl).compile("onnxruntime")(x)
    for name, slope in slopes.items():
        np.testing.assert_allclose(results[name], np.where(x < 0, slope * x, x), rtol=1e-6)
    assert len(list((tmp_path / "dump").iterdir())) == 2


def test_a_program_is_compiled_once_unless_it_includes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anylayer.libraries.pyopencl import cl

    built: list[str] = []
    build = cl.Program.build

    def counted(program: Any, *args: Any, **options: Any) -> Any:
        built.append(program.get_info(cl.program_info.SOURCE))
        return build(program, *args, **options)

    monkeypatch.setattr(cl.Program, "build", counted)
    net = ir_2018(tmp_path, "It", SHAPE, names=["a", "b"])
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    twice = configuration(tmp_path, "It", COPY.replace("= x[i]", "= x[i] * 2 /* once */"))
    x = noise(SHAPE)
    for _ in range(2):
        np.testing.assert_array_equal(anylayer.read(net, kernels=twice).compile("onnxruntime")(x)["b"], 4 * x)
    assert len(built) == 1
    source = '#include "factor.h"\n' + COPY.replace("= x[i]", "= x[i] * FACTOR")
    rest = '<CompilerOptions options="-I ."/>'
    for factor in (2, 3):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}\n")
        including = configuration(tmp_path, "It", source, rest=rest)
        got = anylayer.read(net, kernels=including).compile("onnxruntime")(x)["b"]
        np.testing.assert_allclose(got, factor**2 * x, rtol=1e-6)


def test_several_threads_may_call_a_model(tmp_path: Path) -> None:
    kernels = configuration(tmp_path, "It", WEIGHTED, buffers=formats("YXFB", "BFYX"), rest=SIZES)
    model = anylayer.read(ir_2018(tmp_path, "It", SHAPE), kernels=kernels).compile("onnxruntime")
    inputs = [noise(SHAPE) + i for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        for x, result in zip(inputs, pool.map(model, inputs)):
            np.testing.assert_allclose(result["it"], weighted(x), rtol=1e-5)


def test_a_device_without_half_gets_floats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto, helper, save

    from anylayer.libraries import pyopencl

    monkeypatch.setattr(pyopencl.device(""), "half", False)
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 8])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "n.onnx")
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" + COPY.replace("= x[i]", "= fmax(x[i], 0.0f)")
    kernels = configuration(tmp_path, "Relu", source)
    net = anylayer.read(tmp_path / "n.onnx", kernels=kernels)
    x = noise((2, 8)).astype(np.float16)
    got = net.compile("onnxruntime")(x)["y"]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, np.maximum(x, 0))
    assert "kernels.xml has input 0 as float32: the device has no half" in net.inspect().nodes[0].notes


@pytest.mark.parametrize("name", ["int32", "int8", "uint8", "int64", "float64"])
def test_element_types_are_those_of_the_network(tmp_path: Path, name: str) -> None:
    from onnx import helper, save

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    graph = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [2, 8])],
        [helper.make_tensor_value_info("y", kind, [2, 8])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "n.onnx")
    kernels = configuration(tmp_path, "Abs", COPY.replace("= x[i]", "= x[i] < 0 ? -x[i] : x[i]"))
    x = (noise((2, 8)) * 50).astype(name)
    got = anylayer.read(tmp_path / "n.onnx", kernels=kernels).compile("onnxruntime")(x)["y"]
    np.testing.assert_array_equal(got, np.abs(x), strict=True)


def test_constant_inputs_are_inputs_of_a_kernel(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    graph = helper.make_graph(
        [helper.make_node("Sub", ["x", "c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
        [numpy_helper.from_array(np.arange(8, dtype=np.float32), "c")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "n.onnx")
    source = COPY.replace("* x,", "* x, const __global float* c,").replace("= x[i]", "= x[i] - c[i % 8]")
    buffers = (
        '<Tensor arg-index="0" type="input" port-index="0"/><Tensor arg-index="1" type="input" port-index="1"/>'
        '<Tensor arg-index="2" type="output" port-index="0"/>'
    )
    net = anylayer.read(tmp_path / "n.onnx", kernels=configuration(tmp_path, "Sub", source, buffers=buffers))
    x = noise((2, 8))
    np.testing.assert_array_equal(net.compile("onnxruntime")(x)["y"], x - np.arange(8, dtype=np.float32))
    assert net.inspect().nodes[-1].reason.endswith("NumPy class: built-in")
    assert [c.ok for c in verify(net, {"x": x}) if not c.note] == [True]


def failing(folder: Path, source: str = COPY, **parts: str) -> str:
    """Return the message of a network whose kernel cannot be used."""
    kernels = configuration(folder, "It", source, **parts)
    net = anylayer.read(ir_2018(folder, "It", SHAPE), kernels=kernels)
    with pytest.raises(AnyLayerError) as caught:
        net.compile("onnxruntime")(noise(SHAPE))
    return str(caught.value).replace(f"{folder}/", "")


def test_messages_of_the_compiler_name_the_file_and_line_of_the_user(tmp_path: Path) -> None:
    text = failing(tmp_path, "// a comment\n\n" + COPY.replace("x[i]", "missing(i)"))
    assert text.startswith("net.xml:1: layer 'it' (It): kernels.xml: It.cl does not compile on ")
    assert re.search(r"It\.cl:5:12: .*'missing'", text)


def test_messages_of_the_compiler_name_the_line_of_a_define(tmp_path: Path) -> None:
    text = failing(
        tmp_path, COPY.replace("= x[i]", "= n"), defines='\n<Define name="n" param="k" default="(1 +"/>\n'
    )
    assert "does not compile on " in text
    assert re.search(r"(kernels\.xml:4|It\.cl:3):", text)


@pytest.mark.parametrize(
    ("source", "parts", "rule"),
    [
        (COPY, {"entry": "walk"}, "the sources have no kernel 'walk' (line 1)"),
        (
            COPY.replace("* y)", "* y, int more)"),
            {},
            "kernel 'run' has 3 arguments, the configuration binds 2",
        ),
        (
            COPY,
            {"rest": '<WorkSizes global="100"/>'},
            "kernel 'run' leaves 20 of 120 values of output 0 without a value (global work sizes (100,))",
        ),
        (COPY, {"rest": '<WorkSizes global="120" local="7,1"/>'}, "2 local and 1 global work sizes"),
        (COPY, {"rest": '<WorkSizes global="120" local="100000"/>'}, "refuses kernel 'run' (global (120,), "),
        (COPY, {"rest": '<WorkSizes global="X/(Y-4)"/>'}, "'X/(Y-4)' divides by zero for B=2, F=3, Y=4, X=5"),
        (COPY, {"buffers": IN + OUT.replace('x="0"', 'x="1"')}, "the kernel has output 1, the layer has 1"),
        (COPY, {"rest": '<WorkSizes dim="input,3"/>'}, "dim is input 3, which the kernel does not read"),
    ],
)  # fmt: skip
def test_kernels_that_cannot_be_used_are_refused(
    tmp_path: Path, source: str, parts: dict[str, str], rule: str
) -> None:
    text = failing(tmp_path, source, **parts)
    assert text.startswith("net.xml:1: layer 'it' (It): kernels.xml")
    assert rule in text


@pytest.mark.usefixtures("memory")
def test_a_kernel_that_writes_to_an_input_or_leaves_values_is_refused(tmp_path: Path) -> None:
    text = failing(tmp_path / "left", COPY.replace("y[i]", "if (i != 7) y[i]"))
    assert "kernel 'run' leaves 1 of 120 values of output 0 without a value" in text
    from anylayer.libraries.pyopencl import device

    if device("").shared:  # a buffer of the device is not the network's array
        text = failing(
            tmp_path / "in", COPY.replace("const __global", "__global").replace("y[i]", "x[5] = 1; y[i]")
        )
        assert "kernel 'run' writes to input 0" in text


def test_profile_shows_what_the_device_measured(tmp_path: Path) -> None:
    net = anylayer.read(ir_2018(tmp_path, "It", (1, 8, 64, 64)), kernels=configuration(tmp_path, "It"))
    (cost,) = net.profile({"data": noise((1, 8, 64, 64))}, "onnxruntime", seconds=0.05).costs
    call, kernel = cost.parts
    assert (cost.where, call.operation) == ("native", "call of the device, with copies")
    assert 0 < kernel.seconds < cost.seconds
    assert kernel.bytes == 2 * 4 * 8 * 64 * 64


def test_a_device_is_chosen_by_name(tmp_path: Path, opencl_device: str) -> None:
    net, kernels = ir_2018(tmp_path, "It", SHAPE), configuration(tmp_path, "It")
    x = noise(SHAPE)
    for name in (opencl_device, opencl_device.lower()[3:12]):
        got = anylayer.read(net, kernels=OpenCL([kernels], device=name)).compile("onnxruntime")(x)["it"]
        np.testing.assert_array_equal(got, x)
    with pytest.raises(
        EngineError, match=f"device: there is no OpenCL device 'no such'; devices: .*{re.escape(opencl_device)}"
    ):
        anylayer.read(net, kernels=OpenCL([kernels], device="no such")).compile("onnxruntime")


def test_printf_goes_to_stderr(tmp_path: Path) -> None:
    source = COPY.replace("y[i]", 'if (i == 0) printf("work %d\\n", (int)get_global_size(0));\n    y[i]')
    net, kernels = ir_2018(tmp_path, "It", SHAPE), configuration(tmp_path, "It", source)
    words = [sys.executable, "-m", "anylayer", "verify", net, "-c", kernels, "-e", "onnxruntime", "--json"]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=True)
    assert "work 120\n" in done.stderr
    assert done.stdout.startswith(("{", "["))
    assert "work" not in done.stdout
