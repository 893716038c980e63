"""Tidemill keeps SQL views fresh at the cost of the change, not of the data."""

from tidemill.engine.check import check
from tidemill.engine.objects.database import Objects, objects, odl_from
from tidemill.engine.repair import repair
from tidemill.engine.warehouse import Warehouse, open
from tidemill.model.errors import TidemillError

__all__ = ["Objects", "TidemillError", "Warehouse", "__version__", "check", "objects", "odl_from", "open", "repair"]
__version__ = "0.1.0"
