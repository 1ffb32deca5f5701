"""Generators: one target per file or folder. `Net.generate` and `anylayer generate` find them by listing this
folder.

A target is a module `anylayer.generators.<name>`, with "_" for "-" in the name, that meets the protocol `Target`:
it turns a traced network into the files of a project in source code. The project contains its own test. Names that
begin with "_" are shared code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from anylayer.errors import need_one_of
from anylayer.folders import load, modules
from anylayer.graph import Value
from anylayer.graph.facts import Producers
from anylayer.graph.intervals import range_rounding
from anylayer.network import Array
from anylayer.source import Source


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs of the network, and the outputs that its layers compute from them in NumPy, by name.

    `near` marks elements of outputs that jump, for example by a threshold, when values before change within the
    tolerance.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    near: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the test of a project must check: the outputs of each sample.

    `tolerance` is relative to the largest absolute value of an output. `floors` maps outputs to a difference that
    they may always have. Outputs that are not floats must be equal.
    """

    samples: Sequence[Sample]
    tolerance: float
    floors: Mapping[str, float]


@dataclass(slots=True)
class Project:
    """The result of a target.

    `files` maps a path inside the project's folder, with "/" between its parts, to a text, or to the pieces of a
    binary file. `test` lists the commands that build and run the project's test, each as a list of arguments. They
    run one after the other in the project's folder, and files that they create there are removed. An exit status
    other than 0 means that the test failed; the user sees their output. `missing` names the tools that must be
    installed for the commands, to complete "needs ..."; "" if none is missing. `notes` are for the user.
    """

    files: dict[str, str | Sequence[bytes | memoryview]]
    test: Sequence[Sequence[str]]
    missing: str = ""
    notes: list[str] = field(default_factory=list)


def floors_of(outputs: Mapping[str, Value], producers: Producers) -> dict[str, float]:
    """Return the differences that outputs of a function with a small range may always have, such as a softmax: its
    values may all be tiny, but it computes from values that are not."""
    return {name: range_rounding(value, producers, 1.0) for name, value in outputs.items()}


class Target(Protocol):
    """A module that generates projects for one target.

    WHAT: what it generates, in words with an article: "a PyTorch module".
    OPTIONS: the names of the options that `generate` accepts: its own, and of the common ones "batch".
    Net.generate refuses other options by name.

    A target may have a function `kept_types(source)`, which returns the layer types whose nodes stay calls
    (operators with `kept` set). The network is then traced once more. QUANTIZED is as in a writer. RULES is the
    name of the target in rules (see optimize.rules), if it has rules of its own. TRAINABLE says that the code is
    trained, so that its parameters must not depend on the values of new weights.
    """

    WHAT: str
    OPTIONS: Collection[str]

    def generate(self, source: Source, expected: Expected, **options: Any) -> Project:
        """Return the project of a network. `options` are those that the caller gave, without "batch".

        In `source`, the graph of each node is simplified separately, so no operator belongs to two nodes. A target
        with the option "batch" gets a graph with a symbolic batch size if the network allows it and the caller
        gives no number; `source.sizes` then has its name.

        Raises LayerError, which names the node and the simplest remedy, for what the target cannot express.
        """


def targets() -> list[str]:
    """Return the names of the targets."""
    return [name.replace("_", "-") for name in modules("generators")]


def load_target(name: str) -> Target:
    """Return a target. Raises InputError if no target has this name."""
    names = targets()
    need_one_of(name, names, f"there is no target '{name}'", "targets")
    return cast(Target, load("generators", name.replace("-", "_")))
