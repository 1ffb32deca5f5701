"""Compilation: from a network to traced nodes, and from those to a plan of graphs and host calls.

Its files that `import anylayer` does not need are loaded when they are first used.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.compile import inputs, nodes, symbolic

__all__ = ["inputs", "nodes", "symbolic"]

sys.modules[__name__].__class__ = NamesByFile
