"""The pipeline's verbs on SQLite: a procedure for each; tables in `migrations/`."""

from collections.abc import Mapping
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite import epochs, log, sink
from turnabout.sqlite.procedures import Procedure
from turnabout.words.verbs import Verb

READS: Mapping[type[Verb[Any]], Procedure] = {
    p.SubscriptionList: epochs.subscription_list,
    p.LogNext: log.log_next,
    p.LogAt: log.log_at,
    p.LogCut: log.log_cut,
    p.LogLook: log.log_look,
    p.WatermarkList: log.watermark_list,
}

WRITES: Mapping[type[Verb[Any]], Procedure] = {
    p.SubscriptionOpen: epochs.subscription_open,
    p.SubscriptionRelease: epochs.subscription_release,
    p.EpochLease: epochs.epoch_lease,
    p.EpochPlan: epochs.epoch_plan,
    p.EpochExtend: epochs.epoch_extend,
    p.Stage: sink.stage,
    p.Publish: sink.publish,
    p.Unstage: sink.unstage,
    p.LogPurge: log.log_purge,
    p.WatermarkSet: log.watermark_set,
    p.WatermarkDelete: log.watermark_delete,
}
