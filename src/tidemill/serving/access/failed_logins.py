"""Failed logins: limited, so that passwords cannot be guessed, and nobody is locked out by the guesses of others."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from tidemill.serving.access.limits import MOST_KEYS, RateLimit

__all__ = ["FailedLogins"]


class FailedLogins:
    """Counts failed logins of a user from an address, of an address, and of a user from anywhere.

    Each may fail so often at once, and then at a rate: 20 and one in two seconds for a user from an address, and 100
    and two a second for an address or a user. Where a user has logged in before, only the first counts: guesses from
    elsewhere, and those of others behind the same address, do not keep the user out.

    >>> now = [0.0]
    >>> failed = FailedLogins(clock=lambda: now[0])
    >>> for _ in range(20):
    ...     failed.note("ann", "10.0.0.1")
    >>> failed.wait("ann", "10.0.0.1"), failed.wait("ann", "10.0.0.2"), failed.wait("bob", "10.0.0.1")
    (2.0, 0.0, 0.0)
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pairs = RateLimit(rate=0.5, burst=20, clock=clock)
        self._either = RateLimit(rate=2, burst=100, clock=clock)
        self._known: OrderedDict[str, None] = OrderedDict()

    def wait(self, user: str, address: str) -> float:
        """The seconds after which a login may be tried; 0 if it may be tried now."""
        pair, *either = _keys(user, address)
        wider = () if pair in self._known else either
        return max(self._pairs.wait(pair), *(self._either.wait(key) for key in wider), 0.0)

    def note(self, user: str, address: str) -> None:
        """Note a login that has failed."""
        pair, *either = _keys(user, address)
        self._pairs.take(pair)
        for key in either:
            self._either.take(key)

    def came_in(self, user: str, address: str) -> None:
        """Note a user who has logged in."""
        pair = _keys(user, address)[0]
        self._known.pop(pair, None)
        self._known[pair] = None
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)


def _keys(user: str, address: str) -> tuple[str, str, str]:
    user, network = user.lower()[:64], _network(address)  # nobody has a longer name
    return f"{user} from {network}", f"address {network}", f"user {user}"


def _network(address: str) -> str:
    """Range of addresses that one party can choose from: one of IPv4, or the 2**64 of an IPv6 network.

    >>> _network("10.0.0.1"), _network("2001:db8::7:1"), _network("::ffff:10.0.0.1")
    ('10.0.0.1', '2001:db8::/64', '10.0.0.1')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
