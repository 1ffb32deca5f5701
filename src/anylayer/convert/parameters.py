"""The parameters of a generated module, and the weights of the network's file that they are made of.

Nothing is stated twice: the generator itself says where a weight goes. It is given the network with other weights
in place of the file's, and the places where these appear in the module's state are where the file's appear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Protocol

import numpy as np

from anylayer.errors import NetworkError, need
from anylayer.network import Array, Network, Node

State = Mapping[str, Array]
Key = tuple[int, tuple[int, ...], tuple[int, ...], str]
"""The address, shape, strides and dtype of a weight in memory. Weights that several nodes share have one."""
_MAX_PERMUTED = 6
"""The largest rank of a weight whose axes are permuted in search of a parameter."""
_MANY = 16
"""Arrays of so many values differ although each value is changed by at most 3 units in the last place."""
_TINY = np.float32(1e-30)
"""The number in place of zero where a weight must not have a special value."""


def _key(blob: Array) -> Key:
    return int(blob.__array_interface__["data"][0]), blob.shape, blob.strides, blob.dtype.str


@dataclass(slots=True)
class StoredWeight:
    """A weight that the file stores: its values, the first node that has it, and its index there."""

    values: Array
    node: Node
    index: int

    def __str__(self) -> str:
        return f"blob {self.index} of layer '{self.node.name}'"


def stored_weights(network: Network) -> dict[Key, StoredWeight]:
    """Return the float32 weights of a network, each once."""
    weights: dict[Key, StoredWeight] = {}
    for node in network.nodes:
        for index, blob in enumerate(node.blobs):
            if blob.dtype == np.float32 and blob.size:
                weights.setdefault(_key(blob), StoredWeight(blob, node, index))
    return weights


def with_weights(network: Network, arrays: Mapping[Key, Array]) -> Network:
    """Return the network with other arrays in place of some of its weights."""
    nodes = [replace(n, blobs=[arrays.get(_key(b), b) for b in n.blobs]) for n in network.nodes]
    return replace(network, nodes=nodes)


def distinct(network: Network, is_kept: Callable[[StoredWeight], bool]) -> Network:
    """Return the network with weights that have no special values, so that they become parameters of a module.

    A new network has weights that are all 0 or all 1, and equal ones. A simplification removes the former, and
    modules share the latter. Both are changed by rounding errors here, except for weights that `is_kept` accepts.
    """
    seen: set[bytes] = set()
    changed: dict[Key, Array] = {}
    random = np.random.default_rng(0)
    for key, stored in stored_weights(network).items():
        blob = stored.values
        if not is_kept(stored) and _is_special(blob, seen):
            most = 32 if blob.size < _MANY else 4  # deep networks add the changes up
            steps = random.integers(1, most, blob.shape).astype(np.float32)
            if blob.size > 1:
                steps.reshape(-1)[0] = 0  # differs from all others, so that no array is uniform
            changed[key] = np.where(blob == 0, _TINY * (1 + steps), blob * (1 + steps * np.float32(2**-23)))
    return with_weights(network, changed) if changed else network


def _is_special(blob: Array, seen: set[bytes]) -> bool:
    """Return whether all values are equal, or the values are those of a smaller number of weights seen before."""
    content = np.ascontiguousarray(blob).tobytes() if blob.nbytes <= 1 << 16 else b""
    equal = bool(content) and content in seen
    seen.add(content)
    return equal or bool((blob == blob.reshape(-1)[0]).all())


class Move(Protocol):
    """Where the values of a parameter are in the file's weights."""

    def put(self, arrays: Mapping[Key, Array], values: Array) -> None:
        """Write the values of the parameter to the weights."""

    def take(self, arrays: Mapping[Key, Array]) -> Array:
        """Return the values of the parameter, flat; 0 for those that are in no weight."""

    @property
    def keys(self) -> Collection[Key]:
        """The weights that have the values."""

    @property
    def lost(self) -> Array | None:
        """A mask of the values, flat, that are in no weight; None if there are none."""


@dataclass(frozen=True, slots=True)
class _Permutation:
    """A weight with its axes in another order, reshaped."""

    key: Key
    order: tuple[int, ...]

    def put(self, arrays: Mapping[Key, Array], values: Array) -> None:
        view = arrays[self.key].transpose(self.order)
        view[...] = values.reshape(view.shape)

    def take(self, arrays: Mapping[Key, Array]) -> Array:
        return arrays[self.key].transpose(self.order).reshape(-1)

    @property
    def keys(self) -> Collection[Key]:
        return (self.key,)

    lost = None


@dataclass(frozen=True, slots=True)
class _Selection:
    """Single values of several weights: slices that are concatenated in another order.

    `weight` is the index in `keys` of each value's weight, -1 for a value that is in none; `at` is its flat index
    there.
    """

    keys: Sequence[Key]
    weight: Array
    at: Array

    def _parts(self) -> Iterator[tuple[Key, Array]]:
        for number, key in enumerate(self.keys):
            yield key, self.weight == number

    def put(self, arrays: Mapping[Key, Array], values: Array) -> None:
        for key, mask in self._parts():
            arrays[key].flat[self.at[mask]] = values.reshape(-1)[mask]

    def take(self, arrays: Mapping[Key, Array]) -> Array:
        values = np.zeros(self.weight.shape, np.float32)
        for key, mask in self._parts():
            values[mask] = arrays[key].reshape(-1)[self.at[mask]]
        return values

    @property
    def lost(self) -> Array | None:
        return self.weight < 0


