"""8-bit weights as DMP's tool stores them: a table of 255 numbers per layer, and an index per weight."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array

CENTERS = 255
"""The numbers of a table without the 0 at its beginning."""
_ROUNDS = 50
_BINS = 4096


def table_of(weights: Array) -> Array:
    """Return at most 255 different 16-bit floats that represent the weights other than 0, by k-means.

    The numbers are sorted. They are the weights themselves where these have few different values.
    """
    values = np.sort(weights[weights != 0].astype(np.float64))
    distinct = np.unique(values.astype(np.float16))
    if len(distinct) <= CENTERS:
        return distinct
    sums, centers = np.concatenate([[0.0], np.cumsum(values)]), _first_centers(values)
    for _ in range(_ROUNDS):
        ends = np.searchsorted(values, (centers[1:] + centers[:-1]) / 2)
        ends = np.concatenate([[0], ends, [len(values)]])
        counts = np.diff(ends)
        means = np.where(counts > 0, np.diff(sums[ends]) / np.maximum(counts, 1), centers)
        if np.array_equal(means, centers):
            break
        centers = means
    return np.unique(centers.astype(np.float16))


def _first_centers(values: Array) -> Array:
    """Return 255 numbers whose density is the cube root of the values' density, which is the best one for many
    centers.
    """
    counts, edges = np.histogram(values, _BINS)
    share = np.concatenate([[0.0], np.cumsum(np.cbrt(counts))])
    found: Array = np.interp((np.arange(CENTERS) + 0.5) / CENTERS * share[-1], share, edges)
    return found


def nearest(table: Array, weights: Array) -> Array:
    """Return the weights with each number other than 0 replaced by the nearest one of a table."""
    numbers = table.astype(np.float32)
    found = numbers[np.searchsorted((numbers[1:] + numbers[:-1]) / 2, weights)] if len(numbers) else weights
    return np.where(weights == 0, np.float32(0), found).astype(np.float32)


def indices(table: Array, weights: Array) -> Array:
    """Return the position of each weight in the table of the hardware, which begins with 0."""
    numbers = table.astype(np.float32)
    return np.where(weights == 0, 0, np.searchsorted(numbers, weights) + 1).astype(np.uint8)


def stored(table: Array) -> bytes:
    """Return a table as the hardware reads it: 256 16-bit floats, of which the first is 0."""
    return np.pad(table.astype(np.float16), (1, CENTERS - len(table))).tobytes()
