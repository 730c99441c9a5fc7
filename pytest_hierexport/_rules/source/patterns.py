"""What the patterns of a `match` decide."""

from __future__ import annotations

import ast

from pytest_hierexport._rules.source.comparing import Site
from pytest_hierexport._rules.source.expressions import read
from pytest_hierexport._rules.source.program import Scope
from pytest_hierexport._rules.source.values import NOTHING, Kind, Value, of_kind

__all__ = ["match_pattern"]


def match_pattern(pattern: ast.pattern, subject: Value, scope: Scope) -> None:
    """Record what a pattern decides about the subject of a `match`, and bind what it captures."""
    site = Site(
        scope, pattern.cls if isinstance(pattern, ast.MatchClass) else ast.copy_location(ast.Name("_"), pattern)
    )
    if isinstance(pattern, ast.MatchValue):
        Site(scope, pattern.value).equal(subject, read(pattern.value, scope))
    elif isinstance(pattern, (ast.MatchSequence, ast.MatchOr)):
        inner = subject if isinstance(pattern, ast.MatchOr) else subject.each
        for each in pattern.patterns:
            match_pattern(each, inner, scope)
    elif isinstance(pattern, ast.MatchClass):
        site.by_class(read(pattern.cls, scope))
        for attr, each in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            match_pattern(each, of_kind(Kind.NAME) if attr == "name" and Kind.NODE in subject.kinds else NOTHING, scope)
    elif isinstance(pattern, ast.MatchMapping):
        for key in pattern.keys:
            Site(scope, key).equal(subject.each, read(key, scope))
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        match_pattern(pattern.pattern, subject, scope)
    name = getattr(pattern, "name", None)
    if isinstance(name, str):
        scope.bind(name, subject)
