"""Reads an exporter's source for decisions about names of a model by constants that spell such names.

A flow-insensitive type inference, which does not run the source: :mod:`reading` binds what expressions may be to the
variables of their scopes, over all files until nothing changes; :mod:`evidence` says what yields a name of a model;
:mod:`operations` records where a name meets constants; :mod:`words` says which of these a model under test spells.
"""

from __future__ import annotations

from pytest_hierexport._rules.source.files import shown, source_files
from pytest_hierexport._rules.source.reading import decisions
from pytest_hierexport._rules.source.scopes import Check, Decision
from pytest_hierexport._rules.source.words import Spelled, Words, words_of

__all__ = ["Check", "Decision", "Spelled", "Words", "decisions", "shown", "source_files", "words_of"]
