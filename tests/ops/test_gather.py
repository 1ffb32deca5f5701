"""ops.gather."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer import ops
from anylayer.errors import LayerError
from anylayer.testing import check_function

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_gather_from_a_constant_with_traced_indices() -> None:
    picked = np.array([[0, 3], [3, 1]])
    check_function(lambda i: ops.gather(TABLE, i), picked)
    assert ops.gather(TABLE, picked).tolist() == [[[0, 1, 2], [9, 10, 11]], [[9, 10, 11], [3, 4, 5]]]


def test_gather_along_another_axis() -> None:
    check_function(lambda x, i: ops.gather(x, i, axis=-1), TABLE, np.array([2, 0], np.int32))
    assert ops.gather(TABLE, np.array([2, 0]), axis=1)[0].tolist() == [2, 0]


def test_gather_with_constant_indices() -> None:
    check_function(lambda x: ops.gather(x, np.array([1, -1])), TABLE)


def test_axis_out_of_range_is_refused() -> None:
    with pytest.raises(LayerError, match=r"axis must lie in -2..1 for shape \(4, 3\), got 2"):
        ops.gather(TABLE, np.array([0]), axis=2)


def test_float_indices_are_refused() -> None:
    with pytest.raises(LayerError, match="gather takes integers as indices, got float32"):
        ops.gather(TABLE, np.float32([0]))
