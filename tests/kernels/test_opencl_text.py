"""The text of OpenCL programs: built-in defines, the user's defines, what is dumped."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import LayerError
from anylayer.kernels.opencl.files import OpenCL
from tests.kernels.opencl import COPY, IN, OUT, configuration, ir_2018

SEED = "seeds/002_fa21e22e0753b723.txt"
APPENDIX = "01d63e00bc234fd31a59376f3046a8b116efeb4fad167c7de3b8fb2afb96660e"
"""The SHA-256 of the document's appendix A, up to the line before the user's source."""
DATA = '<Data name="{}" arg-index="2"/>'


def dumped(folder: Path, net: Path, *kernels: Path) -> list[str]:
    """Return the programs that a report on a network dumps. It needs no device."""
    report = anylayer.read(net, kernels=OpenCL(kernels, dump=folder / "dump")).inspect()
    assert [row.where for row in report.nodes] == ["native"] * len(report.nodes), report.notes
    files = sorted((folder / "dump").glob("*"))
    assert [file.name for file in files] == [f"clDNN_program{i}.cl" for i in range(len(files))]
    return [file.read_text() for file in files]


@needs_data(SEED)
def test_defines_equal_the_appendix_byte_for_byte(tmp_path: Path) -> None:
    text = (REFERENCE / SEED).read_text()
    example = text[text.index("<!-- the config file introduces") : text.index("Built-In Defines for Custom")]
    (tmp_path / "custom_layer_example.xml").write_text(example)
    appendix = text[text.index("This is an example of the code produced") :]
    want = (
        appendix[appendix.index("// Custom Layer Built-ins") : appendix.index("\n\nProduct and Performance")]
        + "\n"
    )
    (tmp_path / "custom_layer_kernel.cl").write_text(want[want.index("#pragma OPENCL") :])
    net = ir_2018(tmp_path, "ReLU", (1, 96, 55, 55), names=["relu1"])
    (got,) = dumped(tmp_path, net, tmp_path / "custom_layer_example.xml")
    assert got.encode() == want.encode()


def test_defines_of_the_appendix_have_its_bytes(tmp_path: Path) -> None:
    kernels = configuration(
        tmp_path,
        "ReLU",
        defines='<Define name="neg_slope" type="float" param="negative_slope" default="0.0"/>',
        rest='<WorkSizes global="X,Y,B*F"/>',
    )
    net = ir_2018(tmp_path, "ReLU", (1, 96, 55, 55), names=["relu1"])
    (got,) = dumped(tmp_path, net, kernels)
    lines = got[: got.index("// Custom Layer Kernel ")] + "// Custom Layer Kernel custom_layer_kernel.cl\n"
    assert hashlib.sha256(lines.encode()).hexdigest() == APPENDIX


@pytest.mark.parametrize(
    ("format_", "pitches"),
    [
        ("BFYX", (60, 20, 5, 1)),
        ("BYXF", (60, 1, 15, 3)),
        ("YXFB", (1, 2, 30, 6)),
        ("FYXB", (1, 40, 10, 2)),
        ("yxfb", (1, 2, 30, 6)),
        ("ANY", (60, 20, 5, 1)),
    ],
)
def test_pitches_are_those_of_the_format(tmp_path: Path, format_: str, pitches: tuple[int, ...]) -> None:
    buffers = IN.replace("/>", f' format="{format_}"/>') + OUT
    kernels = configuration(tmp_path, "It", buffers=buffers)
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It", (2, 3, 4, 5)), kernels)
    assert "#define INPUT0_DIMS (int []){ 2,3,4,5, } \n" in got
    assert f"#define INPUT0_FORMAT_{format_.upper()} \n" in got
    assert f"#define INPUT0_PITCHES (int []){{ {''.join(f'{p},' for p in pitches)} }} \n" in got


@pytest.mark.parametrize(("shape", "sizes"), [((2, 3, 5), "2,3,5,1,"), ((2, 3), "2,3,1,1,"), ((6,), "6,1,1,1,")])
def test_missing_axes_are_of_size_one(tmp_path: Path, shape: tuple[int, ...], sizes: str) -> None:
    kernels = configuration(tmp_path, "It", rest='<WorkSizes global="X,Y,B*F" local="1,1,1"/>')
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It", shape), kernels)
    assert f"#define OUTPUT0_DIMS (int []){{ {sizes} }} \n" in got
    assert "#define LOCAL_WORKSIZE_SIZE 3\n#define LOCAL_WORKSIZE (size_t []){ 1,1,1, } \n" in got


def test_global_sizes_are_the_number_of_outputs_by_default(tmp_path: Path) -> None:
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It"), configuration(tmp_path, "It"))
    assert "#define GLOBAL_WORKSIZE_SIZE 1\n#define GLOBAL_WORKSIZE (size_t []){ 60, } \n" in got


@pytest.mark.parametrize(("dim", "want"), [("output", "5,"), ("input", "10,"), ("input,0", "10,")])
def test_formulas_have_the_sizes_of_output_or_input(tmp_path: Path, dim: str, want: str) -> None:
    kernels = configuration(tmp_path, "It", rest=f'<WorkSizes global="X" dim="{dim}"/>')
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It", (1, 3, 4, 10), out=(1, 3, 4, 5)), kernels)
    assert f"#define GLOBAL_WORKSIZE (size_t []){{ {want} }} \n" in got


@pytest.mark.parametrize(
    ("define", "data", "want"),
    [
        ('name="n" type="float" param="slope" default="0.0"', 'slope="0.10"', "#define n 0.10\n"),
        ('name="n" type="float" param="slope" default="0.0"', "", "#define n 0.0\n"),
        ('name="n" param="slope"', 'slope="1e-10"', "#define n 1e-10\n"),
        ('name="n" type="int" param="k"', 'k="007"', "#define n 007\n"),
        ('name="n" type="float[]" param="a"', 'a="1,2.50, 3"', "#define n (float[]) {1,2.50,3}\n"),
        ('name="n" type="int[]" param="a" default="4,5"', "", "#define n (int[]) {4,5}\n"),
        ('name="n" type="float" param="a"', 'a="-inf"', "#define n -INFINITY\n"),
        ('name="n" param="word"', 'word="same_upper"', "#define n same_upper\n"),
        ('name="n" param="flag"', 'flag="true"', "#define n true\n"),
        ('name="NUM 3"', "", "#define NUM 3 \n"),
        ('name="TWICE(x) ((x) + (x))"', "", "#define TWICE(x) ((x) + (x)) \n"),
    ],
)
def test_user_defines_have_the_text_of_the_attribute(tmp_path: Path, define: str, data: str, want: str) -> None:
    kernels = configuration(tmp_path, "It", defines=f"<Define {define}/>")
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It", data=data), kernels)
    assert got.split("// Custom Layer User Defines\n")[1].startswith(want + "// Custom Layer Kernel It.cl\n")


@pytest.mark.parametrize(
    ("define", "data", "rule"),
    [
        ('name="n" param="slope"', "", "the layer has no parameter 'slope', and 'n' has no default"),
        (
            'name="n" type="int" param="k"',
            'k="1.5"',
            "is '1.5', and 'n' takes only a value that is one int",
        ),
        ('name="n" type="float" param="k"', 'k="1,2"', "parameter 'k' is '1,2', a list, and 'n' is float"),
        ('name="n" type="float" param="k"', 'k="0; evil()"', "takes only a value that is one float"),
        (
            'name="n" param="k"',
            'k="0&#10;#include &quot;/x&quot;"',
            "one number or word",
        ),
        ('name="n" type="float[]" param="k"', 'k="1,x"', "one float, or a list of these"),
    ],
)
def test_attributes_of_a_network_do_not_become_code(tmp_path: Path, define: str, data: str, rule: str) -> None:
    kernels = configuration(tmp_path, "It", defines=f"<Define {define}/>")
    net = anylayer.read(ir_2018(tmp_path, "It", data=data), kernels=kernels)
    with pytest.raises(LayerError, match=re.escape(f"{kernels}:3: ") + ".*" + re.escape(rule)):
        net.compile("onnxruntime")


def test_names_of_a_network_stay_in_their_comment(tmp_path: Path) -> None:
    names = ["a&#10;#error x", "b\\", "c??/"]
    kernels = configuration(tmp_path, "It", defines='<Define name="n" param="k" default="1"/>')
    for i, name in enumerate(names):
        (got,) = dumped(tmp_path / str(i), ir_2018(tmp_path, "It", names=[name]), kernels)
        after = got.split("// Layer ")[1].split("\n")
        assert after[1] == "// Custom Layer User Defines"
        assert "\\" not in after[0] and "??/" not in after[0]


def test_layers_with_equal_parameters_share_a_program(tmp_path: Path) -> None:
    kernels = configuration(tmp_path, "It", defines='<Define name="n" param="k" default="1"/>')
    assert len(dumped(tmp_path / "a", ir_2018(tmp_path, "It", names=["a", "b", "c"]), kernels)) == 1


def test_sources_are_concatenated_in_order(tmp_path: Path) -> None:
    (tmp_path / "first.cl").write_text("// first, without an end of line")
    kernels = configuration(tmp_path, "It")
    kernels.write_text(kernels.read_text().replace("<Source", '<Source filename="first.cl"/><Source'))
    (got,) = dumped(tmp_path, ir_2018(tmp_path, "It"), kernels)
    end = (
        f"// Custom Layer Kernel first.cl\n// first, without an end of line\n// Custom Layer Kernel It.cl\n{COPY}"
    )
    assert got.endswith(end)


def test_data_follow_the_inputs(tmp_path: Path) -> None:
    blobs = '<weights offset="0" size="12"/><biases offset="12" size="8"/>'
    net = ir_2018(tmp_path, "It", extra=blobs)
    (tmp_path / "net.bin").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    kernels = configuration(tmp_path, "It", buffers=IN + OUT + DATA.format("biases"))
    (got,) = dumped(tmp_path, net, kernels)
    assert got.startswith("// Custom Layer Built-ins\n#define NUM_INPUTS 2\n")
    assert "#define INPUT1_DIMS (int []){ 2,1,1,1, } \n#define INPUT1_TYPE float\n" in got


@pytest.mark.parametrize(
    ("text", "want"), [("0.10", "0.10"), ("0.1", "0.1"), ("1", "1"), ("1e-1", "1e-1"), ("-0.10", "-0.10")]
)
def test_numbers_of_a_prototxt_keep_their_text(tmp_path: Path, text: str, want: str) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }\n'
        f'layer {{ name: "it" type: "ReLU" bottom: "data" top: "y" relu_param {{ negative_slope: {text} }} }}\n'
    )
    kernels = configuration(tmp_path, "ReLU", defines='<Define name="n" param="negative_slope"/>')
    (got,) = dumped(tmp_path, net, kernels)
    assert f"#define n {want}\n" in got
