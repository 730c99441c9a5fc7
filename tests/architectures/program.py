"""A module tree as a program: plain data, rendered to source, and built by running that very source.

What a failing test prints is therefore what ran. Every value has the shape `[2, 3, 8]`.
"""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from architectures.leaves import PRELUDE
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.weights import randomise

PARAMETERS = "xyz"

__all__ = [
    "Block",
    "Call",
    "Chain",
    "Child",
    "Dict",
    "Held",
    "Leaf",
    "List",
    "Loop",
    "New",
    "Operation",
    "Program",
    "Same",
    "Share",
    "Shared",
    "Step",
    "Target",
]


@dataclass(frozen=True)
class Leaf:
    """A module that needs nothing of the program's: `nn.Linear(8, 8)`."""

    code: str

    def render(self) -> str:
        """Return the expression that makes the module, like `render` of every child."""
        return self.code


@dataclass(frozen=True)
class New:
    """A new instance of a block."""

    block: str

    def render(self) -> str:
        """Return `Block0()`."""
        return f"{self.block}()"


@dataclass(frozen=True)
class Share:
    """The one instance of that name, which others may hold too."""

    name: str

    def render(self) -> str:
        """Return `shared0`."""
        return self.name


@dataclass(frozen=True)
class Same:
    """What another attribute of the same module holds."""

    attribute: str

    def render(self) -> str:
        """Return `self.a`."""
        return access(self.attribute)


@dataclass(frozen=True)
class List:
    """A ModuleList."""

    items: tuple[Child, ...]

    def render(self) -> str:
        """Return `nn.ModuleList([…])`."""
        return f"nn.ModuleList([{', '.join(item.render() for item in self.items)}])"


@dataclass(frozen=True)
class Dict:
    """A ModuleDict."""

    items: tuple[tuple[str, Child], ...]

    def render(self) -> str:
        """Return `nn.ModuleDict({…})`."""
        return f"nn.ModuleDict({{{', '.join(f'{key!r}: {item.render()}' for key, item in self.items)}}})"


@dataclass(frozen=True)
class Chain:
    """A Sequential."""

    items: tuple[Child, ...]

    def render(self) -> str:
        """Return `nn.Sequential(…)`."""
        return f"nn.Sequential({', '.join(item.render() for item in self.items)})"


Child = Leaf | New | Share | Same | List | Dict | Chain


@dataclass(frozen=True)
class Held:
    """An attribute of a block."""

    attribute: str
    child: Child
    registered: bool = True
    """False for a module in a plain list: the block calls it and does not hold it."""

    def render(self) -> str:
        """Return the statement that sets it."""
        made = self.child.render()
        if not self.registered:
            return f"self.{self.attribute} = [{made}]"
        if self.attribute.isidentifier():
            return f"self.{self.attribute} = {made}"
        return f"self.add_module({self.attribute!r}, {made})"


@dataclass(frozen=True)
class Target:
    """A module below an attribute: `self.layers[0]`."""

    attribute: str
    path: tuple[str | int, ...] = ()

    def render(self) -> str:
        """Return the expression that gives the module."""
        return access(self.attribute) + "".join(f"[{part!r}]" for part in self.path)


@dataclass(frozen=True)
class Call:
    """`v2, v3 = self.a(x, y=v1)`."""

    target: Target
    arguments: tuple[int, ...]
    results: int = 1
    keyword: bool = False

    def render(self, names: Sequence[str], made: Sequence[str]) -> str:
        """Return the statement, given the names of the values so far and of those that it makes."""
        arguments = [names[i] for i in self.arguments]
        if self.keyword:
            arguments[-1] = f"{PARAMETERS[len(arguments) - 1]}={arguments[-1]}"
        return f"{', '.join(made)} = {self.target.render()}({', '.join(arguments)})"


@dataclass(frozen=True)
class Loop:
    """Every module of a container in turn."""

    target: Target
    arguments: tuple[int]
    values: str
    """What the container is iterated by: nothing for a list, `.values()` for a dict."""
    results: int = 1

    def render(self, names: Sequence[str], made: Sequence[str]) -> str:
        """Return the statements."""
        loop = f"for module in {self.target.render()}{self.values}:"
        return f"{made[0]} = {names[self.arguments[0]]}\n{loop}\n    {made[0]} = module({made[0]})"


