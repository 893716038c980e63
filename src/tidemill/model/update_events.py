"""Update events: the ways in which an object database can change (section 5.2.1 of MOVIE).

A view listens to some of them, derived from its definition. For tables, a row is an object, its primary key is its
identity, and an array is a collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class UpdateEvent(Enum):
    """The update events; the value is the name in the paper."""

    INSERT = "onInsertToExtent"
    DELETE = "onDeleteFromExtent"
    MODIFY = "onModifyAttribute"
    INSERT_ELEMENT = "onInsertElementToCollection"
    DELETE_ELEMENT = "onDeleteElementFromCollection"
    MODIFY_ELEMENT = "onModifyAttributeInCollectionElement"


@dataclass(frozen=True, slots=True)
class Listening:
    """An event that a view listens to, and where that happens.

    A place is an extent, ``class.attribute``, or ``class.collection(class.attribute)`` for elements of a collection.

    >>> str(Listening(UpdateEvent.MODIFY, "compositepart.type"))
    'onModifyAttribute compositepart.type'
    """

    event: UpdateEvent
    place: str

    def __str__(self) -> str:
        return f"{self.event.value} {self.place}"
