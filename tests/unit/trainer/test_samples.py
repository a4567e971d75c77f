"""Continuations for readers: what is shown is what the model saw, and each byte is the most probable one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import configuration
import pytest
import samples
import torch
from model import Transformer, build_model, prepare_torch
from tests.unit.trainer.test_scoring import _corpus

CONTEXT = 16


@pytest.fixture
def settings() -> configuration.Configuration:
    """The demo's configuration with a tiny model."""
    demo = configuration.load_configuration(Path(configuration.__file__).with_name("demo.json"))
    shape = configuration.Model(layers=1, width=16, heads=2, context=CONTEXT, previous_bytes=2)
    return dataclasses.replace(demo, model=shape)


@pytest.fixture
def model(settings: configuration.Configuration) -> Transformer:
    """A model whose every weight matters."""
    prepare_torch(settings)
    made = build_model(settings)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


@pytest.mark.requirement("R118")
def test_continuations_are_greedy(model: Transformer, settings: configuration.Configuration) -> None:
    """Each byte equals the most probable one after everything before it, computed one window at a time."""
    prompts = samples.choose_prompts(_corpus([b"abc\nde f\n" * 4, b"", b"x", b"yz" * 20]), context=CONTEXT)
    got = samples.continuations(model, prompts, settings)

    for prompt, continued in zip(prompts, got, strict=True):
        seen = list(prompt.content)
        for byte in continued:
            with torch.no_grad():
                logits = model(torch.tensor([seen]))[0, -1]
            assert int(logits.argmax()) == byte
            seen.append(byte)
        assert len(continued) == CONTEXT // 2
        assert len(seen) <= CONTEXT
    assert got == samples.continuations(model, prompts, settings)


def test_prompts_are_pieces_of_documents() -> None:
    """They begin at a line, keep whole characters, are spread over the split, and empty files give none."""
    texts = [f"first\n{n:03} abc€\nlast {n}".encode() for n in range(40)]
    texts[7] = b""
    prompts = samples.choose_prompts(_corpus(texts), context=CONTEXT)

    assert samples.PROMPTS == len(prompts) == len({prompt.document for prompt in prompts})
    assert (1, 40) == (prompts[0].document, prompts[-1].document)
    for prompt in prompts:
        whole = texts[prompt.document - 1]
        assert prompt.at == 0 or whole[prompt.at - 1 : prompt.at] == b"\n"
        assert whole[prompt.at :].startswith(prompt.content)
        prompt.content.decode()
    # Eight bytes reach into a character of three: it is left out.
    assert [b"000 abc"] == [prompt.content for prompt in prompts if prompt.document == 1]


@pytest.mark.parametrize("content", [b"\xff" * 40, b"\n" * 9, b"a"])
def test_any_bytes_are_told_as_text(content: bytes) -> None:
    """What is no UTF-8 text is written out, so that a reader sees which bytes came."""
    [prompt] = samples.choose_prompts(_corpus([content]), context=CONTEXT)
    [item] = samples.items([prompt], [b"\xff\x00"], [b"ok"], name="untrained model")

    assert content[: len(prompt.content)] == prompt.content != b""
    assert ("\\xff\0", "ok", "untrained model") == (item["output"], item["baseline"], item["baseline_name"])
    assert item["prompt"] == prompt.content.decode("utf-8", "backslashreplace")


def test_the_demo_writes_little() -> None:
    """Fewer windows pass through the model than the numbers need, so that they cost less than the numbers."""
    demo = configuration.load_configuration(Path(configuration.__file__).with_name("demo.json"))

    assert 4 * samples.PROMPTS * samples.LONGEST < demo.report_bytes // (demo.model.context // 2)
