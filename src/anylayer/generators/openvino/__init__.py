"""OpenVINO: an extension in C++, the IR that uses its operations, and a test that runs both."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anylayer.generators import Expected, Project
from anylayer.generators._cases import chosen_types
from anylayer.generators._operators import Operators
from anylayer.generators._testing import CHECKS, test_data
from anylayer.generators.openvino.texts import CMAKE, LAYERS, PARALLEL, TEST, TOP
from anylayer.source import Source
from anylayer.writers.openvino import write

WHAT = "an extension of OpenVINO in C++"
OPTIONS = ("layer",)

_DTYPES = ("float32", "int32")
"""The element types that OpenVINO's CPU plugin passes unchanged. It narrows others."""


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp with the operations, CMakeLists.txt, model.xml and model.bin, and test_model.py
    with its data.

    layer: the layer types that become operations; by default all types that the user defines. The other layers are
    OpenVINO's operations in the model.

    Raises LayerError for a layer that cannot become loops, EngineError where OpenVINO is not installed.
    """
    written = Operators(source, chosen_types(source, layer), _DTYPES, params=True)
    text = TOP + written.text(PARALLEL) + LAYERS
    with tempfile.TemporaryDirectory(prefix="anylayer-") as folder:
        done = write(replace(source, graph=written.graph), Path(folder) / "model.xml")
        model = {file.name: [file.read_bytes()] for file in done.files}
    return Project(
        files={
            "layers.cpp": text,
            "CMakeLists.txt": CMAKE,
            **model,
            "test_model.py": TEST.format(
                tolerance=expected.tolerance,
                samples=len(expected.samples),
                inputs=list(source.inputs),
                outputs=[done.outputs.get(name, name) for name in source.outputs],
                checks=CHECKS,
            ),
            "test_data.npz": [test_data(expected)],
        },
        test=[
            [sys.executable, "-B", "test_model.py", "build"],
            [sys.executable, "-B", "test_model.py"],
        ],
        missing=_missing(),
        notes=[*written.notes, *done.notes],
    )


def _missing() -> str:
    """Return what the test needs and is not there."""
    tools = [name for name in ("cmake", "c++") if shutil.which(name) is None]
    if importlib.util.find_spec("openvino") is None:
        tools.append("openvino (pip install openvino)")
    return ", ".join(tools)
