"""Files that are no library of layers, and libraries that break a rule, are refused; the process goes on."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError, LayerError
from anylayer.kernels.library import load_library
from tests.kernels.conftest import Built
from tests.kernels.test_contract import X, net_of, out

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system is not Linux")

TABLE = """#include <anylayer/abi.h>
{code}
extern "C" ANYLAYER_EXPORT const anylayer_library *anylayer_library_entry(uint32_t, anylayer_message *message) {{
  {body}
}}
"""
TYPE = """
static anylayer_status create(const anylayer_node *, void **made, anylayer_message *) { *made = made; return 0; }
static void destroy(void *) {}
static anylayer_status shapes(void *, const anylayer_tensor *const *, uint32_t, uint32_t, anylayer_shapes *to,
                              anylayer_message *) { return SHAPES; }
static anylayer_status forward(void *, const anylayer_call *, anylayer_message *) { return 7; }
static const anylayer_type one = {sizeof(anylayer_type), 0, "One", "", create, destroy, 0, 0, shapes, 0, forward};
static const anylayer_type *const types[] = {&one, &one};
"""


@pytest.fixture
def table(built: Built, tmp_path: Path) -> Callable[..., Path]:
    """A function that builds a library in C with this body of the entry function."""

    def build(body: str, code: str = "") -> Path:
        source = tmp_path / "table.cpp"
        source.write_text(TABLE.format(body=body, code=code))
        return built("table", source)

    return build


def returned(count: int, abi: str = "ANYLAYER_ABI", size: str = "sizeof(anylayer_library)") -> str:
    return (
        f'static const anylayer_library library = {{{size}, {abi}, "1", "", {count}, 0, types, 0, 0}};'
        "(void)message; return &library;"
    )


def refused(path: Path, rule: str) -> None:
    """Require that loading the library raises this rule, and names the file."""
    with pytest.raises(FileError) as caught:
        load_library(str(path))
    assert str(caught.value).startswith(f"{path}: "), caught.value
    assert re.search(rule, str(caught.value)), caught.value


@linux
def test_a_file_that_is_not_a_library_is_refused(tmp_path: Path, probe: Path) -> None:
    refused(tmp_path / "gone.so", "there is no such library")
    path = tmp_path / "x.so"
    path.write_text("layer { }")
    refused(path, "is not an ELF file, so it is not a shared library of Linux")
    path = tmp_path / "x.dylib"
    for start in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"):
        path.write_bytes(start + bytes(100))
        refused(path, "is a Mach-O file, a library of macOS, and this machine runs Linux. Build it for this")
    path = tmp_path / "x.dll"
    path.write_bytes(b"MZ" + bytes(100))
    refused(path, "is a PE file, a library of Windows, and this machine runs Linux. Build it for this machine")
    path = tmp_path / "x.so"
    path.write_bytes(b"\x7fELF")
    refused(path, "ends in its header, after 4 bytes")
    whole = probe.read_bytes()
    for machine, name in [(0xB7, "64-bit ARM"), (0x28, "32-bit ARM"), (0x999, "processor type 2457")]:
        path.write_bytes(whole[:18] + struct.pack("<H", machine) + whole[20:])
        refused(path, f"is built for {name}, this Python for .*. Build it for this machine")
    path.write_bytes(whole[:16] + struct.pack("<H", 1) + whole[18:])
    refused(path, "is an ELF file, but not a shared library. Link it with -shared")
    for length in (100, 5000, len(whole) // 2):
        path.write_bytes(whole[:length])
        refused(path, "is cut off")


@linux
def test_a_library_that_lacks_a_symbol_is_refused(tmp_path: Path, built: Built) -> None:
    source = tmp_path / "lacks.cpp"
    source.write_text('extern "C" int nowhere(); extern "C" int here() { return nowhere(); }')
    refused(built("lacks", source, flags=("-O0", "-Wl,-z,now")), "cannot be loaded: undefined symbol: nowhere")


def test_a_library_without_the_entry_function_is_refused(tmp_path: Path, built: Built) -> None:
    source = tmp_path / "empty.cpp"
    source.write_text("int x;")
    refused(built("empty", source), "is a shared library without anylayer_library_entry, so it holds no layers")


def test_a_library_of_another_version_is_refused(table: Callable[..., Path]) -> None:
    code = TYPE.replace("SHAPES", "to->struct_size, 0")
    refused(
        table(returned(1, abi="9"), code),
        "is built for version 9 of anylayer's binary interface, this .* 1. Build",
    )
    refused(table(returned(1, size="16"), code), "its table has 16 bytes, version 1 needs")


def test_a_library_with_a_wrong_table_is_refused(table: Callable[..., Path]) -> None:
    code = TYPE.replace("SHAPES", "to->struct_size, 0")
    refused(table(returned(0), code), "registers 0 layer types, expected 1 to 10000")
    refused(table(returned(2), code), "registers layer type 'One' twice")
    refused(
        table(returned(1), code.replace("shapes, 0, forward}", "0, 0, forward}")), "'One' has no function 'shapes'"
    )
    refused(table(returned(1), code.replace('"One"', '""')), "registers a layer type without a name")
    refused(table(returned(1), code.replace("{sizeof(anylayer_type)", "{8")), "a layer type's table has 8 bytes")
    refused(table("(void)message; return 0;"), "gives no table and no message")
    refused(table('__builtin_strcpy(message->text, "needs a licence"); return 0;'), "needs a licence")


@pytest.mark.breadth
def test_a_type_that_is_registered_twice_is_refused(tmp_path: Path, built: Built) -> None:
    source = tmp_path / "twice.cpp"
    source.write_text(
        "#include <anylayer/layer.hpp>\nstruct A : anylayer::Layer { using Layer::Layer; };\n"
        "ANYLAYER_REGISTER_LAYER(A, A)\nANYLAYER_REGISTER_LAYER(A, A)\n"
    )
    refused(built("twice", source), "registers layer type 'A' twice")


def test_a_layer_in_c_fails_with_its_status(tmp_path: Path, table: Callable[..., Path]) -> None:
    shapes = (
        "(to->output_count = 1, to->outputs = outputs, 0)",
        "static const int64_t sizes[] = {1, 3, 4, 2};\n"
        "static const anylayer_shape shape = {sizeof(anylayer_shape), 4, sizes};\n"
        "static const anylayer_shape *const outputs[] = {&shape};\n",
    )
    path = table(returned(1), shapes[1] + TYPE.replace("SHAPES", shapes[0]))
    with pytest.raises(
        LayerError, match=r"layer 'it' \(One\): libtable.so: forward ends with status 7 and no message"
    ):
        out(net_of(tmp_path, "One", "", path))
    path = table(returned(1), TYPE.replace("SHAPES", "(to->output_count = 1, 0)"))
    with pytest.raises(LayerError, match="getMemoryShapes returns a number of shapes, but no shapes"):
        net_of(tmp_path, "One", "", path).compile("onnxruntime")


@pytest.mark.parametrize("where", ["create", "shapes", "finalize", "forward"])
@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("error", "it is broken"),
        ("number", "an exception that is not a std::exception was thrown"),
        ("assert", r"probe.cpp:\d+: the assertion 'in.empty\(\)' does not hold"),
        ("long", "x{4000}"),
        ("memory", "bad_alloc"),
    ],
)
@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_an_exception_becomes_an_error_of_the_layer(
    tmp_path: Path, probe: Path, where: str, what: str, text: str, engine: str
) -> None:
    net = net_of(tmp_path, "Throws", f'throws_param {{ in: "{where}" what: "{what}" }}', probe)
    with pytest.raises(LayerError, match=rf"throws.prototxt:3: layer 'it' \(Throws\): libprobe.so: .*{text}"):
        out(net, engine=engine)


def test_an_exception_in_a_thread_becomes_an_error_of_the_layer(tmp_path: Path, probe: Path) -> None:
    net = net_of(tmp_path, "Throws", 'throws_param { in: "nowhere" }', probe)
    for threads in (1, 4):
        with pytest.raises(LayerError, match=r"libprobe\.so: a thread is broken"):
            out(net, threads=threads)


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ("shape: 1 shape: -2", r"getMemoryShapes returns \(1, -2\) for output 0, a size cannot be negative"),
        ("shape: [0, 3]", r"getMemoryShapes returns \(0, 3\) for output 0, which has no elements"),
        ("shape: [99999, 99999, 99]", "for output 0, which is too large"),
        (f"shape: {[1] * 33}", "output 0 has 33 axes, 0 to 32 are possible"),
        ("shape: [1, 2] count: 3", "getMemoryShapes returns 3 shapes, the node has 1 output"),
        ("shape: [1, 2] count: 0", "getMemoryShapes returns 0 shapes, the node has 1 output"),
    ],
)
def test_impossible_shapes_are_refused(tmp_path: Path, probe: Path, params: str, rule: str) -> None:
    with pytest.raises(LayerError, match=rf"layer 'it' \(Declares\): libprobe.so: .*{rule}"):
        net_of(tmp_path, "Declares", f"declares_param {{ {params} }}", probe).compile("onnxruntime")


def test_other_shapes_than_those_of_the_numpy_class_are_refused(tmp_path: Path, probe: Path) -> None:
    class Same:
        def __init__(self, params: object, blobs: object) -> None: ...

        def forward(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
            return [inputs[0] * 1]

    net = net_of(tmp_path, "Declares", "declares_param { shape: [1, 24] }", probe, 1, ("Declares", Same))
    with pytest.raises(LayerError, match=r"libprobe.so: output 0 is float32\[1, 24\], its NumPy class in"):
        net.compile("onnxruntime")


def test_a_library_is_loaded_only_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text('layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 } } }')
    with pytest.raises(AnyLayerError, match="there is no such library"):
        anylayer.read(path, layers=[tmp_path / "libgone.so"])


def test_a_library_that_was_built_again_is_loaded_again(tmp_path: Path, built: Built) -> None:
    source = tmp_path / "adds.cpp"
    found = []
    for number in (1, 2):
        source.write_text(
            "#include <anylayer/layer.hpp>\nstruct Adds : anylayer::Layer { using Layer::Layer;\n"
            "void forward(anylayer::InputArrays x, anylayer::OutputArrays y, anylayer::OutputArrays) override {\n"
            f"for (std::size_t i = 0; i < y[0].total(); ++i) y[0].ptr<float>()[i] = x[0].ptr<float>()[i] "
            f"+ {number}; }}\n"
            "};\nANYLAYER_REGISTER_LAYER(Adds, Adds)\n"
        )
        library = tmp_path / "libadds.so"
        library.unlink(missing_ok=True)
        library.write_bytes(built("adds", source).read_bytes())
        found.append(out(net_of(tmp_path, "Adds", "", library)))
    np.testing.assert_array_equal(found, [X + 1, X + 2])


def test_a_library_is_unloaded_once_when_the_process_ends(tmp_path: Path, table: Callable[..., Path]) -> None:
    code = TYPE.replace("SHAPES", "to->struct_size, 0") + (
        "static anylayer_log say;\n"
        'static void set_log(anylayer_log log) { say = log; if (log) log("connected"); }\n'
        'static void unload() { say("unloaded"); }\n'
    )
    path = table(returned(1).replace("types, 0, 0", "types, set_log, unload"), code)
    text = f"from anylayer.kernels.library import load_library\nfor _ in range(2): load_library({str(path)!r})\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr == "libtable.so: connected\nlibtable.so: unloaded\n"


FUNCTIONS = """
#include <anylayer/opencv.hpp>
#include <cstdio>
#include <cstdlib>

