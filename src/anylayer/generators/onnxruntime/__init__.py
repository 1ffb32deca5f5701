"""ONNX Runtime: a library of custom operators in C++, the model that uses them, and a test that runs both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from anylayer.errors import need
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import chosen_types
from anylayer.generators._cpp import cmake
from anylayer.generators._operators import Operators
from anylayer.generators._testing import CHECKS, missing_tools, test_data, tolerances
from anylayer.source import Source
from anylayer.writers._onnx_model import Public, to_onnx

WHAT = "custom operators of ONNX Runtime in C++"
OPTIONS = ("layer",)
QUANTIZED = True

_HEADER = Path(__file__).parent.parent.parent / "sdk/include/anylayer/detail/onnxruntime_api.hpp"
_MAX_MODEL_BYTES = 2**31 - 1
"""The largest number of bytes of a model in one file."""


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp with the operators, CMakeLists.txt, model.onnx, test_model.py with its data.

    layer: the layer types that become operators; by default all types that the user defines. The other layers are
    ONNX operators in the model.

    Raises LayerError for a layer without loops.
    """
    written = Operators(source, chosen_types(source, layer))
    model = to_onnx(written.graph, source.network.name or "net", public=Public.of(source))
    need(model.ByteSize() <= _MAX_MODEL_BYTES, "the model has more than 2 GB, which is too large for one file")
    return Project(
        files={
            "layers.cpp": written.text(__file__),
            "onnxruntime_api.hpp": _HEADER.read_text("utf-8"),
            "CMakeLists.txt": cmake("layers", 17, template(__file__, "library.cmake")),
            "model.onnx": [model.SerializeToString()],
            "test_model.py": fill(
                template(__file__, "test_model.py.in"),
                tolerances=tolerances(expected),
                samples=str(len(expected.samples)),
                checks=CHECKS,
            ),
            "test_data.npz": [test_data(expected)],
        },
        test=[
            ["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"],
            ["cmake", "--build", "build"],
            [sys.executable, "-B", "test_model.py"],
        ],
        missing=", ".join(missing_tools("onnxruntime")),
        notes=written.notes,
    )
