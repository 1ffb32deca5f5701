"""caffe.io: images, preprocessing, and arrays as messages of caffe.proto."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import anylayer.caffe as caffe
from anylayer.errors import FileError, InputError
from tests.layers.harness import noise


def test_blobproto_has_the_shape_and_the_values_of_an_array() -> None:
    array = noise(2, 3, 4)
    blob = caffe.io.array_to_blobproto(array, diff=2 * array)
    assert list(blob.shape.dim) == [2, 3, 4]
    assert np.array_equal(caffe.io.blobproto_to_array(blob), array)
    assert np.array_equal(caffe.io.blobproto_to_array(blob, return_diff=True), 2 * array)
    old = caffe.proto.caffe_pb2.BlobProto(num=1, channels=2, height=3, width=4)
    old.data.extend(range(24))
    assert np.array_equal(caffe.io.blobproto_to_array(old), np.arange(24).reshape(1, 2, 3, 4))
    old.data.append(1)
    with pytest.raises(ValueError, match=r"a BlobProto of shape \(1, 2, 3, 4\) has 25 values"):
        caffe.io.blobproto_to_array(old)


def test_blobproto_vector_round_trips() -> None:
    arrays = [noise(2, 3), noise(4)]
    found = caffe.io.blobprotovector_str_to_arraylist(caffe.io.arraylist_to_blobprotovecor_str(arrays))
    assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_datum_round_trips(dtype: Any) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    datum = caffe.io.array_to_datum(array, 7)
    assert (datum.label, len(datum.data), len(datum.float_data)) == (
        7,
        *((24, 0) if dtype == np.uint8 else (0, 24)),
    )
    assert np.array_equal(caffe.io.datum_to_array(datum), array)
    assert not caffe.io.array_to_datum(array).HasField("label")
    with pytest.raises(ValueError, match="a Datum has 3 axes"):
        caffe.io.array_to_datum(array[0])
    datum.encoded = True
    with pytest.raises(InputError, match="the Datum holds an encoded image"):
        caffe.io.datum_to_array(datum)


@pytest.mark.parametrize(
    ("mode", "pixels", "color", "want"),
    [
        ("RGB", np.uint8([[[255, 51, 0]]]), True, [[[1, 0.2, 0]]]),
        ("RGB", np.uint8([[[255, 51, 0]]]), False, [[[0.2125 + 0.2 * 0.7154]]]),
        ("L", np.uint8([[51]]), True, [[[0.2, 0.2, 0.2]]]),
        ("L", np.uint8([[51]]), False, [[[0.2]]]),
        ("RGBA", np.uint8([[[255, 51, 0, 9]]]), True, [[[1, 0.2, 0]]]),
        ("I;16", np.uint16([[13107]]), False, [[[0.2]]]),
        ("1", np.array([[True]]), False, [[[1]]]),
    ],
)
def test_image_is_loaded_as_floats_up_to_1(tmp_path: Path, mode: str, pixels: Any, color: bool, want: Any) -> None:
    image = Image.fromarray(pixels)
    assert image.mode == mode
    image.save(tmp_path / "x.png")
    found = caffe.io.load_image(str(tmp_path / "x.png"), color)
    assert found.dtype == np.float32
    assert np.allclose(found, want, atol=1e-7)


def test_file_that_is_not_an_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no image")
    with pytest.raises(FileError, match=r"x\.png: this is not an image of a known format"):
        caffe.io.load_image(tmp_path / "x.png")


def sampled(image: Any, y: float, x: float, outside: float) -> float:
    """Return the value at a position between pixels, by the definition of bilinear interpolation."""
    total = 0.0
    for row in (int(np.floor(y)), int(np.floor(y)) + 1):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            weight = (1 - abs(y - row)) * (1 - abs(x - column))
            inside = 0 <= row < image.shape[0] and 0 <= column < image.shape[1]
            total += weight * (image[row, column] if inside else outside)
    return total


@pytest.mark.parametrize("size", [(9, 4), (3, 11), (6, 7)])
def test_image_is_resized_by_its_pixel_centers(size: tuple[int, int]) -> None:
    image = noise(6, 7, 3)
    found = caffe.io.resize_image(image, size)
    for i in range(size[0]):
        for j in range(size[1]):
            y, x = (i + 0.5) * 6 / size[0] - 0.5, (j + 0.5) * 7 / size[1] - 0.5
            want = [sampled(image[..., c], y, x, image.min()) for c in range(3)]
            assert np.allclose(found[i, j], want, atol=1e-5)


def test_image_with_other_channels_is_resized_by_its_corners() -> None:
    image = noise(5, 3, 2)
    found = caffe.io.resize_image(image, (9, 5))
    assert np.allclose(found[::2, ::2], image, atol=1e-6)
    assert np.allclose(found[1::2, ::2], (image[1:] + image[:-1]) / 2, atol=1e-6)


def test_nearest_pixel_is_repeated() -> None:
    image = noise(2, 3, 1)
    assert np.array_equal(caffe.io.resize_image(image, (4, 6), 0), image.repeat(2, 0).repeat(2, 1))
    assert np.array_equal(caffe.io.resize_image(np.full((2, 2, 3), 5.0), (4, 4)), np.full((4, 4, 3), 5.0))
    with pytest.raises(InputError, match=r"interp_order must be 0 \(nearest\) or 1 \(linear\), got 3"):
        caffe.io.resize_image(image, (4, 6), 3)


def test_ten_crops_are_taken_of_each_image() -> None:
    images = [noise(6, 8, 3), noise(6, 8, 3, seed=1)]
    crops = caffe.io.oversample(images, (4, 4))
    assert crops.shape == (20, 4, 4, 3)
    for image, ten in zip(images, crops.reshape(2, 10, 4, 4, 3)):
        want = [image[:4, :4], image[:4, 4:], image[2:, :4], image[2:, 4:], image[1:5, 2:6]]
        assert np.array_equal(ten[:5], want)
        assert np.array_equal(ten[5:], np.array(want)[:, :, ::-1])
    with pytest.raises(InputError, match="crops of 7 x 4 pixels do not fit images of 6 x 8"):
        caffe.io.oversample(images, (7, 4))


def transformer() -> Any:
    made = caffe.io.Transformer({"data": (1, 3, 4, 5)})
    made.set_transpose("data", (2, 0, 1))
    made.set_channel_swap("data", (2, 1, 0))
    made.set_raw_scale("data", 255)
    made.set_mean("data", np.array([104.0, 117, 123]))
    made.set_input_scale("data", 0.5)
    return made


def test_transformer_does_its_steps_in_the_order_of_pycaffe() -> None:
    image = np.random.default_rng(0).random((4, 5, 3)).astype(np.float32)
    before = image.copy()
    want = (image[:, :, ::-1].transpose(2, 0, 1) * 255 - np.array([104, 117, 123])[:, None, None]) * 0.5
    found = transformer().preprocess("data", image)
    assert found.dtype == np.float32
    assert np.allclose(found, want, atol=1e-4)
    assert np.array_equal(image, before)
    assert np.allclose(transformer().deprocess("data", found[None]), image, atol=1e-6)


def test_transformer_resizes_images_and_means() -> None:
    made = caffe.io.Transformer({"data": (1, 3, 4, 5)})
    made.set_transpose("data", (2, 0, 1))
    image, mean = noise(8, 9, 3), noise(3, 7, 6)
    made.set_mean("data", mean)
    resized = caffe.io.resize_image(mean.transpose(1, 2, 0), (4, 5)).transpose(2, 0, 1)
    want = caffe.io.resize_image(image, (4, 5)).transpose(2, 0, 1) - resized
    assert np.allclose(made.preprocess("data", image), want, atol=1e-6)
    made.set_mean("data", noise(4, 5))
    assert made.mean["data"].shape == (1, 4, 5)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("set_transpose", (0, 1), r"the order must have 3 axes, got \(0, 1\)"),
        ("set_channel_swap", (0, 1), r"the order must have 3 channels, got \(0, 1\)"),
        ("set_mean", np.zeros(4), "the mean must have 3 channels, got 4"),
        ("set_mean", np.zeros((4, 4, 5)), "the mean must have 3 channels, got 4"),
        ("set_mean", np.zeros((1, 3, 4, 5)), r"the mean must have 1, 2 or 3 axes, got shape \(1, 3, 4, 5\)"),
    ],
)
def test_step_that_does_not_fit_the_input_is_refused(name: str, value: Any, text: str) -> None:
    made = caffe.io.Transformer({"data": (1, 3, 4, 5)})
    with pytest.raises(InputError, match=text):
        getattr(made, name)("data", value)
    with pytest.raises(InputError, match=r"there is no input 'date'; did you mean 'data'\?; the inputs are: data"):
        getattr(made, name)("date", value)


def test_image_is_read_from_an_open_file(tmp_path: Path) -> None:
    Image.fromarray(np.arange(24, dtype=np.uint8).reshape(2, 4, 3)).save(tmp_path / "image.png")
    want = caffe.io.load_image(tmp_path / "image.png")
    assert np.array_equal(caffe.io.load_image(io.BytesIO((tmp_path / "image.png").read_bytes())), want)
    with (tmp_path / "image.png").open("rb") as file:
        assert np.array_equal(caffe.io.load_image(file, color=False)[..., 0].shape, want.shape[:2])
    with pytest.raises(FileError, match="the picture: this is not an image"):
        caffe.io.load_image(io.BytesIO(b"text"))


@pytest.mark.parametrize("channels", [3, 5])
def test_size_of_an_image_may_name_its_channels(channels: int) -> None:
    image = np.random.default_rng(0).random((6, 7, channels))
    assert np.array_equal(caffe.io.resize_image(image, (4, 5, channels)), caffe.io.resize_image(image, (4, 5)))
    with pytest.raises(InputError, match=rf"the image has {channels} channels, got \(4, 5, 2\)"):
        caffe.io.resize_image(image, (4, 5, 2))
