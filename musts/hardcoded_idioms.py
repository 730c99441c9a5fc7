"""Everyday ways to decide by a name of the model, each beside its smallest repaired twin."""

from __future__ import annotations

from pairs import Pair

__all__ = ["PAIRS"]

PAIRS = [
    Pair(
        "whether a set of names holds one",
        """
        def has_encoder(model):
            return {'encoder'} <= {name for name, _ in model.named_modules()}
        """,
        """
        def has(model, names):
            return set(names) <= {name for name, _ in model.named_modules()}
        """,
    ),
    Pair(
        "a path in an f-string",
        """
        def layers(model):
            return [n for n, _ in model.named_modules() if any(n == f'encoder.layer.{i}' for i in range(12))]
        """,
        """
        def layers(model, prefix):
            return [n for n, _ in model.named_modules() if any(n == f'{prefix}.{i}' for i in range(12))]
        """,
    ),
    Pair(
        "a path formatted with a percent sign",
        """
        def layer(model, number):
            return next(m for n, m in model.named_modules() if n == 'encoder.layer.%d' % number)
        """,
        """
        def layer(model, prefix, number):
            return next(m for n, m in model.named_modules() if n == '%s.%d' % (prefix, number))
        """,
    ),
    Pair(
        "a path that is joined",
        """
        def layer(model, number):
            path = '.'.join(['encoder', 'layer', str(number)])
            return dict(model.named_modules())[path]
        """,
        """
        def layer(model, parts, number):
            path = '.'.join([*parts, str(number)])
            return dict(model.named_modules())[path]
        """,
    ),
    Pair(
        "the module stack that torch records",
        """
        def is_layer(node):
            stack = node.meta['nn_module_stack']
            return any('BertLayer' in str(cls) for path, cls in stack.values())
        """,
        """
        def is_layer(node):
            stack = node.meta['nn_module_stack']
            return any('.' in path for path, cls in stack.values())
        """,
    ),
    Pair(
        "the class hierarchy in the metadata",
        """
        import ast
        def is_layer(node):
            return 'toy_models.BertLayer' in ast.literal_eval(node.metadata_props['pkg.torch.onnx.class_hierarchy'])
        """,
        """
        import ast
        def depth(node):
            return len(ast.literal_eval(node.metadata_props['pkg.torch.onnx.class_hierarchy']))
        """,
    ),
    Pair(
        "the type of the configuration",
        """
        def export(model, args, kwargs, path):
            if model.config.model_type == 'bert':
                model.eval()
        """,
        """
        def export(model, args, kwargs, path):
            if model.config.is_encoder_decoder:
                model.eval()
        """,
    ),
    Pair(
        "the architectures of the configuration",
        """
        def export(model, args, kwargs, path):
            return 'BertModel' in model.config.architectures
        """,
        """
        def export(model, args, kwargs, path):
            return len(model.config.architectures)
        """,
    ),
    Pair(
        "a pattern that is passed on",
        """
        import re
        def find(model, pattern):
            return [n for n, _ in model.named_modules() if re.search(pattern, n)]
        def export(model, args, kwargs, path):
            return find(model, r'encoder\\.layer\\.\\d+')
        """,
        """
        import re
        def find(model, pattern):
            return [n for n, _ in model.named_modules() if re.search(pattern, n)]
        def export(model, args, kwargs, path):
            return find(model, r'\\.\\d+$')
        """,
    ),
    Pair(
        "a module imported by the type of the model",
        """
        import importlib
        def export(model, args, kwargs, path):
            return importlib.import_module(f'exporters.{model.config.model_type}').export(model)
        """,
        """
        import importlib
        def export(model, args, kwargs, path):
            return importlib.import_module(type(model).__module__)
        """,
    ),
    Pair(
        "rules in a dataclass",
        """
        from dataclasses import dataclass
        @dataclass
        class Rule:
            part: str
            kind: str
        RULES = [Rule('attention', 'block'), Rule('pooler', 'head')]
        def kind(model):
            return {n: r.kind for n, _ in model.named_modules() for r in RULES if r.part in n}
        """,
        """
        from dataclasses import dataclass
        @dataclass
        class Rule:
            part: str
            kind: str
        RULES = [Rule('.0', 'first'), Rule('.1', 'second')]
        def kind(model):
            return {n: r.kind for n, _ in model.named_modules() for r in RULES if r.part in n}
        """,
    ),
    Pair(
        "the target of an fx node",
        """
        def head(graph):
            return [n for n in graph.nodes if n.op == 'call_module' and n.target == 'pooler.dense']
        """,
        """
        def head(graph):
            return [n for n in graph.nodes if n.op == 'call_module' and n.target.count('.') == 1]
        """,
    ),
    Pair(
        "a registry that a decorator fills",
        """
        REGISTRY = {}
        def register(name):
            def wrap(cls):
                REGISTRY[name] = cls
                return cls
            return wrap
        @register('BertModel')
        class Config:
            pass
        def export(model, args, kwargs, path):
            return REGISTRY[type(model).__name__]()
        """,
        """
        REGISTRY = {}
        def register(name):
            def wrap(cls):
                REGISTRY[name] = cls
                return cls
            return wrap
        @register('float32')
        class Config:
            pass
        def export(model, args, kwargs, path):
            return REGISTRY[str(args[0].dtype)]()
        """,
    ),
    Pair(
        "a table of a derived class",
        """
        class Base:
            NAMES = ()
            def pick(self, model):
                return [n for n, _ in model.named_modules() if n.split('.')[-1] in self.NAMES]
        class Mine(Base):
            NAMES = ('query', 'value')
        """,
        """
        class Base:
            NAMES = ()
            def pick(self, model):
                return [n for n, _ in model.named_modules() if n.split('.')[-1] in self.NAMES]
        class Mine(Base):
            NAMES = ('0', '1')
        """,
    ),
    Pair(
        "a part of the model that is asked for",
        """
        def export(model, args, kwargs, path):
            model.pooler = None
            return model.encoder(*args)
        """,
        """
        def export(model, args, kwargs, path):
            model.eval()
            return model(*args)
        """,
    ),
    Pair(
        "an input of an ONNX node",
        """
        def fuse(proto):
            return [n for n in proto.graph.node if 'encoder.layer.0.attention.dense.bias' in n.input]
        """,
        """
        def fuse(proto):
            return [n for n in proto.graph.node if 'value' in n.input]
        """,
    ),
    Pair(
        "an item of a recorded list, counted from its end",
        """
        import ast
        def is_layer(node):
            return ast.literal_eval(node.metadata_props['pkg.torch.onnx.name_scopes'])[-2].startswith('encoder.layer')
        """,
        """
        import ast
        def is_root(node):
            return ast.literal_eval(node.metadata_props['pkg.torch.onnx.name_scopes'])[-2] == ''
        """,
    ),
    Pair(
        "a target of an exported program",
        """
        def scales(program):
            return [s for s in program.graph_signature.input_specs if s.target and s.target.split('.')[-1] == 'scale']
        """,
        """
        def parameters(program):
            return [s for s in program.graph_signature.input_specs if s.target and s.kind.name == 'PARAMETER']
        """,
    ),
]
