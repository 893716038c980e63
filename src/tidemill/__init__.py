"""Tidemill keeps SQL views fresh at the cost of the change, not of the data."""

from tidemill.engine.warehouse import Warehouse, open
from tidemill.model.errors import TidemillError

__all__ = ["TidemillError", "Warehouse", "__version__", "open"]
__version__ = "0.1.0"
