"""The binary format: the values of blobs, and files that claim more than they contain."""

from __future__ import annotations

import contextlib
import mmap
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer.errors import AnyLayerError, FileError
from anylayer.network import Array
from anylayer.readers.caffe.blobs import StoredLayer
from anylayer.readers.caffe.wire import read_weights
from tests.readers.files import blob, doubles, floats, integer, layer, loose_floats, message, shape, string, varint

SIX = [1.0, -2.5, 3.0, 4.0, 5.0, 6.0]


def stored(data: bytes) -> list[StoredLayer]:
    Path("net.caffemodel").write_bytes(data)
    return read_weights(Path("net.caffemodel"))


def array(*parts: bytes) -> Array:
    """Return the values of a blob that consists of the given fields."""
    (found,) = stored(layer("fc", message(7, *parts)))
    assert found.name == "fc"
    return found.blobs[0].array()


LOOSE_SHAPE = message(7, integer(1, 2), integer(1, 3))
LEGACY = integer(1, 1) + integer(2, 1) + integer(3, 2) + integer(4, 3)


@pytest.mark.parametrize(
    "parts",
    [
        [shape(2, 3), floats(5, SIX)],
        [floats(5, SIX), shape(2, 3)],
        [LOOSE_SHAPE, floats(5, SIX)],
        [shape(2, 3), floats(5, SIX[:2]), floats(5, SIX[2:])],
        [shape(2, 3), floats(5, SIX[:2]), loose_floats(5, SIX[2:])],
        [shape(2, 3), loose_floats(5, SIX)],
        [shape(2, 3), loose_floats(5, SIX[:3]), floats(6, [9, 9]), loose_floats(5, SIX[3:])],
        [shape(2, 3), doubles(8, SIX)],
        [shape(2, 3), b"".join(varint(8 << 3 | 1) + struct.pack("<d", v) for v in SIX)],
        [shape(2, 3), floats(5, [7, 7]), doubles(8, SIX)],
        [shape(2, 3), floats(6, [7] * 6), floats(5, SIX), doubles(9, [7] * 6)],
        [shape(2, 3), integer(10, 1), message(12, struct.pack("<6f", *SIX))],
        [shape(2, 3), integer(10, 2), message(12, struct.pack("<6e", *SIX))],
        [shape(2, 3), integer(10, 0), message(12, struct.pack("<6d", *SIX))],
        [message(7, message(1, varint(2))), message(7, message(1, varint(3))), floats(5, SIX)],
        [shape(2, 3), floats(5, SIX), integer(77, 5), string(78, "later"), varint(79 << 3 | 1) + bytes(8)],
    ],
)
def test_all_forms_of_values(parts: list[bytes]) -> None:
    found = array(*parts)
    assert found.dtype == np.float32
    assert found.tolist() == [SIX[:3], SIX[3:]]


def test_legacy_sizes_take_precedence_over_the_shape() -> None:
    assert array(LEGACY, floats(5, SIX)).shape == (1, 1, 2, 3)
    assert array(shape(6), LEGACY, floats(5, SIX)).shape == (1, 1, 2, 3)


def test_one_value_needs_no_shape() -> None:
    assert array(floats(5, [3.0])).shape == ()
    assert array(message(7), floats(5, [3.0])).shape == ()


def test_blob_without_values() -> None:
    assert array(shape(0, 3)).shape == (0, 3)
    assert array(shape(0, 3), floats(5, [])).shape == (0, 3)


def test_packed_floats_are_a_view_of_the_map() -> None:
    found = array(shape(2, 3), floats(5, SIX))
    assert not found.flags.owndata
    base = found
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert isinstance(base, mmap.mmap | memoryview)


@pytest.mark.parametrize(
    ("data", "era"),
    [
        (message(2, string(4, "fc"), integer(5, 14), message(6, shape(2), floats(5, SIX[:2]))), "V1"),
        (message(2, message(1, string(1, "fc"), message(50, shape(2), floats(5, SIX[:2])))), "V0"),
        (string(1, "net") + layer("fc", blob([2], SIX[:2])) + integer(99, 1), "V2"),
    ],
)
def test_layers_of_all_versions(data: bytes, era: str) -> None:
    (found,) = stored(data)
    assert (found.name, found.blobs[0].array().tolist()) == ("fc", SIX[:2]), era


