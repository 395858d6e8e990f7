"""Random faults under full load: nothing lost, doubled, torn, out of order or left open."""

import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import pytest

from twophase.verify.chaos import FAULTS, ChaosPlan, chaos
from twophase.verify.history import FaultInjected, History

from .cluster import QUICK_FAILOVER, cluster_trial

# For each scope. TWOPHASE_CHAOS_MINUTES=3 for a short run, TWOPHASE_CHAOS_SEED=... for the same
# faults again.
MINUTES = float(os.environ.get("TWOPHASE_CHAOS_MINUTES", "30"))
SEED = int(os.environ.get("TWOPHASE_CHAOS_SEED", random.SystemRandom().randrange(1_000_000)))
BUILD = Path(__file__).parents[2] / "build"
# How long a long freeze is, at the least.
FREEZE_S = 10
SETTINGS = {
    "batch": {
        "options": {"path": "routed"},
        "kafka": {"kafka.transaction.timeout.ms": 1_000 * FREEZE_S},
    },
    # A timeout that ends what is decided loses it, which no restart can mend (`test_task_losses`):
    # it is Kafka's longest default here, and no fault outlasts it.
    "task": {"options": {"scope": "task"}},
}


@pytest.mark.long
@pytest.mark.timeout(60 * MINUTES + 1_800)
@pytest.mark.parametrize("scope", SETTINGS)
def test_chaos(scope, private_kafka, tmp_path):
    """Expected: whatever comes, the query goes on or is started again, and each row is there once.

    Drivers, Pythons, executors and brokers are killed with -9, drivers and brokers are frozen, in
    batch scope also past the transaction timeout, and rivals come, each a few seconds after the
    query works again.
    """
    plan = ChaosPlan(seconds=60 * MINUTES, seed=SEED, timeout_s=FREEZE_S)
    kafka = private_kafka(nodes=3, properties=QUICK_FAILOVER)
    print(f"chaos of {MINUTES:g} minutes in {scope} scope, seed {SEED}")
    with cluster_trial(
        kafka,
        tmp_path,
        rows=plan.rows,
        fill=0,
        rows_per_batch=20_000,
        master="local-cluster[2,1,1024]",
        conf={"spark.executor.memory": "768m"},
        **SETTINGS[scope],
    ) as trial:
        report = chaos(trial, kafka.nodes, plan)
        verdict = trial.judged()
        found = {**asdict(report), "ok": verdict.ok, **dict(verdict.lines())}
        BUILD.mkdir(exist_ok=True)
        (BUILD / f"chaos-{scope}.json").write_text(json.dumps(found, indent=2) + "\n")
        print(json.dumps(found, indent=2))
    assert verdict.not_checked == ()
    assert verdict.ok, verdict.findings
    assert verdict.rows_out == plan.rows
    told = History.load(tmp_path / "history.jsonl").all(FaultInjected)
    assert len(list(told)) >= sum(report.faults.values()) > 0
    if MINUTES >= 15:
        assert set(report.faults) == set(FAULTS)
