"""The code of a stage with join graphs besides its maps: outputs, look-ahead, and what new records revive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llvmlite import ir

from tidemill.program.joingraph import Lookahead, Serve
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Query
from tidemill.runtimes.native.llvm.codegen.layout import I64, NULL_POINTER, PTR
from tidemill.runtimes.native.llvm.io.output_code import OutputCode, OutputGlobal
from tidemill.runtimes.native.llvm.io.run_end_encoding import RunsGlobal
from tidemill.runtimes.native.llvm.joingraph.liveness import Liveness
from tidemill.runtimes.native.llvm.joingraph.walks import DEAD_ENDS, SKIPPED, WalkLookAhead
from tidemill.runtimes.native.llvm.queries import MapGlobal


class GraphCode:
    """The parts of a module that are for the join graphs of ``stage``; ``maps`` are those that the module holds."""

    def __init__(self, module: ir.Module, stage: Stage, maps: Mapping[str, MapGlobal]) -> None:
        self._module, self._stage = module, stage
        self.members = tuple(dict.fromkeys(member.map for graph in stage.graphs for member in graph.members))
        self.output = self._post(stage, "output")
        self.read_output = None if stage.reader is None else self._post(stage.reader, "shown")
        self.lookahead = WalkLookAhead(stage.graphs[0].lookahead, Liveness(module, maps)) if stage.graphs else None
        if stage.graphs:
            for counter in (SKIPPED, DEAD_ENDS):
                ir.GlobalVariable(module, I64, counter).initializer = ir.Constant(I64, 0)

    def _post(self, stage: Stage, name: str) -> OutputGlobal | None:
        """The output of rows of a join graph that come from no map."""
        if not appends_output(self._stage) or stage.finish is not None:
            return None
        place = ir.GlobalVariable(self._module, PTR, name)
        place.initializer = NULL_POINTER
        # Rows that are stored or read as a whole are plain columns; subscribers take them run-end encoded.
        runs: dict[tuple[int, ...], RunsGlobal] | None = {} if stage.serve is Serve.SUBSCRIBE else None
        return OutputGlobal(Map(stage.name, stage.output), OutputCode(self._module, stage.output), place, runs)

    def read_queries(self) -> Iterator[Query]:
        """The queries that give the rows of the stage when they are read."""
        if self._stage.reader is not None:
            yield from (statement.query for statement in self._stage.reader.load)

    def entered(self, name: str) -> ir.Function | None:
        """``entered.k(entry)``: what is to be done for a new entry of a member; None for other maps."""
        if name not in self.members:
            return None
        symbol = f"entered.{self.members.index(name)}"
        if symbol not in self._module.globals:
            function = ir.Function(self._module, ir.FunctionType(ir.VoidType(), [PTR]), symbol)
            function.linkage = "internal"
            function.attributes.add("nounwind")
        return self._module.globals[symbol]

    def plan_liveness(self) -> None:
        """Find out what walks can know ahead, and let every new record of a member revive what waited for it."""
        if self.lookahead is None:
            return
        if self.lookahead.kind is Lookahead.GLOBAL:
            for query in (*self._triggered(), *self.read_queries()):
                self.lookahead.liveness.plan(query)
        for name in self.members:
            function = self.entered(name)
            assert function is not None
            builder = ir.IRBuilder(function.append_basic_block("entry"))
            self.lookahead.liveness.mark_live(builder, name, function.args[0])
            builder.ret_void()

    def _triggered(self) -> Iterator[Query]:
        for trigger in self._stage.triggers:
            yield from (statement.query for statement in trigger.statements if isinstance(statement, Add))


def appends_output(stage: Stage) -> bool:
    """True if rows that come from no map are put into an output, and are not summed up until they are asked for."""
    return bool(stage.graphs)
