"""Words of the model that decide nothing about a name of it."""

from __future__ import annotations

__all__ = ["INNOCENT"]

INNOCENT = {
    "an operator's type": """
        def drop(node):
            return node.op_type == 'Identity'
    """,
    "a key of a dictionary": """
        def read(d, config):
            return d['key'], config['query'], config.get('encoder')
    """,
    "a docstring": """
        def export(model):
            '''Export a transformer: BertLayer, encoder and pooler alike.'''
            return model
    """,
    "a message": """
        def fail(name):
            raise ValueError(f'{name} is no encoder, as a BertLayer is')
    """,
    "an option": """
        def run(exporter='encoder'):
            return exporter == 'encoder'
    """,
    "an attribute of an ONNX node": """
        def axis(node):
            return [a.i for a in node.attribute if a.name == 'value']
    """,
    "a dtype": """
        def is_half(tensor):
            return tensor.dtype.name == 'value'
    """,
    "an argument of the forward function": """
        import inspect
        def takes(model):
            return [n for n, p in inspect.signature(model.forward).parameters.items() if n == 'value']
    """,
    "a table of operators by node name": """
        def kinds(graph):
            kinds = {n.name: n.op_type for n in graph.node}
            return [k for n, k in kinds.items() if k == 'Identity']
    """,
    "a name written, not read": """
        def store(props, model):
            for name, module in model.named_modules():
                props['encoder'] = name
    """,
    "dispatch on a type of Python's own": """
        import functools
        @functools.singledispatch
        def show(x):
            return ''
        @show.register
        def _(x: str):
            return x
    """,
    "a class of the model that is only made": """
        from toy_models import BertModel
        def case():
            return BertModel()
    """,
    "the package of a class": """
        def kept(m):
            return not type(m).__module__.startswith(('torch.nn.', 'torch.ao.nn.'))
    """,
}
