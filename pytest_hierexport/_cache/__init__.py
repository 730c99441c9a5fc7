"""Keeps results for later runs: what a model's results depend on, and whether that is still the same.

In go a question, such as which verdict a rule gives on a model, and the answer, by `cache.Cache.keep`. A later run with
the same inputs gets the answer, by `cache.Cache.find`. Between them:

1. `reads` records what this process reads, told by an audit hook and by `environment`, `existence`, `loading` and
   `searches`; `programs` says what a program that is started means.
2. `dependencies` attributes each read to a model. `memory` shows whether a model left something to the next one.
3. `inputs` fingerprints all that a result depends on, and compares it with what is there later.
4. `cache` writes the answer and its inputs as an entry (`entries`), `remote` shares entries by a URL (`places`), and
   `upkeep` makes room.
"""
