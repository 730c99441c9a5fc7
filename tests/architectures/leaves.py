"""What the trees are made of at the bottom: modules that keep the shape `[2, 3, 8]`, as source text.

Each of our own holds something that an exporter or an optimizer is known to move, merge, fold or drop.
"""

from __future__ import annotations

__all__ = ["LEAVES", "PRELUDE"]

LEAVES = (
    "nn.Linear(8, 8)",
    "nn.SiLU()",
    "nn.LayerNorm((3, 8))",
    "Scale()",
    "nn.GELU()",
    "nn.Linear(8, 8, bias=False)",
    "nn.Identity()",
    "nn.Dropout(0.5)",
    "nn.Tanh()",
    "nn.Softplus()",
    "nn.RMSNorm(8)",
    "nn.Conv1d(3, 3, 3, padding=1)",
    "nn.BatchNorm1d(3)",
    "nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))",
    "Attend()",
    "Positions()",
    "Halves()",
    "Turn()",
    "Rotate()",
    "Wide()",
)
"""Expressions, the simplest first: a failure shrinks towards it.

None gives back some of what it is given, as a rectifier does positive numbers, nor undoes what another did, as a norm
of the last axis undoes a batch norm of the one before: a value that is equal by accident belongs to no call.
"""

PRELUDE = {
    "Scale": '''
class Scale(nn.Module):
    """A parameter of the module's own, without a torch.nn module around it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.weight
''',
    "Attend": '''
class Attend(nn.Module):
    """A mask made of constants and sizes: equal in every instance, and merged or folded."""

    def forward(self, x):
        size = x.shape[-2]
        hidden = torch.ones(size, size, dtype=torch.bool).triu(1)
        scores = (x @ x.transpose(-1, -2) / 8).masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ x
''',
    "Positions": '''
class Positions(nn.Module):
    """A call that depends on no input's value: folded into an initializer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def forward(self, x):
        return x + self.table(torch.arange(x.shape[-2]))
''',
    "Halves": '''
class Halves(nn.Module):
    """A joint projection, split at once."""

    def __init__(self):
        super().__init__()
        self.both = nn.Linear(8, 16)

    def forward(self, x):
        left, right = self.both(x).chunk(2, dim=-1)
        return left * torch.sigmoid(right)
''',
    "Turn": '''
class Turn(nn.Module):
    """Views that undo each other where two of them meet."""

    def forward(self, x):
        return x.transpose(-1, -2).reshape(2, 3, 8)
''',
    "Rotate": '''
class Rotate(nn.Module):
    """A table computed in a region of its own."""

    def forward(self, x):
        with torch.no_grad():
            angles = torch.arange(x.shape[-2])[:, None] * 0.5 ** torch.arange(x.shape[-1])
            cosine, sine = angles.cos(), angles.sin()
        return x * cosine + x.roll(1, -1) * sine
''',
    "Wide": '''
class Wide(nn.Module):
    """Casts, which meet the next module's and are dropped with them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, dtype=torch.float64))

    def forward(self, x):
        return (x.double() + self.weight).float()
''',
}
"""Our own leaf classes by name."""
