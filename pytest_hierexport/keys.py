"""The part of a tag's segment that tells one instance from the others of its class name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["below", "sibling_keys"]


def sibling_keys(class_name: str, parent: str, siblings: Mapping[str, bool]) -> dict[str, str]:
    """Choose the key of each of the instances that share a class name below one kept parent.

    Args:
        class_name: Their class's name; an empty one never says enough.
        parent: The kept parent's path; the root's where no parent is kept.
        siblings: The instances' paths in execution order, and whether each lies below its caller.

    Returns:
        A key for every path, no two alike; the empty one where the class name says enough.
    """
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for path, held in siblings.items():
        tail = below(parent, path) if held else None
        if class_name and tail is not None and len(siblings) == 1 and not _in_list(path):
            return {path: ""}
        keys[path] = next(key for key in _candidates(path, tail) if key not in taken)
        taken.add(keys[path])
    return keys


def below(parent: str, path: str) -> str | None:
    """Return the part of a path below `parent`; None where it does not lie there."""
    if not parent:
        return path
    return path[len(parent) + 1 :] if path.startswith(f"{parent}.") else None


def _in_list(path: str) -> bool:
    """Whether the instance sits in a list: lists alone name their items by position."""
    name = path.rpartition(".")[2]
    return name.isascii() and name.isdecimal()


def _candidates(path: str, tail: str | None) -> Iterator[str]:
    """Yield the tails of the path below the parent, the shortest first, or the path where it lies elsewhere.

    A path from the root may read like another's tail: the dots that the last candidates start with, which no
    path and no tail does, keep even those apart.
    """
    if tail is None:
        yield path
        yield f".{path}"
        return
    parts = tail.split(".")
    for i in range(len(parts) - 1, -1, -1):
        yield ".".join(parts[i:])
    yield f"..{tail}"
