"""What a random architecture holds, so that a run can say what it has covered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from architectures.program import Block, Call, Loop, Operation, Program, Same
from pytest_hierexport._cases import Example

__all__ = ["Features", "features"]


@dataclass(frozen=True)
class Features:
    """Sizes and traits of one program and the model it builds."""

    calls: int
    """Module calls of one forward pass."""
    depth: int
    """Modules on the longest way down, the root among them."""
    traits: frozenset[str]

    @property
    def shared_or_repeated(self) -> bool:
        """Whether an instance has two names, or runs twice."""
        return not self.traits.isdisjoint({"shared instance", "repeated call"})


def features(program: Program, example: Example) -> Features:
    """Run the model once and read the rest from the program."""
    runs = _runs(example)
    names = dict(example.model.named_modules(remove_duplicate=False))
    instances = set(names.values())
    found = {
        "shared instance": len(names) > len(instances),
        "repeated call": any(count > 1 for count in runs.values()),
        "module never called": any(type(m).forward is not torch.nn.Module.forward and m not in runs for m in instances),
        "torch.nn root": type(example.model).__module__.startswith("torch.nn"),
        "two classes of one name": _clash(instances),
        "ModuleList": any(isinstance(module, torch.nn.ModuleList) for module in instances),
        "list in a list": any(_nested(module) for module in instances),
        "ModuleDict": any(isinstance(module, torch.nn.ModuleDict) for module in instances),
        "Sequential": any(isinstance(module, torch.nn.Sequential) for module in instances),
        "parametrised weight": any(torch.nn.utils.parametrize.is_parametrized(module) for module in instances),
        "odd attribute name": any(
            not part.isidentifier() and not part.isdecimal() for n in names for part in n.split(".") if part
        ),
        "several inputs": program.inputs > 1,
        **_of_blocks([block for block in program.declarations if isinstance(block, Block)]),
    }
    depth = max(name.count(".") + 2 for name in names) if len(names) > 1 else 1
    return Features(sum(runs.values()), depth, frozenset(trait for trait, held in found.items() if held))


def _runs(example: Example) -> Counter[torch.nn.Module]:
    runs: Counter[torch.nn.Module] = Counter()

    def count(module: torch.nn.Module, *_: Any) -> None:
        runs[module] += 1

    handle = torch.nn.modules.module.register_module_forward_pre_hook(count)
    try:
        with torch.no_grad():
            example.model(*example.args, **example.kwargs)
    finally:
        handle.remove()
    return runs


def _clash(instances: set[torch.nn.Module]) -> bool:
    classes = {type(module) for module in instances}
    return len({cls.__name__ for cls in classes}) < len(classes)


def _nested(module: torch.nn.Module) -> bool:
    lists = (torch.nn.ModuleList,)
    return isinstance(module, lists) and any(isinstance(item, lists) for item in module)


def _of_blocks(blocks: list[Block]) -> dict[str, bool]:
    steps = [step for block in blocks for step in block.steps]
    return {
        "residual or branch": any(isinstance(step, Operation) and len(set(step.arguments)) > 1 for step in steps),
        "loop over a container": any(isinstance(step, Loop) for step in steps),
        "keyword argument": any(isinstance(step, Call) and step.keyword for step in steps),
        "several results": any(isinstance(step, Call) and step.results > 1 for step in steps),
        "attribute twice": any(isinstance(held.child, Same) for block in blocks for held in block.holds),
        "called and not held": any(not held.registered for block in blocks for held in block.holds),
        "odd class name": any(not block.name.isidentifier() for block in blocks),
        "several outputs": len(blocks[-1].returns) > 1,
        "outputs by name": bool(blocks[-1].keys),
        "value never used": any(_dead(block) for block in blocks),
    }


def _dead(block: Block) -> bool:
    used = set(block.returns)
    for step in block.steps:
        used.update(step.arguments)
    made = block.inputs + sum(step.results for step in block.steps)
    return not used.issuperset(range(block.inputs, made))
