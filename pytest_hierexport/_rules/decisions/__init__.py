"""Watches what decides in an exporter's own source, while it exports a model under other names.

    exporter.py:3    if "pooler" in path: ...        path is "renamedaaaa.renamedaaab"
    as it runs       "pooler" in path                False
    under old names  "pooler" in "pooler.dense"      True: a name of the model decides, and the source spells it

:mod:`source` finds the files; :mod:`instrument` replaces, in the functions of these files, each comparison, lookup and
search by a call; :mod:`operations` answers these calls: it computes as Python does, then once more with the values
that :mod:`values` gives for other names of the model.
"""
