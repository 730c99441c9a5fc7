"""Origins through any graph transformation: `carry(before, after)` sees the two graphs and nothing else."""

from __future__ import annotations

from pytest_hierexport._carry.carrier import Known, carry, carry_known
from pytest_hierexport._carry.flat import Flat

__all__ = ["Flat", "Known", "carry", "carry_known"]
