"""What decides in an exporter's source is seen as it runs: `pytest_hierexport._rules.decisions`.

The counterexamples of MUST-001 stand in `musts`; here is what they rest on.
"""

from __future__ import annotations

import copy
import enum
import gc
import importlib.util
import linecache
import pickle
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch import nn

import watched_code
from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._rules.decisions.deciding import Decisions, _other_module
from pytest_hierexport._rules.decisions.instrument import Code, code_of, instrumented
from pytest_hierexport._rules.decisions.operations import watching
from pytest_hierexport._rules.decisions.source import places, source_files
from pytest_hierexport._rules.decisions.values import Marked, marked
from pytest_hierexport._rules.decisions.watch import Watch
from pytest_hierexport._rules.new_names import Names
from pytest_hierexport._rules.renaming import renamed


class Block(nn.Module):
    """A class of the model under its own name."""


class Renamedaaaa(Block):
    """The same class under its new name."""


class ToyConfig:
    """What a model holds as its configuration."""

    model_type = "toy"

    def __init__(self) -> None:
        self.architectures = ["ToyModel"]


class Unprintable:
    """A value that has no text."""

    def __repr__(self) -> str:
        raise AssertionError("printed")


NAMES = Names({"block": "renamedaaaa", "pool": "renamedaaab", "head": "renamedaaac"}, {id(Renamedaaaa): Block})
PATH, OTHER = "renamedaaab.0.renamedaaac", "renamedaaac"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a module with some source."""

    def loaded(text: str, name: str = "exporter") -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name.replace("/", "."), path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Return the line of each place where a name decides, while the test lasts."""
    found: list[str] = []

    def note(_: object) -> None:
        frames = (frame for frame, _ in traceback.walk_stack(sys._getframe()))
        frame = next(each for each in frames if Path(each.f_code.co_filename).stem == "exporter")
        found.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())

    linecache.clearcache()
    watching.decisions = Decisions(NAMES, note, [ToyConfig()])
    yield found
    watching.decisions = None


def codes(module: ModuleType) -> dict[Path, Code]:
    path = Path(str(module.__file__))
    return {path: code_of(path)}


def run(module: ModuleType, *args: Any) -> Any:
    """Call the function `f` of a module while its file is instrumented."""
    with instrumented(codes(module)):
        return module.f(*args)


