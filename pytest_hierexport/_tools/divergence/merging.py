"""Merges what was found on several inputs: noise is averaged, all else is the worst of all inputs.

on the first input    encoder.layer.0 adds 30 dB (noise 0.001 of the signal)
on the second         encoder.layer.0 adds 20 dB (noise 0.01 of the signal)
merged                encoder.layer.0 adds 22.6 dB (noise 0.0055 of the signal)

A value that is unknown on one input counts by the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pytest_hierexport._grouping import grouped
from pytest_hierexport._tools.divergence.results import CallGap, Divergence, Gap, ValueGap


def merged(runs: Sequence[Divergence]) -> Divergence:
    """Return the calls of all inputs, those of the first input first, each with its errors over all of them."""
    if len(runs) == 1:
        return runs[0]
    calls = grouped((call for run in runs for call in run.calls), lambda call: call.call)
    return Divergence(tuple(map(_call, calls.values())))


def _call(same: Sequence[CallGap]) -> CallGap:
    values = grouped((value for call in same for value in call.values), lambda value: value.name)
    return replace(
        same[0],
        values=tuple(map(_value, values.values())),
        impact=_gap(call.impact for call in same),
        parts=_all(call.parts for call in same),
    )


def _value(same: Sequence[ValueGap]) -> ValueGap:
    """Merge what was found for a value; an input on which it was unknown does not count."""
    known = next((value for value in same if value.accumulated is not None), same[0])
    return replace(
        known,
        accumulated=_gap(value.accumulated for value in same),
        added=_gap(value.added for value in same),
        includes=_all(value.includes for value in same),
    )


def _gap(gaps: Iterable[Gap | None]) -> Gap | None:
    known = [gap for gap in gaps if gap is not None]
    if not known:
        return None
    with np.errstate(over="ignore", divide="ignore"):
        noise = np.mean(np.power(10.0, [-gap.sqnr / 10 for gap in known]))
        sqnr = float(-10 * np.log10(noise))
    return Gap(
        sqnr=sqnr,
        cosine=float(np.min([gap.cosine for gap in known])),  # NaN stays NaN
        max_abs=max(gap.max_abs for gap in known),
        distance=max(gap.distance for gap in known),
        tolerance=max(gap.tolerance for gap in known),
        reason=next((gap.reason for gap in known if gap.reason), ""),
        reshaped=any(gap.reshaped for gap in known),
    )


def _all(several: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for names in several for each in names))
