"""Carries origins through any transformation of a graph: `carry(before, attribution, after)` sees the graphs alone.

Example. Two layers compute equal masks; an optimizer keeps one of them (common subexpression elimination):

    before                     call       after                    origins
    mask_0 = Where(c, a, b)    layer.0    mask_0 = Where(c, a, b)  layer.0 traced, layer.1 merged
    sum_0  = Add(q_0, mask_0)  layer.0    sum_0  = Add(q_0, mask_0)  layer.0 traced
    mask_1 = Where(c, a, b)    layer.1
    sum_1  = Add(q_1, mask_1)  layer.1    sum_1  = Add(q_1, mask_0)  layer.1 traced

The steps, each in a module of its own:

1. `copying`: copy both graphs, functions expanded. Between files, take off a prefix that a tool put in front of all
   names (`flat`), and leave out the casts of a tool that changed the precision until the end (`casts`).
2. `inputs`, `numbering`, `aliases`, `restored`, `bodies`: pair the inputs, by name first, and number the values of both
   graphs, so that equal values get one number; loops and branches whose names are gone are known by their bodies.
3. `match`: pair each node with its twin, and each removed duplicate with the nodes that replaced it.
4. `anchors`, `regions`: find which old values new ones correspond to, and group the nodes without a twin between them,
   with the nodes that they replaced (fusion).
5. `copies`: the owners of a merged node whose copies several calls take again.
6. `cancelled`: inverse pairs that were dropped.
7. `leftover`: constants, computed values that became initializers (constant folding), and what is left.
"""

from __future__ import annotations

from pytest_hierexport._carry.carrying import carry, carry_flat
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat
from pytest_hierexport._carry.match import Attributed

__all__ = ["Attributed", "Flat", "carry", "carry_flat", "flat_copy"]
