"""The layers of examples/layers compute the same as the built-in ones: in NumPy and traced, on both engines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.layer import Definition, Registry, bind, load_layers
from anylayer.network import Array, Node, TensorType
from anylayer.readers import caffe
from anylayer.testing import assert_same, check_function
from tests.layers.harness import noise

FOLDER = Path(__file__).parent.parent / "examples" / "layers"

ROIS = np.array([[0, 1, 2, 13, 9], [1, 0, 0, 4, 5], [0, 8, 8, 30, 40], [1, 3, 3, 3, 3]], np.float32)
THETA = np.array([[0.8, 0.2, 0.1, -0.3, 0.9, 0.05], [1, 0, 0, 0, 1, 0]], np.float32)

CASES: dict[str, tuple[str, str, str | None, Sequence[Array]]] = {
    "interp": ("Interp", "interp_param { height: 9 width: 8 }", None, [noise(2, 3, 4, 5)]),
    "interp smaller": ("Interp", "interp_param { height: 3 width: 1 }", None, [noise(1, 2, 7, 6)]),
    "reverse": ("Reverse", "reverse_param { axis: 1 }", None, [noise(2, 3, 4)]),
    "reverse several": ("Reverse", "reverse_param { axis: 0 axis: -1 }", None, [noise(2, 3, 4)]),
    "upsample": ("Upsample", "upsample_param { scale: 3 stride: 2 }", "ascend", [noise(1, 2, 3, 4)]),
    "normalize": (
        "Normalize",
        'norm_param { across_spatial: false scale_filler { type: "constant" value: 20 } channel_shared: false }',
        None,
        [noise(2, 5, 3, 4)],
    ),
    "normalize image": ("Normalize", "norm_param { across_spatial: true eps: 0.5 }", None, [noise(2, 5, 3, 4)]),
    "reorg": ("Reorg", "reorg_param { stride: 2 }", "ascend", [noise(2, 3, 4, 6)]),
    "reorg back": ("Reorg", "reorg_param { stride: 2 reverse: true }", "ascend", [noise(2, 12, 2, 3)]),
    "shuffle_channel": ("ShuffleChannel", "shuffle_channel_param { group: 3 }", None, [noise(2, 6, 3, 2)]),
    "roi_align": (
        "ROIAlign",
        "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 sampling_ratio: 2 }",
        None,
        [noise(2, 3, 9, 8), ROIS],
    ),
    "roi_align three samples": (
        "ROIAlign",
        "roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.25 sampling_ratio: 3 }",
        None,
        [noise(2, 3, 9, 8), ROIS],
    ),
    "yolo": ("Yolo", 'yolo_param { boxes: 2 classes: 3 yolo_version: "V3" }', None, [noise(2, 16, 3, 4)]),
    "prior_box": (
        "PriorBox",
        "prior_box_param { min_size: 16.5 max_size: 21 aspect_ratio: 2 aspect_ratio: 3 flip: true clip: true"
        " variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 step: 8 }",
        None,
        [noise(1, 2, 3, 4), noise(1, 3, 24, 30)],
    ),
    "prior_box plain": (
        "PriorBox",
        "prior_box_param { min_size: 4 min_size: 8 }",
        None,
        [noise(1, 2, 2, 3), noise(1, 3, 16, 20)],
    ),
    "spatial_transformer": (
        "SpatialTransformer",
        "st_param { output_H: 5 output_W: 4 }",
        None,
        [noise(2, 3, 6, 7), THETA],
    ),
    "spatial_transformer same size": ("SpatialTransformer", "st_param {}", None, [noise(2, 3, 6, 7), THETA]),
}
OUTPUTS = {"Yolo": 3}


def node_of(folder: Path, type: str, params: str, dialect: str | None, inputs: Sequence[Array]) -> Node:
    """Return the node of a file with one layer."""
    heads = [
        f'input: "in{i}" input_shape {{ {" ".join(f"dim: {d}" for d in x.shape)} }}' for i, x in enumerate(inputs)
    ]
    bottoms = " ".join(f'bottom: "in{i}"' for i in range(len(inputs)))
    tops = " ".join(f'top: "out{i}"' for i in range(OUTPUTS.get(type, 1)))
    path = folder / "deploy.prototxt"
    path.write_text("\n".join([*heads, f'layer {{ name: "a" type: "{type}" {bottoms} {tops} {params} }}']))
    network = caffe.read(
        path, None, dialect=dialect, proto=None, phase="TEST", level=0, stages=(), user_types=frozenset()
    )
    return network.nodes[-1]


def apply(node: Node, definitions: list[Definition], dialect: str | None, inputs: Sequence[Any]) -> list[Any]:
    return bind(node, definitions, [TensorType.of(x.shape) for x in inputs], dialect)(list(inputs))


@pytest.mark.parametrize("name", CASES)
def test_example_equals_built_in_layer(name: str, tmp_path: Path) -> None:
    type_, params, dialect, inputs = CASES[name]
    node = node_of(tmp_path, type_, params, dialect, inputs)
    users = [load_layers([FOLDER / f"{name.split()[0]}.py"])[type_]]
    want = apply(node, Registry.of("caffe").find(type_), dialect, inputs)
    for i, (got, expected) in enumerate(zip(apply(node, users, dialect, inputs), want)):
        assert_same(np.asarray(got), np.asarray(expected), f"output {i}")
    graph = check_function(lambda *xs: apply(node, users, dialect, xs), *inputs)
    if type_ == "PriorBox":
        assert not graph.ops, "the boxes are a constant"


def test_crop_cuts_centre(tmp_path: Path) -> None:
    x, like = noise(1, 2, 9, 8), noise(1, 1, 4, 5)
    node = node_of(tmp_path, "Crop", "", None, [x, like])
    users = [load_layers([FOLDER / "crop.py"])["Crop"]]
    assert_same(apply(node, users, None, [x, like])[0], x[:, :, 2:6, 1:6])
    check_function(lambda *xs: apply(node, users, None, xs), x, like)


def test_roi_align_gives_nan_only_for_regions_with_nan(tmp_path: Path) -> None:
    rois = ROIS.copy()
    rois[1, 2], rois[2, 1], rois[3, 4] = np.nan, np.inf, -np.inf
    type_, params, dialect, (x, _) = CASES["roi_align"]
    node = node_of(tmp_path, type_, params, dialect, [x, rois])
    definitions = [load_layers([FOLDER / "roi_align.py"])[type_]]
    with np.errstate(invalid="ignore"):
        (got,) = apply(node, definitions, dialect, [x, rois])
        want = apply(node, definitions, dialect, [x, ROIS])[0]
    np.testing.assert_array_equal(np.isnan(got).any((1, 2, 3)), [False, True, False, False])
    np.testing.assert_array_equal(got[0], want[0])
    assert not got[2].any()  # its samples are outside


SMALL = np.array([[[[1, 2], [3, 4]]]], np.float32)


@pytest.mark.parametrize(
    ("blobs", "x", "rows"),
    [
        ([[4, 4]], SMALL, [[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]]),
        ([[2], [2]], SMALL, [[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]]),
        ([[1], [3]], SMALL, [[1, 4 / 3, 5 / 3, 2, 2, 2], [3, 10 / 3, 11 / 3, 4, 4, 4]]),
        ([[1, 3]], np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4), [[0, 4 / 3, 8 / 3]]),
    ],
)
def test_resize_bilinear_equals_tensorflow_1(blobs: list[list[int]], x: Array, rows: Any) -> None:
    found = load_layers([FOLDER / "resize_bilinear.py"])["ResizeBilinear"]
    node = Node("r", "ResizeBilinear", ["x"], ["y"], {"align_corners": False}, [np.array(b) for b in blobs])
    several = np.concatenate([np.concatenate([x, 2 * x], 1)] * 2)  # images and channels are resized alike
    want = np.array(rows, np.float32)
    (got,) = apply(node, [found], None, [several])
    assert_same(got, np.broadcast_to(np.stack([want, 2 * want]), (2, 2, *want.shape)))
    check_function(lambda y: apply(node, [found], None, [y]), several)


@pytest.mark.parametrize(
    ("params", "blobs", "rule"),
    [
        ({"align_corners": True}, [[4, 4]], "align_corners is not supported"),
        ({}, [], "a blob with the height and width, or two with their factors, is needed, got sizes []"),
        ({}, [[1, 2, 3]], "got sizes [3]"),
        ({}, [[1, 2], [3]], "got sizes [2, 1]"),
        ({}, [[0, 2]], "must be positive, got [0, 2]"),
    ],
)
def test_resize_bilinear_refuses_unsupported_options(
    params: dict[str, Any], blobs: list[list[int]], rule: str
) -> None:
    found = load_layers([FOLDER / "resize_bilinear.py"])["ResizeBilinear"]
    node = Node("r", "ResizeBilinear", ["x"], ["y"], params, [np.array(b) for b in blobs])
    with pytest.raises(LayerError, match=re.escape(rule)):
        apply(node, [found], None, [SMALL])


def test_every_example_is_tested() -> None:
    apart = {"crop", "resize_bilinear"}
    assert {p.stem for p in FOLDER.glob("*.py")} == {name.split()[0] for name in CASES} | apart


def test_shuffle_refuses_group_that_does_not_divide(tmp_path: Path) -> None:
    inputs = [noise(1, 5, 2, 2)]
    node = node_of(tmp_path, "ShuffleChannel", "shuffle_channel_param { group: 2 }", None, inputs)
    users = [load_layers([FOLDER / "shuffle_channel.py"])["ShuffleChannel"]]
    with pytest.raises(Exception, match="group=2 does not divide 5 channels"):
        apply(node, users, None, inputs)
