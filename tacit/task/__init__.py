"""A task: what every party knows about one recipe's measurement, and how its shares are sealed."""

from tacit.task.sealing import (
    input_share_aad,
    open_aggregate_share,
    seal_aggregate_share,
    seal_input_share,
)
from tacit.task.task import (
    CLOCK_LEEWAY,
    MODE_OF_CLOSE,
    RECIPE_HASH_SIZE,
    VERIFY_KEY_SEED_SIZE,
    VERIFY_KEY_SIZE,
    BatchClose,
    Task,
    interval_of,
    task_id_of,
    vdaf_of,
    verify_key_confirmation,
    verify_key_of,
)

__all__ = [
    "CLOCK_LEEWAY",
    "MODE_OF_CLOSE",
    "RECIPE_HASH_SIZE",
    "VERIFY_KEY_SEED_SIZE",
    "VERIFY_KEY_SIZE",
    "BatchClose",
    "Task",
    "input_share_aad",
    "interval_of",
    "open_aggregate_share",
    "seal_aggregate_share",
    "seal_input_share",
    "task_id_of",
    "vdaf_of",
    "verify_key_confirmation",
    "verify_key_of",
]
