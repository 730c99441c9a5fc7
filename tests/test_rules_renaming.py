"""A model under other names, and put back: `pytest_hierexport._rules.renaming`."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._cases import select
from pytest_hierexport._export.modules import class_of
from pytest_hierexport._rules.renaming import CannotRenameError, renamed


class Leaf(nn.Module):
    """A parameter, a buffer that is kept, one that is not."""

    kept: torch.Tensor
    passing: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("kept", torch.tensor(3.0))
        self.register_buffer("passing", torch.tensor(4.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.kept - self.passing


class Tree(nn.Module):
    """Containers of every kind, a shared leaf, and children found in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = Leaf()
        self.listed = nn.ModuleList([self.shared, Leaf()])
        self.keyed = nn.ModuleDict({"left": Leaf(), "right": nn.Linear(2, 2)})
        self.chain = nn.Sequential(nn.Linear(2, 2), Leaf())
        self.add_module("7", Leaf())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shared(x)
        for leaf in self.listed:
            x = leaf(x)
        x = self.keyed["right"](self.keyed["left"](x))
        x = self._modules["chain"](x)  # type: ignore[misc]  # as some models find their parts
        return getattr(self, "7")(x)  # type: ignore[no-any-return]


def names(model: nn.Module) -> set[str]:
    return {part for name, _ in [*model.named_modules(), *model.state_dict().items()] for part in name.split(".")}


def test_classes_and_attributes_of_the_author_are_renamed() -> None:
    tree = Tree()
    with renamed(tree):
        assert {"shared", "listed", "keyed", "chain", "scale", "kept"}.isdisjoint(names(tree))
        assert {"Tree", "Leaf"}.isdisjoint({type(module).__name__ for module in tree.modules()})
        assert {"Tree", "Leaf"}.isdisjoint({type(module).__qualname__ for module in tree.modules()})


def test_positions_and_keys_and_torchs_own_names_stay() -> None:
    tree = Tree()
    with renamed(tree):
        assert {"0", "1", "7", "left", "right", "weight", "bias"} <= names(tree)
        assert {"Linear", "ModuleList", "Sequential"} <= {type(module).__name__ for module in tree.modules()}


def test_digits_at_the_end_of_a_name_stay() -> None:
    model = type("Numbered", (nn.Module,), {})()
    model.conv12, model.norm = Leaf(), Leaf()
    with renamed(model):
        numbered, plain = (name for name, _ in model.named_children())
        assert numbered.endswith("12")
        assert not numbered.startswith("conv")
        assert not plain[-1].isdigit()


@pytest.mark.parametrize("name", ["ΝέοΔίκτυο", "ΔΙΚΤΥΟ", "Δίκτυο", "δίκτυο", "слойДва", "Straße_ẞ", "İki", "层Norm"])
def test_names_in_any_script_get_their_case_back(name: str) -> None:
    model = type("Named", (nn.Module,), {})()
    setattr(model, name, type(name, (nn.Module,), {})())
    with renamed(model) as renaming:
        ((new, child),) = model.named_children()
        assert name not in {new, type(child).__name__}
        assert (renaming.names.old(new), renaming.names.old(type(child).__name__)) == (name, name)


def test_one_name_becomes_one_name_and_two_become_two() -> None:
    tree = Tree()
    with renamed(tree) as renaming:
        assert len({type(module) for module in tree.modules() if isinstance(module, Leaf)}) == 1
        assert len(set(renaming.paths.values())) == len(renaming.paths)


