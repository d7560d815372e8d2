"""The table of records that a server without aggregators keeps of reports until it releases or forwards them."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, MetaData, Table


def kept_table(metadata: MetaData) -> Table:
    """A row has the records of one group of uploads, one after another; ``first`` is the id of the first report."""
    return Table(
        "kept",
        metadata,
        Column("task_id", LargeBinary, primary_key=True),
        Column("first", LargeBinary, primary_key=True),
        Column("records", LargeBinary, nullable=False),
        info={
            "holds": (
                "of a group of uploads, one after another, the bundles or sealed reports (shuffler), or 17 bytes"
                " of each report that is searched for frequent texts (analyzer)"
            ),
            "kept": "until they are permuted or released, in the same transaction",
        },
    )
