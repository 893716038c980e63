"""The cell magic ``%%tidemill`` of notebooks: ``%load_ext tidemill`` loads it, and IPython hands its shell over."""

from __future__ import annotations

from typing import Any

from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.engine.results import Result
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import InvalidArgument, TidemillError

__all__ = ["load_magic"]


def load_magic(shell: Any) -> None:
    """Register the magic with a shell of IPython."""
    shell.register_magic_function(CellMagic(shell), "line_cell", "tidemill")


class CellMagic:
    """Runs cells of SQL in a warehouse, and gives the result of the last statement.

    ``%tidemill shop`` opens a folder and uses it from then on; a name of a variable that holds a warehouse uses that
    one. Without either, cells run in a warehouse in memory.
    """

    __name__ = "tidemill"

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._warehouse: Warehouse | None = None

    def __call__(self, line: str, cell: str | None = None) -> Result | None:
        """Use the warehouse that the line names, if it names one, and run the cell."""
        try:
            warehouse = self._used(line.strip())
            return None if cell is None else warehouse.sql(cell, name="cell")
        except TidemillError as error:
            self._tell(error)
            return None

    def _used(self, named: str) -> Warehouse:
        if named or self._warehouse is None:
            held = self._shell.user_ns.get(named)
            if isinstance(held, Warehouse):
                self._warehouse = held
            elif held is not None:
                raise InvalidArgument(f'"{named}" is no warehouse', hint="Name a variable that holds one, or a folder.")
            else:
                self._warehouse = open_warehouse(named or ":memory:")
        return self._warehouse

    def _tell(self, error: TidemillError) -> None:
        """Show an error in its four fields, without the trace of Python through our code."""
        self._shell.showtraceback((type(error), error, None), tb_offset=0)
