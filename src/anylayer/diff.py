"""Do two files compute the same? Compare them node by node, whatever their formats are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anylayer.api import Net, PathLike, read
from anylayer.inspect.diff import diff as compare
from anylayer.inspect.diff_result import Diff


def diff(
    a: Net | PathLike,
    b: Net | PathLike,
    inputs: Mapping[str, object] | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    names: Mapping[str, str] | None = None,
    seed: int = 0,
    count: Callable[[], None] = lambda: None,
) -> Diff:
    """Compare two networks, such as a converter's input and output.

    Both run in NumPy. Nodes correspond where their numbers are equal, also in another layout (NCHW and NHWC),
    after folding (BatchNorm into Conv) and without a common name. Each node of B gets A's numbers, so that the
    first place where numbers part and every other one are found.

    a, b: files, or networks of `read` (for a file of weights, layers or a dialect). inputs: arrays by the names of
    A's inputs; seeded noise by default. shapes: those of A's inputs, where its file leaves sizes open. names: maps
    inputs and outputs of A to those of B, where their names differ and there are several. count: is called after
    each node that has run.

    Return a Diff: `same`, the `first` difference, all `rows` of nodes, `outputs`; print it, or `save` it as a
    page. It is not `same` where outputs are constant or empty, because nothing was compared then. Raise what
    `read` and `compile` raise, and InputError for inputs that do not correspond.
    """
    nets = [one if isinstance(one, Net) else read(one) for one in (a, b)]
    return compare(nets[0], nets[1], inputs, shapes=shapes, names=names, seed=seed, count=count)
