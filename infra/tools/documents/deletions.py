"""The page ``deletions.md``: everything that the product deletes, lets expire, rotates or gives up, and by whose time.

The rows name the code of each deletion; a test finds every such place in the product, so none can be added without a
row (P37).
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.tools.documents.words import MADE, page, table

LOG = "the log (Date of its answers)"
NOBODY = "not by time"
TEMPORARY = "a file of its own, given up by who made it"


@dataclass(frozen=True)
class Deletion:
    """One row: ``what`` goes, ``when``, by what time others ``vouch`` for, and ``places``, the functions that do it
    (``path:qualified name``); none for a decision that deletes no row and no file."""

    what: str
    when: str
    vouch: str
    places: tuple[str, ...] = ()


BY_TIME = (
    Deletion(
        "gateway: the OHTTP key of a period",
        "its period and the next are over, and the log shows it no more as ours; a clock in doubt makes none either",
        LOG,
    ),
    Deletion(
        "gateway: remembered requests (database)",
        "10 minutes and `date_window` after their Date",
        LOG,
        ("services/gateway/store.py:ReplayStore.forget",),
    ),
    Deletion(
        "gateway: remembered requests (Redis)",
        "2 minutes and `date_window` after their Date, by Redis's clock",
        "the gateway: nothing passes while the two clocks differ, nor later what may have passed before",
        ("tacit/adapters/messaging/redis_replay.py:RedisSeen.add",),
    ),
    Deletion(
        "issuer: the private keys of an epoch's slots",
        "`grace_seconds` after the epoch; a clock in doubt makes none either",
        LOG,
        ("services/issuer/store.py:IssuerStore.destroy_before",),
    ),
    Deletion("issuer: a directory that came too late is offered no more", "an epoch before its own", LOG),
    Deletion(
        "attester: used challenges, and which device had a slot's token",
        "`challenge_seconds`; `quota_grace_seconds` after the slot",
        "the issuer (Date of its answers)",
        ("attester/store.py:_forget",),
    ),
    Deletion(
        "recipe server: model files",
        "`ended_seconds` after the rounds that name them; earlier where an analyst's share is full",
        "the witnesses (time of their cosignatures), else the newest issuer directory",
        ("recipe_server/models.py:ModelRows.forget", "recipe_server/models.py:ModelRows.keep"),
    ),
    Deletion(
        "leader, helper, analyzer, shuffler: a recipe is void",
        "`void_seconds` after its interval, if nothing was released",
        LOG,
        ("tacit/aggregator/store.py:CommonTx.close_unreleased",),
    ),
    Deletion(
        "leader, helper, analyzer, shuffler: what was stored for a task, spent tokens too",
        "`retention` after its interval",
        LOG,
        (
            "tacit/aggregator/store.py:CommonTx.forget",
            "tacit/aggregator/one_server/store.py:OneServerTx.scrub_buckets",
        ),
    ),
    Deletion("leader, helper, analyzer: a batch closes", "its interval (and grace) is over", LOG),
    Deletion("shuffler: the order of messages is fixed, and none is taken any more", "interval and grace over", LOG),
    Deletion(
        "leader: a job that the helper never answers, with its reports",
        "`collection_grace` after the interval",
        LOG,
        ("services/leader/jobs.py:JobsTx.drop_job",),
    ),
    Deletion(
        "helper: its answer to a job",
        "the leader asks for it, a minute or two after it has committed the answer",
        LOG,
        ("services/helper/store.py:HelperTx.drop_job",),
    ),
    Deletion(
        "gateway, aggregators, attester, issuer, witness: a final refusal (too late, over, spent, cosigned)",
        "the request comes too late",
        "as above: while the clock is in doubt requests get 503 `urn:tacit:problem:clock`",
    ),
    Deletion("relay: a key set that it has seen", "its period is over", LOG),
    Deletion(
        "admin: invitations, challenges, sessions, sign-ins under way and failures; a change without consent, and one "
        "that counts",
        "each its term",
        f"{LOG}: the earlier of both clocks, so no wait for a second person ends early",
        (
            "services/admin/storage/consent_store.py:ConsentTx.drop_past_changes",
            "services/admin/storage/store.py:PasskeysTx.drop_challenges",
            "services/admin/storage/store.py:PeopleTx.drop_invitations",
            "services/admin/storage/store.py:PeopleTx.drop_sessions",
            "services/admin/storage/store.py:PeopleTx.drop_failures",
            "services/admin/storage/store.py:PeopleTx.use_flow",
        ),
    ),
    Deletion(
        "admin: stored answers to requests that may be repeated",
        "`answer_days`",
        LOG,
        ("services/admin/storage/store.py:AdminTx.drop_answers",),
    ),
    Deletion(
        "device: tokens, and the directories that it has seen",
        "two epochs after theirs",
        "the newest issuer directory, which is published at most two epochs ahead",
        ("client_agent/store.py:<module>",),
    ),
    Deletion("device: a report that could not be sent", "its deadline", "the relay (Date of its answers)"),
    Deletion("device: a decision about a recipe", "once", "the relay: none while the clocks differ by more than a day"),
    Deletion(
        "device: the state of a watched event",
        "the recipe is decided on, or its interval is over",
        "the relay",
        ("client_agent/panprivate/slots.py:Slots.erase", "client_agent/panprivate/slots.py:erase_file"),
    ),
    Deletion(
        "backups beyond `--keep`",
        "a newer one is complete",
        "the backups themselves: none is deleted while one has a later name than the newest",
        ("infra/backing/backups.py:back_up_into",),
    ),
)
"""What goes when a time is over."""

NOT_BY_TIME = (
    Deletion(
        "admin: what a person deletes or replaces (drafts, keys, passkeys, ways to sign in)",
        "somebody asks for it",
        NOBODY,
        (
            "services/admin/storage/question_store.py:QuestionsTx.drop_question",
            "services/admin/storage/store.py:PasskeysTx.drop_passkey",
            "services/admin/storage/store.py:PeopleTx.drop_key",
            "services/admin/storage/store.py:PeopleTx.drop_access",
            "services/admin/storage/store.py:PeopleTx.drop_ways_in",
            "services/admin/storage/consent_store.py:ConsentTx.drop_change",
        ),
    ),
    Deletion(
        "helper: a share that the leader deletes",
        "the leader asks for it",
        NOBODY,
        ("services/helper/store.py:HelperTx.drop_share",),
    ),
    Deletion(
        "leader: jobs that are split or done with",
        "their reports are in other jobs, or counted",
        NOBODY,
        ("services/leader/jobs.py:JobsTx.remove_jobs",),
    ),
    Deletion(
        "shuffler: a request that was taken",
        "its receiver has acknowledged it",
        NOBODY,
        ("services/shuffler/store.py:ShufflerTx.sent",),
    ),
    Deletion(
        "one row in place of another (checkpoints, states, marks, sessions)",
        "in the same transaction",
        NOBODY,
        (
            "recipe_server/store.py:RecipeTx.put_checkpoint",
            "recipe_server/store.py:RecipeTx.put_shown",
            "services/admin/storage/consent_store.py:ConsentTx.put_rule",
            "services/admin/storage/store.py:PeopleTx.put_session",
            "services/witness/store.py:WitnessStore.advance",
            "tacit/adapters/databases/log_tables.py:SqlLeavesTx.put_log_state",
            "tacit/adapters/databases/watermark.py:<module>",
            "tacit/adapters/databases/postgres_slices.py:PostgresSlices._rewrite",
            "tacit/aggregator/store.py:CommonTx.put_task",
            "client_agent/schema.py:bring_up",
        ),
    ),
    Deletion(
        "rows that a caller names",
        "as the caller above says",
        NOBODY,
        (
            "tacit/adapters/databases/postgres_dialect.py:PostgresDialect.delete_among",
            "tacit/adapters/databases/sqlite_dialect.py:SqliteDialect.delete_among",
        ),
    ),
    Deletion(
        "a draft beside a file, a socket, a mark of a running stack",
        "it is complete, or its owner ends",
        TEMPORARY,
        (
            "client_agent/panprivate/listening.py:listening",
            "client_agent/panprivate/slots.py:Slots.make",
            "infra/backing/backing_servers.py:_provide",
            "infra/backing/backups.py:back_up",
            "infra/backing/backups.py:_aside",
            "infra/backing/sealed_files.py:unseal",
            "infra/backing/databases.py:_create_server",
            "infra/backing/sqlite_backup.py:put_database",
            "infra/stacks/processes.py:running",
            "infra/stacks/workers.py:further_parts",
            "infra/tools/images/context.py:Context.write",
            "infra/tools/staging/agents.py:agents_at_work",
            "infra/tools/staging/containers.py:_follower",
            "infra/tools/staging/containers.py:services_at_work",
            "infra/tools/staging/orders.py:carry_out_orders",
            "infra/tools/staging/orders.py:give_order",
            "infra/tools/staging/running.py:_announce_and_watch",
            "infra/tools/staging/running.py:stop_staging",
            "tacit/adapters/databases/watermark.py:Watermark._make",
            "tacit/adapters/disk/files.py:replacing",
            "tacit/adapters/disk/folder_lock.py:alone_in",
            "tacit/adapters/disk/folder_lock.py:alone_in_or_beside",
            "tacit/adapters/disk/kept_tree.py:_File.cut",
            "tacit/adapters/messaging/redis_replay.py:RedisSeen.probe",
            "tacit/service/base/secret_files.py:write_secret",
        ),
    ),
)
"""What goes because somebody asked for it, or something has taken its place."""

DELETIONS = (*BY_TIME, *NOT_BY_TIME)


def deletions_page() -> str:
    """The page ``deletions.md``: every deletion, expiry and rotation, and by whose time it happens."""
    return page(
        "# What is deleted, and by whose time",
        f"{MADE} Nothing that cannot be undone follows from a service's own clock alone. It also needs the time of "
        "somebody else, heard within this run and moved on by a clock that nobody can set; while the two differ by "
        "more than ten minutes, or nobody has said anything, nothing in the first table happens "
        "(`tacit/service/base/vouched.py`). A test compares both tables with the code.",
        "## When a time is over",
        table(("what", "when", "who vouches for the time"), [(one.what, one.when, one.vouch) for one in BY_TIME]),
        "## For another reason",
        table(("what", "when", "by time"), [(one.what, one.when, one.vouch) for one in NOT_BY_TIME]),
    )
