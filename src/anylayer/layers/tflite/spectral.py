"""Fourier transforms. The last axis of a complex array has the real and the imaginary part."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Array, need
from anylayer.layer.arguments import integers
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer

_MAX_LENGTH = 1 << 16


def _rfft2d(x: Array, fft_length: list[int]) -> Array:
    fits = len(fft_length) == 2 and 0 < min(fft_length) <= max(fft_length) <= _MAX_LENGTH and len(x.shape) >= 2
    rule = f"fft_length must be two sizes from 1 to {_MAX_LENGTH}, got {fft_length} for shape {tuple(x.shape)}"
    need(fits, rule)
    rows, columns = fft_length
    z = np.fft.rfft(x, columns)
    z = z[..., :1, :] if rows == 1 else np.fft.fft(z, rows, axis=-2)
    return np.stack([z.real, z.imag], axis=-1).astype(np.float32)


operators(
    TFLiteLayer,
    SOURCE,
    {
        "RFFT2D": row("Compute the half of the Fourier transform over the last two axes that defines it.", _rfft2d,
            "rfft2d", "The axes are cut or padded with zeros to fft_length, a constant.", fft_length=integers),
        "REAL": computes("the real part", lambda z: z[..., 0], "complex_support"),
        "IMAG": computes("the imaginary part", lambda z: z[..., 1], "complex_support"),
        "COMPLEX_ABS": computes("the absolute value of complex numbers", lambda z: np.hypot(z[..., 0], z[..., 1]),
            "complex_support"),
    },
)  # fmt: skip
