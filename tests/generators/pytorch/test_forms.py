"""Groups of operators for which torch has one function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer import ops
from anylayer.network import Array
from tests.generators.pytorch.harness import module_of, run, traced
from tests.generators.pytorch.test_project import load
from tests.layers.harness import noise

pytestmark = pytest.mark.needs("torch", "safetensors")

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 6 dim: 7 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 1 dim: 2 dim: 400 } } }
layer { name: "mine" type: "Mine" bottom: "x" bottom: "t" top: "y" }
"""


def compared(function: Any, folder: Path, blob: Array | None = None) -> str:
    """Return the function that is generated for a layer, after its values at two batch sizes match NumPy's."""
    import torch

    class Mine:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.blobs = blobs

        def forward(self, inputs: Any) -> Any:
            return [function(*inputs, *self.blobs)]

    (folder / "net.prototxt").write_text(NET)
    net = anylayer.read(folder / "net.prototxt", layers=[("Mine", Mine)])
    net.network.nodes[0].blobs = [] if blob is None else [blob]
    net.generate("pytorch", folder / "project", test=False)
    module = load(folder / "project")
    for batch in (1, 4):
        x, t = (
            noise(batch, 3, 6, 7),
            np.random.default_rng(0).uniform(-1.4, 1.4, (batch, 2, 400)).astype(np.float32),
        )
        t[:, :, :9] = np.linspace(-1, 1, 9)  # edges of the map
        with torch.no_grad():
            got = module(torch.from_numpy(x), torch.from_numpy(t)).numpy()
        want = function(x, t, *([] if blob is None else [blob]))
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())
    text = (folder / "project" / "model.py").read_text()
    return text[text.index("# The layer type Mine") : text.index("class ")]


def stretch(x: Any, axis: int, at: Array) -> Any:
    """Interpolate along an axis at these places."""
    low, last = at.astype(int), x.shape[axis] - 1
    part = (at - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return (1 - part) * np.take(x, low, axis) + part * np.take(x, np.minimum(low + 1, last), axis)


def corners(new: int, old: int) -> Array:
    return np.arange(new, dtype=np.float32) * (np.float32(old - 1) / np.float32(new - 1))


def centers(new: int, old: int) -> Array:
    return np.clip((np.arange(new, dtype=np.float32) + 0.5) * np.float32(old / new) - 0.5, 0, None)


@pytest.mark.parametrize(("places", "option"), [(corners, ", align_corners=True"), (centers, "")])
def test_bilinear_interpolation_is_one_function(places: Any, option: str, tmp_path: Path) -> None:
    def both(x: Any, t: Any) -> Any:
        return stretch(stretch(x, 3, places(19, 7)), 2, places(5, 6)) * t[:, :1, :1, None]

    assert f'F.interpolate(x, (5, 19), mode="bilinear"{option})' in compared(both, tmp_path)


def test_differences_of_neighbors_are_an_interpolation(tmp_path: Path) -> None:
    at = corners(13, 7)
    low, part = at.astype(int), (at - at.astype(int)).astype(np.float32)

    def across(x: Any, t: Any) -> Any:
        first = np.take(x, low, 3)
        return (first + part * (np.take(x, np.minimum(low + 1, 6), 3) - first)) * t[:, :1, :1, None]

    assert 'F.interpolate(x, (6, 13), mode="bilinear", align_corners=True)' in compared(across, tmp_path)


def test_other_weights_are_not_an_interpolation_of_torch(tmp_path: Path) -> None:
    def both(x: Any, t: Any) -> Any:
        return stretch(stretch(x, 3, corners(19, 7) * np.float32(0.9999)), 2, corners(5, 6)) * t[:, :1, :1, None]

    assert "interpolate" not in compared(both, tmp_path)


def test_weights_of_a_layer_stay_parameters(tmp_path: Path) -> None:
    at = corners(13, 7)
    part = (at - at.astype(int)).astype(np.float32)

    def across(x: Any, t: Any, part: Any) -> Any:
        first, second = np.take(x, at.astype(int), 3), np.take(x, np.minimum(at.astype(int) + 1, 6), 3)
        return ((1 - part) * first + part * second) * t[:, :1, :1, None]

    assert "interpolate" not in compared(across, tmp_path, part)


@pytest.mark.parametrize("times", [(2, 3), (41, 1), (1, 47)])
def test_repetition_is_one_function(times: tuple[int, int], tmp_path: Path) -> None:
    def repeat(x: Any, t: Any) -> Any:
        return np.repeat(np.repeat(x, times[0], 2), times[1], 3) * t[:, :1, :1, None]

    size = f"({6 * times[0]}, {7 * times[1]})"
    assert f'F.interpolate(x, {size}, mode="nearest-exact")' in compared(repeat, tmp_path)


def sampled(x: Any, place: Any) -> Any:
    """Sample x at places in cells with zeros outside."""
    n, c, h, w = x.shape
    low, total = np.floor(place), 0
    for down in (0, 1):
        for right in (0, 1):
            at = low + np.array([[down], [right]], np.float32)
            near = 1 - np.abs(place - at)
            inside = (at[:, 0] >= 0) & (at[:, 0] < h) & (at[:, 1] >= 0) & (at[:, 1] < w)
            weight = near[:, 0] * near[:, 1] * inside.astype(np.float32)
            row = np.clip(at[:, 0], np.float32(0), np.float32(h - 1)).astype(np.int64)
            column = np.clip(at[:, 1], np.float32(0), np.float32(w - 1)).astype(np.int64)
            index = np.broadcast_to((row * w + column)[:, None], (n, c, place.shape[2]))
            total = total + np.take_along_axis(x.reshape(n, c, h * w), index, axis=2) * weight[:, None]
    return total


@pytest.mark.parametrize(
    ("factors", "shift", "call"),
    [
        ((3, 3.5), 0, "F.grid_sample(F.pad(x_2, (0, 1, 0, 1)), points, align_corners=True)"),
        ((2.5, 3), 0, "F.grid_sample(x_2, points, align_corners=True)"),
        ((3, 3.5), 0.5, "F.grid_sample(x_2, points, align_corners=False)"),
        ((3.5, 3), 0, "torch.gather("),
        ((2.5, 3), 0.5, "torch.gather("),
        ((3, 3.5), 0.25, "torch.gather("),
    ],
)
def test_bilinear_sampling_is_one_function(
    factors: tuple[float, float], shift: float, call: str, tmp_path: Path
) -> None:
    scale = np.array(factors, np.float32).reshape(2, 1)

    def sample(x: Any, t: Any) -> Any:
        place = (t + 1) * scale
        return sampled(x, place - np.float32(shift) if shift else place)

    assert call in compared(sample, tmp_path).replace("(x, points", "(x_2, points").replace("pad(x,", "pad(x_2,")


def test_other_weights_are_not_sampled(tmp_path: Path) -> None:
    def sample(x: Any, t: Any) -> Any:
        place = (t + 1) * np.array([[3], [3.5]], np.float32)
        return sampled(x, place) + sampled(x, np.minimum(place, 4))

    assert compared(sample, tmp_path).count("F.grid_sample") == 1


def test_weighted_sum_of_rows_is_one_function(tmp_path: Path) -> None:
    table = np.arange(24, dtype=np.float32).reshape(6, 4)

    def both(x: Any, t: Any) -> Any:
        at = np.clip(t[:, 0] * 4, np.float32(-6), np.float32(4)).astype(np.int64)  # -1 is the last row
        part = t[:, 1][..., None]
        return 0 + np.take(table, at, 0) * part + (1 - part) * np.take(table, at + 1, 0)

    assert "F.embedding_bag(" in compared(both, tmp_path)


def test_reduction_over_separate_axes_is_several_calls(tmp_path: Path) -> None:
    text = compared(lambda x, t: x.mean((1, 3), keepdims=True) + t[:, :1, :1, None], tmp_path)
    assert "torch.mean(torch.mean(x, dim=(3,), keepdim=True), dim=(1,), keepdim=True)" in text


@pytest.mark.parametrize("size", [4, 5])
def test_normalization_over_channels_of_float16(size: int) -> None:
    """PyTorch's own function does not take float16 on a processor."""
    x = noise(1, 6, 3, 4).astype(np.float16)
    (got,) = run(module_of(traced(lambda x: ops.lrn(x, size, alpha=0.5), [x])), [x])
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, ops.lrn(x.astype(np.float32), size, alpha=0.5), atol=4e-3)


