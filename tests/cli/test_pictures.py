"""Arrays as pictures, and picture files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from anylayer import AnyLayerError
from anylayer.cli.images import read_picture, suffixes, write_boxes, write_picture
from anylayer.cli.pictures import Box, colours, gray, to_picture


def test_values_of_0_to_1_keep_their_range_and_others_are_stretched():
    levels, what = gray(np.array([[0.0, 0.2], [0.6, 0.8]], np.float32))
    assert_array_equal(levels, [[0, 51], [153, 204]])
    assert what == "0 is black, 1 white"
    levels, what = gray(np.array([[-1.0, 0.0], [1.0, 3.0]], np.float32))
    assert_array_equal(levels, [[0, 64], [128, 255]])
    assert what == "-1 is black, 3 white"


def test_what_is_not_finite_is_black():
    levels, _ = gray(np.array([[np.nan, 1.0], [np.inf, 5.0]], np.float32))
    assert_array_equal(levels, [[0, 0], [0, 255]])
    assert_array_equal(gray(np.full((1, 2), 7.0, np.float32))[0], [[0, 0]])


def test_colours_are_pascal_vocs():
    want = [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
    assert_array_equal(colours(5), want)
    assert_array_equal(colours(21)[20], [0, 64, 128])
    assert len(np.unique(colours(1000), axis=0)) == 1000


def test_many_channels_show_the_largest():
    maps = np.zeros((3, 1, 2), np.float32)
    maps[2, 0, 0] = maps[1, 0, 1] = 1
    picture, what = to_picture(maps, "auto")
    assert_array_equal(picture, [[[0, 128, 0], [0, 0, 128]]])  # B, G, R of classes 2 and 1
    assert what == "the largest of 3 channels: classes 1, 2"


def test_whole_numbers_in_one_channel_are_classes_and_a_mask_is_a_map():
    assert to_picture(np.array([[[0.0, 4.0]]]), "auto")[1] == "classes 0, 4"
    picture, what = to_picture(np.array([[[0.0, 1.0]]]), "auto")
    assert_array_equal(picture, [[0, 255]])
    assert what == "0 is black, 1 white"


def test_three_channels_as_a_picture():
    maps = np.array([10.4, 300, -5]).reshape(3, 1, 1)
    picture, what = to_picture(maps, "picture")
    assert_array_equal(picture, [[[10, 255, 0]]])
    assert what == "3 channels as blue, green, red of 0..255"


def test_tiles_stand_side_by_side():
    picture, what = to_picture(np.arange(16, dtype=np.float32).reshape(4, 2, 2), "tiles")
    assert picture.shape == (5, 5)
    assert_array_equal(picture[3:, 3:], [[0, 85], [170, 255]])
    assert what == "4 channels, 2 a row"


@pytest.mark.parametrize(
    ("channels", "show", "message"),
    [
        (2, "map", "a map has 1 channel, got 2. Take --show classes or tiles"),
        (4, "picture", "a picture has 3 channels, got 4"),
    ],
)
def test_a_wrong_number_of_channels_is_refused(channels, show, message):
    with pytest.raises(AnyLayerError, match=message):
        to_picture(np.ones((channels, 2, 2), np.float32), show)


def test_fractions_are_no_classes():
    with pytest.raises(
        AnyLayerError, match=r"class numbers are whole and lie in 0\.\.65535, these lie in 0\.5\.\.2"
    ):
        to_picture(np.array([[[0.5, 2.0]]]), "classes")


def test_a_picture_is_read_in_bgr_order_and_without_transparency(tmp_path):
    Image.new("RGBA", (2, 1), (10, 20, 30, 0)).save(tmp_path / "a.png")
    assert_array_equal(read_picture(tmp_path / "a.png"), [[[30, 20, 10], [30, 20, 10]]])


def test_a_16_bit_picture_gives_its_upper_8_bits(tmp_path):
    Image.fromarray(np.array([[0x1234, 0xFF00]], np.uint16)).save(tmp_path / "a.png")
    assert_array_equal(read_picture(tmp_path / "a.png")[:, :, 0], [[0x12, 0xFF]])


def test_exif_turns_the_picture(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (4, 2)).save(tmp_path / "a.jpg", exif=exif)
    assert read_picture(tmp_path / "a.jpg").shape == (4, 2, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no picture", r"a\.png: this is no picture Pillow knows"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0", r"a\.png: "),
        (None, r"a\.png: there is no such file"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path, data, message):
    if data is not None:
        (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(AnyLayerError, match=message):
        read_picture(tmp_path / "a.png")


def test_a_cut_off_picture_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    write_picture(tmp_path / "whole.png", noise)
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    with pytest.raises(AnyLayerError, match=r"cut\.png: the picture cannot be read"):
        read_picture(tmp_path / "cut.png")


def test_a_picture_of_too_many_pixels_is_refused(tmp_path, monkeypatch):
    write_picture(tmp_path / "a.png", np.zeros((10, 10, 3), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    with pytest.raises(AnyLayerError, match="the picture has more than 60 pixels"):
        read_picture(tmp_path / "a.png")


def test_a_picture_is_written_and_read_back(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    write_picture(tmp_path / "a.png", picture)
    assert_array_equal(read_picture(tmp_path / "a.png"), picture)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_boxes_are_drawn_in_their_colour_and_kept_within_the_picture(tmp_path):
    boxes = [Box(2, 30, 20, 50, "", (255, 0, 0)), Box(-1e30, float("nan"), 1e30, 1e9, "x 1.00", (0, 255, 0))]
    write_boxes(tmp_path / "a.png", np.zeros((60, 60, 3), np.uint8), boxes)
    picture = read_picture(tmp_path / "a.png")
    assert picture[50, 10].tolist() == [0, 0, 255]
    assert picture[40, 10].tolist() == [0, 0, 0]


def test_a_caption_lies_within_the_picture(tmp_path):
    boxes = [Box(-20, -20, 3, 3, "x", (255, 0, 0)), Box(57, 58, 90, 90, "x", (0, 0, 255))]
    write_boxes(tmp_path / "a.png", np.zeros((60, 60, 3), np.uint8), boxes)
    picture = read_picture(tmp_path / "a.png")
    assert picture[0, 0].tolist() == [0, 0, 255]
    assert (picture[45:56, 50:] == [255, 0, 0]).all(2).any()


def test_a_kind_of_picture_that_pillow_does_not_write_is_refused(tmp_path):
    with pytest.raises(AnyLayerError, match=r"Pillow writes no pictures of kind '\.xyz', take \.png"):
        write_picture(tmp_path / "a.xyz", np.zeros((2, 2), np.uint8))


def test_the_usual_suffixes_are_known():
    assert {".png", ".jpg", ".bmp", ".webp"} <= suffixes()
