"""Spark's interface to warehouses: ``register(spark)`` gives a session the format ``tidemill``."""

from tidemill.engine.data_source.register import register

__all__ = ["register"]
