"""The lines of a growing file, one after another; one that could not be used up is offered again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from pretrain_archive.compute.events import Line, Place, read_lines
from pretrain_archive.compute.seen import Seen
from pretrain_archive.storage.regular import NotRegularError


class Lines:
    """Reads what was appended since the last call. What lies in the file's place is named in ``seen.replaced``."""

    def __init__(self, path: Path, seen: Seen) -> None:
        self.path, self.seen = path, seen
        self.place = Place()
        self.queue: deque[Line] = deque()

    def drain(self, take: Callable[[Line], None], *, final: bool) -> None:
        """Give every new line to ``take``. What it raises is raised, and that line comes again the next time.

        Not final, a call reads one block: a program that writes without end must still be watched.
        """
        while True:
            if not self.queue and not self._read(final=final):
                return
            while self.queue:
                take(self.queue[0])
                self.queue.popleft()
            if not final:
                return

    def _read(self, *, final: bool) -> bool:
        """Read on; False if there was nothing new, or if the file is none any more.

        A block without lines is something new too: the middle of a line without end, behind which others follow.
        """
        before = self.place
        try:
            lines, self.place = read_lines(self.path, self.place, final=final)
        except NotRegularError as error:
            self.seen.replaced = self.seen.replaced or f"{error.path.name} is {error.found}"
            return False
        self.queue.extend(lines)
        return bool(lines) or self.place != before
