"""Names that are unique within a network."""

from __future__ import annotations


def unique(name: str, taken: dict[str, int]) -> str:
    """Return `name`, or the first of name_1, name_2, ... that is not taken, and enter it in `taken`.

    `taken` maps each name to the last number that was appended to it, so that many equal names take linear time.
    """
    found, i = name, taken.get(name, 0)
    while found in taken:
        i += 1
        found = f"{name}_{i}"
    taken[name] = i
    taken[found] = taken.get(found, 0)
    return found
