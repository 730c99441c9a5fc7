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
            '''Export a transformer: BertLayer, encoder and pooler.'''
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
    "a group of a pattern that is named like a module": """
        import re
        def number(model):
            return [re.fullmatch(r'(?P<encoder>\\w+?)(?P<layer>\\d*)', name) for name, _ in model.named_modules()]
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
    "the name of a file": """
        from pathlib import Path
        def export(model, args, kwargs, path):
            file = Path('encoder.onnx')
            return file.stem == 'encoder', file.name == 'encoder.onnx'
    """,
    "the name of a file, elsewhere": """
        from pathlib import Path
        def is_encoder(node):
            return Path('encoder.onnx').suffix == '.onnx' and Path('encoder.onnx').name.startswith('encoder')
    """,
    "a logger": """
        import logging
        def quiet(logger):
            return logger.name == 'encoder', logging.getLogger('encoder').name == 'pooler'
    """,
    "the name of a function in a stack frame": """
        import sys
        def inside():
            return sys._getframe(1).f_code.co_name == 'attention'
    """,
    "a member of an archive": """
        import tarfile
        def weights(node):
            members = [tarfile.TarInfo('encoder.bin'), tarfile.TarInfo('other.bin')]
            return [member.size for member in members if member.name.startswith('encoder')]
    """,
    "an output of the graph": """
        def first(proto):
            return [output for output in proto.graph.output if output.name == 'attention']
    """,
    "an enumeration of the exporter's own": """
        import enum
        class Part(enum.Enum):
            ENCODER = 'encoder'
            POOLER = 'pooler'
        def is_encoder(node):
            part = Part.ENCODER
            return part.name == 'ENCODER', part is Part.POOLER, part.value == 'encoder', Part('pooler')
    """,
    "a suffix that begins with a dot": """
        def locks(model):
            return [name for name in model.state_dict() if name.endswith('.ense')]
    """,
    "a single letter": """
        def first(model):
            return [n for n, _ in model.named_parameters() if n == 'q' or n.startswith('k')]
    """,
    "the name of a torch function": """
        def embeds(node):
            return node.op == 'call_function' and node.target.__name__ == 'embedding'
    """,
    "one name for different things in two loops": """
        def counts(model, files):
            for name, module in model.named_modules():
                module.eval()
            for name in files.split():
                if name == 'encoder':
                    return True
    """,
    "one helper for names and operators": """
        def last(text):
            parts = text.split('.')
            return parts[-1]
        def kept(model, node):
            names = [last(n) for n, _ in model.named_modules()]
            return names, last(node.op_type) == 'Identity'
    """,
    "a module imported by a name that the user gives": """
        import importlib
        def load(plugin, module_name):
            return importlib.import_module(f'{plugin}.path'), importlib.import_module(module_name)
    """,
    "a name that a run before this one kept": """
        SEEN = set()
        def is_new(path):
            is_new = path not in SEEN
            SEEN.add(path)
            return is_new and ''
    """,
    "names that are compared with each other": """
        def shared(model):
            names = [name for name, _ in model.named_parameters()]
            return [one for one in names if names.count(one) > 1 or names.index(one) < 0]
    """,
    "a torch.nn module's own parameter": """
        def weights(model):
            return [name for name, _ in model.named_parameters() if name.endswith('.weight')]
    """,
    "a line of text in columns": """
        def line(path):
            return '{:>40} encoder'.format(path) and f'{path:>40} encoder' and ''
    """,
    "a name that comes from elsewhere": """
        WANTED = bytes.fromhex('706f6f6c6572').decode()
        def is_wanted(path):
            return path == WANTED and ''
    """,
    "the module that functions of the model are defined in": """
        import toy_models
        def own(model):
            held = vars(toy_models).values()
            return [one for one in held if getattr(one, '__module__', '') == type(model).__module__] and ''
    """,
}
