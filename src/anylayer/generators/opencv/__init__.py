"""OpenCV in C++: a cv::dnn::Layer for each layer type, a CMake project, and a test that runs them in OpenCV."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anylayer.errors import at, given, need
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import Case, cases_of, chosen_types
from anylayer.generators._cpp import cmake, numbers_of, string
from anylayer.generators._testing import missing_tools
from anylayer.generators.opencv.layers import LayerWriter
from anylayer.layer.opencv import opencv_params
from anylayer.loops import number
from anylayer.network import Array
from anylayer.source import Source

WHAT = "an OpenCV project in C++"
OPTIONS = ("layer",)

_FLOAT = np.dtype(np.float32)
_HEADERS = ("/usr/include/opencv4", "/usr/local/include/opencv4", "/opt/homebrew/include/opencv4")


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp and layers.hpp with the classes, CMakeLists.txt, test_layers.cpp and its data.

    layer: the layer types to write; by default all types that the user defines.

    Raises LayerError for a layer without loops, and for arrays that OpenCV does not support.
    """
    cases = cases_of(source, expected, chosen_types(source, layer))
    written = LayerWriter()
    for case in cases:
        with at(case.node.place):
            _need_arrays(case)
            written.add(case.traced)
    tests = [_test(i, case) for i, case in enumerate(cases)]
    calls = "\n".join(f"    good = case_{i}(file) && good;" for i in range(len(cases)))
    files: dict[str, str | Sequence[bytes | memoryview]] = {
        "layers.hpp": template(__file__, "layers.hpp"),
        "layers.cpp": written.text(),
        "CMakeLists.txt": cmake("numpy_layers", 11, template(__file__, "library.cmake"))
        + template(__file__, "test.cmake"),
        "test_layers.cpp": fill(
            template(__file__, "test_layers.cpp"),
            tolerance=repr(expected.tolerance),
            cases="\n".join(tests),
            calls=calls,
        ),
        "test_data.bin": [np.ascontiguousarray(a, _FLOAT).tobytes() for case in cases for a in _arrays(case)],
    }
    commands = [
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build"],
        ["build/test_layers", "test_data.bin"],
    ]
    return Project(files, commands, _missing(), written.notes)


def _arrays(case: Case) -> list[Array]:
    return [*(a for a in case.inputs if a is not None), *case.outputs]


def _need_arrays(case: Case) -> None:
    """Raise LayerError for arrays whose dtype or rank OpenCV does not support."""
    for x in (*case.inputs, *case.outputs):
        x = given(x, "an input is absent, which OpenCV cannot express")
        need(x.dtype == _FLOAT, f"OpenCV's layers take float32 arrays only, got {x.dtype}")
        need(x.ndim >= 2, f"OpenCV has no arrays of rank {x.ndim}; reshape it in the layer, for example to (1, n)")
        need(x.size > 0, f"an array has shape {x.shape}, without elements")


def _test(at_: int, case: Case) -> str:
    """Return the C++ function that runs one case."""
    lines = [f"bool case_{at_}(std::ifstream& file) {{", "    LayerParams params;"]
    lines.append(f"    params.type = {string(case.node.type)};")
    for name, value in numbers_of(opencv_params(case.node.params, case.node.defaults)).items():
        if isinstance(value, str):
            lines.append(f"    params.set({string(name)}, cv::String({string(value)}));")
        elif len(value) == 1:
            lines.append(f"    params.set({string(name)}, {_number(value[0])});")
        else:
            listed = ", ".join(map(_number, value))
            lines.append(f"    const std::vector<double> list_{len(lines)} = {{{listed}}};")
            array = f"cv::dnn::DictValue::arrayReal(list_{len(lines) - 1}.data(), {len(value)})"
            lines.append(f"    params.set({string(name)}, {array});")
    for blob in case.node.blobs:
        shape = blob.shape if blob.ndim > 1 else (1, blob.size)
        values = ", ".join(number(v, _FLOAT) for v in np.asarray(blob, _FLOAT).reshape(-1).tolist())
        lines.append(f"    static const float blob_{len(lines)}[] = {{{values}}};")
        sizes = f"std::vector<int>{{{', '.join(map(str, shape))}}}"
        lines.append(
            f"    params.blobs.push_back(cv::Mat({sizes}, CV_32F, const_cast<float*>(blob_{len(lines) - 1})));"
        )
    shapes = [
        "{" + ", ".join("{" + ", ".join(map(str, a.shape)) + "}" for a in arrays if a is not None) + "}"
        for arrays in (case.inputs, case.outputs)
    ]
    floors = "{" + ", ".join(f"{floor:.3g}" for floor in case.floors) + "}"
    return "\n".join([*lines, f"    return run(params, file, {shapes[0]}, {shapes[1]}, {floors});", "}", ""])


def _number(value: float) -> str:
    """Return a param as a C++ number: an int where it is one, as OpenCV reads it from a file."""
    return (
        f"int64({int(value)})"
        if value.is_integer() and abs(value) < 2**31
        else number(value, np.dtype(np.float64))
    )


def _missing() -> str:
    """Return the names of the tools and packages that the test needs and that are not installed."""
    tools = missing_tools()
    known = (
        shutil.which("pkg-config") is not None
        and not subprocess.run(["pkg-config", "--exists", "opencv4"], check=False).returncode
    )
    if not known and not any((Path(folder) / "opencv2" / "dnn.hpp").is_file() for folder in _HEADERS):
        tools.append("OpenCV's headers (on Debian: apt-get install libopencv-dev)")
    return ", ".join(tools)
