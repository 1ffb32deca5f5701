"""Pictures become inputs as OpenCV's blobFromImage makes them. The expected numbers are OpenCV 5.0's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anylayer import AnyLayerError
from anylayer.cli.preprocess import Placement, Recipe, prepare, recipe_for, resize, to_gray
from anylayer.network import Preprocess, TensorType

FIRST = np.array([[10, 200, 30, 90], [250, 0, 60, 120], [5, 77, 180, 33]], np.uint8)
PICTURE = np.stack([FIRST, FIRST // 2, 255 - FIRST], 2)


def test_a_scale_a_channel():
    picture = np.full((2, 2, 3), 10, np.uint8)
    recipe = recipe_for(TensorType((1, 3, 2, 2)), None, scale=(1.0, 0.5, 2.0))
    assert prepare(picture, recipe)[0][:, 0, 0].tolist() == [10, 5, 20]
    assert str(recipe).startswith("resize to 2x2, BGR, times 1,0.5,2 ")
    with pytest.raises(AnyLayerError, match="the scale has 2 values, the input has 3 channels"):
        recipe_for(TensorType((1, 3, 2, 2)), None, scale=(1.0, 0.5))


def test_resize_upwards_equals_opencv():
    picture = (np.arange(18) * 14).astype(np.uint8).reshape(2, 3, 3)
    blue = [[0, 17, 42, 67, 84], [32, 48, 74, 99, 116], [95, 111, 137, 162, 179], [126, 143, 168, 193, 210]]
    red = [[28, 45, 70, 95, 112], [60, 76, 102, 127, 144], [123, 139, 165, 190, 207], [154, 171, 196, 221, 238]]
    result = resize(picture, (4, 5))
    assert result.dtype == np.uint8
    assert_array_equal(result[:, :, 0], blue)
    assert_array_equal(result[:, :, 2], red)


def test_resize_down_in_one_axis_and_up_in_the_other_equals_opencv():
    want = [[70, 98, 144, 94, 42, 76, 98], [66, 63, 58, 104, 143, 89, 55]]
    assert_array_equal(resize(PICTURE, (2, 7))[:, :, 0], want)


def test_resize_does_not_antialias():
    line = np.zeros((1, 8, 1), np.uint8)
    line[0, 3] = 240  # each of two targets reads the two pixels around its centre: 1, 2 and 5, 6
    assert_array_equal(resize(line, (1, 2))[0, :, 0], [0, 0])


def test_resize_to_the_same_size_and_of_one_pixel():
    assert_array_equal(resize(PICTURE, (3, 4)), PICTURE)
    assert_array_equal(resize(PICTURE[:1, :1], (2, 3)), np.broadcast_to(PICTURE[0, 0], (2, 3, 3)))


def test_gray_equals_opencv():
    picture = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30], [200, 100, 50]]], np.uint8)
    assert_array_equal(to_gray(picture)[0, :, 0], [29, 150, 76, 22, 96])


def test_stretch_swap_mean_and_scale_equal_blob_from_image():
    # the mean is in the order after the swap: 1 from red, 3 from blue
    blob, place = prepare(PICTURE, Recipe((2, 2), np.array([1, 2, 3]), 0.5, swap=True))
    want = [[[72.0, 93.5], [96.0, 76.0]], [[26.5, 16.0], [14.5, 24.5]], [[53.5, 32.5], [29.5, 49.5]]]
    assert blob.dtype == np.float32
    assert_array_equal(blob, want)
    assert place == Placement(0, 0, 4, 3)


def test_cover_equals_blob_from_image_with_crop():
    blob, place = prepare(PICTURE, Recipe((2, 2), np.array([1, 2, 3]), 0.5, swap=True, cover=True))
    want = [[[82.0, 94.0], [95.0, 63.5]], [[21.5, 15.5], [15.0, 30.5]], [[43.5, 31.5], [30.5, 62.0]]]
    assert_array_equal(blob, want)
    assert place == pytest.approx((0, 0, 3, 3), abs=1e-6) or (place.width, place.height) == pytest.approx((3, 3))


def test_cover_of_a_larger_size_equals_blob_from_image_with_crop():
    blob, _ = prepare(PICTURE, Recipe((5, 3), np.array([1, 2, 3]), 0.5, swap=True, cover=True))
    assert_array_equal(
        blob[1], [[49, 23.5, 9.5], [29, 17, 12.5], [-1, 8, 17], [10.5, 23.5, 28.5], [18, 33.5, 36.5]]
    )


def test_the_centre_is_cut_after_the_mean_as_caffe_does():
    mean = np.arange(36, dtype=np.float32).reshape(3, 3, 4)
    blob, place = prepare(PICTURE, Recipe((3, 4), mean, 0.5, centre=2))
    # 3 x 4 to 2 x 2: rows from (3 - 2) // 2 = 0, columns from (4 - 2) // 2 = 1
    want = (PICTURE.transpose(2, 0, 1)[:, 0:2, 1:3] - mean[:, 0:2, 1:3]) * 0.5
    assert_array_equal(blob, want.astype(np.float32))
    assert place == Placement(1, 0, 2, 2)


def test_a_picture_too_small_for_the_centre_is_refused():
    with pytest.raises(AnyLayerError, match="crop_size 5 does not fit a picture of 4x3: give a larger --size"):
        prepare(PICTURE, Recipe(None, None, centre=5))


def test_a_mean_picture_of_another_size_is_refused():
    with pytest.raises(AnyLayerError, match="the mean picture is 5x5, the resized picture 4x3"):
        prepare(PICTURE, Recipe(None, np.zeros((3, 5, 5), np.float32)))


DATA = TensorType((1, 3, 8, 6))


def test_without_wishes_the_size_is_the_inputs_and_nothing_else_is_done():
    recipe = recipe_for(DATA, None)
    assert recipe == Recipe((8, 6), source="no transform_param in the file, none asked for")
    assert str(recipe) == "resize to 6x8, BGR (no transform_param in the file, none asked for)"


def test_the_files_own_transform_is_followed():
    own = Preprocess(scale=0.25, mean=np.array([1, 2, 3], np.float32), crop=6, source="d.prototxt:3")
    recipe = recipe_for(TensorType((1, 3, 6, 6)), own)
    assert (recipe.size, recipe.centre, recipe.scale) == ((6, 6), 6, 0.25)
    assert str(recipe) == "resize to 6x6, BGR, minus mean 1,2,3, centre 6x6, times 0.25 (d.prototxt:3)"


def test_a_mean_picture_says_how_large_pictures_are_before_the_crop():
    own = Preprocess(mean=np.zeros((3, 9, 10), np.float32), crop=6)
    assert recipe_for(TensorType((1, 3, 6, 6)), own).size == (9, 10)
    with pytest.raises(AnyLayerError, match="--size 7x7 does not fit the mean picture of 10x9"):
        recipe_for(TensorType((1, 3, 6, 6)), own, size=(7, 7))


@pytest.mark.parametrize("wish", [{"scale": 2.0}, {"swap": True}, {"cover": True}, {"mean": np.zeros(3)}])
def test_a_wish_replaces_the_whole_transform_of_the_file(wish):
    own = Preprocess(scale=0.25, mean=np.ones(3, np.float32), crop=6)
    recipe = recipe_for(DATA, own, **wish)
    assert recipe.centre == 0
    assert recipe.scale == wish.get("scale", 1)
    assert recipe.mean is wish.get("mean")
    assert recipe.source == "as asked, in place of the file's transform_param"


def test_where_the_file_gives_no_shape_its_crop_is_the_size():
    own = Preprocess(mean_file="gone.binaryproto", crop=6)
    recipe = recipe_for(None, own, mean=np.ones(3, np.float32))
    assert (recipe.size, recipe.centre) == ((6, 6), 0)


def test_where_the_file_gives_no_shape_its_resizing_is_the_size():
    own = Preprocess(size=(30, 20))
    assert recipe_for(None, own).size == (30, 20)
    assert recipe_for(None, Preprocess(size=(30, 20), crop=6)).size == (30, 20)
    assert recipe_for(DATA, own).size == (8, 6)


def test_a_size_alone_leaves_the_files_transform():
    own = Preprocess(scale=0.25, crop=6)
    recipe = recipe_for(TensorType((1, 3, 6, 6)), own, size=(20, 30))
    assert (recipe.size, recipe.centre, recipe.scale) == ((20, 30), 6, 0.25)


def test_keep_keeps_the_pictures_own_size():
    recipe = recipe_for(DATA, None, size="keep")
    assert prepare(PICTURE, recipe)[0].shape == (3, 3, 4)
    assert str(recipe).startswith("its own size, BGR")


def test_one_channel_makes_gray():
    recipe = recipe_for(TensorType((1, 1, 3, 4)), None)
    assert recipe.gray
    assert_array_equal(prepare(PICTURE, recipe)[0], to_gray(PICTURE).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("wanted", "wish", "message"),
    [
        (TensorType((1, 10)), {}, r"a picture fits an input of 4 dimensions .* this one is float32\[1, 10\]"),
        (TensorType((1, 4, 8, 8)), {}, r"a picture has 1 or 3 channels, this input float32\[1, 4, 8, 8\] has 4"),
        (DATA, {"gray": True}, "--gray makes 1 channel, the input has 3"),
        (TensorType((1, 1, 8, 8)), {"mean": np.zeros(3)}, "the mean has 3 values, the input has 1 channels"),
        (DATA, {"cover": True, "size": "keep"}, "--crop needs a --size to cover"),
    ],
)
def test_what_does_not_fit_is_refused(wanted, wish, message):
    with pytest.raises(AnyLayerError, match=message):
        recipe_for(wanted, None, **wish)