def test_sum_after_a_convolution_is_its_bias(tmp_path: Path) -> None:
    """A transposition may stand between both, as in TensorFlow. Attributes leave out the common folder."""
    import onnx
    import torch
    from onnx import helper

    from tests.readers.onnx.files import model, value

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "net/stem/convolution"),
        helper.make_node("Transpose", ["c"], ["t"], "net/stem/transpose", perm=[0, 2, 3, 1]),
        helper.make_node("Add", ["t", "b"], ["a"], "net/stem/BiasAdd"),
        helper.make_node("Conv", ["x", "v"], ["d"], "net/twice/convolution"),
        helper.make_node("Add", ["d", "e"], ["f"], "net/twice/BiasAdd"),
        helper.make_node("Add", ["d", "f"], ["g"], "net/twice/sum"),
    ]
    arrays = {"w": noise(4, 3, 2, 2), "v": noise(5, 3, 2, 2), "b": noise(4), "e": noise(5, 1, 1)}
    onnx.save(model(nodes, [value("x", (1, 3, 6, 7))], ["a", "g"], arrays), tmp_path / "net.onnx")
    net = anylayer.read(tmp_path / "net.onnx")
    net.generate("pytorch", tmp_path / "project", test=False)
    text = (tmp_path / "project" / "model.py").read_text()
    assert "self.stem_convolution = nn.Conv2d(3, 4, 2)" in text
    assert "self.twice_convolution = nn.Conv2d(3, 5, 2, bias=False)" in text, "its result has another use"
    x = noise(1, 3, 6, 7)
    with torch.no_grad():
        results = load(tmp_path / "project")(torch.from_numpy(x))
    for result, want in zip(results, net.compile(engine="numpy")({"x": x}).values()):
        np.testing.assert_allclose(result.numpy(), want, atol=1e-5 * np.abs(want).max())
