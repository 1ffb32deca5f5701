"""Configuration files of OpenCL kernels: what they may contain, which of several counts. No device is needed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import AnyLayerError, EngineError, FileError, InputError, LayerError
from anylayer.kernels.opencl.configuration import read_configuration
from anylayer.kernels.opencl.files import OpenCL
from tests.kernels.opencl import COPY, IN, OUT, configuration, ir_2018

LAYER = '<CustomLayer name="It" type="SimpleGPU" version="1">'
KERNEL = '<Kernel entry="run"><Source filename="It.cl"/></Kernel>'
BUFFERS = f"<Buffers>{IN}{OUT}</Buffers>"
TENSOR = '<Tensor arg-index="{}" type="{}" port-index="{}"{}/>'

SEED = "seeds/002_fa21e22e0753b723.txt"


def written(folder: Path, text: str) -> Path:
    (folder / "It.cl").write_text(COPY)
    path = folder / "kernels.xml"
    path.write_bytes(text.encode())
    return path


@needs_data(SEED)
def test_an_example_of_the_document_is_read(tmp_path: Path) -> None:
    text = (REFERENCE / SEED).read_text()
    text = text[text.index("<!-- the config file introduces") : text.index("Built-In Defines for Custom")]
    (tmp_path / "custom_layer_kernel.cl").write_text(COPY)
    layer = read_configuration(written(tmp_path, text))["ReLU"]
    assert (layer.entry, layer.options, layer.line) == ("example_relu_kernel", ("-cl-mad-enable",), 2)
    assert [(d.name, d.param, d.type, d.value) for d in layer.defines] == [
        ("neg_slope", "negative_slope", "float", "0.0")
    ]
    assert [(a.kind, a.port, a.format) for a in layer.arguments] == [("input", 0, "BFYX"), ("output", 0, "BFYX")]
    assert [f.text for f in layer.whole] == ["X", "Y", "B*F"]


@pytest.mark.parametrize("head", ["", '<?xml version="1.0"?>\n', '\ufeff<?xml version="1.0" encoding="utf-8"?>'])
def test_a_file_is_a_sequence_of_layers(tmp_path: Path, head: str) -> None:
    one = f"{LAYER}{KERNEL}{BUFFERS}</CustomLayer>\n"
    found = read_configuration(written(tmp_path, f"{head}{one}<!-- -->{one.replace('It', 'Other', 1)}"))
    assert [*found] == ["It", "Other"]
    assert found["Other"].line == found["It"].line + 1


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "there is no <CustomLayer> in the file"),
        ("<CustomLayer", "line 1: this is not XML: "),
        (f"{LAYER}\n</Kernel>", "line 2: this is not XML: mismatched tag"),
        ("</sequence><a/>", "this is not XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>\n<CustomLayer/>', "Document types (DTD) and entities are not"),
        ("&lol;", "this is not XML: undefined entity"),
        ('<?xml version="1.0" encoding="utf-16"?><a/>', "its encoding is utf-16, expected UTF-8"),
        ("<Custom/>", ":1: <Custom> is unknown, expected <CustomLayer>"),
        ("<net/>", ":1: <net> is unknown, expected <CustomLayer>: this is an OpenVINO model"),
        (f"{LAYER}{KERNEL}{BUFFERS}\n<Foo/></CustomLayer>", ":2: <Foo> in <CustomLayer> is unknown; it has: K"),
        (f"{LAYER}{KERNEL}{BUFFERS}\n<WorkSize/></CustomLayer>", "is unknown; did you mean 'WorkSizes'?"),
        (f"{LAYER}{BUFFERS}</CustomLayer>", ":1: <CustomLayer> has no <Kernel>"),
        (f"{LAYER}{KERNEL}</CustomLayer>", ":1: <CustomLayer> has no <Buffers>"),
        (f"{LAYER}{KERNEL}{KERNEL}{BUFFERS}</CustomLayer>", "<CustomLayer> has 2 <Kernel>, at most 1 is possible"),
        (f"{LAYER}{KERNEL}<Buffers></Buffers></CustomLayer>", "<Buffers> has no <Tensor>"),
        (f'{LAYER}<Kernel entry="run"/>{BUFFERS}</CustomLayer>', "<Kernel> has no <Source>"),
        (f'{LAYER}{KERNEL.replace("entry", "name")}{BUFFERS}</CustomLayer>', "<Kernel> has no attribute 'name'"),
        (f'{LAYER}{KERNEL.replace("run", "a b")}{BUFFERS}</CustomLayer>', "entry 'a b' is not the name"),
        (f"{LAYER}text{KERNEL}{BUFFERS}</CustomLayer>", "<CustomLayer> contains text: 'text'"),
        (f'{LAYER.replace("SimpleGPU", "GPU")}{KERNEL}{BUFFERS}</CustomLayer>', "type is 'GPU', expected"),
        (f"{LAYER.replace('1', '2')}{KERNEL}{BUFFERS}</CustomLayer>", "version is '2', expected '1'"),
        (f'{LAYER.replace(" name", " id")}{KERNEL}{BUFFERS}</CustomLayer>', "<CustomLayer> has no attribute 'id'"),
        (f"{LAYER}{KERNEL}{BUFFERS}</CustomLayer>\n" * 2, ":2: layer type 'It' has a kernel in line 1 already"),
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, text: str, rule: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FileError, match=re.escape(rule)) as caught:
        read_configuration(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("buffers", "rule"),
    [
        (IN + "\n" + IN, ":6: argument 0 of the kernel is bound in line 5 already"),
        (IN, "no argument is an output"),
        (IN + OUT.replace('"1"', '"2"'), "argument 1 of the kernel is not bound"),
        (IN + TENSOR.format("x", "output", 0, ""), "arg-index 'x' is not a number from 0 to 255"),
        (IN + TENSOR.format("-1", "output", 0, ""), "arg-index '-1' is not a number"),
        (IN + TENSOR.format("9" * 99, "output", 0, ""), "is not a number from 0 to 255"),
        (IN + TENSOR.format(1, "out", 0, ""), "type 'out' of <Tensor> is unknown; types: input, output, internal"),
        (IN + TENSOR.format(1, "output", 0, ' format="NCHW"'), "format 'NCHW' is unknown; formats: BFYX, BYXF"),
        (IN + TENSOR.format(1, "output", 0, ' format="Bfyx"'), "format 'Bfyx' is unknown"),
        (IN + '<Tensor arg-index="1" type="output"/>', "<Tensor> has no 'port-index'"),
        (IN + TENSOR.format(1, "output", 0, ' size="4"'), "'size' is for internal tensors, this is an output"),
        (IN + OUT + '<Tensor arg-index="2" type="internal"/>', "an internal <Tensor> has no 'size'"),
        (IN + OUT + '<Data arg-index="2"/>', "<Data> has no 'name'"),
    ],
)
def test_other_arguments_are_refused(tmp_path: Path, buffers: str, rule: str) -> None:
    with pytest.raises(FileError, match=re.escape(rule)):
        read_configuration(configuration(tmp_path, "It", buffers=buffers))


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({"rest": '<WorkSizes global="X,Y,B,F"/>'}, "'global' of <WorkSizes>: has 4 formulas, at most 3"),
        ({"rest": '<WorkSizes local="Z"/>'}, "'local' of <WorkSizes>: 'Z' has 'Z'; the names are B, F, Y, X"),
        ({"rest": '<WorkSizes dim="input 1"/>'}, "dim 'input 1' is unknown, expected output, input or input,N"),
        ({"rest": '<CompilerOptions options="-D &quot;a"/>'}, "options cannot be split into words: No closing"),
        ({"rest": '<CompilerOptions options="-I /usr"/>'}, "folder /usr is outside of the configuration's folder"),
        ({"rest": '<CompilerOptions options="-I.."/>'}, "folder .. is outside of the configuration's folder"),
        ({"rest": '<CompilerOptions options="-I"/>'}, "-I has no folder after it"),
        ({"defines": '<Define name="1a"/>'}, "name '1a' does not begin with a name of the preprocessor"),
        ({"defines": '<Define name="a&#10;b"/>'}, r"'name' of <Define> has the character '\n'"),
        ({"defines": '<Define name="a" type="double"/>'}, "type 'double' is unknown; types: int, float"),
    ],
)  # fmt: skip
def test_other_parts_are_refused(tmp_path: Path, parts: dict[str, str], rule: str) -> None:
    with pytest.raises(FileError, match=re.escape(rule)):
        read_configuration(configuration(tmp_path, "It", **parts))


def test_sources_are_in_the_folder_of_the_configuration(tmp_path: Path) -> None:
    path = configuration(tmp_path / "inside", "It")
    assert read_configuration(path)["It"].sources[0].text == COPY
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "It.cl").write_text("// other\n" + COPY)
    for name in ("../other/It.cl", str(tmp_path / "other" / "It.cl")):
        configuration(tmp_path / "inside", "It")
        path.write_text(path.read_text().replace("It.cl", name))
        rule = f"{path}:2: source {name} is outside of the configuration's folder. If it is"
        with pytest.raises(FileError, match=re.escape(rule)):
            read_configuration(path)
        assert read_configuration(path, [tmp_path / "other"])["It"].sources[0].text.startswith("// other")
    (tmp_path / "inside" / "It.cl").unlink()
    (tmp_path / "inside" / "It.cl").symlink_to(tmp_path / "other" / "It.cl")
    path.write_text(path.read_text().replace(str(tmp_path / "other" / "It.cl"), "It.cl"))
    with pytest.raises(FileError, match="is outside of the configuration's folder"):
        read_configuration(path)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\xff\xfe", "source It.cl is not UTF-8 at byte 0"),
        (b"a\0b", "source It.cl has a NUL character"),
        (None, "there is no source It.cl in "),
    ],
)
def test_other_sources_are_refused(tmp_path: Path, data: bytes | None, rule: str) -> None:
    path = configuration(tmp_path, "It")
    (tmp_path / "It.cl").unlink() if data is None else (tmp_path / "It.cl").write_bytes(data)
    with pytest.raises(FileError, match=re.escape(f"{path}:2: {rule}")):
        read_configuration(path)


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=re.escape(f"{tmp_path}/none.xml: there is no such configuration of kernels")
    ):
        anylayer.read(ir_2018(tmp_path, "It"), kernels=tmp_path / "none.xml")


def origins(net: anylayer.Net) -> list[str]:
    return [row.origin for row in net.inspect().nodes]


def test_two_configurations_with_one_type_are_refused_unless_one_is_chosen(tmp_path: Path) -> None:
    net = ir_2018(tmp_path, "It")
    one, two = (configuration(tmp_path / name, "It") for name in "ab")
    rule = f"two files have layer type 'It': {one} and {two}. Choose one: kernels=[..., 'It={two}']"
    with pytest.raises(InputError, match=re.escape(rule)):
        anylayer.read(net, kernels=[one, two])
    assert origins(anylayer.read(net, kernels=[one, f"It={two}"])) == [str(two)]
    assert origins(anylayer.read(net, kernels=[one, one])) == [str(one)]
    with pytest.raises(InputError, match=r"kernels.xml has no layer type 'Its'; did you mean 'It'"):
        anylayer.read(net, kernels=[f"Its={one}"])


def test_a_library_and_a_configuration_with_one_type_are_refused(tmp_path: Path, probe: Path) -> None:
    net, kernels = ir_2018(tmp_path, "First"), configuration(tmp_path, "First")
    with pytest.raises(InputError, match=re.escape(f"two files have layer type 'First': {probe} and {kernels}.")):
        anylayer.read(net, layers=[probe], kernels=kernels)
    assert origins(anylayer.read(net, layers=[probe], kernels=f"First={kernels}")) == [str(kernels)]
    assert origins(anylayer.read(net, layers=[f"First={probe}"], kernels=kernels)) == [str(probe)]


@pytest.fixture
def personal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own configuration, with a kernel for It and one for Other."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "anylayer" / "cldnn_global_custom_kernels"
    path = configuration(folder, "Other", name="cldnn_global_custom_kernels.xml")
    other = path.read_text()
    configuration(folder, "It", name=path.name)
    path.write_text(path.read_text() + other)
    return path


def test_a_given_configuration_replaces_the_users_own(tmp_path: Path, personal: Path) -> None:
    net, other = ir_2018(tmp_path, "It"), ir_2018(tmp_path / "other", "Other")
    given = configuration(tmp_path, "It")
    assert origins(anylayer.read(net)) == [str(personal)]
    assert origins(anylayer.read(net, kernels=given)) == [str(given)]
    assert origins(anylayer.read(other, kernels=given)) == [str(personal)]
    note = f"{personal} has a kernel of type 'It', too; {given} is used"
    assert note in anylayer.read(net, kernels=given).inspect().nodes[0].notes
    report = anylayer.read(net, kernels=OpenCL(user_file=False)).inspect()
    assert [row.where for row in report.nodes] == ["unknown"]


def test_a_broken_configuration_of_the_user_is_named_with_the_remedy(tmp_path: Path, personal: Path) -> None:
    personal.write_text("<Custom/>")
    rule = f"{personal}:1: <Custom> is unknown, expected <CustomLayer>. To do without the kernels of your"
    with pytest.raises(FileError, match=re.escape(rule)):
        anylayer.read(ir_2018(tmp_path, "It"))
    anylayer.read(ir_2018(tmp_path, "It"), kernels=OpenCL(user_file=False))


def test_a_type_of_the_users_configuration_that_no_layer_has_is_not_noted(tmp_path: Path, personal: Path) -> None:
    net = anylayer.read(ir_2018(tmp_path, "Its"))
    assert not net.network.notes
    with pytest.raises(AnyLayerError) as caught:
        net.compile("numpy")
    assert "no layer has" not in str(caught.value)


def test_a_kernel_without_shapes_is_refused(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "it" type: "It" bottom: "data" top: "y" }\n'
    )
    kernels = configuration(tmp_path, "It")
    rule = "kernels.xml: an OpenCL kernel states no shapes of outputs, and neither does the file"
    with pytest.raises(LayerError, match=rule):
        anylayer.read(net, kernels=kernels).compile("onnxruntime")
    with pytest.raises(LayerError, match=r"input 0 is float32\[2, 3, 4, 5\], the file states the shapes"):
        anylayer.read(ir_2018(tmp_path, "It"), kernels=kernels).compile("onnxruntime", {"data": (2, 3, 4, 5)})


def test_without_pyopencl_a_report_is_possible_and_a_run_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.delitem(sys.modules, "anylayer.libraries.pyopencl", raising=False)
    monkeypatch.delitem(sys.modules, "anylayer.kernels.opencl.call", raising=False)
    net = anylayer.read(ir_2018(tmp_path, "It"), kernels=configuration(tmp_path, "It"))
    assert [row.where for row in net.inspect().nodes] == ["native"]
    rule = r"net.xml:1: layer 'it' \(It\): OpenCL kernels need pyopencl: pip install pyopencl"
    with pytest.raises(EngineError, match=rule):
        net.compile("onnxruntime")


def test_a_class_without_forward_gives_the_shapes(tmp_path: Path) -> None:
    class Shapes:
        def __init__(self, params: object, blobs: object) -> None: ...

        def getMemoryShapes(self, inputs: list[list[int]]) -> list[list[int]]:
            return [[2 * d for d in inputs[0]]]

    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "it" type: "It" bottom: "data" top: "y" }\n'
    )
    read = anylayer.read(net, layers=[("It", Shapes)], kernels=configuration(tmp_path, "It"))
    (row,) = read.inspect().nodes
    assert (row.where, str(row.outputs[0][1])) == ("native", "float32[4, 6]")
    assert row.reason == "OpenCL, BFYX, global 24; no NumPy class"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("a.cl", r"a\.cl: a configuration of OpenCL kernels is an \.xml file, which names the sources"),
        ("a.so", r"a\.so: is a library or a Python file, not a configuration .* give it as layers="),
        ("It=a.py", r"a\.py: is a library or a Python file, not a configuration"),
    ],
)
def test_other_file_than_a_configuration_is_refused(tmp_path: Path, name: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        anylayer.read(ir_2018(tmp_path, "It"), kernels=[name])
