"""The packages that load files by name are modules in every other respect."""

from __future__ import annotations

import copy
import pickle
from types import ModuleType

import pytest

import anylayer


@pytest.mark.parametrize("package", [anylayer, anylayer.ops], ids=lambda p: p.__name__)
def test_packages_are_pickled_by_name(package: ModuleType) -> None:
    assert pickle.loads(pickle.dumps(package)) is package and copy.deepcopy(package) is package
