"""Custom operations: attributes become params, constant inputs blobs. A user's class replaces a built-in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import UnknownLayers
from anylayer.testing import assert_same
from tests.engine_names import ALL

MODELS = REFERENCE / "tf_keras"
ENGINES = ALL
pytestmark = needs_data("tf_keras")
seen: list[Any] = []


class Resize:
    """The bilinear resize of OpenCV's tutorial on custom layers, in NumPy, with channels first as in OpenCV."""

    layout = "NCHW"

    def __init__(self, params: Any, blobs: Any) -> None:
        seen.append((params, [(b.shape, b.dtype, b.ravel().tolist()) for b in blobs]))
        assert not params.get("align_corners")
        self.size = self.factor = None
        if len(blobs) == 1:
            self.size = int(blobs[0][0, 0]), int(blobs[0][0, 1])
        else:
            self.factor = int(blobs[0][0, 0]), int(blobs[1][0, 0])

    def getMemoryShapes(self, inputs: Any) -> Any:
        n, c, h, w = inputs[0]
        if self.size is None:
            self.size = h * self.factor[0], w * self.factor[1]
        return [[n, c, *self.size]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        for axis, new in ((2, self.size[0]), (3, self.size[1])):
            old = x.shape[axis]
            at = np.arange(new, dtype=np.float32) * np.float32(old / new)
            low = np.floor(at).astype(np.int64)
            part = (at - low).reshape(-1, *(1,) * (3 - axis)).astype(np.float32)
            x = np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, old - 1), axis) * part
        return [x]


class Last(Resize):
    """The same resize with channels last."""

    layout = "NHWC"

    def getMemoryShapes(self, inputs: Any) -> Any:
        n, h, w, c = inputs[0]
        found = super().getMemoryShapes([[n, c, h, w]])[0]
        return [[found[0], found[2], found[3], found[1]]]

    def forward(self, inputs: Any) -> Any:
        return [super().forward([inputs[0].transpose(0, 3, 1, 2)])[0].transpose(0, 2, 3, 1)]


def recorded() -> tuple[Any, Any]:
    with np.load(MODELS / "resize_bilinear.pb.npz") as file:
        return file["x"], file["y"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cls", [Resize, Last])
def test_constant_size_is_one_blob(cls: Any, engine: str) -> None:
    x, y = recorded()
    seen.clear()
    net = anylayer.read(MODELS / "resize_bilinear.pb", layers=[("ResizeBilinear", cls)])
    model = net.compile(engine)
    assert_same(model({"input": x})["resize_bilinear"], y)
    params, blobs = seen[0]
    assert params == {"T": "float32", "align_corners": False, "half_pixel_centers": False}
    assert blobs == [((1, 2), np.int32, [9, 8])]
    assert not model.host_calls


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cls", [Resize, Last])
def test_scale_factors_are_two_blobs(cls: Any, engine: str) -> None:
    seen.clear()
    path = MODELS / "resize_bilinear_factor.pb"
    x = recorded()[0]
    got = anylayer.read(path, layers=[("ResizeBilinear", cls)]).compile(engine)({"input": x})
    assert seen[0][1] == [((1, 1), np.int32, [2]), ((1, 1), np.int32, [2])]
    want = anylayer.read(path).compile("numpy")({"input": x})
    assert_same(got["resize_bilinear"], want["resize_bilinear"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["my_resize.pb", "my_resize_nolist.pb"])
def test_custom_operation_gets_attributes(name: str, engine: str) -> None:
    x, y = recorded()
    seen.clear()
    net = anylayer.read(MODELS / name, layers=[("MyResize", Resize)])
    assert_same(net.compile(engine)({"input": x})["resize_bilinear"], y)
    lists = {"li": (1, -2), "lf": (1.5,)} if name == "my_resize.pb" else {}
    assert seen[0][0] == {
        "T": "float32",
        "align_corners": False,
        "half_pixel_centers": False,
        "i": -7,
        "f": -1.5,
        "s": "abc",
        **lists,
    }


def test_unknown_operation_is_reported() -> None:
    net = anylayer.read(MODELS / "my_resize.pb")
    assert [(n.type, [b.tolist() for b in n.blobs], n.inputs) for n in net.unknown] == [
        ("MyResize", [[[9, 8]]], ["input"])
    ]
    with pytest.raises(UnknownLayers, match=r"1 unknown layer type: 'MyResize' \(layer 'resize_bilinear'\)"):
        net.compile()


def test_resize_bilinear_with_aligned_corners_matches_tensorflow() -> None:
    net = anylayer.read(MODELS / "resize_bilinear_align.pb")
    x = np.random.default_rng(0).standard_normal((1, 65, 65, 64)).astype(np.float32)
    y = net.compile("numpy")({"input": x})["resize_bilinear"]
    assert_same(y[:, ::2, ::2], x)  # from 65 to 129, every second output element is an input element