def test_layers_and_blobs_are_in_file_order() -> None:
    found = stored(layer("a", blob([1], [1]), blob([2], [2, 3])) + layer("b") + layer("a", blob([1], [4])))
    assert [(x.name, len(x.blobs)) for x in found] == [("a", 2), ("b", 0), ("a", 1)]
    assert found[0].blobs[1].array().tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([shape(2, 3), floats(5, SIX[:5])], "has shape (2, 3), which is 6 values, but 5 are stored"),
        ([shape(2, 3)], "has shape (2, 3), which is 6 values, but 0 are stored"),
        ([floats(5, SIX)], "has no shape, but 6 values"),
        ([shape(2, -3), floats(5, SIX)], "has shape (2, -3): a dimension is negative"),
        ([integer(1, -1), floats(5, SIX)], "has shape (-1, 0, 0, 0): a dimension is negative"),
        ([shape(2**62, 2**62), floats(5, SIX)], f"which is {2**124} values, but 6 are stored"),
        ([shape(*[1] * 33), floats(5, [1])], "has a shape with more than 32 axes"),
        ([message(7, *[integer(1, 1)] * 33), floats(5, [1])], "has a shape with more than 32 axes"),
        ([shape(1), message(5, b"abc")], "3 bytes of packed data are not a multiple of 4"),
        ([shape(1), varint(5 << 3 | 1) + bytes(8)], "field 5 of a blob has wire type 1, expected 5"),
        ([shape(1), integer(10, 3), message(12, bytes(4))], "must be DOUBLE (0), FLOAT (1) or FLOAT16 (2), got 3"),
        ([shape(1), integer(10, 1), message(12, bytes(3))], "3 bytes of raw_data are not a multiple of 4"),
        (
            [shape(1), message(12, bytes(8))],
            "raw_data (OpenCV) or uint64_data (Ascend), and there is no raw_data_type",
        ),
        (
            [shape(1), message(10, b"a")],
            "quantized weights are not supported: the blob has 8-bit integers (int8_data, Ascend)",
        ),
        ([shape(1), floats(6, [1]) * 2 + floats(5, [1]) * 100_001], "has its values in more than 100000 pieces"),
    ],
)
def test_wrong_blobs_are_refused(parts: list[bytes], text: str) -> None:
    with pytest.raises(FileError) as caught:
        array(*parts)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "net.caffemodel: the file is empty"),
        (varint(100 << 3 | 2) + varint(500) + b"abc", "field 100 at byte 0 claims 500 bytes, but 3 are left"),
        (varint(100 << 3 | 2) + varint(2**63), f"field 100 at byte 0 claims {2**63} bytes, but 0 are left"),
        (b"\xff", "the number at byte 0 is cut off"),
        (b"\xff" * 11, "the number at byte 0 is longer than 10 bytes"),
        (varint(3 << 3 | 1) + b"1234", "field 3 at byte 0 is cut off"),
        (varint(3 << 3 | 3), "field 3 at byte 0 has wire type 3, which is not supported"),
        (b"\x02", "field number 0 at byte 0 is outside protobuf's range"),
        (layer("fc", varint(7 << 3 | 2) + varint(9)), "field 7 at byte"),
        (layer("fc", message(7, floats(5, SIX)[:-1])), "layer 'fc': blob 0: field 5 at byte"),
    ],
)
def test_damaged_files_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(FileError) as caught:
        stored(data)
    assert str(caught.value).startswith("net.caffemodel: ")
    assert text in str(caught.value)


def test_names_that_are_not_utf8_are_escaped() -> None:
    (found,) = stored(message(100, message(1, b"conv\xff"), blob([1], [1])))
    assert found.name == "conv\\xff"


def test_values_of_a_large_file_are_not_read() -> None:
    size = 200_000_000
    with Path("net.caffemodel").open("wb") as file:
        for i in range(3):
            values = varint(5 << 3 | 2) + varint(4 * size)
            inner = shape(size) + values
            body = string(1, f"fc{i}") + varint(7 << 3 | 2) + varint(len(inner) + 4 * size) + inner
            file.write(varint(100 << 3 | 2) + varint(len(body) + 4 * size) + body)
            file.seek(4 * size, 1)
        file.truncate(file.tell())
    assert Path("net.caffemodel").stat().st_size > 2**31
    start = time.process_time()
    found = read_weights(Path("net.caffemodel"))
    arrays = [x.blobs[0].array() for x in found]
    assert time.process_time() - start < 0.05
    assert [a.shape for a in arrays] == [(size,)] * 3
    assert arrays[2][-1] == 0


def test_a_million_unpacked_values_are_found_quickly() -> None:
    count = 1_000_000
    data = np.empty(count, [("tag", "u1"), ("value", "<f4")])
    data["tag"], data["value"] = 5 << 3 | 5, np.arange(count)
    start = time.process_time()
    found = array(shape(count), data.tobytes())
    assert time.process_time() - start < 1
    assert found.tolist()[:3] == [0.0, 1.0, 2.0]
    assert found[-1] == count - 1


def read_all(data: bytes) -> None:
    """Read every blob. Only an AnyLayerError may be raised."""
    Path("net.caffemodel").write_bytes(data)
    with contextlib.suppress(AnyLayerError):
        for found in read_weights(Path("net.caffemodel")):
            for each in found.blobs:
                with contextlib.suppress(AnyLayerError):
                    assert each.array().nbytes <= 4 * len(data)


@given(st.binary(max_size=120))
@settings(max_examples=400, deadline=None)
def test_random_input_never_crashes(data: bytes) -> None:
    read_all(data)
    read_all(layer("a", data))
    read_all(layer("a", message(7, data)))


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_changed_file_never_crashes(data: st.DataObject) -> None:
    good = bytearray(
        string(1, "net")
        + layer("a", blob([2, 3], SIX), message(7, LEGACY, loose_floats(5, SIX)))
        + message(2, message(1, string(1, "b"), message(50, integer(10, 2), message(12, bytes(4)))))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    read_all(bytes(good[: data.draw(st.integers(0, len(good)))]))
