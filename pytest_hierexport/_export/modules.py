"""Names the module instances of a model and describes them.

While a model runs, :class:`Instances` gives the paths of a module. For the sidecar, :func:`module_tree` lists every
module with its parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pytest_hierexport._calls.modules import Module, Parameter
from pytest_hierexport._calls.names import encode, is_torch_nn, join_path, qualified_class
from pytest_hierexport._errors import UsageError

if TYPE_CHECKING:
    import torch


def class_of(module: torch.nn.Module) -> str:
    """Return the qualified class of a module: of its :func:`written_class`."""
    return qualified(written_class(module))


def written_class(module: torch.nn.Module) -> type:
    """Return a module's class; where parametrisation made it on the fly, the first in its MRO that it did not make."""
    return next(cls for cls in type(module).__mro__ if not _is_made_by_torch(cls))


def qualified(cls: type) -> str:
    """Return a class as text; see :func:`qualified_class`."""
    return qualified_class(cls.__module__, cls.__qualname__, cls.__name__)


def lacks_weights(model: torch.nn.Module) -> bool:
    """Whether a model was built without weights: its parameters are fake tensors, which have no elements."""
    from torch._subclasses.fake_tensor import FakeTensor

    return any(isinstance(parameter, FakeTensor) for parameter in model.parameters())


def _is_made_by_torch(cls: type) -> bool:
    """Whether torch made the class on the fly: its `__module__` is one of torch.nn's, which does not define it."""
    home = cls.__module__
    if not is_torch_nn(f"{home}."):
        return False
    defined: object = sys.modules.get(home)
    for part in cls.__qualname__.split("."):
        defined = getattr(defined, part, None)
    return defined is not cls


def kept_classes(names: Sequence[str]) -> frozenset[str]:
    """Import classes of `torch.nn` that appear in tags, given as `package.Class`; return their qualified names.

    Raises:
        UsageError: A name cannot be imported, or is not a class.
    """
    return frozenset(_resolve_class(name) for name in names)


def _resolve_class(name: str) -> str:
    found = ""
    try:
        cls = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        found = str(error)
    else:
        if isinstance(cls, type):
            return qualified(cls)
        found = f"a {type(cls).__name__}, not a class"
    raise UsageError(
        "classes to keep, each importable as package.Class",
        found=f"{name!r} ({found})",
        do="correct or drop that name",
    )


class Instances:
    """The module instances of a model and the paths under which each can be reached.

    An instance is identified by its attribute dictionary, which torch's tracing proxies share with the module that
    they represent.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Collect every path, those of shared instances included."""
        self.root = model
        self._paths: dict[int, list[str]] = {}
        self._modules: dict[int, torch.nn.Module] = {}
        self._equal: dict[torch.nn.Module, list[str]] = {}
        for parts, module in walk_modules(model):
            self._paths.setdefault(id(vars(module)), []).append(join_path(parts))
            self._modules[id(vars(module))] = module
            self._equal.setdefault(module, []).append(join_path(parts))
        self.by_id = {str(id(module)): module for module in self._modules.values()}
        """Each instance by its `id`, given as text."""

    def paths(self, module: torch.nn.Module) -> list[str]:
        """Return the paths of an instance, in the order of `named_modules()`; none for a module of another model."""
        return self._paths.get(id(vars(module)), [])

    def paths_of_equal(self, module: torch.nn.Module) -> list[str]:
        """Return the paths of an instance and of those that equal it (`__eq__`), which torch's tracer takes for one."""
        return self._equal.get(self._modules[id(vars(module))], self.paths(module))  # forward may change its hash

    def class_of(self, module: torch.nn.Module) -> str:
        """Return the qualified class of an instance, given itself or a tracing proxy of it."""
        return class_of(self._modules[id(vars(module))])

    def classes(self) -> set[type]:
        """Return every class that an instance is of, base classes included."""
        return {cls for module in self._modules.values() for cls in type(module).__mro__}

    def tensors(self) -> dict[str, tuple[str, ...]]:
        """Return, for every dotted name of each parameter and buffer, the paths of the modules that own the tensor.

        The names are torch's, not encoded. All modules that share a tensor are its owners.
        """
        named: dict[str, torch.Tensor] = {}
        owners: dict[int, list[str]] = {}
        for parts, module in walk_modules(self.root):
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    named[".".join((*parts, name))] = tensor
                    owners.setdefault(id(tensor), []).append(join_path(parts))
        return {name: tuple(owners[id(tensor)]) for name, tensor in named.items()}

    def is_root(self, module: torch.nn.Module) -> bool:
        """Whether the module is the model itself, or a proxy of it."""
        return vars(module) is vars(self.root)


