"""A small network with custom layers, and the command line, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from anylayer.cli import main

NET = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 6 } } }
layer { name: "shuffle" type: "ShuffleChannel" bottom: "data" top: "shuffle" shuffle_channel_param { group: 3 } }
layer { name: "half" type: "Times" bottom: "shuffle" top: "half" times_param { factor: 0.5 } }
layer { name: "means" type: "Means" bottom: "half" top: "means" }
layer { name: "flat" type: "Flat" bottom: "half" top: "flat" }
"""

LAYERS = '''"""Layers of the small network."""

import numpy as np

import anylayer


@anylayer.layer("Times")
class Times:
    def __init__(self, params, blobs):
        self.factor = np.float32(params["factor"])

    def forward(self, inputs):
        return [inputs[0] * self.factor]


@anylayer.layer("Means")
class Means:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [inputs[0].mean(axis=(2, 3))]


@anylayer.layer("Flat")
class Flat:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [inputs[0][:, 0:1] / 255]
'''

HOST = """

@anylayer.layer("Means")
class Means:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        if float(str(inputs[0].max())) > 1e9:
            return [inputs[0].max(axis=(2, 3))]
        return [inputs[0].mean(axis=(2, 3))]
"""

Run = Callable[..., Result]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: net.prototxt, layers.py, host.py (cannot be traced), x.npy, picture.png."""
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "host.py").write_text(
        LAYERS[: LAYERS.index('@anylayer.layer("Means")')]
        + HOST
        + LAYERS[LAYERS.index('@anylayer.layer("Flat")') :]
    )
    Image.new("RGB", (6, 4), (10, 20, 30)).save(tmp_path / "picture.png")
    np.save(tmp_path / "x.npy", np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def anylayer_command() -> Run:
    """Return a function that runs `anylayer` with these arguments and requires the exit status `status`."""

    def run(*words: object, status: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(w) for w in words])
        if result.exit_code != status:
            raise AssertionError(f"status {result.exit_code}: {result.output}") from result.exception
        return result

    return run
