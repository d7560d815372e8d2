"""A question from a draft to a plot, over the admin API: cells for a notebook, or one program.

While `tacit up --agents 24 --batch-floor 20` runs, and `tacit agent host .tacit/agents` beside it, in the same folder:

    .venv/bin/pip install --editable '.[operator,demo]'    # in a checkout; or '/path/to/tacit-....whl[operator,demo]'
    python3 examples/operator/weekly.py --url URL

where URL is the URL of `admin`, which `tacit up` prints. Two people must take part, as the author of a question cannot
approve it. In a real deployment they work on different machines, and each has only their own key.
"""

# %% The service and both people
from __future__ import annotations

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from tacit.client import Operator

parser = argparse.ArgumentParser(description="A question from a draft to a plot.")
parser.add_argument("--url", required=True, help="URL of the admin service.")
parser.add_argument("--analyst-key", default=".tacit/analyst/analyst.key", type=Path)
parser.add_argument("--approver-key", default=".tacit/analyst/approver.key", type=Path)
parser.add_argument("--ca", default=None, type=Path, help="Certificate authority of a private deployment.")
parser.add_argument("--population", default=24, type=int)
parser.add_argument("--min-batch-size", default=20, type=int, help="B: a smaller batch is never opened.")
parser.add_argument("--seconds", default=600.0, type=float, help="How long to wait for the release.")
parser.add_argument("--out", default="weekly.png", type=Path)
said, _ = parser.parse_known_args()

tls = None
if said.ca is not None:
    from tacit.adapters.network.tls import ClientTls

    tls = ClientTls(ca=said.ca)
analyst = Operator(said.url, key_file=said.analyst_key, tls=tls)
approver = Operator(said.url, key_file=said.approver_key, tls=tls)

# %% The question
draft = analyst.questions.create(
    {
        "name": "weekly",
        "text": "How many doctor visits?",
        "metric": "mdvis",
        "encoder": {"kind": "buckets", "edges": [0, 1, 2, 4]},
        "population": said.population,
        "rate": "1",
        "min_batch_size": said.min_batch_size,
    }
)

# %% Check it against every rule, before any device is asked
check = analyst.questions.check(draft)
for one in check.refusals:
    print(f"refused by {one['rule']}: {one['detail']}")
if not check.accepted:
    raise SystemExit("change the question so that it satisfies these rules")

# %% Have another person approve it, then publish it
question = analyst.questions.submit(draft)
question = approver.questions.approve(question)
question = analyst.questions.publish(question)
print(f"published as {question.hash}")

# %% Wait while devices answer in their own time; a batch below B is never opened
results = analyst.recipes.wait_for_release(question, said.seconds)
table = results.pandas()
print(table[["label", "estimate", "stderr", "epsilon", "delta"]].to_string(index=False))

# %% Plot the estimates with their 95 % intervals
figure = Figure(figsize=(6, 3.5), layout="constrained")
axes = figure.subplots()
axes.bar(table["label"], table["estimate"], color="#4c78a8")
axes.errorbar(table["label"], table["estimate"], yerr=1.96 * table["stderr"], fmt="none", color="black", capsize=4)
axes.set(title=table["question"].iloc[0] or table["name"].iloc[0], xlabel="visits", ylabel="devices")
figure.savefig(said.out)
print(f"plot: {said.out}")

# %% End the question
analyst.questions.end(question)
analyst.close()
approver.close()
