"""Exporters that ask the model for its parts by name, each beside its smallest repaired twin: both are run."""

from __future__ import annotations

from pairs import Pair

__all__ = ["ASKING"]

ASKING = [
    Pair("getattr", "getattr(model, 'encoder')", "list(model.children())"),
    Pair("an attribute of a submodule", "model.encoder.layer", "[m for m in model.modules() if list(m.children())]"),
    Pair("hasattr", "hasattr(model, 'pooler')", "hasattr(model, 'forward')"),
    Pair("an attribute in a try", "try_(lambda: model.embeddings)", "try_(lambda: model.training)"),
    Pair(
        "get_submodule",
        "model.get_submodule('encoder.layer')",
        "[model.get_submodule(n) for n, _ in model.named_modules()]",
    ),
    Pair("the registry of modules", "model._modules.get('pooler')", "model._modules.get('no such module')"),
    Pair(
        "a hook",
        "[m.register_forward_hook(lambda m, a, o: (hasattr(m, 'dense'), None)[1]) for m in model.modules()]",
        "[m.register_forward_hook(lambda m, a, o: (hasattr(m, 'weight'), None)[1]) for m in model.modules()]",
    ),
]
