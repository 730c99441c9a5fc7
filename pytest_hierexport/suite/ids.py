"""Names of models in node ids and file names."""

from __future__ import annotations

__all__ = ["escape"]

# Beside letters and digits: harmless in ids, in file names and within a shell's quotes.
_KEPT = frozenset(" _-+,=@~.")


def escape(name: str) -> str:
    """Percent-encode what separates the parts of a node id or of a path, and what no file name may hold."""
    escaped = "".join(c if c.isalnum() or c in _KEPT else _encoded(c) for c in name)
    return escaped if escaped.strip(". ") else "".join(map(_encoded, name))


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
