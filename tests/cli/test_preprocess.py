"""Preprocessing equals OpenCV's blobFromImage. The expected numbers are from OpenCV 5.0."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anylayer import AnyLayerError
from anylayer.errors import InputError
from anylayer.images.preprocess import Placement, Recipe, as_input, prepare, recipe_for, to_gray
from anylayer.images.resize import resize
from anylayer.network import Preprocess, TensorType
from anylayer.testing import run_graph
from anylayer.tracing import trace

FIRST = np.array([[10, 200, 30, 90], [250, 0, 60, 120], [5, 77, 180, 33]], np.uint8)
IMAGE = np.stack([FIRST, FIRST // 2, 255 - FIRST], 2)


def test_scale_per_channel():
    image = np.full((2, 2, 3), 10, np.uint8)
    recipe = recipe_for(TensorType((1, 3, 2, 2)), None, scale=(1.0, 0.5, 2.0))
    assert prepare(image, recipe)[0][:, 0, 0].tolist() == [10, 5, 20]
    assert str(recipe).startswith("resize to 2x2, BGR, times 1,0.5,2 ")
    with pytest.raises(AnyLayerError, match="the scale has 2 values, but the input has 3 channels"):
        recipe_for(TensorType((1, 3, 2, 2)), None, scale=(1.0, 0.5))


def test_resize_upwards_equals_opencv():
    image = (np.arange(18) * 14).astype(np.uint8).reshape(2, 3, 3)
    blue = [[0, 17, 42, 67, 84], [32, 48, 74, 99, 116], [95, 111, 137, 162, 179], [126, 143, 168, 193, 210]]
    red = [[28, 45, 70, 95, 112], [60, 76, 102, 127, 144], [123, 139, 165, 190, 207], [154, 171, 196, 221, 238]]
    result = resize(image, (4, 5))
    assert result.dtype == np.uint8
    assert_array_equal(result[:, :, 0], blue)
    assert_array_equal(result[:, :, 2], red)


def test_resize_down_in_one_axis_and_up_in_the_other_equals_opencv():
    want = [[70, 98, 144, 94, 42, 76, 98], [66, 63, 58, 104, 143, 89, 55]]
    assert_array_equal(resize(IMAGE, (2, 7))[:, :, 0], want)


def test_resize_does_not_antialias():
    line = np.zeros((1, 8, 1), np.uint8)
    line[0, 3] = 240  # each of two targets reads the two pixels around its center: 1, 2 and 5, 6
    assert_array_equal(resize(line, (1, 2))[0, :, 0], [0, 0])


def test_resize_to_same_size_and_of_one_pixel():
    assert_array_equal(resize(IMAGE, (3, 4)), IMAGE)
    assert_array_equal(resize(IMAGE[:1, :1], (2, 3)), np.broadcast_to(IMAGE[0, 0], (2, 3, 3)))


def test_gray_equals_opencv():
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30], [200, 100, 50]]], np.uint8)
    assert_array_equal(to_gray(image)[0, :, 0], [29, 150, 76, 22, 96])


def test_stretch_swap_mean_and_scale_equal_blob_from_image():
    # the mean is in the order after the swap: 1 from red, 3 from blue
    blob, place = prepare(IMAGE, Recipe((2, 2), np.array([1, 2, 3]), 0.5, swap=True))
    want = [[[72.0, 93.5], [96.0, 76.0]], [[26.5, 16.0], [14.5, 24.5]], [[53.5, 32.5], [29.5, 49.5]]]
    assert blob.dtype == np.float32
    assert_array_equal(blob, want)
    assert place == Placement(0, 0, 4, 3)


def test_cover_equals_blob_from_image_with_crop():
    blob, place = prepare(IMAGE, Recipe((2, 2), np.array([1, 2, 3]), 0.5, swap=True, cover=True))
    want = [[[82.0, 94.0], [95.0, 63.5]], [[21.5, 15.5], [15.0, 30.5]], [[43.5, 31.5], [30.5, 62.0]]]
    assert_array_equal(blob, want)
    assert place == pytest.approx((0, 0, 3, 3), abs=1e-6) or (place.width, place.height) == pytest.approx((3, 3))


def test_cover_of_a_larger_size_equals_blob_from_image_with_crop():
    blob, _ = prepare(IMAGE, Recipe((5, 3), np.array([1, 2, 3]), 0.5, swap=True, cover=True))
    assert_array_equal(
        blob[1], [[49, 23.5, 9.5], [29, 17, 12.5], [-1, 8, 17], [10.5, 23.5, 28.5], [18, 33.5, 36.5]]
    )


@pytest.mark.parametrize(
    ("shape", "size", "rows", "columns"),
    [
        ((20, 10), (8, 8), (0, 8), (2, 6)),
        ((10, 20), (9, 9), (2, 6), (0, 9)),  # 9 * 10 // 20 = 4 rows, from (9 - 4) // 2 on
        ((2, 3), (6, 12), (0, 6), (1, 10)),
    ],
)
def test_letterbox_keeps_the_aspect_ratio_between_gray_bars(
    shape: tuple[int, int], size: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    image = np.full((*shape, 3), (10, 20, 30), np.uint8)
    blob, place = prepare(image, Recipe(size, scale=1 / 255, swap=True, letterbox=True))
    want = np.full((3, *size), 0.5, np.float32)
    want[:, slice(*rows), slice(*columns)] = np.reshape([30, 20, 10], (3, 1, 1)) / np.float32(255)
    np.testing.assert_allclose(blob, want, rtol=1e-6)
    for start, length, (first, end), count, pixels in (
        (place.top, place.height, rows, size[0], shape[0]),
        (place.left, place.width, columns, size[1], shape[1]),
    ):
        assert start + length * first / count == pytest.approx(0, abs=1e-9)
        assert start + length * end / count == pytest.approx(pixels)


def test_center_crop_after_mean_equals_caffe():
    mean = np.arange(36, dtype=np.float32).reshape(3, 3, 4)
    blob, place = prepare(IMAGE, Recipe((3, 4), mean, 0.5, center=2))
    # 3 x 4 to 2 x 2: rows from (3 - 2) // 2 = 0, columns from (4 - 2) // 2 = 1
    want = (IMAGE.transpose(2, 0, 1)[:, 0:2, 1:3] - mean[:, 0:2, 1:3]) * 0.5
    assert_array_equal(blob, want.astype(np.float32))
    assert place == Placement(1, 0, 2, 2)


def test_image_smaller_than_center_crop_is_refused():
    with pytest.raises(AnyLayerError, match="crop_size 5 does not fit an image of 4x3: give a larger size"):
        prepare(IMAGE, Recipe(None, None, center=5))


def test_mean_image_of_other_size_is_refused():
    with pytest.raises(AnyLayerError, match="the mean image is 5x5, but the resized image is 4x3"):
        prepare(IMAGE, Recipe(None, np.zeros((3, 5, 5), np.float32)))


DATA = TensorType((1, 3, 8, 6))


def test_default_recipe_only_resizes_to_input():
    recipe = recipe_for(DATA, None)
    assert recipe == Recipe((8, 6), source="no transform_param in the file, no options given")
    assert str(recipe) == "resize to 6x8, BGR (no transform_param in the file, no options given)"


def test_transform_of_file_is_used():
    own = Preprocess(scale=0.25, mean=np.array([1, 2, 3], np.float32), crop=6, source="d.prototxt:3")
    recipe = recipe_for(TensorType((1, 3, 6, 6)), own)
    assert (recipe.size, recipe.center, recipe.scale) == ((6, 6), 6, 0.25)
    assert str(recipe) == "resize to 6x6, BGR, minus mean 1,2,3, center 6x6, times 0.25 (d.prototxt:3)"


def test_mean_image_determines_size_before_crop():
    own = Preprocess(mean=np.zeros((3, 9, 10), np.float32), crop=6)
    assert recipe_for(TensorType((1, 3, 6, 6)), own).size == (9, 10)
    with pytest.raises(AnyLayerError, match="--size 7x7 does not fit the mean image of 10x9"):
        recipe_for(TensorType((1, 3, 6, 6)), own, size=(7, 7))


@pytest.mark.parametrize("option", [{"scale": 2.0}, {"swap": True}, {"cover": True}, {"mean": np.zeros(3)}])
def test_option_replaces_whole_transform_of_file(option):
    own = Preprocess(scale=0.25, mean=np.ones(3, np.float32), crop=6)
    recipe = recipe_for(DATA, own, **option)
    assert recipe.center == 0
    assert recipe.scale == option.get("scale", 1)
    assert recipe.mean is option.get("mean")
    assert recipe.source == "from the options, which replace the file's transform_param"


def test_crop_is_the_size_of_input_without_shape():
    own = Preprocess(mean_file="gone.binaryproto", crop=6)
    recipe = recipe_for(None, own, mean=np.ones(3, np.float32))
    assert (recipe.size, recipe.center) == ((6, 6), 0)


def test_resize_is_the_size_of_input_without_shape():
    own = Preprocess(size=(30, 20))
    assert recipe_for(None, own).size == (30, 20)
    assert recipe_for(None, Preprocess(size=(30, 20), crop=6)).size == (30, 20)
    assert recipe_for(DATA, own).size == (8, 6)


def test_size_option_keeps_transform_of_file():
    own = Preprocess(scale=0.25, crop=6)
    recipe = recipe_for(TensorType((1, 3, 6, 6)), own, size=(20, 30))
    assert (recipe.size, recipe.center, recipe.scale) == ((20, 30), 6, 0.25)


def test_size_keep_does_not_resize():
    recipe = recipe_for(DATA, None, size="keep")
    assert prepare(IMAGE, recipe)[0].shape == (3, 3, 4)
    assert str(recipe).startswith("original size, BGR")


@pytest.mark.parametrize(
    ("wanted", "last"),
    [(TensorType((1, 1, 3, 4)), False), ((None, 1, None, None), False), ((1, None, 3, 1), True)],
)
def test_input_with_one_channel_gets_gray(wanted: TensorType | tuple[int | None, ...], last: bool) -> None:
    assert recipe_for(wanted, None, channels_last=last).gray
    recipe = recipe_for(wanted, None, channels_last=last, size=(3, 4))
    assert_array_equal(prepare(IMAGE, recipe)[0], to_gray(IMAGE).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("wanted", "option", "message"),
    [
        (TensorType((1, 10)), {}, r"an image needs an input of 4 dimensions .* this one is float32\[1, 10\]"),
        (
            TensorType((1, 4, 8, 8)),
            {},
            r"an image has 1 or 3 channels, but this input float32\[1, 4, 8, 8\] has 4",
        ),
        ((None, 2, None, None), {}, r"this input \[\?, 2, \?, \?\] has 2"),
        ((None, None, 3), {}, r"an image needs an input of 4 dimensions .* this one is \[\?, \?, 3\]"),
        ((None, 3, None, None), {"gray": True}, "--gray gives 1 channel, but the input has 3"),
        (DATA, {"gray": True}, "--gray gives 1 channel, but the input has 3"),
        (TensorType((1, 1, 8, 8)), {"mean": np.zeros(3)}, "the mean has 3 values, but the input has 1 channel"),
        (DATA, {"cover": True, "size": "keep"}, "--crop needs a --size to cover"),
    ],
)
def test_unfitting_options_are_refused(wanted, option, message):
    with pytest.raises(AnyLayerError, match=message):
        recipe_for(wanted, None, **option)


def test_resize_is_exact_in_openvino() -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    image = np.random.default_rng(0).integers(200, 256, (1, 321, 481, 3)).astype(np.uint8)
    graph = trace(lambda arrays: [resize(arrays[0], (240, 320))], [TensorType.of(image.shape, np.uint8)])
    assert_array_equal(run_graph(graph, [image], "openvino")[0], resize(image, (240, 320)))


def test_pixels_are_not_cast_to_int8() -> None:
    with pytest.raises(InputError, match="the input is int8, which does not hold pixels"):
        as_input(np.full((3, 2, 2), 200, np.float32), True, np.dtype(np.int8))
