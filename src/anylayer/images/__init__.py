"""Images: their files, OpenCV's resize, and the preprocessing that makes an input of a network of them."""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.images.resize import resize

__all__ = ["resize"]

sys.modules[__name__].__class__ = NamesByFile
