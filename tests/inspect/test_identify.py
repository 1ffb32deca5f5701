"""Identification of dialects, and of values that a file leaves out, by an example of the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.inspect.identify as searching
from anylayer.errors import DialectError, InputError, LayerError
from anylayer.inspect.identification import Identification
from anylayer.network import Array
from tests.readers.files import floats, integer, message, string

X = np.random.default_rng(0).standard_normal((1, 4, 6, 6), np.float32)
INPUT = 'input: "x" input_shape { dim: 1 dim: 4 dim: 6 dim: 6 }\n'
REORG = 'layer { name: "reorg" type: "Reorg" bottom: "x" top: "reorg" reorg_param { stride: 2 } }\n'
LOG = 'layer { name: "log" type: "Log" bottom: "reorg" top: "log" log_param { shift: 9 } }\n'
NORM = """layer { name: "bn" type: "BatchNorm" bottom: "x" top: "bn" batch_norm_param { use_global_stats: false } }
layer { name: "pool" type: "Pooling" bottom: "bn" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
"""
CROP = """input: "like" input_shape { dim: 1 dim: 4 dim: 3 dim: 4 }
layer { name: "crop" type: "Crop" bottom: "x" bottom: "like" top: "crop" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.prototxt"


def pixels_first(x: Array) -> Array:
    """Return 2 x 2 blocks of pixels as channels, those of a pixel together (Ascend)."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def run(file: Path, x: Array, blob: str, **options: Any) -> Array:
    """Return a blob that the network computes in NumPy."""
    return anylayer.read(file, **options).compile("numpy", outputs=[blob])({"x": x})[blob]


def find(file: Path, text: str, expect: dict[str, Any], **more: Any) -> Identification:
    file.write_text(INPUT + text)
    inputs = {"x": X, **more.pop("inputs", {})}
    return anylayer.identify(file, inputs=inputs, expect=expect, **more)


def test_dialect_that_reproduces_the_numbers_is_named(file: Path) -> None:
    found = find(file, REORG, {"reorg": pixels_first(X)})
    assert found.ok
    assert found.dialects == ["ascend", "sophgo"]
    assert found.tried[:2] == [None, "darknet"]
    assert {*found.tried} >= {"ascend", "sophgo", "mobilenet-yolo"}
    assert found.reproduced == {"reorg": 0}
    assert found.remedies == ["read the network with dialect='ascend'"]


def test_no_dialect_comes_first_where_none_is_needed(file: Path) -> None:
    text = 'layer { name: "log" type: "Log" bottom: "x" top: "y" log_param { shift: 9 } }'
    found = find(file, text, {"y": np.log(X + 9)})
    assert found.dialects == [None]
    assert found.tried == [None, "opencv"]
    assert found.remedies == ["no dialect is needed"]


def test_given_dialect_is_the_only_one_tried(file: Path) -> None:
    found = find(file, REORG, {"reorg": pixels_first(X)}, dialect="darknet")
    assert not found.ok
    assert found.tried == ["darknet"]
    assert [a.text for a in found.attempts] == ["darknet"]


def test_layer_types_of_two_dialects_get_a_layers_file(file: Path) -> None:
    x = np.exp(X)
    want = np.log(pixels_first(x))
    found = find(file, REORG + LOG, {"log": want}, inputs={"x": x})
    assert found.ok
    assert found.dialects == []
    assert ("ascend", {"Log": "opencv"}) in [(e.dialect, e.types) for e in found.explanations]
    first = found.explanations[0]
    assert found.remedies[0] == f"read the network with dialect='{first.dialect}'"
    layers = file.with_name("layers.py")
    layers.write_text(found.layers_file)
    assert np.array_equal(run(file, x, "log", dialect=first.dialect, layers=layers), want)


def test_values_that_the_file_leaves_out_are_found(file: Path) -> None:
    x = X * np.float32(0.01)
    centred = x - x.mean((0, 2, 3), keepdims=True)
    normal = centred / np.sqrt((centred * centred).mean((0, 2, 3), keepdims=True) + np.float32(1e-3))
    windows = np.lib.stride_tricks.sliding_window_view(normal, (3, 3), (2, 3))[:, :, ::2, ::2]
    want = windows.max((4, 5))
    found = find(file, NORM, {"pool": want}, inputs={"x": x})
    assert [(e.dialect, e.changes) for e in found.explanations] == [
        (None, {"BatchNorm": "eps: 0.001", "Pooling": "round_mode: FLOOR"})
    ]
    assert found.remedies == [
        "write batch_norm_param { eps: 0.001 } into the parameters of 'bn'",
        "write pooling_param { round_mode: FLOOR } into the parameters of 'pool'",
    ]
    text = (
        file.read_text().replace("false", "false eps: 0.001").replace("stride: 2", "stride: 2 round_mode: FLOOR")
    )
    file.write_text(text)
    np.testing.assert_allclose(run(file, x, "pool"), want, rtol=1e-5)


@pytest.mark.parametrize(("offsets", "changes"), [((0, 0), {}), ((1, 1), {"Crop": "offset: the centre"})])
def test_offset_of_a_crop_is_found(file: Path, offsets: tuple[int, int], changes: dict[str, str]) -> None:
    a, b = offsets
    want = X[:, :, a : a + 3, b : b + 4]
    found = find(file, CROP, {"crop": want}, inputs={"like": X[:, :, :3, :4]})
    assert found.explanations[0].changes == changes
    assert found.remedies == (
        ["write crop_param { axis: 2 offset: 1 offset: 1 } into the parameters of 'crop'"]
        if changes
        else ["no dialect is needed"]
    )


def test_offset_of_a_crop_follows_from_the_network_in_dialect_hed(file: Path) -> None:
    text = """
    layer { name: "pad" type: "Pooling" bottom: "x" top: "pad" pooling_param { kernel_size: 3 pad: 2 stride: 1 } }
    layer { name: "crop" type: "Crop" bottom: "pad" bottom: "x" top: "crop" }
    """
    file.write_text(INPUT + text)
    padded = run(file, X, "pad")
    assert padded.shape == (1, 4, 8, 8)
    found = anylayer.identify(file, inputs={"x": X}, expect={"crop": padded[:, :, 1:7, 1:7]})
    assert found.dialects == ["hed"]
    corner = anylayer.identify(file, inputs={"x": X}, expect={"crop": padded[:, :, :6, :6]})
    assert corner.dialects == [None, "sophgo"]


def test_offset_that_only_the_reader_computes_is_written(file: Path) -> None:
    """Log is OpenCV's and Crop is HED's: no layers file could compute the offset from the network."""
    text = """
    layer { name: "log" type: "Log" bottom: "x" top: "log" log_param { shift: 9 } }
    layer { name: "pad" type: "Pooling" bottom: "log" top: "pad" pooling_param { kernel_size: 5 pad: 4 } }
    layer { name: "crop" type: "Crop" bottom: "pad" bottom: "log" top: "crop" }
    """
    file.write_text(INPUT + text)
    x = np.exp(X)
    want = run(file, x, "pad", dialect="opencv")[:, :, 2:8, 2:8]
    found = anylayer.identify(file, inputs={"x": x}, expect={"crop": want})
    assert (found.explanations[0].dialect, found.explanations[0].types) == ("opencv", {"Crop": "hed"})
    assert found.remedies == [
        "read the network with dialect='opencv'",
        "write crop_param { axis: 2 offset: 2 offset: 2 } into the parameters of 'crop'",
    ]


def test_first_blob_that_no_meaning_reproduces_is_named(file: Path) -> None:
    power = 'layer { name: "p%d" type: "Power" bottom: "%s" top: "p%d" power_param { scale: 2 } }\n'
    text = REORG + power % (1, "reorg", 1) + power % (2, "p1", 2) + power % (3, "p2", 3)
    right = pixels_first(X)
    found = find(file, text, {"reorg": right, "p2": right * 5, "p3": right * 10})
    assert not found.ok
    assert (found.first, found.before, found.reproduced) == ("p2", ["p1"], {"reorg": 0})
    assert found.place.endswith("layer 'p2' (Power)")
    assert [(a.text, round(a.error, 3)) for a in found.attempts] == [("ascend", 0.2), ("sophgo", 0.2)]
    assert found.remedies == ["to find the layer, expect inner blobs, too: 'p1'"]


def test_blob_of_another_shape_is_not_reproduced(file: Path) -> None:
    found = find(file, REORG, {"reorg": X})
    assert {a.reason for a in found.attempts if a.text != "no dialect"} == {
        "shape (1, 16, 3, 3), expected (1, 4, 6, 6)"
    }
    assert found.attempts[-1].reason == "the file fits several meanings"


def test_values_that_meanings_share_are_computed_once(file: Path) -> None:
    calls = []

    class Count:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: list[Array]) -> list[Array]:
            calls.append(inputs[0].shape)
            return [inputs[0] + 1]

    text = REORG + 'layer { name: "count" type: "Count" bottom: "reorg" top: "y" }'
    found = find(file, text, {"y": pixels_first(X) + 1}, layers=[("Count", Count)])
    assert found.dialects == ["ascend", "sophgo"]
    assert len(calls) == 2  # one for the four dialects with Darknet's order, one for ascend and sophgo


def test_inner_blobs_narrow_the_choices(file: Path) -> None:
    calls = []

    class Count:
        def __init__(self, params: Any, blobs: Any) -> None:
            pass

        def forward(self, inputs: list[Array]) -> list[Array]:
            calls.append(inputs[0].shape)
            return [inputs[0] + 1]

    text = REORG + 'layer { name: "count" type: "Count" bottom: "reorg" top: "y" }'
    right = pixels_first(X)
    assert find(file, text, {"reorg": right, "y": right + 1}, layers=[("Count", Count)]).dialects == [
        "ascend",
        "sophgo",
    ]
    assert len(calls) == 1


def test_too_many_choices_end_the_stage(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_WORLDS", 2)
    found = find(file, NORM, {"pool": X[:, :, :2, :2]})
    assert not found.ok
    assert found.first == "pool"
    assert found.notes == [
        f"more than 2 choices are left after {file}:2: layer 'bn' (BatchNorm); expect a blob that is computed "
        "before it, too"
    ]


def test_clearly_closer_meaning_wins_within_the_tolerance(file: Path) -> None:
    """Two values of eps both lie within the tolerance, but only one is exact."""
    centred = X - X.mean((0, 2, 3), keepdims=True)
    want = centred / np.sqrt((centred * centred).mean((0, 2, 3), keepdims=True) + np.float32(1e-4))
    found = find(file, NORM, {"bn": want})
    assert found.explanations[0].changes == {"BatchNorm": "eps: 0.0001"}


def test_blobs_that_the_network_lacks_are_noted(file: Path) -> None:
    found = find(file, REORG, {"reorg": pixels_first(X), "x": X, "Reorg": X})
    assert found.dialects == ["ascend", "sophgo"]
    assert found.notes == ["not compared, since the network has no such blob: Reorg; did you mean 'reorg'?"]


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ({"rerog": X}, "the network has no blob rerog; did you mean 'reorg'?"),
        ({}, "the network has no blob to compare"),
        ({"x": X}, "nothing can be compared: the expected blobs have no elements, or are inputs of the network"),
        ({"x": X + 1}, "expected blob 'x' is an input, and not the array that is given for it"),
        ({"reorg": np.array(["a"])}, "expected blob 'reorg' holds <U1, not numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(file: Path, expect: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        find(file, REORG, expect)


def test_error_that_no_meaning_avoids_is_raised(file: Path) -> None:
    text = """layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
      convolution_param { num_output: 1 kernel_size: 1 } }"""
    with pytest.raises(LayerError, match=r"its weights are not given"):
        find(file, text, {"y": X})


def test_dialect_error_proposes_the_command(file: Path) -> None:
    file.write_text(INPUT + REORG)
    with pytest.raises(DialectError) as caught:
        anylayer.read(file).compile("numpy")(X)
    call = f"anylayer.identify({str(file)!r}, inputs=..., expect=...)"
    assert str(caught.value).endswith(f"Inputs and outputs of the original program tell which: {call}")


SHIFT = """layer { name: "c" type: "DummyData" top: "c"
  dummy_data_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } data_filler { value: 2 } } }
layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "c" top: "y" }
"""
"""A network in which c is the constant 2 or, in dialect sophgo, an input."""


@pytest.mark.parametrize(("c", "dialects"), [(2, [None, "sophgo"]), (3, ["sophgo"])])
def test_file_is_read_again_where_a_dialect_has_other_inputs(
    file: Path, c: int, dialects: list[str | None]
) -> None:
    found = find(file, SHIFT, {"y": X + c}, inputs={"c": np.full_like(X, c)})
    assert found.dialects == dialects
    assert found.tried == [None, "sophgo"]


def test_reading_without_the_input_of_another_dialect_is_an_attempt(file: Path) -> None:
    assert find(file, SHIFT, {"y": X + 2}).dialects == [None]
    wrong = find(file, SHIFT, {"y": X * 3})
    assert wrong.first == "y"
    assert {a.text: a.reason for a in wrong.attempts} == {
        "no dialect": "",
        "sophgo": "input 'c' is missing; the network's inputs: x, c",
    }


def test_binary_network_that_is_read_in_one_dialect_only(file: Path) -> None:
    """Field 17 of a convolution's parameters is `hole` in DeepLab v1, and another one in Caffe."""
    x = X[:, :1]
    sizes = b"".join(integer(4, size) for size in x.shape)
    params = message(10, integer(1, 1), integer(2, 0), integer(4, 2), integer(17, 2))
    kernel = message(6, *(integer(i, n) for i, n in enumerate((1, 1, 2, 2), 1)), floats(5, [1, 0, 0, 3]))
    conv = message(2, string(4, "conv"), integer(5, 4), string(2, "x"), string(3, "y"), params, kernel)
    model = file.with_suffix(".caffemodel")
    model.write_bytes(string(3, "x") + sizes + conv)
    want = x[:, :, :4, :4] + 3 * x[:, :, 2:, 2:]
    assert anylayer.identify(model, inputs={"x": x}, expect={"y": want}).dialects == ["deeplab"]
    with pytest.raises(DialectError, match="has different parameters in different forks"):
        anylayer.identify(model, inputs={"x": x}, expect={"y": want * 2})


def test_result_is_printed_in_plain_text(file: Path) -> None:
    text = 'layer { name: "log" type: "Log" bottom: "x" top: "y" log_param { shift: 9 } }'
    assert str(find(file, text, {"y": np.log(X + 9)})).splitlines() == [
        "reproduced: 'y' (largest difference 0.0e+00 of the largest value)",
        "fits: no dialect",
        "does not fit: opencv",
        "-> no dialect is needed",
    ]