_MOST_PATHS = 10_000
"""After this many paths, an instance gets no second path: shared modules in shared modules multiply their number."""


def walk_modules(root: torch.nn.Module) -> Iterator[tuple[tuple[str, ...], torch.nn.Module]]:
    """Yield every path of every instance, not only the first; the walk stops at a module that contains itself."""
    seen: set[int] = set()
    listed = 0
    pending: list[tuple[tuple[str, ...], torch.nn.Module, tuple[int, ...]]] = [((), root, ())]
    while pending:
        parts, module, above = pending.pop()
        if id(module) in above or (id(module) in seen and listed >= _MOST_PATHS):
            continue
        seen.add(id(module))
        listed += 1
        yield parts, module
        children = [(name, child) for name, child in module._modules.items() if child is not None]
        pending += [((*parts, name), child, (*above, id(module))) for name, child in reversed(children)]


def distinct_modules(root: torch.nn.Module) -> list[torch.nn.Module]:
    """Return every instance once, in order; `Module.modules()` leaves out one that equals another (`__eq__`)."""
    return list({id(module): module for _, module in walk_modules(root)}.values())


def check_initialised(model: torch.nn.Module) -> None:
    """Check that torch can list the modules of a model.

    Raises:
        UsageError: The `__init__` of a class does not call that of `torch.nn.Module`, or its instances have no hash.
    """
    for parts, module in walk_modules(model):
        cls = type(module).__name__
        place = f"{cls}{f', the module {join_path(parts)},' if parts else ''}"
        if not hasattr(module, "_modules"):
            raise UsageError(
                f"{place} to be initialised as a torch.nn.Module",
                found="its __init__ does not call that of its base class",
                do=f"call super().__init__() first in {cls}.__init__",
            )
        if module.__hash__ is None:
            raise UsageError(
                f"{place} to have a hash, as torch needs it of each module",
                found="a class that defines __eq__ without __hash__, as a dataclass does",
                do=f"define {cls} by @dataclass(eq=False), or give it a __hash__",
            )


def module_tree(model: torch.nn.Module) -> tuple[Module, ...]:
    """Return every module instance of the model under every path, with the parameters and buffers that it owns.

    For an instance with several paths, the second and later entries give the first path in `shared`. It is the same
    for a tensor with several names, because of tied parameters or of such an instance.
    """
    first: dict[int, str] = {}
    found: list[Module] = []
    for parts, module in walk_modules(model):
        path = join_path(parts)
        shared = first.setdefault(id(module), path)
        parameters = tuple(_parameters(path, module, first))
        found.append(Module(path, class_of(module), parameters, None if shared == path else shared))
    return tuple(found)


def _parameters(path: str, module: torch.nn.Module, first: dict[int, str]) -> Iterator[Parameter]:
    """Yield a module's own parameters and buffers.

    `first` maps the `id` of instances and tensors to the first name of each; new ones are added to it.
    """
    from torch.nn.parameter import is_lazy

    for tensors, trainable in ((module._parameters, True), (module._buffers, False)):
        for name, tensor in tensors.items():
            # A lazy module that no run has called has no shapes yet.
            if tensor is not None and not is_lazy(tensor):
                full = f"{path}.{encode(name)}" if path else encode(name)
                shared = first.setdefault(id(tensor), full)
                shape, dtype = tuple(int(d) for d in tensor.shape), str(tensor.dtype).rpartition(".")[2]
                yield Parameter(encode(name), shape, dtype, trainable, None if shared == full else shared)
