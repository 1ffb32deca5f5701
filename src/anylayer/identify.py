"""Which dialect is a file written for? Answer by an example of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anylayer.api import PathLike, read

if TYPE_CHECKING:
    from anylayer.inspect.identification import Identification


def identify(
    model: PathLike,
    weights: PathLike | None = None,
    *,
    inputs: Mapping[str, Any],
    expect: Mapping[str, Any],
    tolerance: float = 1e-4,
    **options: Any,
) -> Identification:
    """Find the dialect in which a network computes the expected blobs.

    Every meaning of each ambiguous layer is run in NumPy: the classes of its type in all dialects and, if no
    dialect reproduces the numbers, values that the file leaves out (rounding of Pooling, eps, offsets of Crop).

    inputs: an array per input. expect: the arrays that the original program computed, by the names of the blobs.
    Inner blobs narrow the search, and show which layer differs first. tolerance: the largest difference of a
    reproduced blob, relative to its largest value. options: those of `read`; with `dialect`, only that one is
    tried.

    Return an Identification: `ok`, the `dialects` that reproduce the blobs (None: no dialect is needed), the
    `remedies`, and otherwise the `first` blob that none reproduces. Raise what `read` raises, and InputError where
    nothing can be compared.
    """
    from anylayer.inspect.identify import identify as find

    file_dialect = options.pop("dialect", None)
    return find(
        lambda dialect: read(model, weights, dialect=dialect or file_dialect, **options),
        lambda net: (inputs, expect),
        tolerance,
    )
