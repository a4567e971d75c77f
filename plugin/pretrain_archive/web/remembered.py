"""What was last worked out for a page and does not change until a record is added."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    """The last ``most`` results by key, for all threads of a server; it does not keep two from making the same one."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._made: OrderedDict[Hashable, Made] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for ``key``, or what ``make`` gives now; an error of ``make`` is not remembered."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made
