"""Protobuf's varint: an integer in bytes of 7 bits, the lowest bits first."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return an integer as a varint. A negative one has ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
