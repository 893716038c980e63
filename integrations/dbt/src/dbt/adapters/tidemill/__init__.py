"""dbt adapter for Tidemill, over PostgreSQL's protocol.

- ``connections``: credentials, and connections on which every statement is committed by itself
- ``impl``: the adapter: what a definition would change, literals, types of seeds
- ``relation``: names of tables and views, in backquotes
- ``column``: types as Spark SQL spells them
"""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.tidemill.connections import TidemillConnectionManager, TidemillCredentials
from dbt.adapters.tidemill.impl import TidemillAdapter
from dbt.include import tidemill

__all__ = ["Plugin", "TidemillAdapter", "TidemillConnectionManager", "TidemillCredentials"]

Plugin = AdapterPlugin(
    adapter=TidemillAdapter,
    credentials=TidemillCredentials,
    include_path=tidemill.PACKAGE_PATH,
    dependencies=["postgres"],
)
