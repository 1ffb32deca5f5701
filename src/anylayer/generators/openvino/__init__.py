"""OpenVINO: an extension in C++, the IR that uses its operations, and a test that runs both."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import chosen_types
from anylayer.generators._cpp import cmake
from anylayer.generators._operators import Operators
from anylayer.generators._testing import CHECKS, missing_tools, test_data, tolerances
from anylayer.generators.openvino.kernels import kernels
from anylayer.source import Source
from anylayer.writers.openvino import RESPELLED, write

WHAT = "an extension of OpenVINO in C++"
OPTIONS = ("layer",)
QUANTIZED = True

_DTYPES = ("float32", "int32")
"""The element types that OpenVINO's CPU plugin passes unchanged. It narrows others."""


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp with the operations, CMakeLists.txt, model.xml and model.bin, test_model.py
    with its data, a source in OpenCL per operation, kernels.xml, and test_kernels.py.

    layer: the layer types that become operations; by default all types that the user defines. The other layers are
    OpenVINO's operations in the model.

    Raises LayerError for a layer without loops, and EngineError if OpenVINO is not installed.
    """
    written = Operators(source, chosen_types(source, layer), _DTYPES, tuple(RESPELLED))
    opencl = kernels(written.cases)
    with tempfile.TemporaryDirectory(prefix="anylayer-") as folder:
        done = write(replace(source, graph=written.graph), Path(folder) / "model.xml")
        model = {file.name: [file.read_bytes()] for file in done.files}
    tested = bool(opencl.files) and opencl.complete
    values = {
        "tolerances": tolerances(expected),
        "samples": str(len(expected.samples)),
        "inputs": ascii(list(source.inputs)),
        "outputs": ascii([done.outputs.get(name, name) for name in source.outputs]),
        "checks": CHECKS,
    }
    return Project(
        files={
            "layers.cpp": written.text(__file__),
            "CMakeLists.txt": cmake("layers", 17, template(__file__, "library.cmake")),
            **model,
            "test_model.py": fill(template(__file__, "test_model.py.in"), **values),
            "test_data.npz": [test_data(expected)],
            **opencl.files,
            **({"test_kernels.py": fill(template(__file__, "test_kernels.py.in"), **values)} if tested else {}),
        },
        test=[
            [sys.executable, "-B", "test_model.py", "build"],
            [sys.executable, "-B", "test_model.py"],
            *([[sys.executable, "-B", "test_kernels.py"]] if tested else []),
        ],
        missing=", ".join(missing_tools("openvino")),
        notes=[*written.notes, *opencl.notes, *done.notes],
    )
