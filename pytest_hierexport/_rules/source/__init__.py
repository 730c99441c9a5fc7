"""Reads an exporter's source for decisions about names of a model by constants that spell such names.

An abstract interpretation in four steps, none of which runs the source: :mod:`program` parses it and resolves its
imports, :mod:`statements` and :mod:`expressions` follow values through it, function calls included, :mod:`comparing`
notes where a name meets constants, and :mod:`words` tells which of the constants a model under test spells.
"""

from __future__ import annotations

from pytest_hierexport._rules.source.analysis import decisions
from pytest_hierexport._rules.source.program import import_closure, module_name
from pytest_hierexport._rules.source.state import Decision, Kind
from pytest_hierexport._rules.source.words import Spelled, Words, words_of

__all__ = ["Decision", "Kind", "Spelled", "Words", "decisions", "import_closure", "module_name", "words_of"]
