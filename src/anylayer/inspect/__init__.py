"""Inspect a network: a report of its nodes, its verification, its profile.

The files that only some commands need are loaded when they are first used.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.inspect import boxes, tables

__all__ = ["boxes", "tables"]

sys.modules[__name__].__class__ = NamesByFile
