"""A result file as lm-evaluation-harness writes it, made from nothing: tasks, a group, every block of the format."""

from __future__ import annotations

from typing import Any


def lm_eval_result(**changes: Any) -> dict[str, Any]:
    """Two multiple-choice tasks of a group, one generation task with two filters, one perplexity task."""
    tasks = ("odd_one_out", "capital_cities", "sums", "held_out_text")
    document: dict[str, Any] = {
        "results": {
            "odd_one_out": {
                "alias": " - odd_one_out", "name": "odd_one_out", "sample_len": 200,
                "acc,none": 0.62, "acc_stderr,none": 0.0344, "acc_norm,none": 0.65, "acc_norm_stderr,none": 0.0338,
            },
            "capital_cities": {
                "alias": " - capital_cities", "name": "capital_cities", "sample_len": 100,
                "acc,none": 0.8, "acc_stderr,none": 0.0402,
            },
            "sums": {
                "alias": "sums", "name": "sums", "sample_len": 50,
                "exact_match,strict-match": 0.3, "exact_match_stderr,strict-match": 0.0655,
                "exact_match,flexible-extract": 0.36, "exact_match_stderr,flexible-extract": 0.0686,
            },
            "held_out_text": {
                "alias": "held_out_text", "name": "held_out_text", "sample_len": 62,
                "word_perplexity,none": 21.5, "word_perplexity_stderr,none": "N/A",
                "bits_per_byte,none": 0.83, "bits_per_byte_stderr,none": "N/A",
            },
            "knowledge": {
                "alias": "knowledge", "name": "knowledge", "sample_len": 300, "sample_count": {"acc,none": 300},
                "acc,none": 0.68, "acc_stderr,none": 0.0266,
            },
        },
        "groups": {"knowledge": {"alias": "knowledge", "acc,none": 0.68, "acc_stderr,none": 0.0266}},
        "group_subtasks": {"knowledge": ["odd_one_out", "capital_cities"], "sums": [], "held_out_text": []},
        "configs": {
            task: {
                "task": task, "output_type": "multiple_choice", "num_fewshot": 0,
                "metadata": {"version": 1.0, "pretrained": "a/model"},
            }
            for task in tasks
        },
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {
            "odd_one_out": {"acc": True, "acc_norm": True}, "capital_cities": {"acc": True},
            "sums": {"exact_match": True}, "held_out_text": {"word_perplexity": False, "bits_per_byte": False},
            "knowledge": {"acc": True},
        },
        "n-samples": {
            "odd_one_out": {"original": 200, "effective": 200}, "capital_cities": {"original": 100, "effective": 100},
            "sums": {"original": 50, "effective": 50}, "held_out_text": {"original": 62, "effective": 62},
        },
        "config": {
            "model": "hf", "model_args": {"pretrained": "a/model"}, "batch_size": 8, "limit": None,
            "bootstrap_iters": 100000, "random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234,
        },
        "git_hash": "0123abc", "date": 1760000000.5, "lm_eval_version": "0.4.9", "transformers_version": "4.57.0",
        "model_source": "hf", "model_name": "a/model", "model_name_sanitized": "a__model",
        "chat_template": None, "chat_template_sha": None, "system_instruction": None, "system_instruction_sha": None,
        "task_hashes": {task: f"{number:064x}" for number, task in enumerate(tasks, 1)},
        "total_evaluation_time_seconds": "61.25",
    }  # fmt: skip
    return document | changes
