"""Exporters that decide by a name of the model, each beside its smallest repaired twin."""

from __future__ import annotations

import hardcoded_idioms
import hardcoded_objects
import hardcoded_tables
import hardcoded_texts

__all__ = ["PAIRS"]

PAIRS = [*hardcoded_texts.PAIRS, *hardcoded_tables.PAIRS, *hardcoded_objects.PAIRS, *hardcoded_idioms.PAIRS]
