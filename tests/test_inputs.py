from __future__ import annotations

import pytest
import torch

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.inputs import InputSpec, example_inputs
from pytest_hierexport._errors import CollectError


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "complex64", "int64", "int8", "bool"])
def test_an_input_has_the_shape_and_type_that_were_stated(dtype: str) -> None:
    tensor = InputSpec((2, 3), dtype).tensor()
    assert (tuple(tensor.shape), str(tensor.dtype)) == ((2, 3), f"torch.{dtype}")


def test_whole_numbers_stay_within_their_bounds() -> None:
    drawn = InputSpec((1000,), "int64", low=3, high=6).tensor()
    assert set(drawn.tolist()) == {3, 4, 5}


class Config:
    hidden_size = 6
    vocab_size = 11


class Configured(torch.nn.Module):
    config = Config()


def test_an_input_annotated_as_ids_stays_below_the_vocabulary() -> None:
    class Table(Configured):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(11, 2)

        def forward(self, words: torch.LongTensor) -> torch.Tensor:
            found: torch.Tensor = self.table(words)
            return found

    assert example_inputs(Table(), "table")["words"].max() < 11


def test_float_input_takes_the_first_shape_that_runs() -> None:
    class Wide(Configured):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            assert states.ndim == 3
            assert states.shape[-1] == 6
            return states

    assert example_inputs(Wide(), "wide")["states"].shape[-1] == 6


def test_dummy_inputs_that_do_not_fit_are_skipped() -> None:
    class Mistaken(Configured):
        dummy_inputs = {"no_such_input": torch.ones(1)}  # noqa: RUF012

        def forward(self, words: torch.LongTensor) -> torch.Tensor:
            return words

    assert list(example_inputs(Mistaken(), "mistaken")) == ["words"]


def test_trying_leaves_every_training_flag_as_it_was() -> None:
    class Table(Configured):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.frozen = torch.nn.Dropout(), torch.nn.Dropout().eval()

        def forward(self, words: torch.LongTensor) -> torch.Tensor:
            assert not self.training
            return words

    model = Table()
    example_inputs(model, "table")
    assert (model.training, model.drop.training, model.frozen.training) == (True, True, False)


def test_a_model_that_nothing_suits_quotes_what_it_said() -> None:
    class Picky(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("never enough")

    with pytest.raises(CollectError, match="never enough"):
        example_inputs(Picky(), "picky")


def test_guessed_inputs_are_a_note_of_the_example() -> None:
    class Table(Configured):
        def forward(self, words: torch.LongTensor) -> torch.Tensor:
            return words

    (note,) = Case("table", Table).load().notes
    do = "to choose others, return them as well, or state them in a manifest"
    assert note == f"its inputs were guessed: words [2, 8] int64; {do}"
    assert Case("table", lambda: (Table(), torch.ones(2, 8))).load().notes == ()
