"""Functions of the module caffe: modes, the list of layer types, logging, and solvers, which are refused."""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any, NoReturn

from anylayer.caffe.net import NO_GRADIENTS, TrainingError
from anylayer.errors import need
from anylayer.layer import Registry

__all__ = ["Timer", "get_solver", "has_nccl", "init_log", "layer_type_list", "log", "set_device"]
__all__ += ["set_mode_cpu", "set_mode_gpu", "set_multiprocess", "set_solver_count", "set_solver_rank"]
__all__ += ["solver_count", "solver_rank"]
__all__ += ["AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "NesterovSolver", "RMSPropSolver", "SGDSolver"]


def set_mode_cpu() -> None:
    """Do nothing: networks run on the CPU."""


def set_mode_gpu() -> None:
    """Warn that networks run on the CPU. The results are the same."""
    warnings.warn("set_mode_gpu has no effect: anylayer.caffe runs networks on the CPU", stacklevel=2)


def set_device(device: int) -> None:
    """Do nothing: there is one device."""


def has_nccl() -> bool:
    """Return False: there is no training on several devices."""
    return False


def solver_count() -> int:
    """Return 1: layers that share their data among solvers use all of it."""
    return 1


def solver_rank() -> int:
    """Return 0: there is one process."""
    return 0


def set_solver_count(count: int) -> None:
    """Raise TrainingError for more than one solver."""
    need(count == 1, NO_GRADIENTS, TrainingError)


def set_solver_rank(rank: int) -> None:
    """Raise TrainingError for another solver than the first."""
    need(rank == 0, NO_GRADIENTS, TrainingError)


def set_multiprocess(several: bool) -> None:
    """Raise TrainingError for several processes."""
    need(not several, NO_GRADIENTS, TrainingError)


def init_log(level: int = 0) -> None:
    """Do nothing: anylayer writes no log."""


def log(text: str) -> None:
    """Write a line to the logger "anylayer.caffe" of Python's logging."""
    logging.getLogger("anylayer.caffe").info(text)


def layer_type_list() -> list[str]:
    """Return the layer types that a network may have, in alphabetical order."""
    return sorted({*Registry.of("caffe").types(), "Python"})


class Timer:
    """A clock: `start()`, `stop()`, and the time between them in milliseconds, `ms`."""

    def __init__(self) -> None:
        self._start = self._stop = 0.0

    def start(self) -> None:
        """Start to measure."""
        self._start = time.perf_counter()

    def stop(self) -> None:
        """Stop to measure."""
        self._stop = time.perf_counter()

    @property
    def ms(self) -> float:
        """The measured time in milliseconds."""
        return (self._stop - self._start) * 1e3


def get_solver(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise TrainingError: anylayer computes no gradients."""
    raise TrainingError(NO_GRADIENTS)


class SGDSolver:
    """A solver, which is refused: anylayer computes no gradients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TrainingError(NO_GRADIENTS)


AdaDeltaSolver = AdaGradSolver = AdamSolver = NesterovSolver = RMSPropSolver = SGDSolver
