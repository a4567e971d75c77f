"""Which local file systems' times can be trusted, and which boot of which host this is."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

TRUSTED = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs"}
"""Local file systems of Linux whose kernel sets the change time at every write, rename and change of attributes."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mountinfo")


def trusted_devices() -> set[int]:
    """Device numbers of the mounted file systems in :data:`TRUSTED`; empty where the system does not tell."""
    devices = set()
    with suppress(OSError, ValueError, IndexError):
        for line in MOUNTS.read_text().splitlines():
            fields, _, kind = line.partition(" - ")
            if kind.split()[0] in TRUSTED:
                major, minor = fields.split()[2].split(":")
                devices.add(os.makedev(int(major), int(minor)))
    return devices


def this_boot() -> dict[str, str]:
    """Host and boot: inode numbers and times of one say nothing on another."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    return {"host": socket.gethostname(), "boot": boot}