class TestDecisions:
    @pytest.mark.parametrize(
        "code",
        [
            "x == 'pool.0.head'",
            "x != 'pool.0.head'",
            "'pool' in x",
            "x not in ['pool.0.head']",
            "x in {1: 'pool.0.head'}.values()",
            "x in collections.OrderedDict({1: 'pool.0.head'}).values()",
            "x in collections.deque(['pool.0.head'])",
            "x.startswith(('pool', 'other'))",
            "x.split('.')[-1] in {'head'}",
            "x.upper() == 'POOL.0.HEAD'",
            "x.removeprefix('pool.')",
            "x.replace('pool', 'p')",
            "x.partition('head')",
            "{'pool.0.head': 1}.get(x)",
            "{x} & {'pool.0.head'}",
            "{x} ^ {'pool.0.head'}",
            "x[:4] == 'pool'",
            "x[-4:] in {'head', 'tail'}",
            "{x} - {'pool.0.head'}",
            "{x}.isdisjoint({'pool.0.head'})",
            "{'pool.0.head'} <= {x}",
            "{'pool.0.head'} <= {x: 1}.keys()",
            "{x: 1}.keys() <= {'pool.0.head'}",
            "{x: 1}.get('pool.0.head')",
            "['pool.0.head', x].index(x) and ['pool.0.head'].count(x)",
            "re.search(r'pool\\.(\\d+)', x)",
            "re.compile('head$').search(x)",
            "re.sub('^pool', '', x)",
            "fnmatch.fnmatch(x, 'pool.*')",
            "operator.eq(x, 'pool.0.head')",
            "functools.partial(operator.eq, 'pool.0.head')(x)",
            "list(filter('pool.0.head'.__eq__, [x]))",
            "list(itertools.filterfalse(re.compile('pool').match, [x]))",
            "x.encode().startswith(b'pool')",
            "x.encode() == b'pool.0.head'",
            "b'pool' in x.encode()",
            "operator.methodcaller('startswith', 'pool')(x)",
            "sorted([x], key=operator.methodcaller('startswith', 'pool'))",
            "[by for by in [operator.methodcaller('split', '.head', maxsplit=1)] if list(map(by, [x]))]",
            "str.startswith(x, 'pool')",
            "f'{x}.head' == 'pool.0.head.head'",
            "'%s' % x == 'pool.0.head'",
            "hasattr(math, x.split('.')[0].replace('l', 'w'))",
            "(x, 1) == ('pool.0.head', 1)",
            "(lambda one: one == 'pool.0.head')(x)",
            "[one for one in [x] if one == 'pool.0.head']",
        ],
    )
    def test_of_a_name_are_told(self, code: str, load: Callable[[str], ModuleType], told: list[str]) -> None:
        imports = "import collections, fnmatch, functools, itertools, math, operator, re"
        run(load(f"{imports}\ndef f(x, y):\n    return {code}\n"), PATH, OTHER)
        assert told

    @pytest.mark.parametrize(
        "code",
        [
            "x == y",
            "x == x[:]",
            "x in [x, y]",
            "x in {y: 1}",
            "{y} <= {x: 1}.keys()",
            "x.split('.')[0] == x.split('.')[1]",
            "x[:len(y)] == y",
            "x[:-1] == x[:-1] and x[0] == '_'",
            "x.endswith('.0.' + y)",
            "x.find(y)",
            "x.find('0')",
            "len(x) > 10",
            "x < y",
            "sorted([x, y])",
            "'0' in x",
            "x == 'renamedfrom'",
            "'renamedN' in 'renamedNode'",
            "re.search(r'\\.(\\d+)\\.', x)",
            "re.sub(r'\\d', lambda found: '0', x)",
            "'{:>40} pool'.format(x)",
            "'%-40s pool' % x",
            "f'{x:>40} pool'",
            "', '.join([x, 'pool'])",
            "x.encode().endswith(b'.0') or x.encode() == y.encode()",
            "{x: 1, 'other': 2}['other']",
            "{x} | {y}",
            "'pool' == 'pool'",
            "{'pool': 1}['pool']",
            "isinstance(x, str)",
            "getattr(x, 'strip')()",
        ],
    )
    def test_of_something_else_are_not(self, code: str, load: Callable[[str], ModuleType], told: list[str]) -> None:
        run(load(f"import re\ndef f(x, y):\n    return {code}\n"), PATH, OTHER)
        assert not told

    def test_by_a_class_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        source = """
        def f(cls, Block):
            yield cls is Block
            yield Block is cls
            yield cls in {Block: 1}
            yield cls.__name__ == 'Block'
            yield cls is cls
        """
        made = list(run(load(textwrap.dedent(source)), Renamedaaaa, Block))
        assert made == [False, False, False, False, True]
        assert told == [line.strip() for line in source.splitlines()[2:-2]]

    def test_by_an_enumeration_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        class Part(enum.Enum):
            head = "head"

        module = load(
            "def f(part, name):\n    try:\n        return part(name)\n    except ValueError:\n        part[name]\n"
        )
        with pytest.raises(KeyError):
            run(module, Part, OTHER)
        assert told == ["return part(name)", "part[name]"]

    @pytest.mark.parametrize(
        ("pattern", "of"),
        [
            ("['pool', *_]", "x.split('.')"),
            ("'pool.0.head' | 'other'", "x"),
            ("[Seen(name='pool.0.head')]", "[Seen(x)]"),
            ("{'found': 'pool.0.head'}", "{'found': x}"),
            ("Seen.POOL", "x"),
            ("Part.POOL", "x"),
        ],
    )
    def test_by_values_of_patterns_are_told(
        self, load: Callable[[str], ModuleType], told: list[str], pattern: str, of: str
    ) -> None:
        source = f"""
            import enum
            class Part(str, enum.Enum):
                POOL = "pool.0.head"
            class Seen:
                POOL = "pool.0.head"
                def __init__(self, name):
                    self.name = name
            def f(x):
                match {of}:
                    case {pattern}:
                        return True
        """
        assert run(load(textwrap.dedent(source)), PATH) is None
        assert told == [f"case {pattern}:"]

    def test_by_keys_and_classes_of_patterns_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        source = f"""
            from {__name__} import Block
            import {__name__} as tests
            def f(x):
                match {{x: 1}}:
                    case {{"head": 1}}:
                        return True
            def g(x):
                match x:
                    case Block():
                        return True
            def h(x):
                match x:
                    case str() | tests.Block():
                        return True
        """
        module = load(textwrap.dedent(source))
        run(module, OTHER)
        assert told == ["match {x: 1}:"]
        with instrumented(codes(module)):
            assert module.g(Renamedaaaa())
            assert module.h(Renamedaaaa())
        assert told == ["match {x: 1}:", "match x:", "match x:"]

    @pytest.mark.parametrize(
        "code",
        [
            "config.model_type == 'toy'",
            "f'a {config.model_type}'.endswith('toy')",
            "f'{config.model_type!s}' == 'toy'",
            "'a_' + config.model_type in {'a_toy'}",
            "'%s_a' % config.model_type == 'toy_a'",
            "'-'.join(['a', config.model_type.upper()]) == 'a-TOY'",
            "'ToyModel' in config.architectures",
            "getattr(config, 'model_type', None) in ('toy',)",
            "{'toy': 1}[config.model_type]",
            "collections.defaultdict(int, toy=1)[config.model_type]",
            "types.MappingProxyType({'toy': 1})[config.model_type]",
            "'ToyModel' in set(config.architectures)",
            "{config.model_type: 1}.get('toy')",
            "(config.model_type, 1) in {('toy', 1)}",
            "{('toy', 1): 2}[config.model_type, 1]",
            "type(config).__name__ in {'ToyConfig', 'OtherConfig'}",
            "config.__class__.__qualname__.removesuffix('Config').lower() == 'toy'",
            "isinstance(config, ToyConfig)",
            "type(config) is ToyConfig",
        ],
    )
    def test_of_names_that_stay_are_told(self, code: str, load: Callable[[str], ModuleType], told: list[str]) -> None:
        module = load(f"import collections, types\ndef f(config):\n    return {code}\n")
        vars(module)["ToyConfig"] = ToyConfig
        run(module, ToyConfig())
        assert told

    def test_of_equal_keys_with_a_name_are_not(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        source = "def f(config, x):\n    return {(config.model_type, x): 1}[vars(type(config))['model_type'], x]\n"
        assert run(load(source), ToyConfig(), PATH) == 1
        assert not told

    @pytest.mark.parametrize(("code", "decides"), [("endswith('Config')", False), ("startswith('Own')", True)])
    def test_of_what_all_configurations_share_are_not(
        self, code: str, decides: bool, load: Callable[[str], ModuleType], told: list[str]
    ) -> None:
        own = type("OwnConfig", (type("AnyConfig", (), {}),), {"model_type": "own"})()
        watching.decisions = Decisions(NAMES, lambda _: told.append(""), [own])
        run(load(f"def f(config):\n    return type(config).__name__.{code}\n"), own)
        assert bool(told) == decides

    def test_of_a_type_in_a_pattern_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        source = """
        def f(config):
            match config.model_type:
                case "other" | "toy":
                    return True
        """
        assert run(load(textwrap.dedent(source)), ToyConfig())
        assert told == ['case "other" | "toy":']

    def test_of_other_configurations_are_not(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        class Base:
            pass

        class Config(ToyConfig, Base):
            model_type = "other"

        source = "def f(config, base):\n    return type(config).__name__ == 'Config', isinstance(config, base)\n"
        config: Any = Config()
        assert run(load(source), config, Base) == (True, True)
        assert not told

    def test_of_configurations_in_a_class_of_any_model_are_not(self, load: Callable[[str], ModuleType]) -> None:
        found: list[object] = []
        config = SimpleNamespace(model_type="toy")
        watching.decisions = Decisions(NAMES, found.append, [config])
        source = (
            "def f(config, base):\n    return isinstance(config, base), type(config).__name__ == 'SimpleNamespace'\n"
        )
        try:
            assert run(load(source), config, SimpleNamespace) == (True, True)
        finally:
            watching.decisions = None
        assert not found

    def test_need_no_file_of_the_models_module(self) -> None:
        cls = type("Made", (Block,), {"__module__": "gone.models.made"})
        assert Decisions(Names({}, {0: cls}), lambda _: None).files == {}

    def test_of_a_models_own_file_are_told(self, load: Callable[..., ModuleType], told: list[str]) -> None:
        assert watching.decisions is not None
        own = load("class Model:\n    pass\n", "package/modeling_toy")
        watching.decisions.files[str(own.__file__)] = Path(str(own.__file__)).with_name("renamed.py")
        source = (
            "import inspect, pathlib\n"
            "def f(cls):\n"
            "    file = inspect.getfile(cls)\n"
            "    if file.endswith('modeling_toy.py') and inspect.getmodulename(file).endswith('_toy'):\n"
            "        return pathlib.Path(file).stem == 'modeling_toy'\n"
        )
        assert run(load(source), own.Model)
        first = "if file.endswith('modeling_toy.py') and inspect.getmodulename(file).endswith('_toy'):"
        assert told == [first, first, "return pathlib.Path(file).stem == 'modeling_toy'"]

    def test_of_a_models_module_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        assert watching.decisions is not None
        own = sys.modules[Block.__module__]
        watching.decisions.files[str(own.__file__)] = Path("renamed.py")
        source = "def f(own):\n    return own.__name__.endswith('decisions') + own.__file__.endswith('decisions.py')\n"
        assert run(load(source), own) == 2
        assert len(told) == 2

    def test_of_a_nodes_number_are_told(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        class Node:
            op_type, name = "Gemm", "node_linear_3"

        source = (
            "def f(node):\n    if node.name.startswith('node_linear'):\n        return node.name == 'node_linear_3'\n"
        )
        assert run(load(source), Node)
        assert told == ["return node.name == 'node_linear_3'"]

    def test_of_code_that_only_answers_a_probe_are_not_told(
        self, load: Callable[[str], ModuleType], told: list[str]
    ) -> None:
        source = (
            "from collections.abc import Mapping\n"
            "class Table(Mapping):\n    def __getitem__(self, key):\n        return {'x': 1}[key]\n"
            "    def __iter__(self):\n        return iter('x')\n    def __len__(self):\n        return 1\n"
            "def f(x):\n    return x in Table()\n"
        )
        assert run(load(source), PATH) is False
        assert not told

    @pytest.mark.parametrize(
        "code",
        [
            "{node.name: 1}[node.name]",
            "node.name in [node.name]",
            "node.name in {1: node.name}.values()",
            "node.name in {node.name}",
            "node.name == node.name",
            "{node.name: 1}.get(node.name)",
            "sys.modules[config.__module__] and config.__module__ in sys.modules",
            "[x] is [x]",
            "{f'{x}{i}' for i in range(1500)} - {f'{x}{i}' for i in range(1400)}",
            "'\\n'.join(f'{x}={i}' for i in range(1500)).split('\\n')",
            "(config.model_type + 'abc')[11]",
            "config.model_type.replace('-', '_').split('_')",
        ],
    )
    def test_of_names_with_each_other_are_not(
        self, code: str, load: Callable[[str], ModuleType], told: list[str]
    ) -> None:
        class Node:
            op_type, name = "Gemm", "node_linear_3"

        Block.model_type = "transformer"  # type: ignore[attr-defined]
        assert watching.decisions is not None
        watching.decisions.types = frozenset(["transformer"])
        run(load(f"import sys\ndef f(node, config, x):\n    return {code}\n"), Node, Block, PATH)
        assert not told


class TestInstrumentedCode:
    SOURCE = """
import contextlib, dataclasses, enum, functools

class Base:
    def __init__(self):
        self.seen = []
    def name(self):
        return f"{type(self).__name__!r:>10}{len(self.seen)=}"

class Derived(Base):
    kinds = {"a": 1, "b": 2}
    def __init__(self):
        super().__init__()
        self.__hidden = 3
    def name(self):
        return super().name() + str(self.__hidden)
    @property
    def size(self):
        return self.kinds["a"] + len([k for k in self.kinds if k != "a"])
    @classmethod
    def made(cls, *args, **kwargs):
        return cls(), args, kwargs

@dataclasses.dataclass
class Point:
    x: int
    y: "int" = 2

def outer(start):
    count = start
    def inner(step=1):
        nonlocal count
        count += step
        return count
    return inner

@functools.lru_cache
def cached(n):
    return n if n < 2 else cached(n - 1) + cached(n - 2)

@contextlib.contextmanager
def entered(log):
    log.append("in")
    try:
        yield log
    finally:
        log.append("out")

def shape(value):
    match value:
        case {"kind": "point", "at": [x, y]}:
            return x, y
        case Point(x=1):
            return "one"
        case ("a" | "b") as letter if letter == "a":
            return letter
        case [first, *rest]:
            return first, len(rest)
    return None

def generated():
    received = yield 1
    yield received

def f():
    log = []
    derived, *made = Derived.made(1, *[2], a=3, **{"b": 4})
    step = outer(1)
    with entered(log) as same:
        same.append(step() + step(step=2))
    made_by = generated()
    first = next(made_by), made_by.send("sent")
    chained = 1 < 2 <= 2 != 3 in [3] is not None
    table = {(1, 2): "t", "k": [5, 6, 7]}
    sliced = table["k"][1:], table["k"][-1], table[1, 2], "abc"[0]
    try:
        table["missing"]
    except KeyError as error:
        missing = str(error)
    try:
        [].index("x")
    except ValueError as error:
        missing += type(error).__name__
    found = sorted([k for k in "cab"], key=lambda k: -ord(k)), {k: v for k, v in enumerate("ab")}, {*"a"} & {"a"}
    key, other = (lambda n: n + 1), (lambda n: n - 1)
    total = 0
    total += 5 - 3
    del table["k"]
    shapes = [shape(v) for v in ({"kind": "point", "at": [1, 2]}, Point(1), "a", "b", [1, 2, 3], 5)]
    (walrus := "w").startswith("w")
    return (
        derived.name(), derived.size, made, step(), cached(10), log, first, chained, sliced, missing, found, key(1),
        other(1), total, table, shapes, walrus, Point(1) == Point(1, 2), "%s %d" % ("a", 1), 7 % 4, 6 & 3,
        "{:>3}|{}".format("a", 1), f"{3.14159:.{1 + 1}f}", f"{'x'!r}", isinstance(1, (int, str)), str(dict(a=1)),
        getattr(derived, "none", "default"), __name__,
    )
"""

    def test_computes_the_same(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        module = load(self.SOURCE)
        expected = module.f()
        module.cached.cache_clear()
        assert run(module) == expected
        watching.decisions = None
        assert run(module) == expected
        assert not told

    @pytest.mark.parametrize("trap", watched_code.TRAPS)
    def test_computes_traps_the_same(self, trap: Callable[[], Any], told: list[str]) -> None:
        expected = trap()
        with instrumented(codes(watched_code)):
            assert trap() == expected
        assert not told

    def test_prints_no_value_of_an_attribute(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        # The text of a tensor takes milliseconds, and a graph has thousands.
        held = SimpleNamespace(name=Unprintable())
        assert run(load("def f(x):\n    return x.name, getattr(x, 'name')\n"), held) == (held.name, held.name)
        assert not told

    def test_that_was_passed_on_runs_after(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        made = run(load("def f(x):\n    return map(x.startswith, ['a', 'b'])\n"), "abc")
        watching.decisions = None
        assert list(made) == [True, False]
        assert not told

    def test_is_that_of_the_file_as_it_is_now(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        assert [run(load(f"def f():\n    return 'a' == {text!r}\n")) for text in "ab"] == [True, False]
        assert not told

    @pytest.mark.filterwarnings("error")
    def test_of_a_file_with_warnings_is_made(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = load("def f():\n    return '\\d' == 'd'\n")
        assert run(module) is False
        assert not told

    def test_is_there_only_while_the_context_lasts(self, load: Callable[[str], ModuleType]) -> None:
        module = load("def f(x):\n    return x == 1\n")
        before = module.f.__code__
        with instrumented(codes(module)):
            assert module.f.__code__ is not before
        assert module.f.__code__ is before

    def test_keeps_lines_and_errors(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        module = load("def f(x):\n\n    return x.index('none')\n")
        with pytest.raises(ValueError, match="substring not found") as caught:
            run(module, PATH)
        assert [entry.lineno + 1 for entry in caught.traceback if entry.path == Path(str(module.__file__))] == [3]
        assert not told

    def test_that_was_made_before_runs_after(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        module = load("def f(x):\n    return lambda: x == 'head'\n")
        made = run(module, OTHER)
        watching.decisions = None
        assert made() is False
        assert not told

    def test_is_found_behind_code_that_never_runs(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        # Python leaves the inner function out, but not where its condition is watched.
        text = "def g():\n    if 1 - 1:\n        def inner():\n            pass\n"
        run(load(f"{text}def f(x):\n    return x == 'head'\n"), OTHER)
        assert told == ["return x == 'head'"]

    def test_leaves_out_what_it_is_told_to(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        module = load("def f(x):\n    return x == 'head'\n")
        with instrumented(codes(module), without={module.f.__code__}):
            module.f(OTHER)
        assert not told

    def test_nested_too_deeply_is_a_usage_error(self, load: Callable[[str], ModuleType]) -> None:
        module = load("def f():\n    return 1\n")
        path = Path(str(module.__file__))
        path.write_text("x = " + " + ".join(["y"] * 4000), encoding="utf-8")
        with pytest.raises(UsageError, match=r"exporter\.py: its expressions or statements nest too deeply"):
            run(module)

    @pytest.mark.parametrize("text", ["def f(:\n", "\0"])
    def test_that_is_no_python_is_a_usage_error(self, text: str, load: Callable[[str], ModuleType]) -> None:
        module = load("def f():\n    return 1\n")
        Path(str(module.__file__)).write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="to be Python that can be read"):
            run(module)


class TestMarkedTexts:
    def test_keep_their_other_text_through_methods(self, load: Callable[[str], ModuleType], told: list[str]) -> None:
        source = "def f(x):\n    return ['a' + x, x.upper(), x[:3], *x.split('_'), x.partition('_')[2]]\n"
        parts = run(load(source), marked("toy_net", "other_one"))
        others = ["aother_one", "OTHER_ONE", "oth", "other", "one", "one"]
        assert [part.alternative for part in parts if isinstance(part, Marked)] == others

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda text: pickle.loads(pickle.dumps(text))])  # noqa: S301
    def test_are_copied_without_their_mark(self, copied: Callable[[str], str]) -> None:
        assert type(copied(marked("toy", "other"))) is str

    def test_count_as_the_text(self) -> None:
        text = marked("toy", "other")
        assert text == "toy"
        assert ["toy"].index(text) == 0


class TestWatch:
    SOURCE = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pooler = nn.Linear(2, 2)

def f(model, wanted):
    return [name for name, _ in model.named_children() if name == {}]
"""

    def found(self, module: ModuleType, wanted: str) -> list[str]:
        return [violation.where for violation in self.violations(module, wanted)]

    def violations(self, module: ModuleType, wanted: str) -> list[Violation]:
        model = module.Net()
        watch = Watch([Path(str(module.__file__))], model)
        with renamed(model, note=watch.asked) as renaming, watch.watching(renaming.names):
            module.f(model, wanted)
        return watch.violations

    def test_finds_what_the_exporter_spells(self, load: Callable[[str], ModuleType]) -> None:
        assert self.found(load(self.SOURCE.replace("{}", "'pooler'")), "") == ["exporter.py:10"]

    def test_shows_the_name_before_a_longer_constant(self, load: Callable[[str], ModuleType]) -> None:
        module = load(self.SOURCE.replace("name == {}", "{name} & {'pooler', 'pooler_of_another_model'}"))
        assert [violation.found for violation in self.violations(module, "")] == [
            "'pooler' decides `{name} & {'pooler', 'pooler_of_another_model'}` for 'pooler'"
        ]

    def test_finds_it_where_the_heap_is_frozen(self, load: Callable[[str], ModuleType]) -> None:
        module = load(self.SOURCE.replace("{}", "'pooler'"))
        gc.freeze()
        try:
            assert self.found(module, "") == ["exporter.py:10"]
            assert gc.get_freeze_count()
        finally:
            gc.unfreeze()

    @pytest.mark.parametrize("names", ["'other, pooler'", "'other\\npooler\\n'", "'other;pooler'", "'skip: pooler'"])
    def test_finds_names_that_are_cut_out_of_a_list(self, names: str, load: Callable[[str], ModuleType]) -> None:
        assert self.found(load(self.cutting(names)), "") == ["exporter.py:12"]

    def test_does_not_take_the_words_of_a_sentence_for_names(self, load: Callable[[str], ModuleType]) -> None:
        assert self.found(load(self.cutting("'what is left out, pooler'")), "") == []

    def cutting(self, names: str) -> str:
        source = self.SOURCE.replace("== {}", "in PARTS")
        return f"import re\nPARTS = [part.strip() for part in re.split('[,;:\\n]', {names})]\n{source}"

    def test_finds_names_that_are_read_from_a_text_of_json(self, load: Callable[[str], ModuleType]) -> None:
        plan = """PLAN = json.loads('{"skipped": ["pooler"], "bits": 8}')"""
        source = self.SOURCE.replace("== {}", "in PLAN['skipped']")
        assert self.found(load(f"import json\n{plan}\n{source}"), "") == ["exporter.py:12"]

    @pytest.mark.parametrize("plan", ["- other\n- pooler\n", "skip = ['pooler']\nbits = 8", "skip:\n  - pooler"])
    def test_finds_names_that_are_cut_out_of_yaml_and_toml(self, plan: str, load: Callable[[str], ModuleType]) -> None:
        source = self.SOURCE.replace("== {}", "in NAMES")
        read = f"import re\nNAMES = re.findall('[a-z]+', {plan!r})\n"
        assert self.found(load(f"{read}{source}"), "") == ["exporter.py:12"]

    @pytest.mark.parametrize(
        ("file", "data"),
        [
            ("plan.json", '{"skipped": ["other", "pool.*"]}'),
            ("plan.yaml", "# What is left out\nskipped:\n  - pool.*  # it is small\n"),
            ("plan.toml", "bits = 8\nskipped = ['pool.*']\n"),
            ("data/plan.txt", "other\npool.*\n"),
        ],
    )
    def test_finds_names_in_a_file_of_its_own(
        self, file: str, data: str, load: Callable[[str], ModuleType], tmp_path: Path
    ) -> None:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(data, encoding="utf-8")
        source = self.SOURCE.replace("name == {}", "any(re.match(part, name) for part in PARTS)")
        imports = f"import re\nfrom pathlib import Path\nNAME = {Path(file).name!r}\n"
        own, given = f"Path(__file__).parent.joinpath({str(Path(file).parent)!r}, NAME)", repr(str(tmp_path / file))
        found = [
            self.found(load(f"{imports}PARTS = re.findall('[a-z.*]+', Path({path}).read_text())\n{source}"), "")
            for path in (own, given)
        ]
        assert found == [["exporter.py:14"], []]

    @pytest.mark.parametrize(
        ("code", "decides"),
        [
            ("name[:4] == 'pool'", True),
            ("name[-3:] in {'ler'}", True),
            ("{'pool': 1}.get(name[:-2])", True),
            ("f'quant.{name}'[len('quant.p'):] == 'ooler'", True),
            ("f'{name}/Cast_1'[len(name) + 1:].startswith('Cast')", False),
            ("f'{name}.int8'[len(name):] == '.int8'", False),
            ("name[:4] == wanted[:4]", False),
        ],
    )
    def test_finds_names_in_a_slice(self, code: str, decides: bool, load: Callable[[str], ModuleType]) -> None:
        module = load(self.SOURCE.replace("name == {}", code))
        assert self.found(module, "pooler") == (["exporter.py:10"] if decides else [])

    @pytest.mark.parametrize(
        ("code", "decides"),
        [
            ("return model.config.to_dict()['model_type'] == 'toy'", True),
            (
                "match model.config.to_dict():\n        case {'model_type': 'toy' | 'doll'}:\n            pass",
                True,
            ),
            ("match model.config:\n        case settings.Config(model_type='toy'):\n            pass", True),
            ("return model.config.to_dict()['size'] == 3", False),
            ("return settings.Base().to_dict()['model_type'] == 'base'", False),
            ("return model.config.to_dict()['model_type'] == model.config.model_type", False),
        ],
    )
    def test_finds_the_type_in_what_a_configuration_copies(
        self, code: str, decides: bool, load: Callable[[str, str], ModuleType]
    ) -> None:
        config = """
class Base:
    model_type, size = "base", 3

    def to_dict(self):
        return {"model_type": self.__class__.model_type, "size": self.size}

class Config(Base):
    model_type = "toy"
"""
        settings = load(config, "settings")
        source = self.SOURCE.replace("self.pooler = nn.Linear(2, 2)", "self.config = settings.Config()")
        source = f"import settings\n{source.partition('def f(')[0]}def f(model, wanted):\n    {code}\n"
        assert bool(self.found(load(source, "exporter"), "")) == decides
        assert type(settings.Config.model_type) is str

    def test_takes_configurations_that_refuse_attributes(self, load: Callable[[str], ModuleType]) -> None:
        kept = "class Kept(dict):\n    __getattr__ = dict.__getitem__\n"
        held = "nn.Linear(2, 2)\n        self.config = Kept(size=2)"
        source = f"{kept}{self.SOURCE}".replace("nn.Linear(2, 2)", held)
        code = "Kept(name='pooler').name and Kept(architectures=[]).architectures == []"
        assert self.found(load(source.replace("{}", code)), "") == ["exporter.py:13"]

    def test_leaves_names_in_a_message(self, load: Callable[[str], ModuleType]) -> None:
        source = self.SOURCE.replace("{}", "wanted") + "\nMESSAGE = 'no pooler'\n"
        assert not self.found(load(source), "pooler")

    @pytest.mark.parametrize(
        ("code", "decides"),
        [
            ("re.sub('^node_', '', node.name)", False),
            ("re.fullmatch(r'node_.*?_(\\d+)', node.name)[1]", False),
            ("re.match(r'^node_linear_3$', node.name)", True),
            ("node.name == 'node_linear_3'", True),
            ("node.name in {'node_linear_3', 'node_linear'}", True),
            ("SimpleNamespace(op_type='Gemm', name='linear_int8').name.endswith('_int8')", False),
            ("SimpleNamespace(op_type='Gemm', name='fp16_linear').name.startswith('fp16_')", False),
        ],
    )
    def test_leaves_what_all_nodes_have_in_common(
        self, code: str, decides: bool, load: Callable[[str], ModuleType]
    ) -> None:
        node = "    node = SimpleNamespace(op_type='Gemm', name=wanted)\n"
        source = self.SOURCE.replace("    return", f"{node}    print({code})\n    return").replace("{}", "''")
        found = self.found(load(f"import re\nfrom types import SimpleNamespace\n{source}"), "node_linear_3")
        assert found == (["exporter.py:13"] if decides else [])

    @pytest.mark.parametrize(("part", "decides"), [("models.toy.", True), ("package.models.", False)])
    def test_knows_a_module_before_its_class(self, part: str, decides: bool, load: Callable[..., ModuleType]) -> None:
        load("from torch import nn\nclass ToyNet(nn.Module):\n    pass\n", "package/models/toy/modeling_toy")
        source = (
            "from package.models.toy.modeling_toy import ToyNet as Net\n"
            "def f(model, wanted):\n"
            f"    return {part!r} in f'{{type(model).__module__}}.{{type(model).__name__}}'\n"
        )
        assert self.found(load(source), "") == (["exporter.py:3"] if decides else [])

    def test_leaves_names_that_modules_of_torch_nn_have(self, load: Callable[[str], ModuleType]) -> None:
        held = "        self.register_buffer('running_var', None)\n\ndef f(model, wanted):\n    model.running_var"
        source = self.SOURCE.replace("\ndef f(model, wanted):", held).replace("{}", "wanted")
        assert self.found(load(source), "") == []
        own = source.replace("running_var", "running_sum")
        assert self.found(load(own), "") == ["exporter.py:11"]

    def test_leaves_what_the_model_beside_it_spells(self, load: Callable[[str], ModuleType]) -> None:
        assert not self.found(load(self.SOURCE.replace("{}", "wanted")), "pooler")

    def test_leaves_out_other_files_that_cannot_be_read(self, load: Callable[..., ModuleType], tmp_path: Path) -> None:
        module, deep = load(self.SOURCE.replace("{}", "'pooler'")), tmp_path / "deep.py"
        deep.write_text("x = " + " + ".join(["y"] * 4000), encoding="utf-8")
        assert Watch([Path(str(module.__file__)), deep], module.Net())
        with pytest.raises(UsageError, match=r"deep\.py"):
            Watch([deep], module.Net())


class TestBases:
    """A class of the model that extends another one beside it, and a protocol."""

    class Whole(nn.Module):
        pass

    class Tower(Whole):
        pass

    def told(self, load: Callable[[str], ModuleType], code: str) -> list[object]:
        found: list[object] = []
        generated = type("Renamedaaaa", (self.Tower,), {})
        watching.decisions = Decisions(Names({"tower": "renamedaaaa"}, {id(generated): self.Tower}), found.append)
        try:
            imports = "from torch import nn\nfrom typing import Union"
            run(load(f"{imports}\ndef f(m, Whole):\n    return {code}\n"), generated(), self.Whole)
        finally:
            watching.decisions = None
        return found

    @pytest.mark.parametrize(
        "code",
        [
            "isinstance(m, Whole)",
            "isinstance(m, (str, (Whole, int)))",
            "isinstance(m, Whole | None)",
            "isinstance(m, (str, Whole | None))",
            "issubclass(type(m), Union[str, Whole])",
            "type(m).__mro__[2].__name__ == 'Whole'",
            "'Tower' in [base.__name__ for base in type(m).mro()]",
        ],
    )
    def test_that_decide_are_told(self, code: str, load: Callable[[str], ModuleType]) -> None:
        assert self.told(load, code)

    @pytest.mark.parametrize(
        "code",
        [
            "isinstance(m, nn.Module)",
            "isinstance(m, (str, (nn.Module, nn.Linear | None)))",
            "type(m).__mro__[3].__name__ == 'Module'",
            "'Module' in [base.__name__ for base in type(m).mro()]",
            "type(m).__name__ in [base.__name__ for base in type(m).mro()]",
            "[base.__name__ for base in type(m).mro()].index(type(m).__mro__[2].__name__)",
        ],
    )
    def test_of_every_model_are_not(self, code: str, load: Callable[[str], ModuleType]) -> None:
        assert not self.told(load, code)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("transformers.models.bert.modeling_bert", "transformers.models.renamed.modeling_renamed"),
        ("timm.models.resnet", "timm.models.renamed"),
        ("models", "models.renamed"),
    ],
)
def test_module_of_another_model_has_the_same_packages(name: str, other: str) -> None:
    assert _other_module(name) == other


class TestSource:
    @staticmethod
    def names(start: Path) -> list[str]:
        return [path.name for path in source_files(start)]

    @staticmethod
    def place(file: Path) -> tuple[str, Path]:
        return places([file])[file]

    def test_is_the_loaded_modules_of_the_folder(self, tmp_path: Path, load: Callable[..., ModuleType]) -> None:
        load("", "exporter")
        load("", "tables")
        (tmp_path / "unrelated.py").touch()
        assert self.names(tmp_path / "exporter.py") == ["exporter.py", "tables.py"]
        assert self.place(tmp_path / "tables.py") == ("tables", tmp_path)

    def test_is_the_loaded_modules_of_the_package(self, tmp_path: Path, load: Callable[..., ModuleType]) -> None:
        load("", "package/exporter")
        load("", "package/tables")
        load("", "elsewhere")
        assert self.names(tmp_path / "package" / "exporter.py") == ["exporter.py", "tables.py"]
        assert self.place(tmp_path / "package" / "tables.py") == ("package.tables", tmp_path)

    def test_leaves_out_modules_without_a_file(
        self, tmp_path: Path, load: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load("", "exporter")
        load("", "gone").__file__ = "gone.py"
        load("", "removed")
        (tmp_path / "removed.py").unlink()
        monkeypatch.chdir(tmp_path)
        assert self.names(tmp_path / "exporter.py") == ["exporter.py"]

    def test_leaves_out_pythons_library(self) -> None:
        home = Path(textwrap.__file__).resolve().parent
        assert set(source_files(home.parent / "exporter.py")).isdisjoint(home.rglob("*.py"))

    def test_leaves_out_installed_packages(self, tmp_path: Path, load: Callable[..., ModuleType]) -> None:
        (tmp_path / "site-packages").mkdir()
        load("", "exporter")
        load("", "site-packages/other")
        assert self.names(tmp_path / "exporter.py") == ["exporter.py"]
        (tmp_path / "torch-2.0.dist-info").mkdir()
        load("", "beside")
        assert self.names(tmp_path / "exporter.py") == ["exporter.py"]
