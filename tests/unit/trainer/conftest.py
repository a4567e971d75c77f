"""Makes the training program's own modules importable, as they are for the program itself."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "docker" / "trainer"))
