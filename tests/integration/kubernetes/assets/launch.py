"""Launch, or go on with, one attempt on a cluster in a process of its own, so that a test can kill it.

Arguments: ledger file, kubeconfig, run, root, try number, configuration (JSON).
"""

import json
import sys
from pathlib import Path

from tests.integration.kubernetes.playground import Run, origin

from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig
from pretrain_archive.ledger.factory import open_ledger

database, kubeconfig, run_uid, root, number, config = sys.argv[1:]
ledger = open_ledger(f"sqlite:///{database}", signing_key=None, anchors=(), create=True, auto_seal=False)
run = Run(ledger=ledger, root=Path(root), api=open_kubeconfig(Path(kubeconfig)), run_uid=run_uid)
launch = run.launch(run.spec(config=json.loads(config)), task=origin(int(number)))
ended = launch.run()
sys.stdout.write(ended.state)
