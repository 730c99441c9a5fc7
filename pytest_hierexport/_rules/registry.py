"""Lists the built-in rules and selects those that run."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from pytest_hierexport import _rules as _package
from pytest_hierexport._errors import UsageError, proposals, similar
from pytest_hierexport._rules.base import Rule

_PREFIX = "must_"


@cache
def built_in() -> tuple[Rule, ...]:
    """Return the `RULE` of every file `_rules/must_*.py`, by id."""
    names = sorted(module.name for module in pkgutil.iter_modules(_package.__path__) if module.name.startswith(_PREFIX))
    return tuple(import_module(f"{_package.__name__}.{name}").RULE for name in names)


def rules(ids: Iterable[str] | None = None, extra: Iterable[Rule] = ()) -> list[Rule]:
    """Return the rules to run, the project's own after the built-in ones.

    Args:
        ids: Those to run; None for all. The cardinal ones always run.
        extra: The project's own rules.

    Raises:
        UsageError: No rule has one of the ids, or two rules share one.
    """
    known: dict[str, Rule] = {}
    own = tuple(extra)
    for rule in (*built_in(), *own):
        if (other := known.setdefault(rule.id, rule)) is not rule:
            raise UsageError(
                f"one rule of the id {rule.id}",
                found=f"two: {other.promise!r} and {rule.promise!r}",
                do="give the project's own rule another id",
            )
    if ids is None:
        return list(known.values())
    wanted = set(ids)
    if unknown := sorted(wanted - set(known)):
        is_named = own or any(similar(each, known) for each in unknown)
        none_own = "" if is_named else ", and no rule of the project: no hook pytest_hierexport_rules gives one"
        raise UsageError(
            "the id of a rule" if len(unknown) == 1 else "ids of rules",
            found=f"{', '.join(map(repr, unknown))}{none_own}",
            do=proposals((each, known) for each in unknown),
        )
    return [rule for rule in known.values() if rule.cardinal or rule.id in wanted]
