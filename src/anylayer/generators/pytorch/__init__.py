"""PyTorch: a readable nn.Module, its weights, and a test that compares it with the layers in NumPy."""

from __future__ import annotations

import importlib.util
import sys

from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._testing import CHECKS, test_data, tolerances
from anylayer.generators.pytorch.module import write_module
from anylayer.generators.pytorch.weights import to_safetensors
from anylayer.source import Source

WHAT = "a PyTorch module"
OPTIONS = ("batch",)
RULES = "pytorch"
TRAINABLE = True

_PACKAGES = ("torch", "safetensors")


def generate(source: Source, expected: Expected) -> Project:
    """Return a project: model.py with the module, model.safetensors, and test_model.py with its data."""
    written = write_module(source)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return Project(
        files={
            "model.py": written.text,
            "model.safetensors": to_safetensors(written.state),
            "test_model.py": fill(
                template(__file__, "test_model.py.in"),
                tolerances=tolerances(expected),
                samples=str(len(expected.samples)),
                checks=CHECKS,
            ),
            "test_data.npz": [test_data(expected)],
        },
        test=[[sys.executable, "-B", "test_model.py"]],
        missing=f"{' and '.join(missing)} (pip install {' '.join(missing)})" if missing else "",
    )
