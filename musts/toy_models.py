"""A model with the names that people hardcode, and the shapes of names that trip an exporter."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["BertModel", "build"]


class BertEmbeddings(nn.Module):
    """Word embeddings with a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.norm(self.word_embeddings(ids))
        return embedded


class BertSelfAttention(nn.Module):
    """Three projections and one head."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2), dim=-1)
        attended: torch.Tensor = weights @ self.value(x)
        return attended


class BertAttention(nn.Module):
    """Self-attention with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.self = BertSelfAttention()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.dense(self.self(x))
        return x + projected


class BertLayer(nn.Module):
    """Attention, then a scaled activation; the scale is a parameter of its own."""

    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.attention = BertAttention()
        self.scale = nn.Parameter(torch.rand(8) + 0.5)
        self.register_buffer("offset", torch.rand(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.attention(x)) * self.scale + self.offset


class BertEncoder(nn.Module):
    """Two layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(), BertLayer()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layer:
            x = layer(x)
        return x


class BertPooler(nn.Module):
    """The first token, projected."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)
        self.act = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.act(torch.tanh(self.dense(x[:, 0])))
        return pooled


class BertPreTrained(nn.Module):
    """What models of this kind extend."""


class BertModel(BertPreTrained):
    """Embeddings, encoder, pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings()
        self.encoder = BertEncoder()
        self.pooler = BertPooler()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.pooler(self.encoder(self.embeddings(ids)))
        return pooled


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the model and its example inputs."""
    return BertModel(), (torch.arange(6).reshape(1, 6),)
