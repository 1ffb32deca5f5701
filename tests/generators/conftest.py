"""Fixtures of these tests, and those of other rooms that they use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from anylayer.convert.generation import Generation
from tests.kernels.conftest import opencl_device

Attacked = Callable[..., Generation]

__all__ = ["opencl_device"]


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """Return a function that generates each project of attacks once: see attacked_project."""
    from tests.generators.opencv.test_project import attacked_project

    @cache
    def project(target: str, *, words: bool = True) -> Generation:
        return attacked_project(tmp_path_factory.mktemp("attacked"), target, words=words)

    return project
