"""The rules of the simplifier that make graphs faster, one theme a file. Importing this enters them all."""

from anylayer.tracing.rewrites import (  # noqa: F401
    absorbed,
    activations,
    blocks,
    convolutions,
    gelu,
    logistic,
    mixtures,
    normalization,
    nothing,
    order,
    quantised,
    repeats,
    scaling,
    sums,
)
