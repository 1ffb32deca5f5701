"""Tests of Constant."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.layer import Registry, bind
from anylayer.network import Node


def node(*blobs: np.ndarray) -> Node:
    return Node("c", "Constant", [], ["c"], blobs=list(blobs), place="layer 'c' (Constant)")


def test_returns_the_array_itself() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    (got,) = bind(node(array), Registry.of("onnx").find("Constant"), [])([])
    assert got is array


def test_rejects_missing_array() -> None:
    with pytest.raises(LayerError, match="must hold 1 array, got 0"):
        bind(node(), Registry.of("onnx").find("Constant"), [])([])
