"""Exporters that decide by a class, submodule or node of the model, each beside its smallest repaired twin."""

from __future__ import annotations

from pairs import Pair

__all__ = ["PAIRS"]

PAIRS = [
    Pair(
        "the class name by getattr, in a frozenset at the top of the module",
        """
        SKIPPED = frozenset(['BertLayer', 'BertSelfAttention'])
        def kept(m):
            return getattr(getattr(m, '__class__'), '__name__') not in SKIPPED
        """,
        """
        def kept(m):
            return getattr(getattr(m, '__class__'), '__module__').partition('.')[0] != 'torch'
        """,
    ),
    Pair(
        "what the class prints",
        """
        def kept(m):
            return 'BertLayer' not in str(type(m))
        """,
        """
        def kept(m):
            return 'torch.nn.modules' not in str(type(m))
        """,
    ),
    Pair(
        "a dispatch on names of methods",
        """
        class Tagger:
            def visit_BertLayer(self, m):
                return 'layer'
            def visit(self, m):
                return getattr(self, f'visit_{type(m).__name__}')(m)
        """,
        """
        class Tagger:
            def visit_leaf(self, m):
                return 'layer'
            def visit(self, m):
                return getattr(self, 'visit_leaf')(m)
        """,
    ),
    Pair(
        "attrgetter",
        """
        from operator import attrgetter
        class_name = attrgetter('__class__.__name__')
        def tag(m):
            return class_name(m) in ('BertLayer',)
        """,
        """
        from operator import attrgetter
        class_name = attrgetter('__class__.__name__')
        def tag(m):
            return class_name(m) in ('',)
        """,
    ),
    Pair(
        "the name of an ONNX node",
        """
        def layer(graph):
            return [n for n in graph.node if n.name.startswith('/encoder/layer')]
        """,
        """
        def layer(graph):
            return [n for n in graph.node if n.op_type == 'Identity']
        """,
    ),
    Pair(
        "one ONNX node",
        """
        def first(proto):
            return [n for n in proto.graph.node if n.name == '/encoder/layer/0/attention/self/MatMul']
        """,
        """
        def first(proto):
            return [n for n in proto.graph.node if n.name.endswith('/MatMul')]
        """,
    ),
    Pair(
        "the name of an initializer",
        """
        def table(graph):
            return [i for i in graph.initializer if i.name == 'embeddings.word_embeddings.weight']
        """,
        """
        def table(graph):
            return [i for i in graph.initializer if i.data_type == 7]
        """,
    ),
    Pair(
        "the scopes that torch writes",
        """
        def scope(node):
            return node.metadata_props['pkg.torch.onnx.name_scopes'].find('pooler')
        """,
        """
        def scope(node):
            return node.metadata_props['pkg.torch.onnx.name_scopes'].find(',')
        """,
    ),
    Pair(
        "a submodule looked up by its name",
        """
        def encoder(model):
            return dict(model.named_modules())['encoder.layer']
        """,
        """
        def encoder(model, path):
            return dict(model.named_modules())[path]
        """,
    ),
    Pair(
        "a submodule asked for by its name",
        """
        def encoder(model):
            return [m for m in model.modules() if hasattr(m, 'embeddings')]
        """,
        """
        def encoder(model):
            return [m for m in model.modules() if hasattr(m, 'forward')]
        """,
    ),
    Pair(
        "a class of the model, imported",
        """
        from toy_models import BertLayer
        def is_layer(m):
            return isinstance(m, BertLayer)
        """,
        """
        from torch.nn import Module
        def is_layer(m):
            return isinstance(m, Module)
        """,
    ),
    Pair(
        "a class of the model among keys of a table",
        """
        import toy_models as toys
        TAGS = {toys.BertLayer: 'layer', toys.BertModel: 'model'}
        def tag(m):
            return TAGS.get(type(m))
        """,
        """
        import torch.nn as toys
        TAGS = {toys.Linear: 'layer', toys.Module: 'model'}
        def tag(m):
            return TAGS.get(type(m))
        """,
    ),
    Pair(
        "dispatch on a class of the model",
        """
        import functools
        import toy_models
        @functools.singledispatch
        def tag(m):
            return ''
        @tag.register
        def _(m: toy_models.BertLayer):
            return 'layer'
        def shown(m):
            return tag(m)
        """,
        """
        import functools
        import torch
        @functools.singledispatch
        def tag(m):
            return ''
        @tag.register
        def _(m: torch.nn.Module):
            return 'layer'
        def shown(m):
            return tag(m)
        """,
    ),
    Pair(
        "the name of an imported class",
        """
        from toy_models import BertLayer
        def is_layer(m):
            return type(m).__name__ == BertLayer.__name__
        """,
        """
        from torch.nn import Module
        def is_layer(m):
            return type(m).__name__ == Module.__name__
        """,
    ),
    Pair(
        "a base class",
        """
        from toy_models import BertPreTrained
        def is_whole(model):
            return isinstance(model, BertPreTrained)
        """,
        """
        from torch import nn
        def is_whole(model):
            return isinstance(model, nn.Module)
        """,
    ),
    Pair(
        "the name of a base class",
        """
        def is_whole(model):
            return any(base.__name__ == 'BertPreTrained' for base in type(model).__mro__)
        """,
        """
        def is_whole(model):
            return any(base.__name__ == 'Module' for base in type(model).__mro__)
        """,
    ),
    Pair(
        "a class among the names of its bases",
        """
        def is_pooler(m):
            return 'BertPooler' in [base.__name__ for base in type(m).mro()]
        """,
        """
        def is_pooler(m):
            return type(m).__name__ in [base.__name__ for base in type(m).mro()]
        """,
    ),
    Pair(
        "a part asked for by a name in two pieces",
        """
        def heads(model):
            return [getattr(part, '_'.join(('word', 'embeddings')), None) for part in model.modules()]
        """,
        """
        def heads(model):
            return [getattr(part, '_'.join(('_forward', 'hooks')), None) for part in model.modules()]
        """,
    ),
    Pair(
        "a class named with its module",
        """
        from importlib import import_module
        def is_pooler(m):
            module, _, name = 'toy_models:BertPooler'.partition(':')
            return isinstance(m, getattr(import_module(module), name))
        """,
        """
        from importlib import import_module
        def is_pooler(m):
            module, _, name = 'torch.nn:Linear'.partition(':')
            return isinstance(m, getattr(import_module(module), name))
        """,
    ),
]
