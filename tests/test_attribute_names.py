"""A model may give its attributes and classes any name: all rules pass."""

from __future__ import annotations

from projects import Project

MODEL = """
    import torch
    from torch import nn

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.shape = nn.Linear(4, 4)
            self.size = nn.Parameter(torch.rand(4) + 0.5)
            self.register_buffer("body", torch.rand(4))

        def forward(self, x):
            return torch.tanh(self.shape(x)) * self.size + self.body

    class transformers(nn.Module):
        def __init__(self):
            super().__init__()
            self.tags = nn.ModuleList([Body(), Body()])

        def forward(self, x):
            for layer in self.tags:
                x = layer(x)
            return x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Body()
            self.transformers = transformers()
            self.torch = Body()
            self.forward = nn.Linear(4, 4)

        def forward(self, x):
            x = self.torch(self.transformers(self.body(x)))
            return self._modules["forward"](x)

    def build():
        torch.manual_seed(0)
        return Model(), (torch.randn(2, 4),)
"""


def test_attributes_named_like_the_exporters_own_words_pass_all_rules(project: Project) -> None:
    project.write("my_model.py", MODEL)
    result = project.run("--hierexport-models=my_model.py::build")
    result.assert_outcomes(passed=10, skipped=1)
