"""Compilation: from a network to traced nodes, and from those to a plan of graphs and host calls.

What makes one graph for every size is loaded when it is first used.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.compile import symbolic

__all__ = ["symbolic"]

sys.modules[__name__].__class__ = NamesByFile
