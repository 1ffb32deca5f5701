"""Arrays are drawn as images, and image files are read and written."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from anylayer import AnyLayerError
from anylayer.cli import main
from anylayer.cli.commands import serve
from anylayer.errors import FileError
from anylayer.images.files import read_image, suffixes, write_image
from anylayer.images.preprocess import Recipe
from anylayer.inspect.boxes import Box, draw_boxes, draw_detections
from anylayer.inspect.drawing import colors, gray, has_detections, to_image


def test_gray_range_is_0_to_1_or_min_to_max():
    levels, what = gray(np.array([[0.0, 0.2], [0.6, 0.8]], np.float32))
    assert_array_equal(levels, [[0, 51], [153, 204]])
    assert what == "0 is black, 1 white"
    levels, what = gray(np.array([[-1.0, 0.0], [1.0, 3.0]], np.float32))
    assert_array_equal(levels, [[0, 64], [128, 255]])
    assert what == "-1 is black, 3 white"


def test_nan_and_infinity_are_black():
    levels, _ = gray(np.array([[np.nan, 1.0], [np.inf, 5.0]], np.float32))
    assert_array_equal(levels, [[0, 0], [0, 255]])
    assert_array_equal(gray(np.full((1, 2), 7.0, np.float32))[0], [[0, 0]])


def test_colors_equal_pascal_voc():
    want = [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
    assert_array_equal(colors(5), want)
    assert_array_equal(colors(21)[20], [0, 64, 128])
    assert len(np.unique(colors(1000), axis=0)) == 1000


def test_several_channels_show_index_of_largest():
    maps = np.zeros((3, 1, 2), np.float32)
    maps[2, 0, 0] = maps[1, 0, 1] = 1
    image, what = to_image(maps, "auto")
    assert_array_equal(image, [[[0, 128, 0], [0, 0, 128]]])  # B, G, R of classes 2 and 1
    assert what == "the largest of 3 channels: classes 1, 2"


def test_integers_are_classes_and_mask_is_map():
    assert to_image(np.array([[[0.0, 4.0]]]), "auto")[1] == "classes 0, 4"
    image, what = to_image(np.array([[[0.0, 1.0]]]), "auto")
    assert_array_equal(image, [[0, 255]])
    assert what == "0 is black, 1 white"


def test_three_channels_as_color_image():
    maps = np.array([10.4, 300, -5]).reshape(3, 1, 1)
    image, what = to_image(maps, "picture")
    assert_array_equal(image, [[[10, 255, 0]]])
    assert what == "3 channels as blue, green, red of 0..255"


def test_tiles_are_side_by_side():
    image, what = to_image(np.arange(16, dtype=np.float32).reshape(4, 2, 2), "tiles")
    assert image.shape == (5, 5)
    assert_array_equal(image[3:, 3:], [[0, 85], [170, 255]])
    assert what == "4 channels, 2 per row"


@pytest.mark.parametrize(
    ("channels", "show", "message"),
    [
        (2, "map", "a map has 1 channel, got 2. Use show='classes' or 'tiles'"),
        (4, "picture", "a color image has 3 channels, got 4"),
    ],
)
def test_wrong_number_of_channels_is_refused(channels, show, message):
    with pytest.raises(AnyLayerError, match=message):
        to_image(np.ones((channels, 2, 2), np.float32), show)


def test_fractional_classes_are_refused():
    with pytest.raises(
        AnyLayerError, match=r"class numbers must be integers in 0\.\.65535; these are in 0\.5\.\.2"
    ):
        to_image(np.array([[[0.5, 2.0]]]), "classes")


def test_image_is_read_as_bgr_without_transparency(tmp_path):
    Image.new("RGBA", (2, 1), (10, 20, 30, 0)).save(tmp_path / "a.png")
    assert_array_equal(read_image(tmp_path / "a.png"), [[[30, 20, 10], [30, 20, 10]]])


def test_16_bit_image_keeps_upper_8_bits(tmp_path):
    Image.fromarray(np.array([[0x1234, 0xFF00]], np.uint16)).save(tmp_path / "a.png")
    assert_array_equal(read_image(tmp_path / "a.png")[:, :, 0], [[0x12, 0xFF]])


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pixels_whose_range_is_not_known_are_refused(dtype, tmp_path):
    Image.fromarray(np.array([[0, 1], [300, 70000]], dtype)).save(tmp_path / "a.tif")
    with pytest.raises(AnyLayerError, match=r"a\.tif: the image has one channel of floats or of 32-bit integers"):
        read_image(tmp_path / "a.tif")


def test_picture_for_a_served_network_has_its_dtype(tmp_path):
    Image.new("RGB", (2, 1), (10, 20, 30)).save(tmp_path / "a.png")
    found = serve.decoded(Recipe(), True, np.dtype(np.uint8), (tmp_path / "a.png").read_bytes())
    assert found.dtype == np.uint8
    assert_array_equal(found, [[[[30, 20, 10], [30, 20, 10]]]])


@pytest.mark.parametrize(
    ("shape", "transform", "found"),
    [
        ("N,3,H,W", "scale: 1", (1, 3, 21, 33)),
        ("N,3,H,W", "crop_size: 7", (1, 3, 7, 7)),
        ("N,3,8,9", "scale: 1", (1, 3, 8, 9)),
    ],
)
def test_served_network_with_open_sizes_keeps_the_size_of_a_picture(shape, transform, found, tmp_path):
    (tmp_path / "net.prototxt").write_text(
        f"""layer {{ name: "data" type: "Input" top: "data"
        input_param {{ shape {{ dim: 1 dim: 3 dim: 4 dim: 5 }} }}
        transform_param {{ {transform} }} }} layer {{ name: "y" type: "ReLU" bottom: "data" top: "y" }}"""
    )
    Image.new("RGB", (33, 21)).save(tmp_path / "a.png")
    words = [str(tmp_path / "net.prototxt"), "--shape", f"data={shape}", "--quiet"]
    group = main.make_context("anylayer", ["serve"])  # a command keeps the names of --help of its first context
    given = serve.command.make_context("serve", words, group).params
    _, settings = serve._network("net", tmp_path / "net.prototxt", None, given)
    assert settings.decode["data"]((tmp_path / "a.png").read_bytes()).shape == found


def test_exif_rotates_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (4, 2)).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (4, 2, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no image", r"a\.png: this is not an image of a known format"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0", r"a\.png: "),
        (None, r"a\.png: there is no such file"),
    ],
)
def test_file_that_is_not_an_image_is_refused(tmp_path, data, message):
    if data is not None:
        (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(AnyLayerError, match=message):
        read_image(tmp_path / "a.png")


def test_truncated_image_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    write_image(tmp_path / "whole.png", noise)
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    with pytest.raises(AnyLayerError, match=r"cut\.png: the image cannot be read"):
        read_image(tmp_path / "cut.png")


def test_image_with_too_many_pixels_is_refused(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", np.zeros((10, 10, 3), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    with pytest.raises(AnyLayerError, match="the image has more than 60 pixels"):
        read_image(tmp_path / "a.png")


def test_image_round_trip(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    write_image(tmp_path / "a.png", image)
    assert_array_equal(read_image(tmp_path / "a.png"), image)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_boxes_have_their_color_and_are_clipped(tmp_path):
    boxes = [Box(2, 30, 20, 50, "", (255, 0, 0)), Box(-1e30, float("nan"), 1e30, 1e9, "x 1.00", (0, 255, 0))]
    write_image(tmp_path / "a.png", draw_boxes(np.zeros((60, 60, 3), np.uint8), boxes))
    image = read_image(tmp_path / "a.png")
    assert image[50, 10].tolist() == [0, 0, 255]
    assert image[40, 10].tolist() == [0, 0, 0]


def test_caption_is_inside_image(tmp_path):
    boxes = [Box(-20, -20, 3, 3, "x", (255, 0, 0)), Box(57, 58, 90, 90, "x", (0, 0, 255))]
    write_image(tmp_path / "a.png", draw_boxes(np.zeros((60, 60, 3), np.uint8), boxes))
    image = read_image(tmp_path / "a.png")
    assert image[0, 0].tolist() == [0, 0, 255]
    assert (image[45:56, 50:] == [255, 0, 0]).all(2).any()


def test_unwritable_image_suffix_is_refused(tmp_path):
    with pytest.raises(AnyLayerError, match=r"Pillow cannot write images with the suffix '\.xyz'; use \.png"):
        write_image(tmp_path / "a.xyz", np.zeros((2, 2), np.uint8))


def test_common_suffixes_are_readable():
    assert {".png", ".jpg", ".bmp", ".webp"} <= suffixes()


def test_only_formats_that_are_decoded_in_this_process_are_read(tmp_path):
    """Pillow runs Ghostscript to read EPS."""
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n"
    for name in ("a.eps", "a.png"):
        (tmp_path / name).write_bytes(program)
        with pytest.raises(FileError, match=rf"{name}: this is not an image of a known format"):
            read_image(tmp_path / name)
    assert ".eps" not in suffixes() and {".jpg", ".png", ".tif", ".webp"} <= suffixes()


def test_any_exception_of_a_decoder_is_a_file_error(tmp_path):
    """Pillow raises NotImplementedError for these pixels."""
    header = struct.pack("<4s7I44x8I20x", b"DDS ", 124, 0x1007, 4, 4, 16, 0, 0, 32, 0xFF00, *[0] * 6)
    (tmp_path / "a.dds").write_bytes(header + bytes(64))
    with pytest.raises(FileError, match=r"a\.dds: the image cannot be read: Unknown pixel format flags 65280"):
        read_image(tmp_path / "a.dds")


def test_detections_are_drawn_where_they_are() -> None:
    image = np.full((100, 200, 3), 255, np.uint8)
    rows = [
        [0, 1, 0.9, 0.25, 0.5, 0.75, 0.75],
        [0, 2, 0.1, 0, 0, 1, 1],
        [-1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0.8, 0, 0, 1, 1],
    ]
    output = np.array(rows, np.float32)[None, None]
    assert has_detections(output)
    assert not has_detections(np.full_like(output, np.inf))
    drawn, what = draw_detections(image, output)
    assert what.startswith("1 of 2 detections, with a score of at least 0.5")
    y, x = np.nonzero((drawn != 255).any(axis=2))
    assert (x.min(), x.max(), y.max()) == (50, 150, 75)
    assert drawn[75, 100].tolist() == colors(3)[2].tolist()[::-1]
    assert (drawn[60:70, 60:140] == 255).all()
