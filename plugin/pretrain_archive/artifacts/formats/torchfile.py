"""Whether a file of ``torch.save`` (a ZIP archive) or ``numpy.savez`` is whole, without opening anything in it.

A ZIP file's directory stands at its end (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3.12,
4.3.14 to 4.3.16): a file that was cut has none. Only the end is read. Older files of ``torch.save`` are plain pickles
and end nowhere in particular: of them nothing can be said.
"""

from __future__ import annotations

import struct

from pretrain_archive.artifacts.readers import FileEntry, Reader

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".npz")
START = b"PK\x03\x04"
END = b"PK\x05\x06"
END64 = b"PK\x06\x06"
LOCATOR64 = b"PK\x06\x07"
TAIL = 22 + 65535
"""The end record and the longest comment behind it."""


def problem_of(reader: Reader, file: FileEntry) -> str | None:
    """Why an archive is not whole, or None; also None for a file that is no archive by its first bytes."""
    if file.size < len(START) or reader.read(file, 0, len(START)) != START:
        return None
    begin = max(0, file.size - TAIL)
    tail = reader.read(file, begin, TAIL)
    at = tail.rfind(END)
    if at < 0 or len(tail) - at < 22:
        return f"{file.path} is cut: an archive whose directory, written last, is missing"
    _, _, _, _, size, start, comment = struct.unpack("<HHHHIIH", tail[at + 4 : at + 22])
    end = begin + at
    if end + 22 + comment != file.size:
        return f"{file.path} is cut or has bytes behind its end"
    # torch.save writes the end record of a large archive into small ones too, in front of the other.
    located = _large(reader, file, end, tail[:at])
    if located is not None:
        size, start, end = located
    elif 0xFFFFFFFF in {size, start}:
        return f"{file.path} is cut: the directory of a large archive is missing"
    if start + size != end:
        return f"{file.path} is damaged: its directory says {start + size} bytes lie before its end, and {end} do"
    return None


def _large(reader: Reader, file: FileEntry, end: int, before: bytes) -> tuple[int, int, int] | None:
    """Size, start and end of the directory as the ZIP64 end record tells them; None without a whole one.

    ``before`` are the bytes that lie before ``end`` and were read already.
    """

    def bytes_at(at: int, size: int) -> bytes:
        begin = end - len(before)
        return before[at - begin : at - begin + size] if at >= begin else reader.read(file, at, size)

    locator = bytes_at(end - 20, 20) if end >= 20 else b""
    if len(locator) < 20 or not locator.startswith(LOCATOR64):
        return None
    at = int(struct.unpack("<Q", locator[8:16])[0])
    if at + 56 > end:
        return None
    record = bytes_at(at, 56)
    if len(record) < 56 or not record.startswith(END64):
        return None
    size, start = struct.unpack("<QQ", record[40:56])
    return size, start, at
