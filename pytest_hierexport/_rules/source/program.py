"""The analysed source as a whole: its modules, functions and classes, and what its imports mean."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hierexport._errors import UsageError

__all__ = ["ClassInfo", "FunctionInfo", "ModuleInfo", "Program", "import_closure", "module_name", "parse"]

_Callable = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class ModuleInfo:
    """One source file."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that a relative import starts from."""
        return self.name if self.path.stem == "__init__" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class FunctionInfo:
    """A function, method or lambda."""

    number: int
    node: _Callable
    module: str
    owner: int | None
    """The class that it is a method of."""
    outer: int | None
    """The function that it stands in."""

    @property
    def name(self) -> str:
        """Its name; a lambda has none."""
        return "" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def parameters(self) -> list[ast.arg]:
        """Its parameters that arguments bind to by position."""
        return [*self.node.args.posonlyargs, *self.node.args.args]

    @property
    def is_bound(self) -> bool:
        """Whether its first parameter is the instance or class that it is called on."""
        if self.owner is None or isinstance(self.node, ast.Lambda):
            return False
        return not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in self.node.decorator_list)


@dataclass(frozen=True)
class ClassInfo:
    """A class of the source."""

    number: int
    node: ast.ClassDef
    module: str

    @property
    def fields(self) -> list[str]:
        """Its annotated attributes, in order: what a dataclass takes."""
        return [
            statement.target.id
            for statement in self.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]

    @property
    def constants(self) -> list[str]:
        """The names that its body assigns: an enumeration's members."""
        return [
            target.id
            for statement in self.node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        ]


@dataclass
class Program:
    """Every module, function and class that the analysis can see into."""

    modules: dict[str, ModuleInfo] = field(default_factory=dict)
    functions: list[FunctionInfo] = field(default_factory=list)
    classes: list[ClassInfo] = field(default_factory=list)
    numbers: dict[ast.AST, int] = field(default_factory=dict)
    """The number of each function's and class's node."""
    methods: dict[str, list[int]] = field(default_factory=dict)
    """Methods by name, whatever their class."""
    used: set[str] = field(default_factory=set)
    """Every identifier that the source reads."""

    def add(self, module: ModuleInfo) -> None:
        """Index one more file."""
        self.modules[module.name] = module
        self._index(module.tree, module.name, None, None)

    def _index(self, node: ast.AST, module: str, owner: int | None, outer: int | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Callable):
                info = FunctionInfo(len(self.functions), child, module, owner, outer)
                self.functions.append(info)
                self.numbers[child] = info.number
                if owner is not None and info.name:
                    self.methods.setdefault(info.name, []).append(info.number)
                self._index(child, module, None, info.number)
            elif isinstance(child, ast.ClassDef):
                cls = ClassInfo(len(self.classes), child, module)
                self.classes.append(cls)
                self.numbers[child] = cls.number
                self._index(child, module, cls.number, outer)
            else:
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                    self.used.add(child.id)
                elif isinstance(child, ast.Attribute):
                    self.used.add(child.attr)
                self._index(child, module, owner, outer)

    def methods_of(self, owner: int) -> list[str]:
        """Return the names of a class's own methods."""
        return [info.name for info in self.functions if info.owner == owner]

    def functions_of(self, module: str) -> list[str]:
        """Return the names of a module's own functions and classes."""
        functions = [i.name for i in self.functions if i.module == module and i.owner is None and i.outer is None]
        return functions + [info.node.name for info in self.classes if info.module == module]

    def imported_from(self, module: str, node: ast.ImportFrom) -> str:
        """Return the absolute dotted name of the module that an import statement names."""
        if not node.level:
            return node.module or ""
        parts = self.modules[module].package.split(".")
        base = parts[: len(parts) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


def module_name(path: Path) -> str:
    """Return the dotted name by which a file is imported, as far as the packages around it tell."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts))


def parse(files: Iterable[Path]) -> Program:
    """Read source files, those of inner packages first.

    What is known of the program only grows, so a guess at what is read later stays: the parts come before what is made
    of them, in whatever order they are given.

    Raises:
        UsageError: A file that cannot be read, or is no Python.
    """
    program = Program()
    for path in sorted(files, key=lambda path: (-len(path.parts), path)):
        program.add(ModuleInfo(module_name(path), path, _tree(path)))
    return program


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(
            "the exporter's source to be Python that can be read",
            found=f"{path}: {error}",
            do="give an exporter whose source is at hand",
        ) from error


def import_closure(start: Path) -> Sequence[Path]:
    """Return a file and every file of its own top-level package, or folder, that it imports, and so on."""
    found: dict[Path, None] = {}
    pending = [start.resolve()]
    while pending:
        path = pending.pop()
        if path not in found:
            found[path] = None
            pending.extend(_imports(path))
    return list(found)


def _imports(path: Path) -> Iterator[Path]:
    module = ModuleInfo(module_name(path), path, _tree(path))
    program = Program({module.name: module})
    root = path.parents[len(Path(*module.package.split(".")).parts) if module.package else 0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from _files(root, (alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            home = program.imported_from(module.name, node)
            yield from _files(root, (home, *(f"{home}.{alias.name}" for alias in node.names)))


def _files(root: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        base = root.joinpath(*name.split("."))
        yield from (path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file())
