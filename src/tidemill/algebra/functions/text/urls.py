"""Parts of URLs, read as Java's ``URI`` reads them, and the encoding of forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

from tidemill.algebra.functions.function import Function, StrictParameter, always, takes
from tidemill.algebra.functions.text.regexp import compiled
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL; None for those that it does not have."""

    protocol: str | None
    authority: str | None
    userinfo: str | None
    host: str | None
    path: str | None
    query: str | None
    ref: str | None

    @property
    def file(self) -> str | None:
        """The path with the query."""
        return self.path if self.query is None else f"{self.path}?{self.query}"


_SPECIAL = "\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_OTHER = f"[^\x00-\x7f{_SPECIAL}]"
"""Characters beyond ASCII that are neither controls nor spaces: Java takes them anywhere."""
_ESCAPED = "%[0-9A-Fa-f]{2}"
_UNRESERVED = r"A-Za-z0-9_.!~*'()\-"
_PATH = rf"(?:[{_UNRESERVED}:@&=+$,;/]|{_OTHER}|{_ESCAPED})*"
_ANY = rf"(?:[{_UNRESERVED};/?:@&=+$,\[\]]|{_OTHER}|{_ESCAPED})*"
_USER = rf"(?:[{_UNRESERVED};:&=+$,]|{_OTHER}|{_ESCAPED})*"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_TOP_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[0-9]?[0-9])"
_HOST = rf"(?:(?:{_LABEL}\.)*{_TOP_LABEL}\.?|{_OCTET}(?:\.{_OCTET}){{3}}|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\])"
_REGISTRY = rf"(?:[{_UNRESERVED}$,;:@&=+]|{_OTHER}|{_ESCAPED})+"

SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*")
HIERARCHICAL = re.compile(
    rf"(?://(?P<authority>[^/?#]*))?(?P<path>{_PATH})(?:\?(?P<query>{_ANY}))?(?:#(?P<ref>{_ANY}))?"
)
OPAQUE = re.compile(rf"{_ANY}(?:#(?P<ref>{_ANY}))?")
SERVER = re.compile(rf"(?:(?P<userinfo>{_USER})@)?(?P<host>{_HOST})(?::[0-9]*)?")
REGISTRY = re.compile(_REGISTRY)


@lru_cache(maxsize=256)
def parsed_url(text: str) -> Url | None:
    """The parts of ``text``; None if it is no URL.

    >>> parsed_url("https://ann@example.com:80/a?x=1#top").host
    'example.com'
    """
    head = re.split("[/?#]", text, maxsplit=1)[0]
    scheme, colon, rest = text.partition(":") if ":" in head else (None, "", text)
    if colon and not (SCHEME.fullmatch(scheme or "") and rest):
        return None
    if colon and not rest.startswith("/"):
        opaque = OPAQUE.fullmatch(rest)
        return Url(scheme, None, None, None, None, None, opaque["ref"]) if opaque else None
    found = HIERARCHICAL.fullmatch(rest)
    return None if found is None or rest == "//" else _hierarchical(scheme, found)


def _hierarchical(scheme: str | None, found: re.Match[str]) -> Url | None:
    authority = found["authority"] or None
    server = SERVER.fullmatch(authority) if authority else None
    if authority and server is None and not REGISTRY.fullmatch(authority):
        return None
    user, host = (server["userinfo"], server["host"]) if server else (None, None)
    return Url(scheme, authority, user, host, found["path"], found["query"], found["ref"])


def parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL, or the value that its query has for ``key``; NULL if it has none. What is no URL is an error."""
    url = parsed_url(text)
    if url is None:
        raise ArithmeticFault(f"{text!r} is not a URL", hint="Use TRY_PARSE_URL to get NULL instead.")
    return _part(url, part, key)


def try_parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """The same, but NULL for what is no URL."""
    url = parsed_url(text)
    return None if url is None else _part(url, part, key)


def _part(url: Url, part: str, key: str | None) -> str | None:
    if part not in PARTS or (key is not None and part != "QUERY"):
        return None
    found: str | None = getattr(url, part.lower())
    return found if key is None or found is None else _value(found, key)


def _value(query: str, key: str) -> str | None:
    """The value of ``key``, which Spark takes for a regular expression."""
    match = compiled(f"(&|^){key}=([^&]*)").find(query.encode())
    return None if match is None or match.group(2) is None else match.group(2).decode()


PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


def url_encode(text: str) -> str:
    """``text`` as forms send it: a plus for a space, and bytes in hexadecimal for all but letters, digits and ``.-*_``.

    >>> url_encode("a b~é")
    'a+b%7E%C3%A9'
    """
    return quote_plus(text, safe="*").replace("~", "%7E")


def url_decode(text: str) -> str:
    """The text that is encoded so; an incomplete escape is an error."""
    found = _decoded(text)
    if found is None:
        raise ArithmeticFault(f"{text!r} is not encoded as a URL", hint="Use TRY_URL_DECODE to get NULL instead.")
    return found


def _decoded(text: str) -> str | None:
    if BROKEN_ESCAPE.search(text):
        return None
    return ESCAPES.sub(_bytes, text.replace("+", " "))


def _bytes(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")


ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


_TEXT = StrictParameter(t.STRING)


def _reads(name: str, apply: Callable[..., Any]) -> Function:
    types = takes(_TEXT, _TEXT, _TEXT, gives=t.STRING, optional=1)
    return Function(name, types, apply, f"{name}({{args}})", null_when=always)


URLS = (
    _reads("parse_url", parse_url),
    _reads("try_parse_url", try_parse_url),
    Function("url_encode", takes(t.STRING, gives=t.STRING), url_encode, "url_encode({0})", total=True),
    Function("url_decode", takes(t.STRING, gives=t.STRING), url_decode, "url_decode({0})"),
    Function(
        "try_url_decode", takes(t.STRING, gives=t.STRING), _decoded, "try_url_decode({0})", null_when=always, total=True
    ),
)
