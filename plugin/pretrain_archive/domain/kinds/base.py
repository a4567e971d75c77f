"""What all payloads share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
GateName = Literal["prepare", "run", "close", "review"]


class Payload(BaseModel):
    """Base of all payloads: frozen, strict about unknown names when written, tolerant when read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> dict[str, Any]:
        """The payload as plain JSON for a draft."""
        return self.model_dump(mode="json")
