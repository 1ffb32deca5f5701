"""Tracing rules: what NumPy's functions, ufuncs, methods and attributes record.

A file is imported when one of its functions is first traced: see folders.FolderTable.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.tracing.rules import attributes, indexing, reductions, spectral, writing

__all__ = ["attributes", "indexing", "reductions", "spectral", "writing"]

sys.modules[__name__].__class__ = NamesByFile
