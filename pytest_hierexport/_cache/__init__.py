"""Keeps results for later runs: what a model's results depend on, and whether that is still the same.

:mod:`reads` records what a process reads while it works on a model, and :mod:`dependencies` for which models it counts;
:mod:`inputs` fingerprints it. :mod:`cache` writes a result and its inputs as an entry, and gives the result to a later
run whose inputs are the same. :mod:`remote` shares entries by a URL, and :mod:`upkeep` makes room.
"""
