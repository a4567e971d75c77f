"""The plain text that stands first in a package's folder."""

from __future__ import annotations

from pretrain_archive.domain.exploration import TOLD, is_exploration
from pretrain_archive.domain.run_view import RunView

TEXT = """\
Package of the training run {run_uid}

Open index.html in a browser: it tells what went in, under what conditions the run was made, what happened,
why this result was chosen, who signed and what it may be used for. No server and no network are needed.

Check it (Python 3.9 or newer, nothing else):

    python3 -I -S verify.py --key KEY_FILE

KEY_FILE holds the verification key of the ledger. Take it from the ledger's owner, not from this folder:
whoever could change this folder could change a key inside it.

    exit 0  verified   everything holds and the signature matches the key
    exit 3  intact     everything holds, no key was given
    exit 1  changed    at least one item is not what was signed; it is named

What lies here

    index.html              the page
    records/                every record of the run, the exact bytes that were signed
    evidence/               reports, configuration, environment, timeline, metrics, logs; items.json with every verdict
                            and reason, artifacts.json, attempts.json, inventory.json, lineage.jsonl (OpenLineage)
    attachments/            files that people added, if any
    references.json         what is not copied: digest, location, who may look
    ro-crate-metadata.json  the same as linked data (RO-Crate 1.2)
    manifest.json           size and SHA-256 of every file; its digest is in the record package.written
    proofs.json             leads from each record to the root in checkpoint.txt
    checkpoint.txt          the signed state of the ledger
    verify.py               the check


训练运行 {run_uid} 的归档包

用浏览器打开 index.html：输入了什么、在什么条件下运行、发生了什么、为什么选择这个结果、谁签署、允许怎样使用。
无需服务器和网络。核验只需 Python 3.9 或更高版本：

    python3 -I -S verify.py --key 密钥文件

密钥文件请向账本所有者索取，不要取自本文件夹。退出码：0 已核验；3 完整但未提供密钥；1 已变更（会逐项列出）。
"""


def readme_text(view: RunView) -> str:
    """README.txt for a run, in both languages; that a run was an exploration stands before everything else."""
    told = "{}\n{}\n\n".format(*TOLD) if is_exploration(view) else ""
    return told + TEXT.format(run_uid=view.run_uid)
