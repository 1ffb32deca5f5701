"""Select the engines for "auto" whose outputs match those of the layers in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anylayer.errors import AnyLayerError, EngineError
from anylayer.network import Array
from anylayer.numerics import difference

Outputs = Mapping[str, Array]
EngineRun = Callable[[Sequence[Array]], Outputs]
"""A network on an engine: a function of its inputs."""


def agree(results: Outputs, want: Outputs) -> bool:
    """Return whether all outputs of `want` match: floats within 1e-4 of the output's largest absolute value, NaN
    where `want` is NaN, other dtypes exactly."""
    return not any(difference(results[name], array) for name, array in want.items())


def trusted(
    runs: Mapping[str, EngineRun], arrays: Sequence[Array], definition: EngineRun
) -> tuple[list[str], dict[str, str]]:
    """Return the engines that compute the right outputs, and for each of the others how it differs.

    An engine that raises an EngineError is in neither; if all raise one, the first error is raised. If the engines
    disagree, their outputs are compared with those of the layers in NumPy. All engines are accepted if a change of
    the inputs in their last bits changes the outputs as much, because the network is then discontinuous (a
    threshold, a sort) at these inputs.
    """
    outputs: dict[str, Outputs] = {}
    errors: list[EngineError] = []
    for name, run in runs.items():
        try:
            outputs[name] = run(arrays)
        except EngineError as error:
            errors.append(error)
    if not outputs:
        raise errors[0]
    first = next(iter(outputs.values()))
    if all(agree(results, first) for results in outputs.values()):
        return [*outputs], {}
    wrong = _wrong_engines(outputs, arrays, definition)
    if len(wrong) == len(outputs) or _has_jump(runs, outputs, arrays):
        return [*outputs], {}
    return [name for name in outputs if name not in wrong], wrong


def _wrong_engines(
    outputs: Mapping[str, Outputs], arrays: Sequence[Array], definition: EngineRun
) -> dict[str, str]:
    """Return the engines that differ from the layers in NumPy, and how; empty if NumPy raises an error."""
    try:
        want = definition(arrays)
    except AnyLayerError:
        return {}
    wrong: dict[str, str] = {}
    for name, results in outputs.items():
        differences = ((output, difference(results[output], array)) for output, array in want.items())
        output, text = next(((o, t) for o, t in differences if t), ("", ""))
        if text:
            wrong[name] = f"output '{output}' differs from NumPy ({text})"
    return wrong


def _has_jump(runs: Mapping[str, EngineRun], outputs: Mapping[str, Outputs], arrays: Sequence[Array]) -> bool:
    """Return whether a change of the inputs in their last bits changes the outputs of one of the engines."""
    random = np.random.default_rng(1)
    for name, results in outputs.items():
        changed = [
            (x * (1 + 1e-6 * random.standard_normal(x.shape))).astype(x.dtype) if x.dtype.kind == "f" else x
            for x in arrays
        ]
        if not agree(runs[name](changed), results):
            return True
    return False
