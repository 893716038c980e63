"""The environment variables that sources may take passwords from: only those that the operator allows.

Otherwise whoever may declare a source could have any variable of this process sent to a server of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.model.errors import Unsupported

__all__ = ["MYSQL", "POSTGRES", "PREFIX", "VARIABLE", "Secrets"]

PREFIX = "TIDEMILL_SECRET_"
"""Prefix of variables that any source may name."""

VARIABLE = "TIDEMILL_SECRETS"
"""The variable that lists others, separated by commas."""

POSTGRES = "PGPASSWORD"
"""The variable that PostgreSQL's own client reads by itself."""

MYSQL = "MYSQL_PWD"
"""The variable that MySQL's own client reads by itself."""

_OWN = frozenset({POSTGRES, MYSQL})


@dataclass(frozen=True)
class Secrets:
    """The variables that are allowed besides those that begin with ``PREFIX``."""

    allowed: frozenset[str] = _OWN

    @classmethod
    def of(cls, names: Iterable[str] = ()) -> Secrets:
        """The given variables, and those that the environment lists.

        >>> Secrets.of(["SHOP_PASSWORD"]).require("SHOP_PASSWORD"), Secrets.of().require("TIDEMILL_SECRET_SHOP")
        ('SHOP_PASSWORD', 'TIDEMILL_SECRET_SHOP')
        >>> Secrets.of().require("AWS_SECRET_ACCESS_KEY")
        Traceback (most recent call last):
        tidemill.model.errors.Unsupported: a source may not read the variable "AWS_SECRET_ACCESS_KEY"
        ...
        """
        named = os.environ.get(VARIABLE, "").split(",")
        return cls(frozenset({*_OWN, *names, *(name.strip() for name in named if name.strip())}))

    def require(self, variable: str) -> str:
        """The name of an allowed variable; any other is refused."""
        if variable in self.allowed or variable.startswith(PREFIX):
            return variable
        raise Unsupported(
            f'a source may not read the variable "{variable}"',
            detail=f"Passwords come from variables that begin with {PREFIX}, or that the operator allows.",
            hint=f'Rename it, open the warehouse with secrets=["{variable}"], or name it in {VARIABLE}.',
        )