@dataclass(frozen=True)
class Operation:
    """An expression over values: `(x + v1) / 2`."""

    template: str
    arguments: tuple[int, ...]
    results: int = 1

    def render(self, names: Sequence[str], made: Sequence[str]) -> str:
        """Return the statement."""
        return f"{made[0]} = {self.template.format(*(names[i] for i in self.arguments))}"


Step = Call | Loop | Operation


@dataclass(frozen=True)
class Block:
    """A class with its attributes and its forward pass.

    Values are numbered in the order of their making, the inputs first.
    """

    identifier: str
    name: str
    """The class's `__name__`, which need not be an identifier nor tell it from another class."""
    inputs: int
    holds: tuple[Held, ...]
    steps: tuple[Step, ...]
    returns: tuple[int, ...]
    keys: tuple[str, ...] = ()
    """Names of the outputs, for a block that returns a dict."""

    @property
    def names(self) -> list[str]:
        """The name of every value."""
        made = sum(step.results for step in self.steps)
        return [*PARAMETERS[: self.inputs], *(f"v{i + 1}" for i in range(made))]

    def render(self) -> str:
        """Return the class's source."""
        lines = [f"class {self.identifier}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        {held.render()}" for held in self.holds]
        lines += ["", f"    def forward(self, {', '.join(PARAMETERS[: self.inputs])}):"]
        lines += [f"        {line}" for line in self._body()]
        if self.name != self.identifier:
            lines += ["", "", f"{self.identifier}.__name__ = {self.identifier}.__qualname__ = {self.name!r}"]
        return "\n".join(lines) + "\n"

    def _body(self) -> Iterator[str]:
        names, first = self.names, self.inputs
        for step in self.steps:
            yield from step.render(names, names[first : first + step.results]).splitlines()
            first += step.results
        returned = [names[i] for i in self.returns]
        if self.keys:
            yield (
                "return {" + ", ".join(f"{key!r}: {name}" for key, name in zip(self.keys, returned, strict=True)) + "}"
            )
        else:
            yield f"return {', '.join(returned)}"


@dataclass(frozen=True)
class Shared:
    """A module-level instance: `shared0 = nn.GELU()`."""

    name: str
    child: Leaf | New

    def render(self) -> str:
        """Return the statement."""
        return f"{self.name} = {self.child.render()}\n"


@dataclass(frozen=True)
class Program:
    """Classes and shared instances in the order of their use, the model last."""

    declarations: tuple[Block | Shared, ...]
    root: Child
    inputs: int
    """Float inputs, the tensors `x`, `y`, `z`."""

    def source(self) -> str:
        """Return the program as a file that stands by itself."""
        parts = [declaration.render() for declaration in self.declarations]
        parts.append(f"model = {self.root.render()}.eval()\n")
        text = "\n".join(parts)
        prelude = [code.strip("\n") + "\n" for name, code in PRELUDE.items() if f"{name}()" in text]
        return "\n\n".join(["import torch\nfrom torch import nn\n", *prelude, *parts])

    __repr__ = source
    """Hypothesis prints it: the smallest failing model as a file to run."""

    def build(self, seed: int = 0) -> Example:
        """Run the source; give the model generic weights and its inputs."""
        source = self.source()
        filename = f"<architecture {zlib.crc32(source.encode()):08x}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {"__name__": "architecture"}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            exec(compile(source, filename, "exec"), namespace)  # noqa: S102  # the program is what is tested
        randomise(namespace["model"], seed)
        generator = torch.Generator().manual_seed(seed)
        inputs = tuple(torch.randn(2, 3, 8, generator=generator) for _ in range(self.inputs))
        return Example(namespace["model"], inputs)

    def case(self, name: str = "architecture", source: str = "a random architecture") -> Case:
        """Return the case of the program, which makes its own weights generic, so that what it prints is what ran."""
        return Case(name, self.build, source=source, exporter="dynamo", randomise=False)


def access(attribute: str) -> str:
    """Return the expression that reads an attribute of `self`, whatever its name."""
    return f"self.{attribute}" if attribute.isidentifier() else f"getattr(self, {attribute!r})"
