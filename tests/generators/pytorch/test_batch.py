"""Torch code of graphs with a symbolic batch size runs at every batch size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.graph.open_sizes import parse_sizes
from anylayer.testing import assert_same
from tests.compile.test_symbolic import FUNCTIONS, unified_batch
from tests.generators.pytorch.harness import module_of, run
from tests.ops.harness import noise

pytestmark = pytest.mark.needs("torch", "safetensors")


def unpooled(x: Any) -> Any:
    """Put maxima back, which needs zeros for a multiple of the batch size."""
    values, indices = ops.max_pool_with_indices(x, (2, 2), strides=(2, 2))
    return ops.max_unpool(values, indices, x.shape[-2:])


@pytest.mark.parametrize("function", [*FUNCTIONS, unpooled])
def test_module_matches_numpy_at_every_batch_size(function: Any) -> None:
    written = module_of(unified_batch(function, 3, 6, 5), parse_sizes({"x0": ("N", 3, 6, 5)}))
    for n in (1, 2, 5):
        x = noise(n, 3, 6, 5)
        assert_same(run(written, [x])[0], np.asarray(function(x)), f"{n} samples")
