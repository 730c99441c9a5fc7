"""Exporters that compare or search a name of the model, each beside its smallest repaired twin."""

from __future__ import annotations

from pairs import Pair

__all__ = ["PAIRS"]

PAIRS = [
    Pair(
        "a function that maps component names to categories by what they contain",
        """
        def category(name):
            if 'embedding' in name.lower():
                return 'Embedding'
            return 'Other'
        """,
        """
        def category(module):
            if any(not p.is_floating_point() for p in module.buffers()):
                return 'Embedding'
            return 'Other'
        """,
    ),
    Pair(
        "the same, of text that nothing says to be a name",
        """
        def category(component: str) -> str:
            return 'Lookup' if 'embedding' in component.lower() else 'Other'
        """,
        """
        def category(component: str) -> str:
            return 'Indexed' if component[-1:].isdigit() else 'Other'
        """,
    ),
    Pair(
        "a regex on layer names, compiled at the top of the module",
        """
        import re
        LAYER = re.compile(r'layer\\.(\\d+)')
        def depth(model):
            return {n: m.group(1) for n, _ in model.named_modules() if (m := LAYER.search(n))}
        """,
        """
        import re
        INDEX = re.compile(r'\\.(\\d+)(?=\\.|$)')
        def depth(model):
            return {n: m.group(1) for n, _ in model.named_modules() if (m := INDEX.search(n))}
        """,
    ),
    Pair(
        "a match on the class name",
        """
        def tag(m):
            match type(m).__name__:
                case 'BertAttention' | 'BertLayer':
                    return 'block'
                case other:
                    return other
        """,
        """
        def tag(m):
            match len(list(m.children())):
                case 0:
                    return 'leaf'
                case other:
                    return type(m).__name__
        """,
    ),
    Pair(
        "a match on the parts of a path",
        """
        def tag(path):
            match path.split('.'):
                case ['encoder', *rest]:
                    return rest
        """,
        """
        def tag(path):
            match path.split('.'):
                case [first, *rest]:
                    return rest
        """,
    ),
    Pair(
        "a match on what an object of the exporter's own holds",
        """
        from collections import namedtuple
        Seen = namedtuple('Seen', 'cls depth')
        class Known:
            ATTENTION = 'BertAttention'
        def tag(m):
            match Seen(type(m).__name__, 0):
                case Seen(cls='BertLayer') | Seen(cls=Known.ATTENTION):
                    return 'block'
        """,
        """
        from collections import namedtuple
        Seen = namedtuple('Seen', 'cls depth')
        def tag(m):
            match Seen(type(m).__name__, len(list(m.children()))):
                case Seen(depth=0):
                    return 'leaf'
        """,
    ),
    Pair(
        "a slice of a name",
        """
        def kept(name):
            return name[:7] == 'encoder' and name[-6:] != 'pooler'
        """,
        """
        def kept(name):
            return name[-2:] != '.0' and name[:1] != '_'
        """,
    ),
    Pair(
        "a table that is one text",
        """
        SKIPPED = 'pooler intermediate'.split()
        def skipped(name):
            return any(part in SKIPPED for part in name.split('.'))
        """,
        """
        SKIPPED = 'Linear LayerNorm'.split()
        def skipped(module):
            return type(module).__name__ in SKIPPED
        """,
    ),
    Pair(
        "a comparison of the class name",
        """
        def tag(model):
            for path, module in model.named_modules():
                if module.__class__.__name__ == 'BertLayer':
                    yield path
        """,
        """
        def tag(model):
            for path, module in model.named_modules():
                if not module.__class__.__module__.startswith('torch.nn.'):
                    yield path
        """,
    ),
    Pair(
        "a walrus on the way",
        """
        def tag(m):
            if (name := type(m).__name__) and name.startswith('Bert'):
                return name[4:]
        """,
        """
        def tag(m):
            if (name := type(m).__name__) and name.startswith('_'):
                return name[1:]
        """,
    ),
    Pair(
        "a name put together from pieces",
        """
        PREFIX = 'Bert'
        def tag(m):
            return type(m).__name__ == PREFIX + ''.join(['La', 'yer'])
        """,
        """
        SEPARATOR = '.'
        def tag(m):
            return type(m).__name__ == SEPARATOR + ''.join(['/', '@'])
        """,
    ),
    Pair(
        "a name spelled backwards",
        """
        def tag(m):
            return type(m).__name__ == 'reyaLtreB'[::-1]
        """,
        """
        def tag(m):
            return type(m).__name__ == type(m).__qualname__[::-1]
        """,
    ),
    Pair(
        "operator.eq",
        """
        from operator import eq as same
        def tag(m):
            return same(m._get_name(), 'BertLayer')
        """,
        """
        from operator import eq as same
        def tag(m):
            return same(m._get_name(), type(m).__name__)
        """,
    ),
    Pair(
        "a partially applied comparison",
        """
        import functools, operator
        is_layer = functools.partial(operator.eq, 'BertLayer')
        def layers(model):
            return filter(is_layer, (type(m).__name__ for m in model.modules()))
        """,
        """
        import functools, operator
        is_layer = functools.partial(operator.eq, 12)
        def layers(model):
            return filter(is_layer, (len(list(m.children())) for m in model.modules()))
        """,
    ),
    Pair(
        "a default that a helper compares with",
        """
        def _is(name, wanted='pooler'):
            return name.endswith(wanted)
        def kept(model):
            return [n for n, _ in model.named_children() if not _is(n)]
        """,
        """
        def _is(name, wanted='.'):
            return name.endswith(wanted)
        def kept(model):
            return [n for n, _ in model.named_children() if not _is(n)]
        """,
    ),
    Pair(
        "a helper that never calls its text a name",
        """
        def _covers(text, word):
            return text.count(word) > 0
        def kept(model):
            return [n for n, _ in model.named_children() if not _covers(n, 'pool')]
        """,
        """
        def _covers(text, word):
            return text.count(word) > 0
        def kept(model):
            return [n for n, _ in model.named_children() if not _covers(n, '.')]
        """,
    ),
    Pair(
        "a glob",
        """
        from fnmatch import fnmatch
        def is_layer(model):
            return [n for n, _ in model.named_modules() if fnmatch(n, '*.layer.*')]
        """,
        """
        from fnmatch import fnmatch
        def is_layer(model):
            return [n for n, _ in model.named_modules() if fnmatch(n, '*.[0-9]*')]
        """,
    ),
    Pair(
        "a regex with flags",
        """
        import re
        def kept(name):
            return re.search('POOLER', name, re.IGNORECASE) is None
        """,
        """
        import re
        def kept(name):
            return re.search(r'[A-Z]', name, re.ASCII) is None
        """,
    ),
    Pair(
        "matches that are iterated",
        """
        import re
        def tag(name):
            return [match[0] for match in re.finditer('pooler', name)]
        """,
        """
        import re
        def tag(name):
            return [match[0] for match in re.finditer(r'[0-9]+', name)]
        """,
    ),
    Pair(
        "a path of folders made of a name",
        """
        from pathlib import PurePosixPath
        def kept(name):
            return not PurePosixPath(name.replace('.', '/')).match('pooler/*')
        """,
        """
        from pathlib import PurePosixPath
        def kept(name):
            return not PurePosixPath(name.replace('.', '/')).match('[0-9]/*')
        """,
    ),
    Pair(
        "the nearest name",
        """
        import difflib
        def head(model):
            return difflib.get_close_matches('pooler', [name for name, _ in model.named_children()])
        """,
        """
        import difflib
        def head(model):
            names = [name for name, _ in model.named_children()]
            return difflib.get_close_matches(names[-1], names)[0] != names[-1]
        """,
    ),
    Pair(
        "a pattern of escaped names",
        """
        import re
        PARTS = re.compile('|'.join(map(re.escape, ['pooler.', 'no-such-part'])))
        def kept(name):
            return PARTS.match(name) is None
        """,
        """
        import re
        PARTS = re.compile('|'.join(map(re.escape, ['0.', '-'])))
        def kept(name):
            return PARTS.match(name) is None
        """,
    ),
]
