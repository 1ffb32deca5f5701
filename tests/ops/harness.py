"""Helpers for the tests of operators."""

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

EXCUSES = {
    ("resize of a long axis with aligned corners", "openvino"): (
        "it multiplies by a rounded (old - 1) / (new - 1): at cell 200, this changes a weight by 2e-5"
    ),
}
"""(case, engine) of results that differ, with the reason. Such a case must fail on that engine."""


def noise(*shape: int, seed: int = 0) -> Array:
    """Return float32 values of a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def numbers(*shape: int) -> Array:
    """Return 0, 1, 2, ... as float32, so that each value tells its position."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def agree(function: Callable[..., Any], *inputs: Array, case: str = "") -> None:
    """Check that NumPy, the traced shapes and every engine give the same results.

    An engine that EXCUSES lists for `case` must give different results.
    """
    for engine in ENGINES:
        if (case, engine) in EXCUSES:
            with pytest.raises(AssertionError, match=engine):
                check_function(function, *inputs, engines=[engine])
        else:
            check_function(function, *inputs, engines=[engine])


def refuses(
    text: str, function: Callable[..., Any], *args: Any, error: type[AnyLayerError] = LayerError, **kwargs: Any
) -> None:
    """Check that a call of `function` raises `error` with this text in its message."""
    with pytest.raises(error, match=re.escape(text)):
        function(*args, **kwargs)
