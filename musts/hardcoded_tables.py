"""Exporters that look a name of the model up, each beside its smallest repaired twin."""

from __future__ import annotations

from pairs import Pair

__all__ = ["PAIRS"]

PAIRS = [
    Pair(
        "a lookup table of class names",
        """
        TABLE = {'BertLayer': 'layer', 'BertEmbeddings': 'input'}
        def tag(module):
            return TABLE.get(type(module).__name__, 'other')
        """,
        """
        def tag(module):
            return type(module).__name__
        """,
    ),
    Pair(
        "a table indexed with a local that was computed from the class name",
        """
        TABLE = dict(bertlayer='layer')
        def tag(module):
            key = module.__class__.__name__.lower()
            return TABLE[key] if key in TABLE else key
        """,
        """
        def tag(module, table):
            key = module.__class__.__name__.lower()
            return table[key] if key in table else key
        """,
    ),
    Pair(
        "any of several keys",
        """
        KEYS = ('query', 'key', 'value')
        def is_projection(model):
            return [n for n, _ in model.named_parameters() if any(k in n for k in KEYS)]
        """,
        """
        def is_projection(model):
            return [n for n, p in model.named_parameters() if p.dim() == 2]
        """,
    ),
    Pair(
        "the last part of a path in a set",
        """
        NAMES = {'query', 'dense'}
        def is_linear(model):
            return [n for n in model.state_dict() if n.split('.')[-2] in NAMES]
        """,
        """
        def is_linear(model):
            return [n for n, t in model.state_dict().items() if t.dim() == 2]
        """,
    ),
    Pair(
        "a method of a table, passed on",
        """
        TABLE = {'BertLayer': 1}
        def ranks(model):
            return list(map(TABLE.get, [type(m).__name__ for m in model.modules()]))
        """,
        """
        def ranks(model, table):
            return list(map(table.get, [type(m).__name__ for m in model.modules()]))
        """,
    ),
    Pair(
        "an enumeration of names",
        """
        from enum import Enum
        class Kind(Enum):
            EMBEDDING = 'embeddings'
            POOLER = 'pooler'
        def kind(path):
            return next((k for k in Kind if k.value in path), None)
        """,
        """
        from enum import Enum
        class Kind(Enum):
            PARAMETER = 'trained'
            BUFFER = 'kept'
        def kind(path, trained):
            return Kind('trained' if trained else 'kept')
        """,
    ),
    Pair(
        "an enumeration's members, by name",
        """
        from enum import Enum
        class Kind(Enum):
            BertLayer = 1
            BertModel = 2
        def kind(m):
            return Kind[type(m).__name__]
        """,
        """
        from enum import Enum
        class Kind(Enum):
            LEAF = 1
            BRANCH = 2
        def kind(m):
            return Kind[('LEAF', 'BRANCH')[bool(list(m.children()))]]
        """,
    ),
    Pair(
        "a table filled later",
        """
        TABLE = {}
        TABLE['BertLayer'] = 'layer'
        TABLE.update(BertModel='model')
        class Tagger:
            def tag(self, m):
                name = type(m).__name__
                return name in TABLE
        """,
        """
        TABLE = {}
        TABLE['/'] = 'root'
        TABLE.update({'@': 'call'})
        class Tagger:
            def tag(self, m):
                name = type(m).__name__
                return name in TABLE
        """,
    ),
    Pair(
        "a table on the instance",
        """
        class Tagger:
            def __init__(self):
                self.table = {'encoder': 1}
            def tag(self, scope):
                return self.table.get(scope.strip('/').split('/')[0])
        """,
        """
        class Tagger:
            def __init__(self, table):
                self.table = table
            def tag(self, scope):
                return self.table.get(scope.strip('/').split('/')[0])
        """,
    ),
    Pair(
        "an order of names",
        """
        ORDER = ['embeddings', 'encoder', 'pooler']
        def ordered(model):
            return sorted((n for n, _ in model.named_children()), key=ORDER.index)
        """,
        """
        def ordered(model):
            return sorted((n for n, _ in model.named_children()), key=len)
        """,
    ),
    Pair(
        "an intersection with names",
        """
        def heads(model):
            return {'pooler', 'encoder'} & {n for n, _ in model.named_children()}
        """,
        """
        def heads(model, wanted):
            return wanted & {n for n, _ in model.named_children()}
        """,
    ),
    Pair(
        "names in one text, as the default of a variable",
        """
        import os
        SKIPPED = [name.strip() for name in os.getenv('NO_SUCH_VARIABLE', 'nothing, pooler').split(',')]
        def kept(name):
            return name not in SKIPPED
        """,
        """
        import os
        SKIPPED = [name.strip() for name in os.getenv('NO_SUCH_VARIABLE', '').split(',')]
        def kept(name):
            return name not in SKIPPED
        """,
    ),
    Pair(
        "names in one text, a line each",
        """
        SKIPPED = '''
            nothing
            pooler
        '''
        def kept(name):
            return name not in [line.strip() for line in SKIPPED.splitlines()]
        """,
        """
        SKIPPED = '''
            nothing
        '''
        def kept(name):
            return name not in [line.strip() for line in SKIPPED.splitlines()]
        """,
    ),
]
