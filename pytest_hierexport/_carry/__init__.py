"""Carries origins through any transformation of a graph: `carry(before, attribution, after)` sees the graphs alone.

Example. Two layers compute equal masks; an optimizer keeps one of them (common subexpression elimination):

    before                     call       after                    origins
    mask_0 = Where(c, a, b)    layer.0    mask_0 = Where(c, a, b)  layer.0 traced, layer.1 merged
    sum_0  = Add(q_0, mask_0)  layer.0    sum_0  = Add(q_0, mask_0)  layer.0 traced
    mask_1 = Where(c, a, b)    layer.1
    sum_1  = Add(q_1, mask_1)  layer.1    sum_1  = Add(q_1, mask_0)  layer.1 traced

In go the graph before with its origins, and the graph after; out comes the attribution of the graph after. `carrying`
runs the steps. From the third on, each is a pass: it takes the match and the origins so far, and changes the origins.

1. `copying.flat_copy` copies both graphs, functions expanded. Between files, `flat.drop_prefix` takes off a prefix that
   a tool put in front of all names.
2. `match.match` pairs each node with its twin, and each removed duplicate with the nodes that replaced it. For that,
   `aliases.number_values` numbers the values of both graphs: equal values get one number (`inputs`, `numbering`,
   `constants`, `restored`); loops and branches whose names are gone are known by their bodies (`bodies`).
   Where a tool changed the precision, `casts.contracted` makes copies of both graphs without their casts. Steps 2 to 7
   run on these; `casts.attribute_casts` adds the casts at the end.
3. `match.attribute_matched`: the paired nodes.
4. `regions.attribute_regions`: the nodes that match none before, in groups. A group ends at a value that equals one
   before, or is anchored to one (`anchors`), and gets the origins of the nodes that it replaced (fusion).
5. `copies.attribute_copies`: the owners of a merged node whose copies several calls take again.
6. `cancelled.attribute_cancelled`: inverse pairs that were dropped.
7. `leftover.attribute_leftover`: constants, and what is left. Then `leftover.initializer_origins` places initializers,
   also computed values that became initializers (constant folding).
"""

from __future__ import annotations

from pytest_hierexport._carry.carrying import carry, carry_flat
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat
from pytest_hierexport._carry.match import Attributed

__all__ = ["Attributed", "Flat", "carry", "carry_flat", "flat_copy"]
