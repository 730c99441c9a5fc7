"""Computes the key of a module instance: the part of a tag's segment that distinguishes it from others of its class.

    model                       segments below /Net
    layer.0, layer.1: Layer     Layer.0, Layer.1                  all in one list: the index
    encoder.0, decoder.0: Block Block.encoder.0, Block.decoder.0  in several places: the path below the holder
    head: Head                  Head                              the only one: no key
    shared: Norm                Layer.0/Norm..shared              called by a module that does not hold it: `.` and
                                                                  the path from the root

An instance's key depends only on the instances of its class name that the same module holds, not on callers or the
order of calls. The four forms are distinct: only that of the single instance is empty, only an index is a number, only
a path from the root starts with a dot. So a tag never moves to another instance while its own stays in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pytest_hierexport._calls.names import upwards
from pytest_hierexport._grouping import by_key


class Keys:
    """The keys of the instances that have a segment in tags.

    Args:
        instances: The path and class name of each of them; repetitions count once.
    """

    def __init__(self, instances: Iterable[tuple[str, str]]) -> None:
        """Group the instances by holder and class name."""
        known = dict.fromkeys(instances)
        self._paths = {path for path, _ in known}
        families = by_key(((self._holder(path), class_name), path) for path, class_name in known)
        self._keys = {
            (path, class_name): key
            for (holder, class_name), paths in families.items()
            for path, key in sibling_keys(class_name, holder or "", paths).items()
        }

    def key(self, path: str, class_name: str, caller: str | None) -> str:
        """Return the key of an instance in the segments of its calls by one caller, None for the first segment."""
        return self._keys[path, class_name] if caller == self._holder(path) else _from_root(path)

    def _holder(self, path: str) -> str | None:
        """Return the path of the nearest instance with a segment that holds this one; None where there is none."""
        return next((above for above in upwards(path) if above != path and above in self._paths), None)


def sibling_keys(class_name: str, holder: str, paths: Collection[str]) -> dict[str, str]:
    """Return the key of each of the instances of a class name and a holder; an empty name always needs a key."""
    names = {path: path.rpartition(".")[2] for path in paths}
    containers = {path.rpartition(".")[0] for path in paths}
    if len(containers) == 1 and all(map(_is_index, names.values())):
        return names
    if len(paths) == 1 and class_name:
        return dict.fromkeys(paths, "")
    below = len(holder) + 1 if holder else 0
    return {path: _from_root(path) if _is_index(path[below:]) else path[below:] for path in paths}


def _is_index(name: str) -> bool:
    """Whether this is the name of a list's item: only lists name their items by position."""
    return name.isascii() and name.isdecimal()


def _from_root(path: str) -> str:
    """Return the key made of the whole path, which no other instance has."""
    return f".{path}"
