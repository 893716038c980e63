"""SQL: what one changed row costs each construct on small and on large tables, so that cost classes can be seen."""

from benchmarks.sql.run import as_table, run

__all__ = ["as_table", "run"]