Write = Callable[[Network], State]
"""The generator: from a network to the state of its module."""


@dataclass(slots=True)
class Origins:
    """Where the parameters of a module come from: a move for each that the file stores.

    `divided` are those that equal the file's weights only where the weights of one number, `divisors`, are 1: the
    sums of Caffe's BatchNorm, which the last weight divides.
    """

    weights: dict[Key, StoredWeight]
    moves: dict[str, Move] = field(default_factory=dict)
    divided: dict[str, Move] = field(default_factory=dict)
    divisors: list[Key] = field(default_factory=list)

    def divisors_of(self, name: str) -> list[Key]:
        """Return the divisors of a parameter: those of the nodes whose weights it is made of."""
        nodes = {id(self.weights[key].node) for key in self.divided[name].keys}
        return [key for key in self.divisors if id(self.weights[key].node) in nodes]


def origins(network: Network, write: Write, like: State) -> Origins:
    """Find where the parameters of the module `like` come from, by writing it with two sets of random weights.

    Raises NetworkError if such a module has other parameters.
    """
    result = Origins(stored_weights(network))
    result.moves = _moves(network, write, like, result.weights, (), list(like))
    used = {key for move in result.moves.values() for key in move.keys}
    result.divisors = [k for k, w in result.weights.items() if w.values.size == 1 and k not in used]
    missing = [name for name, array in like.items() if name not in result.moves and array.dtype == np.float32]
    if missing and result.divisors:
        moves = _moves(network, write, like, result.weights, result.divisors, missing)
        result.divided = {name: move for name, move in moves.items() if move.lost is None}
        result.divided = {name: move for name, move in result.divided.items() if result.divisors_of(name)}
    return result


def _moves(
    network: Network,
    write: Write,
    like: State,
    weights: Mapping[Key, StoredWeight],
    ones: Collection[Key],
    names: Sequence[str],
) -> dict[str, Move]:
    """Return the moves of these parameters, where the weights `ones` are 1."""
    probes, states = [], []
    for seed in (1, 2):
        random = np.random.default_rng(seed)
        arrays = {
            key: np.ones(w.values.shape, np.float32)
            if key in ones
            else random.random(w.values.shape, np.float32) + np.float32(0.5)
            for key, w in weights.items()
        }
        state = write(with_weights(network, arrays))
        same = {n: a.shape for n, a in state.items()} == {n: a.shape for n, a in like.items()}
        need(same, "the module's parameters depend on the values of the weights", NetworkError)
        probes.append(arrays)
        states.append({name: state[name] for name in names if state[name].dtype == np.float32})
    moves: dict[str, Move] = {}
    first: dict[tuple[float, int], list[Key]] = {}
    for key, array in probes[0].items():
        first.setdefault((float(array.reshape(-1)[0]), array.size), []).append(key)
    for name, values in states[0].items():
        for key in first.get((float(values.reshape(-1)[0]), values.size), ()) if values.size else ():
            order = _order([p[key] for p in probes], [s[name].reshape(-1) for s in states])
            if order is not None:
                moves[name] = _Permutation(key, order)
    whole = {key for move in moves.values() for key in move.keys}
    rest = [key for key in weights if key not in whole and key not in ones]
    left = [name for name in states[0] if name not in moves and states[0][name].size]
    if rest and left:
        moves.update(_selections(rest, left, probes, states))
    return moves


def _order(weight: Sequence[Array], values: Sequence[Array]) -> tuple[int, ...] | None:
    """Return the order of axes in which a weight has these values; None if there is none."""
    rank = weight[0].ndim
    for order in permutations(range(rank)) if rank <= _MAX_PERMUTED else ():
        if all(np.array_equal(w.transpose(order).reshape(-1), v) for w, v in zip(weight, values)):
            return order
    return None


def _pairs(arrays: Sequence[Sequence[Array]]) -> Array:
    """Return the values of two probes as one number per pair."""
    one, two = (np.concatenate([a.reshape(-1) for a in probe]).view(np.uint32) for probe in arrays)
    return one.astype(np.uint64) << np.uint64(32) | two


def _selections(
    keys: Sequence[Key], names: Sequence[str], probes: Sequence[Mapping[Key, Array]], states: Sequence[State]
) -> Iterator[tuple[str, Move]]:
    """Yield a move for each parameter that has single values of these weights."""
    pairs = _pairs([[p[k] for k in keys] for p in probes])
    order = np.argsort(pairs)
    ordered = pairs[order]
    starts = np.cumsum([0, *(probes[0][k].size for k in keys)])
    for name in names:
        targets = _pairs([[np.ascontiguousarray(s[name])] for s in states])
        at = np.minimum(np.searchsorted(ordered, targets), len(ordered) - 1)
        matches = ordered[at] == targets
        place = order[at]
        weight = np.searchsorted(starts, place, "right") - 1
        used = np.unique(weight[matches])
        if len(used):
            number = np.where(matches, np.searchsorted(used, weight), -1)
            yield name, _Selection([keys[i] for i in used], number, place - starts[weight])
