"""A model card in the Hugging Face format: YAML metadata with a model index, then Markdown.

Format: https://huggingface.co/docs/hub/model-cards. The metadata is written by huggingface-hub, which is imported
when a card is written; nothing is sent anywhere. Fields that mean something on the hub only (the id of a data set
there) are left out rather than filled with names that mean something else.
"""

from __future__ import annotations

import re
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.releases import released_evaluation
from pretrain_archive.domain.run_view import RunView

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")
"""OWNER/NAME, as models are named on the hub."""
LANGUAGE = re.compile(r"^[a-z]{2,3}$")


def metadata(view: RunView, record: Record, made: kinds.ReleaseMade) -> str:
    """The YAML block between the lines of dashes, with its own last newline."""
    from huggingface_hub.repocard_data import ModelCardData  # noqa: PLC0415 - heavy, and only here

    account = made.account
    base = account.dependencies.base_model if account else None
    results = _results(view, made)
    own: dict[str, Any] = {
        "pretrain_archive": {
            "release": made.release_id,
            "version": clean(made.version),
            "released_at": record.recorded_at,
            "run": view.run_uid,
            "checkpoint_digest": made.checkpoint_digest,
        }
    }
    data = ModelCardData(
        base_model=base if base and HUB_ID.match(base) else None,
        language=_languages(view) or None,
        model_name=clean(made.name),
        tags=["pretrain-archive"],
        eval_results=results or None,
        **own,
    )
    return f"{data.to_yaml(line_break=chr(10))}\n"


def _languages(view: RunView) -> list[str]:
    """The languages that the policy declares of the data; empty where it declares none."""
    policy = view.opened.policy if view.opened else {}
    declared = ((policy.get("data") or {}).get("quality") or {}).get("languages") or []
    return [name for name in declared if isinstance(name, str) and LANGUAGE.match(name)]


def _results(view: RunView, made: kinds.ReleaseMade) -> list[Any]:
    """The evaluation as entries of the model index: only finite values of the candidate itself, once each."""
    from huggingface_hub.repocard_data import EvalResult  # noqa: PLC0415 - see above

    report, seen = released_evaluation(view, made), set[str]()
    if report is None:
        return []
    results = []
    for metric in report.metrics:
        if metric.value is None or metric.name in seen:
            continue
        seen.add(metric.name)
        results.append(
            EvalResult(
                task_type="text-generation",
                dataset_type=report.data_set_digest,
                dataset_name=clean(report.data_set),
                metric_type=clean(metric.name),
                metric_name=clean(f"{metric.name} ({metric.unit})" if metric.unit else metric.name),
                metric_value=metric.value,
                source_name="pretrain-archive",
                source_url=f"urn:pretrain-archive:evaluation:{report.evaluation_id}",
            )
        )
    return results


def clean(text: str) -> str:
    """``text`` on one line, without control characters and lone surrogates."""
    return "".join(
        c if c.isprintable() else " " for c in text.encode("utf-8", "backslashreplace").decode()
    ).strip()
