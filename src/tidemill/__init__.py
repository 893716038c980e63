"""Tidemill keeps SQL views fresh at the cost of the change, not of the data.

- ``spark``: the format ``tidemill`` for sessions of Spark
- ``serving``: the command line, notebooks and the demo
- ``engine``: warehouses, epochs, and everything that users hold
- ``protocols``: views over sources that others write to
- ``sources``: data in: rows, files, change records, databases
- ``compiler``: from a query to a program
- ``runtimes``: what runs programs: this process, or Spark
- ``storage``: maps of weighted rows in a folder, one atomic commit for each epoch
- ``program``: maps, triggers and statements
- ``algebra``: expressions, relational nodes, and the evaluator that defines them
- ``changes``: weighted rows
- ``model``: rows, types and errors

Imports go down this list only. The public names below are loaded when they are first used, so that ``import tidemill``
costs next to nothing: the engine with its compiler comes with ``tidemill.open``, Spark with the first view on it, LLVM
with the first view that it compiles.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.engine.check import check
    from tidemill.engine.copies.backup import backup, backups, clone, restore
    from tidemill.engine.objects.database import Objects, objects, odl_from
    from tidemill.engine.open_warehouse import open
    from tidemill.engine.projects.deploy import deploy, diff, drop_stage, plan, promote
    from tidemill.engine.repair import repair
    from tidemill.engine.warehouse import Warehouse
    from tidemill.model.errors import TidemillError
    from tidemill.serving.client.connect import connect
    from tidemill.serving.pipelines.run import plan_pipeline, run_pipeline

__all__ = [
    "Objects",
    "TidemillError",
    "Warehouse",
    "__version__",
    "backup",
    "backups",
    "check",
    "clone",
    "connect",
    "deploy",
    "diff",
    "drop_stage",
    "objects",
    "odl_from",
    "open",
    "plan",
    "plan_pipeline",
    "promote",
    "repair",
    "restore",
    "run_pipeline",
]
__version__ = "0.1.0"

_MODULES = {
    "Objects": "tidemill.engine.objects.database",
    "TidemillError": "tidemill.model.errors",
    "Warehouse": "tidemill.engine.warehouse",
    "backup": "tidemill.engine.copies.backup",
    "backups": "tidemill.engine.copies.backup",
    "check": "tidemill.engine.check",
    "clone": "tidemill.engine.copies.backup",
    "connect": "tidemill.serving.client.connect",
    "deploy": "tidemill.engine.projects.deploy",
    "diff": "tidemill.engine.projects.deploy",
    "drop_stage": "tidemill.engine.projects.deploy",
    "objects": "tidemill.engine.objects.database",
    "odl_from": "tidemill.engine.objects.database",
    "open": "tidemill.engine.open_warehouse",
    "plan": "tidemill.engine.projects.deploy",
    "plan_pipeline": "tidemill.serving.pipelines.run",
    "promote": "tidemill.engine.projects.deploy",
    "repair": "tidemill.engine.repair",
    "restore": "tidemill.engine.copies.backup",
    "run_pipeline": "tidemill.serving.pipelines.run",
}


def __getattr__(name: str) -> Any:
    """Load a public name and keep it, so that this is asked once for each (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook the cell magic ``%%tidemill``; IPython calls this for ``%load_ext tidemill``."""
    import_module("tidemill.serving.notebook").load_magic(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
