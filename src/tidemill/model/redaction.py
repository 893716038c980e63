"""Texts of errors without what settings keep secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["redacted"]

_SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|KEY|SAS|CREDENTIAL", re.IGNORECASE)
"""Parts of the names of settings whose values are in no error."""

_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""The user and password of a URL."""


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """A text without the values of settings whose names say that they are secret, nor users of URLs.

    >>> redacted("denied: key xyz123 at https://ann:pw@host/a", {"AWS_ACCESS_KEY_ID": "xyz123", "HOST": "host"})
    'denied: key *** at https://***@host/a'
    """
    for name, value in settings.items():
        if len(value) > 3 and _SECRET.search(name):
            text = text.replace(value, "***")
    return _USER.sub("***", text)
