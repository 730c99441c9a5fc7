"""Switches off each condition of carry or of the proof, one at a time: which moves no result of a recorded net?

    python -m benchmarks.replay record FOLDER                    the net
    python -m benchmarks.conditions FOLDER [--room proof] [--only 'zoo/*'] [--modules aliases] [--timeout 120]

    if found is None or found.varying:    becomes    if False:
                                                     if False or found.varying:
                                                     if found is None or False:
    [v for v in values if v.varying]      becomes    [v for v in values if True]

The results are the origins that carry gives, or the proof. It prints the conditions that no case notices.
Each of them goes, or it needs a test and its reason beside it: the tests may hold what the net does not. The models of
all cases stay in memory for the proof: some 40 small ones do.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "pytest_hierexport"
_PACKAGES = ("pytest_hierexport", "benchmarks")
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests")]

Cases = Mapping[str, tuple[Callable[[], object], object]]
"""By name: what runs the room's code on the case, and what that gave."""


@dataclass(frozen=True)
class Condition:
    """A condition, and its module without it."""

    path: Path
    line: int
    text: str
    code: CodeType

    def __str__(self) -> str:
        """Return its place and its text."""
        return f"{self.path.relative_to(_ROOT)}:{self.line}: {self.text}"


def conditions(path: Path) -> Iterator[Condition]:
    """Yield the conditions of a module, each with the code of the module in which it is switched off."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for holder, place, neutral in list(_places(tree)):
        was: ast.expr = holder[place]
        # A name that a condition binds must stay bound.
        binds = any(isinstance(each, ast.NamedExpr) for each in ast.walk(was))
        off: ast.expr = ast.Constant(neutral)
        if binds:
            off = ast.BoolOp(ast.Or() if neutral else ast.And(), [was, off])
        holder[place] = ast.fix_missing_locations(ast.copy_location(off, was))
        yield Condition(path, was.lineno, ast.unparse(was), compile(tree, str(path), "exec", dont_inherit=True))
        holder[place] = was


def _places(tree: ast.AST) -> Iterator[tuple[Any, Any, bool]]:
    """Yield what holds each condition, its place there, and the truth value that switches it off."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and getattr(node.test, "id", "") != "TYPE_CHECKING":
            yield vars(node), "test", False
        elif isinstance(node, ast.comprehension):
            yield from ((node.ifs, i, True) for i in range(len(node.ifs)))
        elif isinstance(node, ast.BoolOp):
            yield from ((node.values, i, isinstance(node.op, ast.And)) for i in range(len(node.values)))


def noticing(condition: Condition, cases: Cases, order: Sequence[str], timeout: float) -> str:
    """Return the first case that notices that a condition is off, in a process of its own; empty where none does."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(sending, condition, cases, order))
    process.start()
    sending.close()
    try:
        return str(receiving.recv()) if receiving.poll(timeout) else "no end"
    except EOFError:
        return "a crash"
    finally:
        process.kill()
        process.join()


def _answer(pipe: Connection, condition: Condition, cases: Cases, order: Sequence[str]) -> None:
    _install(condition)
    for name in order:
        compute, expected = cases[name]
        try:
            is_noticed = compute() != expected
        except Exception:  # noqa: BLE001  # whatever it is, it is noticed
            is_noticed = True
        if is_noticed:
            pipe.send(name)
            return
    pipe.send("")


def _install(condition: Condition) -> None:
    """Run a module's code anew in its place, and give all modules its new functions and classes."""
    name = ".".join(condition.path.relative_to(_ROOT).with_suffix("").parts)
    own = vars(sys.modules[name])
    old = dict(own)
    exec(condition.code, own)  # noqa: S102  # the package's own code
    new = {id(value): own[key] for key, value in old.items() if own.get(key) is not value and not key.startswith("__")}
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(_PACKAGES) and vars(module) is not own:
            for key, value in list(vars(module).items()):
                if id(value) in new:
                    setattr(module, key, new[id(value)])
                elif type(value) is tuple:
                    setattr(module, key, tuple(new.get(id(each), each) for each in value))


def _cases(options: argparse.Namespace) -> Cases:
    """Load the net, and run the room's code on each case once."""
    from benchmarks.replay import is_wanted, recorded
    from benchmarks.replay_case import carrying, proving

    load: Callable[[str, Path], Callable[[], object]] = proving if options.room == "proof" else carrying
    found: dict[str, tuple[Callable[[], object], object]] = {}
    for name in recorded(options.folder):
        if is_wanted(name, options.only):
            compute = load(name, options.folder)
            found[name] = compute, compute()
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the conditions that no case notices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where benchmarks.replay recorded the net")
    parser.add_argument("--room", choices=("carry", "proof"), default="carry", help="whose conditions (default: carry)")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="these cases alone")
    parser.add_argument("--modules", nargs="+", default=[], metavar="NAME", help="these modules of the room alone")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a condition (default: 120)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    cases = _cases(options)
    print(f"{len(cases)} cases", flush=True)
    noticed: Counter[str] = Counter()
    count = alone = 0
    for path in sorted((_PACKAGE / f"_{options.room}").glob("*.py")):
        for condition in conditions(path) if not options.modules or path.stem in options.modules else ():
            # What noticed most conditions notices most others first.
            found = noticing(condition, cases, sorted(cases, key=lambda name: -noticed[name]), options.timeout)
            noticed[found] += 1
            count, alone = count + 1, alone + (not found)
            if not found:
                print(condition, flush=True)
    print(f"{count} conditions, {alone} that no case notices")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
