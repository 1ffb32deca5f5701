"""Run a script with what OpenCV 5 has lost: `python -m anylayer.opencv script.py arguments`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from anylayer.opencv.install import install


def main() -> None:
    """Run the script that the command line names, as Python would, after install()."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    if not Path(sys.argv[1]).exists():
        print(f"{sys.argv[1]}: there is no such script", file=sys.stderr)
        sys.exit(2)
    install()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
