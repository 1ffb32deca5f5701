"""The data of a project's test, and the test's functions that compare and print outputs."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np

from anylayer.folders import template
from anylayer.generators import Expected
from anylayer.network import Array

COMPARED = template(__file__, "compared.py.in")
CHECKS = f"{COMPARED}\n\n{template(__file__, 'checks.py.in')}"
"""Functions for a test in Python that has imported NumPy as np, and defines TOLERANCE and differences()."""


def tolerances(expected: Expected) -> str:
    """Return the constants of a test in Python that say how much outputs may differ."""
    floors = [float(f"{floor:.3g}") for floor in expected.floors.values()]
    return f'''TOLERANCE = {expected.tolerance!r}
"""The largest difference, relative to the largest absolute value of an output."""
FLOORS = {floors}
"""For each output a difference that it may always have: the rounding of float32 after a function with a small
range, such as a softmax."""'''


def test_data(expected: Expected) -> bytes:
    """Return the inputs and outputs of all samples as a .npz archive with names such as "sample_0_input_0".

    "sample_0_near_1" marks the elements of output 1 that are near a jump; an output without any has no such array.
    """
    arrays = {}
    for i, sample in enumerate(expected.samples):
        near = {name: j for j, name in enumerate(sample.outputs)}
        arrays.update({f"sample_{i}_near_{near[name]}": marks for name, marks in sample.near.items()})
    return archive(
        "sample", [(list(s.inputs.values()), list(s.outputs.values())) for s in expected.samples], arrays
    )


def archive(
    what: str,
    parts: Iterable[tuple[Sequence[Array | None], Sequence[Array]]],
    others: Mapping[str, Array] = MappingProxyType({}),
) -> bytes:
    """Return inputs and outputs as a .npz archive with names such as "case_0_input_0", where `what` is "case". It
    contains no names from the network's file, and no absent inputs. others: further arrays.
    """
    arrays: dict[str, Any] = {**others}
    for i, (inputs, outputs) in enumerate(parts):
        arrays.update({f"{what}_{i}_input_{j}": a for j, a in enumerate(inputs) if a is not None})
        arrays.update({f"{what}_{i}_output_{j}": a for j, a in enumerate(outputs)})
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


_TOOLS = {"cmake": "cmake", "c++": "g++"}
"""The programs that build a project in C++, and the packages of Debian that have them."""


def missing_tools(*packages: str) -> list[str]:
    """Return which tools of a test in C++ are missing: CMake, a compiler, and these Python packages."""
    tools = [
        f"{name} (on Debian: apt-get install {p})" for name, p in _TOOLS.items() if shutil.which(name) is None
    ]
    return [*tools, *(f"{name} (pip install {name})" for name in packages if find_spec(name) is None)]
