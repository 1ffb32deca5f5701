"""The engines on which a network runs that another engine refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from anylayer.compile.plan import Plan
from anylayer.engines import installed
from anylayer.errors import AnyLayerError, EngineError
from anylayer.network import Array
from anylayer.runtime.compilation import Compilation


def name_able(compilation: Compilation, error: EngineError, run: Callable[[str], object]) -> EngineError:
    """Return an error of an engine, whose message then names the general engines on which `run` succeeds."""
    able = []
    for name, engine in installed().items():
        if name != compilation.engine and engine.GENERAL and compilation.precision in engine.PRECISIONS:
            with suppress(AnyLayerError):
                run(name)
                able.append(f"'{name}'")
    if able:
        error.message = f"{error.message.rstrip('.')}. Use engine {' or '.join(able)}"
    return error


def on_another_engine(
    compilation: Compilation, plan: Plan | None, engine: str, arrays: Sequence[Array], error: EngineError
) -> tuple[str, dict[str, Array]]:
    """Run a call that `engine` refuses with `error` on another engine that "auto" may use.

    plan: that of the program that refused it. Return the other engine and the outputs. Raises `error` if there is
    no such engine; its message names those that the caller may ask for.
    """
    if plan is None:
        raise error
    whole = plan.whole
    if compilation.engine != "auto":
        raise name_able(compilation, error, lambda name: compilation.runner(whole, name)(arrays, {}))
    for name, other in installed(compilation.device).items():
        if other.GENERAL and (plan is not whole or name != engine):
            with suppress(EngineError):
                return name, compilation.runner(whole, name)(arrays, {})
    raise error
