"""Runs torch's exporter with hooks in it, and copies the ONNX graph with the module stacks of each node."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch._higher_order_ops.utils as higher_order
from torch._subclasses.fake_tensor import FakeTensor

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat, Node
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.capture import CannotCaptureError, Capture, Request
from pytest_hierexport._export.dynamo.dropped import noting_dropped
from pytest_hierexport._export.dynamo.inlining import FX_NODE, at_inlining
from pytest_hierexport._export.dynamo.module_stacks import STACK, ModuleStacks
from pytest_hierexport._export.dynamo.node_stacks import stacks
from pytest_hierexport._export.dynamo.paths import Stack
from pytest_hierexport._export.dynamo.shortcuts import shortcuts
from pytest_hierexport._export.dynamo.stack_calls import StackCalls
from pytest_hierexport._export.faults import is_fault
from pytest_hierexport._export.modules import Instances, qualified
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._export.quiet import no_graphs_printed, quiet
from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._onnx.absent import fill_absent
from pytest_hierexport._onnx.graph import initializers_ir
from pytest_hierexport._text import numbered

if TYPE_CHECKING:
    import onnx_ir as ir


def capture(request: Request) -> Capture:
    """Export the request's model with torch's exporter, and record the call of each node.

    Raises:
        Exception: Any error of torch; the model is left as it was.
    """
    recording = Recording(request)
    try:
        return _capture(request, recording, torch.no_grad())
    except Exception:
        if not recording.turns_gradients_on:
            raise
    # torch cannot decompose a region with gradients in a program without.
    return _capture(request, Recording(request), torch.enable_grad())


def _capture(request: Request, recording: Recording, mode: contextlib.AbstractContextManager[None]) -> Capture:
    args, options = request.args, request.options
    if args and isinstance(args[-1], dict) and not request.kwargs:
        args = (*args, {})  # torch takes a dictionary at the end for keyword inputs
    with quiet(), mode, recording.running():
        program = torch.onnx.export(
            request.model,
            args,
            kwargs=dict(request.kwargs),
            dynamo=True,
            optimize=options.optimize,
            verbose=False,
            opset_version=options.opset,
            dynamic_shapes=options.dynamic_shapes,
            input_names=options.input_names,
            output_names=options.output_names,
        )
    if program is None:
        raise HierexportError("a program from torch's exporter", found="none", do="report the versions in use")
    return recording.capture(program.model)


class Recording:
    """Records the calls while torch exports a model, and copies the graph before optimization."""

    def __init__(self, request: Request) -> None:
        """Take the request that will be exported."""
        self._model = request.model
        self._names = frozenset(request.options.value_names)
        self._stack_calls = StackCalls()
        self._module_stacks = ModuleStacks(self._stack_calls)
        self._graph: ir.Model | None = None
        self._before: Flat | None = None
        self._stacks_by_node: dict[Node, tuple[Stack, ...]] = {}
        self.turns_gradients_on = False
        """Whether the program has a region with gradients of its own: `with torch.enable_grad()` in a forward."""
        self._failed: list[Exception] = []  # the errors of torch's attempts to run the model

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Record the export that runs while the context lasts."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(shortcuts())
            stack.enter_context(no_graphs_printed())
            stack.enter_context(at_each_program(self._copy_program))
            stack.enter_context(at_inlining(self._copy_inlined))
            for holder, name, wrap in (
                (torch.fx.Node, "replace_all_uses_with", _copying_stacks),
                (torch.fx.Graph, "eliminate_dead_code", noting_dropped),
                (higher_order, "_maybe_run_with_interpreter", lambda _: self._traceable),
            ):
                stack.enter_context(replaced(holder, name, wrap(getattr(holder, name))))
            if isinstance(self._model, torch.nn.Module):
                stack.enter_context(replaced(torch.export, "export", self._watching_attempts(torch.export.export)))
                recorder = CallRecorder(Instances(self._model), observer=self._module_stacks)
                self._stack_calls.record_by(recorder)
                stack.enter_context(recorder.listening())
                run = _running_forward(recorder, torch.fx.Interpreter.run)
                stack.enter_context(replaced(torch.fx.Interpreter, "run", run))
            else:
                for body in _run_bodies_node_by_node(self._model):
                    stack.callback(vars(body).pop, "forward", None)
            yield

    def _copy_program(self, program: torch.onnx.ONNXProgram, model: ir.Model) -> None:
        remove_fakes(program, model)
        _rename_clashing(self._names, model)
        self._graph = model
        self._copy_graph(model)

    def _copy_inlined(self, model: ir.Model) -> None:
        """Replace the copy when torch has inlined functions, before it optimizes: their nodes now have unique names."""
        if model is self._graph:
            before = self._copy_graph(model)
            before.never_used = before.unused

    def _copy_graph(self, model: ir.Model) -> Flat:
        before = self._before = flat_copy(model)
        fx_nodes = ((node, node.source.meta.get(FX_NODE)) for node in before.nodes)
        self._stacks_by_node = {node: () if fx_node is None else stacks(fx_node) for node, fx_node in fx_nodes}
        return before

    def _traceable(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that torch traces for a body (a branch of `cond`, a loop) that dynamo captured."""
        if isinstance(function, torch.fx.GraphModule):
            return functools.partial(self._module_stacks.run_graph, function)
        return function

    def _watching_attempts(self, original: Callable[..., torch.export.ExportedProgram]) -> Callable[..., Any]:
        """Wrap `torch.export.export`, which torch calls once for each attempt, in another mode after a failure."""

        def export(*args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
            self._stack_calls.forget()
            try:
                program = original(*args, **kwargs)
                regions = torch.ops.higher_order.wrap_with_set_grad_enabled
                self.turns_gradients_on |= any(node.target is regions for node in program.graph.nodes)
                _run_bodies_node_by_node(program)
            except Exception as error:
                self._failed.append(error)
                raise
            # torch checks this in its first attempt alone, and computes with the missing elements: it may crash.
            if lost := [name for name, held in program.constants.items() if isinstance(held, FakeTensor)]:
                raise CannotCaptureError(_LOST.format(lost[0]))
            return program

        return export

    def capture(self, after: ir.Model) -> Capture:
        """Return the capture of the export that gave the graph `after`.

        Raises:
            CannotCaptureError: A tensor of the graph has no elements.
            Exception: A fault of this package made an attempt of torch fail, and torch made another attempt.
        """
        for error in self._failed:
            if is_fault(error):
                raise error
        before = self._before
        if before is None:
            raise HierexportError(
                "torch's exporter to make an ONNXProgram", found="none was made", do="report the versions in use"
            )
        owners = self._stack_calls.owners_of(self._stacks_by_node)
        # A ready program does not pass `_watching_attempts`, and without its optimizer torch reads no tensor.
        if (lost := next(_fakes(after), None)) is not None:
            raise CannotCaptureError(_LOST.format(lost.name))
        fill_absent(after)
        # torch names an initializer by the attribute path of one of its owners.
        declared = self._stack_calls.recorder.instances.tensors() if self._stack_calls.recorder is not None else {}
        # `owners_of` has added the calls that were not recorded. A program may have no stacks.
        calls = tuple(self._stack_calls.calls.values()) or (Call(ROOT, 0, qualified(type(self._model)), None),)
        return Capture(calls, before, owners, declared, after)


_LOST = "torch turned a computed value into a constant without elements: {}"
"""What is said of a fake tensor that is no weight of the model."""


def _running_forward(recorder: CallRecorder, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Interpreter.run` so that a model that is a graph of fx runs its `forward`, which the recorder observes.

    torch interprets such a model instead of calling it.
    """

    @functools.wraps(original)
    def run(interpreter: torch.fx.Interpreter, *args: Any, **kwargs: Any) -> Any:
        if recorder.current is None and recorder.instances.is_root(interpreter.module):
            return interpreter.module.forward(*args)
        return original(interpreter, *args, **kwargs)

    return run


def _copying_stacks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `replace_all_uses_with` so that the new node gets the module stack of the old one.

    Few graph passes copy the stack: transformers' exporter replaces a stable sort by a sort without one. Some replace a
    node by a number, which has no stack.
    """

    @functools.wraps(original)
    def replace_all_uses_with(node: torch.fx.Node, replace_with: Any, *args: Any, **kwargs: Any) -> Any:
        if STACK in node.meta and isinstance(replace_with, torch.fx.Node):
            replace_with.meta.setdefault(STACK, node.meta[STACK])
        return original(node, replace_with, *args, **kwargs)

    return replace_all_uses_with


def at_each_program(
    see: Callable[[torch.onnx.ONNXProgram, ir.Model], object],
) -> contextlib.AbstractContextManager[None]:
    """Call a function with each program that torch makes, and its graph, before the graph is optimized."""
    original = torch.onnx.ONNXProgram.__init__

    def init(program: torch.onnx.ONNXProgram, model: ir.Model, *args: Any, **kwargs: Any) -> None:
        original(program, model, *args, **kwargs)
        see(program, model)

    return replaced(torch.onnx.ONNXProgram, "__init__", init)


def _rename_clashing(names: frozenset[str], model: ir.Model) -> None:
    """Rename the inner values of a graph that have one of the names which its inputs and outputs shall get.

    torch would give the name twice, as with `output_names=["embedding"]` to a model that has an `nn.Embedding`.
    """
    values = [value for node in model.graph.all_nodes() for value in node.outputs]
    taken = {*names, *(value.name for value in (*model.graph.inputs, *initializers_ir(model), *values))}
    for value in values:
        if value.name in names and value not in model.graph.outputs:
            value.name = next(name for name in numbered(value.name, "_") if name not in taken)
            taken.add(value.name)


def remove_fakes(program: torch.onnx.ONNXProgram, model: ir.Model) -> None:
    """Remove the fake tensors of a model without weights from its graph.

    They have no elements, and torch's optimizer reads all tensors. A fake tensor that is no weight stays: torch made a
    constant of a computed value (`x.data`), and its optimizer raises.
    """
    weights = () if program.exported_program is None else program.exported_program.state_dict
    for value in _fakes(model):
        if value.name in weights:
            value.const_value = None


def _fakes(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the initializers whose tensors are fake."""
    for value in initializers_ir(model):
        if isinstance(getattr(value.const_value, "raw", None), FakeTensor):
            yield value


def _run_bodies_node_by_node(program: torch.export.ExportedProgram) -> list[torch.fx.GraphModule]:
    """Make the bodies that torch inlines (`no_grad` and `autocast` regions) run node by node; return them.

    torch traces a body when it inlines it. Run node by node, the new nodes get the module stacks of the body's nodes.
    """
    bodies = [body for body in program.graph_module.modules() if isinstance(body, torch.fx.GraphModule)]
    for body in bodies:
        if body is not program.graph_module:
            body.forward = torch.fx.Interpreter(body).run
    return bodies
