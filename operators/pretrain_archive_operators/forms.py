"""How a form of the archive becomes a form of Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict


def form_params(fields: Mapping[str, Mapping[str, Any]]) -> ParamsDict:
    """The params of a form from its fields: a name and the keyword arguments of its ``Param``."""
    return ParamsDict({
        name: Param(spec.get("default"), **{k: v for k, v in spec.items() if k != "default"})
        for name, spec in fields.items()
    })  # fmt: skip