class Colliding(nn.Module):
    """A model with names like the new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.renamedaaaa, self.block_renamedaaab, self.block = nn.Linear(2, 3), nn.Linear(3, 4), Leaf()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.block(self.block_renamedaaab(self.renamedaaaa(x)))
        return y


def test_new_words_are_in_no_old_name() -> None:
    model = Colliding().eval()
    expected = model(torch.ones(1, 2))
    with renamed(model) as renaming:
        assert not {"renamedaaaa", "renamedaaab"}.intersection(renaming.names.words.values())
        assert torch.equal(model(torch.ones(1, 2)), expected)


def test_renamed_model_computes_the_same_and_answers_to_old_names() -> None:
    tree, x = Tree(), torch.ones(1, 2)
    expected = tree(x)
    with renamed(tree):
        assert torch.equal(tree(x), expected)
        assert tree.shared is tree.get_submodule("listed.0")
        assert hasattr(tree, "chain")
        assert not hasattr(tree, "nothing")
        assert "shared" in tree._modules
        tree.shared.scale = nn.Parameter(torch.tensor(5.0))
        tree.shared.register_buffer("kept", torch.tensor(6.0))
        assert len(tree.shared._parameters) == 1
        assert len(tree.shared._buffers) == 2


def test_members_of_a_renamed_model_are_as_many() -> None:
    tree = Tree()
    numbers = [len(inspect.getmembers(module, torch.is_tensor)) for module in tree.modules()]
    parts = len(inspect.getmembers(tree, lambda each: isinstance(each, nn.Module)))
    with renamed(tree):
        assert [len(inspect.getmembers(module, torch.is_tensor)) for module in tree.modules()] == numbers
        assert len(inspect.getmembers(tree, lambda each: isinstance(each, nn.Module))) == parts
        assert "shared" not in dir(tree)
    assert "shared" in dir(tree)


def test_renaming_lists_the_names_that_the_model_has_now() -> None:
    tree = Tree()
    modules = [(name, class_of(module)) for name, module in tree.named_modules(remove_duplicate=False)]
    with renamed(tree) as renaming:
        own = renaming.names.old
        assert [(renaming.paths[name], name, cls) for name, cls in modules] == [
            (name, own(name), own(class_of(module))) for name, module in tree.named_modules(remove_duplicate=False)
        ]


def test_torchscript_module_keeps_its_names_beside_renamed_ones() -> None:
    model = Tree()
    model.compiled = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    with renamed(model) as renaming:
        path = renaming.paths["compiled"]
        assert path != "compiled"
        assert {f"{path}.0.weight", f"{path}.0.bias"} <= {name for name, _ in model.named_parameters()}
    assert isinstance(model.compiled, torch.jit.ScriptModule)


class Wrapper(nn.Module):
    """Answers for what it wraps, and to the one name of that."""

    def __init__(self, wrapped: nn.Module) -> None:
        super().__init__()
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return self._modules["wrapped"] if name == "wrapped" else getattr(self.wrapped, name)


def test_parts_found_by_custom_getattr_keep_their_names() -> None:
    model = Wrapper(Tree())
    with renamed(model) as renaming:
        assert renaming.paths["wrapped"] == "wrapped"
        assert renaming.names.old(type(model).__name__) == "Wrapper" != type(model).__name__
        assert model.get_submodule("wrapped") is model.wrapped
        assert "shared" not in names(model)


def test_buffers_that_are_not_saved_stay_so() -> None:
    leaf = Leaf()
    with renamed(leaf):
        assert len(leaf.state_dict()) == 2


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back(fails: bool) -> None:
    tree = Tree()
    before = [(type(module), dict(vars(module)), list(module._modules)) for module in tree.modules()]
    with contextlib.suppress(KeyError), renamed(tree):
        if fails:
            tree.keyed["nowhere"]
    assert [(type(module), dict(vars(module)), list(module._modules)) for module in tree.modules()] == before


def test_calls_get_their_own_names_back() -> None:
    tree = Tree()
    old = Hierarchy([Call("", 0, class_of(tree), None), Call("shared", 1, class_of(tree.shared), "")])
    with renamed(tree) as renaming:
        path = renaming.paths["shared"]
        new = Hierarchy([Call("", 0, class_of(tree), None), Call(path, 1, class_of(tree.shared), "")])
        assert tree.get_submodule(path) is tree.shared
        assert renaming.is_renamed("shared@1")
        assert not renaming.is_renamed(f"{path}@1")
        assert renaming.under_own_names(Attribution(new)) == Attribution(old)


def test_parametrised_class_is_renamed_as_its_original() -> None:
    leaf, x = Leaf(), torch.ones(2)
    nn.utils.parametrize.register_parametrization(leaf, "scale", nn.Softplus())
    expected = leaf(x)
    old = class_of(leaf)
    with renamed(leaf) as renaming:
        assert torch.equal(leaf(x), expected)
        assert renaming.names.old(class_of(leaf)) == old != class_of(leaf)


def test_class_is_renamed_with_and_without_parametrisations() -> None:
    pair = nn.Sequential(Leaf(), Leaf())
    nn.utils.parametrize.register_parametrization(pair[0], "scale", nn.Softplus())
    with renamed(pair):
        assert class_of(pair[0]) == class_of(pair[1])
        assert "kept" not in names(pair[1])


def test_removed_parametrisation_leaves_the_renamed_class() -> None:
    leaf, x = Leaf(), torch.ones(2)
    nn.utils.parametrize.register_parametrization(leaf, "scale", nn.Softplus())
    expected = leaf(x)
    with renamed(leaf) as renaming:
        nn.utils.parametrize.remove_parametrizations(leaf, "scale")
        assert renaming.names.classes[id(type(leaf))] is Leaf
        assert type(leaf).__name__ != "Leaf"
        assert torch.equal(leaf(x), expected)


def test_parameters_that_torchs_own_code_finds_by_name_keep_them() -> None:
    class Memory(nn.LSTM):
        pass

    memory, x = Memory(2, 2), torch.ones(3, 1, 2)
    expected, _ = memory(x)
    with renamed(memory):
        assert "weight_ih_l0" in memory.state_dict()
        assert type(memory).__name__ != "Memory"
        assert torch.equal(memory(x)[0], expected)


def test_printed_class_is_renamed_unless_it_shall_stay() -> None:
    leaf = Leaf()
    printed = str(type(leaf))
    with renamed(leaf):
        assert str(type(leaf)) != printed
    with renamed(leaf, printed=False):
        assert str(type(leaf)) == printed
        assert type(leaf).__name__ != "Leaf"


def test_class_without_subclasses_is_an_error_and_stays() -> None:
    class Alone(type):
        def __new__(cls, name: str, bases: tuple[type, ...], held: dict[str, Any]) -> Any:
            if any(isinstance(base, Alone) for base in bases):
                raise TypeError("this class is final")
            return super().__new__(cls, name, bases, held)

    class Final(nn.Module, metaclass=Alone):
        pass

    model = nn.Sequential(Final())
    with pytest.raises(CannotRenameError, match="Final: TypeError: this class is final"), renamed(model):
        pass
    assert type(model[0]) is Final


def test_classes_hear_nothing_of_their_generated_subclasses() -> None:
    registry: list[type] = []

    class Base(nn.Module):
        def __init_subclass__(cls, *, kind: str) -> None:
            registry.append(cls)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    class Layer(Base, kind="slots"):
        __slots__ = ("size",)

    class Number(Base, float, kind="number"):
        pass

    model = nn.Sequential(Layer(), Number())
    with renamed(model):
        assert [type(each).__bases__ for each in model] == [(Layer,), (Number,)]
        assert model(torch.ones(1)) == 1
    assert registry == [Layer, Number]


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "llama", "vit", "clip"])
def test_transformers_models_compute_the_same(name: str) -> None:
    (case,) = select([name], Path())
    example = case.load()
    example.model.eval()
    with torch.no_grad():
        expected = example.model(*example.args, **example.kwargs)
        with renamed(example.model):
            found = example.model(*example.args, **example.kwargs)
    torch.testing.assert_close(tensors(found), tensors(expected), rtol=0, atol=0)


def tensors(output: Any) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


class Asked:
    """Keeps the names that are asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def note(self, name: str, _: object) -> None:
        self.names.append(name)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: copy.deepcopy(model)._modules["shared"],
        lambda model: "shared" in copy.deepcopy(model)._modules,
        lambda model: model._modules.setdefault("shared"),
    ],
)
def test_old_names_are_noted_by_any_registry(ask: Callable[[nn.Module], object]) -> None:
    tree, asked = Tree(), Asked()
    with renamed(tree, note=asked.note):
        number = len(tree._modules)
        assert ask(tree)
        assert len(tree._modules) == number
    assert asked.names == ["shared"]


def test_old_names_are_noted_outside_dynamo_alone() -> None:
    leaf, asked = Leaf(), list[str]()
    x = torch.ones(2)
    with renamed(leaf, note=lambda name, _: asked.append(name)):
        torch.export.export(leaf, (x,), strict=True)
        assert not asked
        assert leaf.scale is not None
    assert "scale" in asked
