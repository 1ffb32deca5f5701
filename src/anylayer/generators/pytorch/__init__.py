"""PyTorch: a readable nn.Module, its weights, and a test that compares it with the layers in NumPy."""

from __future__ import annotations

import importlib.util
import sys

from anylayer.generators import Expected, Project
from anylayer.generators._testing import CHECKS, test_data
from anylayer.generators.pytorch.module import write_module
from anylayer.generators.pytorch.weights import to_safetensors
from anylayer.source import Source

WHAT = "a PyTorch module"
OPTIONS = ("batch",)

_PACKAGES = ("torch", "safetensors")


def generate(source: Source, expected: Expected) -> Project:
    """Return a project: model.py with the module, model.safetensors, and test_model.py with its data."""
    written = write_module(source)
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return Project(
        files={
            "model.py": written.text,
            "model.safetensors": to_safetensors(written.state),
            "test_model.py": _TEST.format(
                tolerance=expected.tolerance, samples=len(expected.samples), checks=CHECKS
            ),
            "test_data.npz": [test_data(expected)],
        },
        test=[[sys.executable, "-B", "test_model.py"]],
        missing=f"{' and '.join(missing)} (pip install {' '.join(missing)})" if missing else "",
    )


_TEST = '''"""Compare the module with the network's layers in NumPy: `python test_model.py`, or pytest."""

from pathlib import Path

import model
import numpy as np
import torch

TOLERANCE = {tolerance!r}
"""The largest difference, relative to the largest absolute value of an output."""
SAMPLES = {samples}


def differences() -> list[tuple[str, float, float]]:
    """Return (output, largest difference, largest value) for each sample and output."""
    data = np.load(Path(__file__).with_name("test_data.npz"))
    network = model.load()
    found = []
    for sample in range(SAMPLES):
        inputs = [torch.from_numpy(data[f"sample_{{sample}}_input_{{i}}"]) for i in range(len(model.INPUTS))]
        with torch.no_grad():
            results = network(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        for i, (name, result) in enumerate(zip(model.OUTPUTS, results, strict=True)):
            found.append((name, *compared(result.detach().numpy(), data[f"sample_{{sample}}_output_{{i}}"])))
    return found


{checks}

if __name__ == "__main__":
    show()
'''
