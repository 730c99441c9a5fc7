"""Functions that must give the same while they are instrumented and watched; each is a trap of its own."""

# The code is odd on purpose.
# ruff: noqa: A001, C408, E721, FURB171, PLR0133
# mypy: ignore-errors

from __future__ import annotations

import collections
import dataclasses
import enum
import operator
import re
from collections.abc import Iterator
from typing import Any, ClassVar


def functions_as_values() -> Any:
    table = {operator.eq: 1, "k": 2}
    return operator.eq is operator.eq, table.get(operator.eq), table.get == table.get, sorted("ba", key="ab".index)


class Text(str):
    __slots__ = ()

    def split(self, sep: str | None = "/", maxsplit: Any = -1) -> list[str]:
        return [part for part in str(self).split(sep, maxsplit) if part]


def overridden_method_of_text() -> Any:
    return Text("/a/b").split()


class Key(enum.Enum):
    FIRST = "first"


def keywords_of_any_name() -> Any:
    holder = Forwarding()
    return f"{1} {2} {3} {4}", {}.get("a", 1), dict(key=Key)["key"] is Key, dict(key=holder.kind)["key"] is Key


def function_of_its_own_called_map() -> Any:
    def map(kinds: Any, values: list[str]) -> list[Any]:
        return [kind(value) for kind in [kinds] for value in values if [*kinds]]

    return map(Key, ["first"])


def method_named_beforehand() -> Any:
    call = operator.methodcaller("split", maxsplit=1)
    return call("a b c"), list(map(call, ["a b c"])), [call].index(call), type(call) is operator.methodcaller


class Lazy(collections.abc.Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        return key * 2

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def mapping_that_is_not_iterated() -> Any:
    return Lazy()["a"], Lazy().get("a"), "a" in Lazy()


class Unlisted:
    def __dir__(self) -> list[str]:
        raise RuntimeError


def attribute_by_name() -> Any:
    return getattr(Unlisted(), "missing", 1), hasattr(Unlisted(), "missing")


def match_that_ends_early() -> Any:
    unknown: Any = None
    match 3:
        case int():
            return 1
        case unknown.array():
            return 2


def annotations_of_classes() -> Any:
    @dataclasses.dataclass
    class Local:
        shared: ClassVar[dict[str, int]] = {"a": 1}
        own: int = 2

    return dataclasses.asdict(Local()), Local.__annotations__


class Forwarding:
    kept: ClassVar[dict[str, int]] = {"a": 1}
    kind = Key

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


def own_attribute_access() -> Any:
    return Forwarding().kept.get("a"), Forwarding() == 1, Forwarding() in [1]


class EqualToAll(type):
    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Unhashable(metaclass=EqualToAll):
    def get(self, key: str) -> str:
        return key

    __getitem__ = get


def unhashable_class() -> Any:
    match Unhashable():
        case "a":
            pass
    return (
        Unhashable().get("a"),
        Unhashable()["a"],
        Unhashable == int,
        Unhashable is int,
        isinstance(Unhashable(), Unhashable),
        Unhashable in [1],
    )


def order_in_an_f_string() -> Any:
    log: list[int] = []
    return f"{log}{log.append(1)!r}{len(log):>{2 + 1}}{log}"


class Counter:
    count = 0

    def __call__(self, _: re.Match[str]) -> str:
        self.count += 1
        return str(self.count)


def replacement_with_a_state() -> Any:
    counter = Counter()
    return re.sub("[a0]", counter, "renamedaaaa0"), counter.count


def attribute_called_dispatch() -> Any:
    def plain(x: int) -> int:
        return x

    plain.dispatch = {}  # type: ignore[attr-defined]
    return plain(1)


def what_is_read_once() -> Any:
    table: dict[str, list[int]] = collections.defaultdict(list)
    once = iter("abc")
    return "a" in once, list(once), table["x"], dict(table)


def lambdas_of_one_line() -> Any:
    return [each(2) for each in (lambda n: n == 1, lambda n: n == 1, lambda n: n == 2)]


def variables_of_the_function() -> Any:
    x = 5
    x -= 2
    return sorted(locals()), [y for y in range(3) if (z := y) == 1], z, 1 < 2 <= 2 != 3


TRAPS = [
    functions_as_values,
    overridden_method_of_text,
    keywords_of_any_name,
    function_of_its_own_called_map,
    method_named_beforehand,
    mapping_that_is_not_iterated,
    attribute_by_name,
    match_that_ends_early,
    annotations_of_classes,
    own_attribute_access,
    unhashable_class,
    order_in_an_f_string,
    replacement_with_a_state,
    attribute_called_dispatch,
    what_is_read_once,
    lambdas_of_one_line,
    variables_of_the_function,
]
