"""Lines of a manifest that somebody else wrote."""

from __future__ import annotations

import io
import json

import pytest

from pretrain_archive.data.manifest import Header, read_entries
from pretrain_archive.domain.errors import ArchiveError


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"path": "a", "sha256": "0" * 64, "size": 10**70}, id="a size that no file has"),
        pytest.param({"path": "a", "sha256": "0" * 64, "size": -1}, id="less than nothing"),
        pytest.param({"path": "a", "sha256": "0" * 64, "size": True}, id="a truth for a size"),
        pytest.param({"path": "a", "sha256": 7, "size": 1}, id="a number for a digest"),
        pytest.param({"path": ["a"], "sha256": "0" * 64, "size": 1}, id="a list for a path"),
        pytest.param({"path": "a", "link": 7}, id="a number for a link"),
        pytest.param({"path": "a", "sha256": "0" * 64, "size": 1, "version": 7}, id="a number for a version"),
    ],
)
def test_a_line_of_another_shape_is_refused(fields):
    """It is told as a manifest that cannot be read, before anybody works with it."""
    raw = Header(files=1, links=0, total_bytes=1).line() + json.dumps(fields).encode() + b"\n"
    with pytest.raises(ArchiveError, match="manifest cannot be read"):
        list(read_entries(io.BytesIO(raw)))