struct Plus : public cv::dnn::Layer {
  using cv::dnn::Layer::Layer;
  void forward(cv::InputArrayOfArrays x, cv::OutputArrayOfArrays y, cv::OutputArrayOfArrays) override {
    for (std::size_t i = 0; i < y[0].total(); ++i) y[0].ptr<float>()[i] = x[0].ptr<float>()[i] + NUMBER;
  }
};
static inline void loadNet() {
CV_DNN_REGISTER_LAYER_CLASS(FIRST, Plus);
CV_DNN_REGISTER_LAYER_CLASS(SECOND, Plus);
}
"""


@pytest.mark.one_per()
@pytest.mark.parametrize("optimized", ["-O0", "-O3"])
def test_layers_registered_in_functions_are_found_when_the_library_is_loaded(
    optimized: str, tmp_path: Path, built: Built
) -> None:
    sources = []
    for number in ("1", "2"):
        names = (("FIRST", f"A{number}"), ("SECOND", f"B{number}"), ("NUMBER", number), ("Plus", f"Plus{number}"))
        text = FUNCTIONS
        for name, value in names:
            text = text.replace(name, value)
        sources.append(tmp_path / f"functions{number}.cpp")
        sources[-1].write_text(text)
    last = (
        'static void bye() { if (std::getenv("SAYS_BYE")) std::fputs("bye\\n", stderr); }\nANYLAYER_UNLOAD(bye)\n'
    )
    sources[0].write_text(sources[0].read_text() + last)
    path = built("functions", *sources, flags=(optimized,))
    code = f"from anylayer.kernels.library import load_library\nprint(sorted(load_library({str(path)!r}).types))"
    environ = {**os.environ, "SAYS_BYE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("['A1', 'A2', 'B1', 'B2']\n", "bye\n")
    np.testing.assert_array_equal(out(net_of(tmp_path, "B2", "", path)), X + 2)


@pytest.mark.parametrize("where", ["before", "after", ""])
def test_write_beside_an_output_is_refused_in_the_first_call(where: str, tmp_path: Path, built: Built) -> None:
    places = {"Beside_before": "-1", "Beside_after": "y[0].total()", "Beside_": "0"}
    source = tmp_path / "beside.cpp"
    layers = [
        f"struct {name} : anylayer::Layer {{\n  using Layer::Layer;\n"
        "  void forward(anylayer::InputArrays, anylayer::OutputArrays y, anylayer::OutputArrays) override {\n"
        "    for (std::size_t i = 0; i < y[0].total(); ++i) y[0].ptr<float>()[i] = 1;\n"
        f"    y[0].ptr<float>()[{place}] = 1;\n  }}\n}};\nANYLAYER_REGISTER_LAYER({name}, {name})\n"
        for name, place in places.items()
    ]
    source.write_text("".join(["#include <anylayer/layer.hpp>\n", *layers]))
    net = net_of(tmp_path, f"Beside_{where}", "", built("beside", source))
    if not where:
        np.testing.assert_array_equal(out(net), np.ones_like(X))
        return
    with pytest.raises(
        LayerError, match=f"forward writes to memory {where} output 0, which does not belong to it"
    ):
        out(net)


@linux
@pytest.mark.parametrize("name", ["libscale.dylib", "scale.dll", "libscale.so.1.2"])
def test_other_suffixes_of_libraries_are_accepted(tmp_path: Path, probe: Path, name: str) -> None:
    (tmp_path / name).write_bytes(probe.read_bytes())
    net = net_of(tmp_path, "First", "", tmp_path / name)
    assert net.compile("onnxruntime").native_layers == [("it", "First", str(tmp_path / name))]
