"""Find the reference data, which other programs computed and the repository does not hold.

CONTRIBUTING.md says what the folder holds and how to make it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VARIABLE = "ANYLAYER_DATA"
"""The environment variable that names the folder. By default, it is `shared` beside the project's folder."""
REFERENCE = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / "shared").resolve()


def absent(*names: str) -> str:
    """Return why tests and benchmarks that need these files or folders are left out. Return "" if all exist."""
    for name in names:
        path = REFERENCE / name
        if not (path.is_file() or (path.is_dir() and any(path.iterdir()))):
            remedy = f"Set {VARIABLE} to a folder that has it: see CONTRIBUTING.md"
            return f"{name} is not in the reference data. {remedy}"
    return ""


def needs_data(*names: str) -> pytest.MarkDecorator:
    """Return a mark that skips tests without these files or folders of the reference data."""
    import pytest  # benchmarks run without it

    reason = absent(*names)
    return pytest.mark.skipif(bool(reason), reason=reason)
