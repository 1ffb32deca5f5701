"""Rewrite a graph into an equal one. Layout propagation is loaded for the first graph that has Transposes."""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.optimize import layout

__all__ = ["layout"]

sys.modules[__name__].__class__ = NamesByFile
