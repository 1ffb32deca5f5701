"""What is compared where an output tells little: the values before it, and its last layers alone.

A saturated softmax, a detector that finds nothing and a mask of zeros are equal in a right file and in many wrong
ones. The search goes back from such an output to values that tell enough. They become outputs of another copy of
the file. The layers after them become a file of their own, which is run on noise that suits these layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anylayer.compile.inputs import needed_nodes
from anylayer.compile.noise import telling_noise
from anylayer.convert.checks import OutputCheck
from anylayer.convert.nodes import after_jumps
from anylayer.convert.regimes import WithValues
from anylayer.errors import AnyLayerError
from anylayer.layer import Bound
from anylayer.network import Array, Node, TensorType, part_of
from anylayer.numerics import scale_of, tells_enough
from anylayer.runtime.run import NumpyRunner

if TYPE_CHECKING:
    from anylayer.convert.verification import Verification

_MAX_CUTS = 4
"""The largest number of places between an output and the inputs that are tried."""
_SEEDS = 3
"""The largest number of seeds of noise on which layers with discontinuous operators are compared."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """The values before an output that tell enough, and the nodes after them, in computing order."""

    values: list[str]
    nodes: list[Node]


def deeper_checks(
    verification: Verification,
    weak: Sequence[str],
    inputs: Mapping[str, Array],
    with_values: WithValues,
    *,
    alone: bool,
) -> Iterator[OutputCheck]:
    """Yield checks of the values before each output in `weak`, and with `alone` of its last layers alone.

    The values do not depend on discontinuous operators. Where a file cannot have them, or the layers, earlier
    values are tried.
    """
    told = _telling_values(verification, inputs)
    told.update(dict.fromkeys(after_jumps(verification.source)[0], False))
    for name in weak:
        usable = dict(told)
        checks: list[OutputCheck] = []
        for _ in range(_MAX_CUTS):
            cut = _cut(verification, name, usable)
            inner = [v for v in cut.values if v not in verification.job.network.inputs]
            if not inner:
                break
            try:
                if not checks:
                    checks = _compare_values(verification, inner, inputs, with_values)
                    yield from (replace(c, part="before", of=name) for c in checks)
                if alone:
                    last = _last_layers(verification, name, cut, inputs)
                    yield from (replace(c, part="alone", of=name) for c in last)
                break
            except AnyLayerError:
                usable.update(dict.fromkeys(inner, False))


def _telling_values(verification: Verification, arrays: Mapping[str, Array]) -> dict[str, bool]:
    """Return whether each value of the source tells enough for these inputs."""
    job, tolerance = verification.job, verification.tolerance
    told = dict.fromkeys(job.network.inputs, True)

    def watch(node: Node, bound: Bound, inputs: list[Array | None], outputs: list[Array]) -> None:
        told.update({n: tells_enough(x, tolerance * scale_of(x)) for n, x in zip(node.outputs, outputs)})

    runner = NumpyRunner(job.network, job.definitions, verification.outputs)
    for _ in runner.steps(arrays, watch):
        pass
    return told


def _cut(verification: Verification, output: str, told: Mapping[str, bool]) -> _Cut:
    """Return where the values before an output begin to tell enough. Constants are not among them.

    Nodes that need no input of the network are among the nodes after the cut, so that constants stay constants.
    """
    network = verification.job.network
    constant = {"", *(t.node.outputs[i] for t in verification.source.nodes for i in t.constants)}
    for each in network.nodes:  # those that operators compute from constants, too
        if constant.issuperset(each.inputs):
            constant.update(each.outputs)
    producers = {n: node for node in needed_nodes(network, verification.outputs) for n in node.outputs}
    values: dict[str, None] = {}
    after: set[int] = set()
    left = [verification.outputs[output]]
    while left:
        node = producers.get(left.pop())
        if node is None or id(node) in after:
            continue
        after.add(id(node))
        for name in filter(None, node.inputs):
            if name in constant:
                fixed = needed_nodes(network, {name: name})
                if not any(network.inputs.keys() & node.inputs for node in fixed):
                    after.update(map(id, fixed))
            else:
                (values.update({name: None}) if told.get(name, False) else left.append(name))
    return _Cut([*values], [node for node in network.nodes if id(node) in after])


def _compare_values(
    verification: Verification, values: Sequence[str], inputs: Mapping[str, Array], with_values: WithValues
) -> list[OutputCheck]:
    """Return the checks of values inside the network."""
    written, run = with_values(tuple(values))
    inside = replace(verification, outputs={name: name for name in values})
    return inside.checks_of(inside.numpy(inputs), run, written, inputs)


def _last_layers(
    verification: Verification, output: str, cut: _Cut, inputs: Mapping[str, Array]
) -> list[OutputCheck]:
    """Write the nodes after a cut as a network, and compare it on noise of the types that the values have.

    The constants that the nodes read are inputs of it, too, and keep their values. Where rounding may decide a
    selection, an output that differs is compared on other noise.
    """
    job, value = verification.job, verification.outputs[output]
    produced = {name for node in cut.nodes for name in node.outputs}
    read = dict.fromkeys(n for node in cut.nodes for n in node.inputs if n and n not in produced)
    values = replace(verification, outputs={name: name for name in read}).numpy(inputs)
    types = {name: TensorType.of(x.shape, x.dtype) for name, x in values.items()}
    fixed = {n: x for n, x in values.items() if n not in cut.values}
    network = part_of(job.network, types, cut.nodes, {output: value})
    last = replace(job, network=network, types=types, sizes=None)
    tail = replace(verification, job=last, source=last.source(network.outputs), outputs=network.outputs)
    written = verification.write(last, network.outputs, "alone")
    run = verification.open(written)
    checks: list[OutputCheck] = []
    for seed in range(_SEEDS if value in after_jumps(tail.source)[0] else 1):
        arrays, want, _ = telling_noise(network, job.definitions, types, tail.numpy, seed, fixed, tail.tolerance)
        checks = tail.checks_of(want, run, written, arrays)
        if all(c.ok for c in checks):
            break
    return checks
