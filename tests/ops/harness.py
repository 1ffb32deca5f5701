"""What the tests of operators are written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.errors import AnyLayerError, LayerError
from anylayer.network import Array
from anylayer.testing import check_function
from tests.engine_names import GENERAL

ENGINES = GENERAL

# Cases in which an engine gives other values, and why. Such a case must fail there.
EXCUSES = {
    ("resize of a long axis with aligned corners", "openvino"): (
        "it multiplies by a rounded (old - 1) / (new - 1): at cell 200 that moves a weight by 2e-5"
    ),
}


def noise(*shape: int, seed: int = 0) -> Array:
    """Normal float32 values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def numbers(*shape: int) -> Array:
    """0, 1, 2, ... as float32: values that tell where they came from."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def agree(function: Callable[..., Any], *inputs: Array, case: str = "") -> None:
    """NumPy, the traced shapes and every engine give the same; an engine excused from `case` must not."""
    for engine in ENGINES:
        if (case, engine) in EXCUSES:
            with pytest.raises(AssertionError, match=engine):
                check_function(function, *inputs, engines=[engine])
        else:
            check_function(function, *inputs, engines=[engine])


def refuses(
    text: str, function: Callable[..., Any], *args: Any, error: type[AnyLayerError] = LayerError, **kwargs: Any
) -> None:
    """`function` raises `error` with this text in its message."""
    with pytest.raises(error, match=re.escape(text)):
        function(*args, **kwargs)
