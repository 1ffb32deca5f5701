"""The rules of the simplifier that make graphs faster, one theme a file. Importing this enters them all."""

from anylayer.tracing.rewrites import (  # noqa: F401
    activations,
    blocks,
    gelu,
    logistic,
    mixtures,
    nothing,
    order,
    repeats,
    scaling,
    sums,
)
