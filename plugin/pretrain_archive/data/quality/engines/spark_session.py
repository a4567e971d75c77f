"""A Spark session for quality checks: the one that is there, else one of our own, ended after use."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.domain.errors import NotAvailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = "Install the extra: pip install 'pretrain-archive[spark]'."


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session at ``master``; ``NotAvailableError`` where PySpark or Java is missing.

    An active session is used and left as it is: on a cluster the platform made it.
    """
    _require()
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    # The workers run this interpreter, with this program in it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("pretrain-archive quality check")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.filterPushdown": "true",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):
        # A shuffle into the 200 parts of a cluster costs seconds on one machine.
        settings |= {"spark.sql.shuffle.partitions": "2", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.driver.host"] = "127.0.0.1"
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _require() -> None:
    if find_spec("pyspark") is None:
        raise NotAvailableError("the engine spark needs PySpark, which is not installed.", hint=EXTRA)
    home = os.environ.get("JAVA_HOME", "")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        raise NotAvailableError(
            "the engine spark needs Java 17 or later, which is not found.",
            hint="Install a Java runtime or set JAVA_HOME; PySpark itself comes with the extra 'spark'.",
        )
