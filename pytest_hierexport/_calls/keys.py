"""The part of a tag's segment that tells one instance from the others of its class name.

    model                       segments below /Net
    layer.0, layer.1: Layer     Layer.0, Layer.1                  all in one list: the index
    encoder.0, decoder.0: Block Block.encoder.0, Block.decoder.0  in several places: the path below the holder
    head: Head                  Head                              the only one: no key
    shared: Norm                Layer.0/Norm..shared              called by a module that does not hold it: `.` and
                                                                  the path from the root

An instance's key depends on the instances of its class name that the same module holds, and on nothing else: neither
on who calls them nor on the order of the calls. The four forms cannot read alike: none is empty but that of the only
one, none is a bare number but an index, and none starts with a dot but a path from the root. So no two models that
hold an instance alike give its tag to another instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["Keys", "sibling_keys"]


class Keys:
    """The keys of the instances that have a segment in tags.

    Args:
        instances: The path and class name of each of them; repetitions count once.
    """

    def __init__(self, instances: Iterable[tuple[str, str]]) -> None:
        """Group the instances by holder and class name."""
        known = dict.fromkeys(instances)
        self._paths = {path for path, _ in known}
        families: dict[tuple[str | None, str], list[str]] = {}
        for path, class_name in known:
            families.setdefault((self._holder(path), class_name), []).append(path)
        self._keys = {
            (path, class_name): key
            for (holder, class_name), paths in families.items()
            for path, key in sibling_keys(class_name, holder or "", paths).items()
        }

    def key(self, path: str, class_name: str, caller: str | None) -> str:
        """Return the key of an instance in the segments of its calls by one caller.

        Args:
            path: The instance's path.
            class_name: Its class's name.
            caller: The path of the module whose segment stands before; None where none does.
        """
        return self._keys[path, class_name] if caller == self._holder(path) else _from_root(path)

    def _holder(self, path: str) -> str | None:
        """Return the path of the nearest instance with a segment that holds this one; None where none does."""
        while path:
            path = path.rpartition(".")[0]
            if path in self._paths:
                return path
        return None


def sibling_keys(class_name: str, holder: str, paths: Collection[str]) -> dict[str, str]:
    """Return the key of each of the instances that share a class name and a holder.

    Args:
        class_name: Their class's name; an empty one never says enough.
        holder: The holder's path; the root's where they have none.
        paths: The instances' paths.
    """
    names = {path: path.rpartition(".")[2] for path in paths}
    containers = {path.rpartition(".")[0] for path in paths}
    if len(containers) == 1 and all(map(_is_index, names.values())):
        return names
    if len(paths) == 1 and class_name:
        return dict.fromkeys(paths, "")
    below = len(holder) + 1 if holder else 0
    return {path: _from_root(path) if _is_index(path[below:]) else path[below:] for path in paths}


def _is_index(name: str) -> bool:
    """Whether this is the name of a list's item: lists alone name their items by position."""
    return name.isascii() and name.isdecimal()


def _from_root(path: str) -> str:
    """Return a key that stands for this path alone, whatever holds it."""
    return f".{path}"
