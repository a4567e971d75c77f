"""What a package carries of a release: the model card in both languages and the bill of materials."""

from __future__ import annotations

from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.bom import write_bom
from pretrain_archive.package.evidence import Part
from pretrain_archive.package.model_card import write_model_card

FOLDER = "release"


def release_parts(view: RunView) -> list[Part]:
    """The files of the folder ``release``; none where the run released nothing."""
    files = write_model_card(view) | write_bom(view)
    return [Part(path=f"{FOLDER}/{name}", data=data) for name, data in sorted(files.items())]
