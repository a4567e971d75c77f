"""What a checkpoint says of itself: step, tokens, data position, configuration, and what its model is.

Read from the state file of the contract with training programs (``state.json``, ``meta.json``), from the state of a
Hugging Face ``Trainer`` (``trainer_state.json``) and from ``config.json``. What is not said stays None.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import DIGEST
from pretrain_archive.ledger.canonical import canonical_bytes

STATE_FILES = ("state.json", "meta.json")
TRAINER_STATE = "trainer_state.json"
STATE_LIMIT = 1024 * 1024
CONFIG_LIMIT = 4 * 1024 * 1024
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
MODEL_FACTS = ("model_type", "architectures", "torch_dtype", "dtype", "vocab_size", "transformers_version")
MOST_TEXT = 200


def read_state(
    reader: Reader, files: Mapping[str, FileEntry], problems: MutableSequence[str]
) -> dict[str, Any]:
    """``step, tokens, data_position, configuration_digest`` as far as the checkpoint states them."""
    try:
        name = next((name for name in STATE_FILES if name in files), None)
        if name is not None:
            return _contract(strict_json.read_object(reader, files[name], limit=STATE_LIMIT), name)
        if TRAINER_STATE in files:
            raw = strict_json.read_object(reader, files[TRAINER_STATE], constants=True)
            step, tokens = raw.get("global_step"), raw.get("num_input_tokens_seen")
            _whole(TRAINER_STATE, "global_step", step)
            return {"step": step, "tokens": tokens if _counted(tokens) else None}
    except CheckpointError as error:
        problems.append(error.message.rstrip("."))
    return {}


def model_facts(
    reader: Reader, files: Mapping[str, FileEntry], problems: MutableSequence[str]
) -> dict[str, Any] | None:
    """What ``config.json`` says of the model, and which of a Hugging Face folder's parts are there; None without it."""
    if "config.json" not in files:
        return None
    try:
        config = strict_json.read_object(reader, files["config.json"], limit=CONFIG_LIMIT)
    except CheckpointError as error:
        problems.append(error.message.rstrip("."))
        return None
    if not isinstance(config.get("model_type"), str) and not isinstance(config.get("architectures"), list):
        return None
    facts = {name: value for name in MODEL_FACTS if _short(value := config.get(name))}
    tokenizer = [name for name in TOKENIZERS if name in files]
    return facts | {"tokenizer": tokenizer, "generation_config": "generation_config.json" in files}


def _short(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= 10 and all(isinstance(each, str) and _short(each) for each in value)
    if isinstance(value, str):
        return len(value) <= MOST_TEXT and not any(0xD800 <= ord(char) <= 0xDFFF for char in value)
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _counted(tokens: Any) -> bool:
    """A trainer that does not count tokens writes 0."""
    return isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < 1 << 53


def _contract(raw: dict[str, Any], name: str) -> dict[str, Any]:
    step, tokens = raw.get("step"), raw.get("tokens")
    _whole(name, "step", step)
    _whole(name, "tokens", tokens)
    position, digest = raw.get("data_position"), raw.get("configuration_digest")
    if position is not None and not isinstance(position, dict):
        raise CheckpointError(f"{name}: data_position must be an object, found {type(position).__name__}.")
    if digest is not None and not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        raise CheckpointError(f"{name}: configuration_digest must be sha256: and 64 hex digits.")
    try:
        canonical_bytes(position)
    except (ValueError, RecursionError) as error:  # a whole number above 2^53 would be rounded by readers
        raise CheckpointError(f"{name}: data_position cannot be recorded exactly: {error}.") from error
    return {"step": step, "tokens": tokens, "data_position": position, "configuration_digest": digest}


def _whole(name: str, field: str, value: Any) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    if value is not None and not whole:
        shown = f"{value!r}"[:MOST_TEXT]
        raise CheckpointError(f"{name}: {field} must be a whole number from 0, found {shown}.")
