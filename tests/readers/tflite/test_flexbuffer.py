"""Tests of FlexBuffers, which are written by the package flatbuffers."""

from __future__ import annotations

import pytest

from anylayer.readers.tflite.flexbuffer import options_of


def test_every_kind_of_value_is_read() -> None:
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("int", -3)
        builder.UInt("uint", 1 << 40)
        builder.Float("float", 0.1)
        builder.String("text", "héé")
        builder.Blob("blob", b"\x00\x01")
        builder.Bool("bool", True)
        builder.Null("null")
        builder.IndirectInt("indirect", 7)
        builder.TypedVectorFromElements("typed", [1, 2, 300])
        builder.TypedVectorFromElements("bools", [True, False])
        builder.FixedTypedVectorFromElements("fixed", [1.5, 2.5, 3.5])
        builder.VectorFromElements("mixed", [1, "x", [2.5, None]])
        with builder.Map("map"):
            builder.Int("inner", 1)
    data = bytes(builder.Finish())
    assert options_of(data) == {
        "int": -3, "uint": 1 << 40, "float": 0.1, "text": "héé", "blob": b"\x00\x01", "bool": True, "null": None,
        "indirect": 7, "typed": [1, 2, 300], "bools": [True, False], "fixed": [1.5, 2.5, 3.5],
        "mixed": [1, "x", [2.5, None]], "map": {"inner": 1},
    }  # fmt: skip
    for length in range(len(data)):
        assert not options_of(data[length:][: len(data) // 2])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        bytes([1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]),  # a structure in C
        bytes([5, 4, 1]),  # a number
        bytes([0, 1, 2, 0, 0, 40, 40, 2, 40, 1]),  # a list of itself
        bytes([255, 255, 255, 255, 255, 255, 255, 255, 0, 36, 8]),  # a map of 2**64 - 1 entries
    ],
)
def test_other_bytes_have_no_options(data: bytes) -> None:
    assert options_of(data) == {}
