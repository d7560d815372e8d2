"""What is special about some of the commands that documents and ``--help`` print. Every other one is given as printed,
in the order of its document, by ``tests/e2e/test_examples.py``; a key that is printed nowhere any more fails there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT
from tests.printed import DOCUMENTS, Printed, in_document, in_help

FOLLOWED = {
    "docs/operations.md": "tests/e2e/test_operations_page.py",
    "docs/staging.md": "tests/e2e/test_staging.py",
}
"""Document whose commands need the files that it tells to write -> the test that follows all of it."""

BESIDE_AGGREGATORS = re.compile(r"tacit (bench dap|serve interop .*--database-file) ").match
NOT_GIVEN = {
    "make install": "the environment that runs this test was made by it",
    "make demo": "installs, then gives tacit demo, which docs/demo.md prints too",
    "make test": "gives this test",
    "make test-all": "gives this test",
    "make test-rotating": "gives what make test-all gives, a part each day",
    "make durations": "gives this test, and would write into the checkout",
    "make test-flaky": "repeats for hours what make test gives once",
    "make check": ".ci/run gives it",
    "make documents": "tests/unit/test_documents.py compares what it writes; here it would write into the checkout",
    "make fmt": "would write into the checkout",
    ".ci/run": "gives this test",
    "make install && .venv/bin/python -m hatchling build --target wheel --directory dist": "in an empty environment: "
    "tests/scripts/test_wheel.py",
    "python3 -m venv /opt/tacit && /opt/tacit/bin/pip install --require-hashes -r "
    "requirements-production.lock": "would write into /opt, and fetch it all: tests/unit/test_packaging.py has "
    "what the lock holds",
    "/opt/tacit/bin/pip install --no-deps dist/tacit-*.whl": "would write into /opt: tests/scripts/test_wheel.py",
    "node examples/node/device.mjs --config .tacit/agents/0/agent.json --value mdvis=3": "needs Node: "
    "tests/e2e/test_node_device.py",
    "node examples/node/device.mjs $(for i in $(seq 0 23); do echo --config .tacit/agents/$i/agent.json; done)": "the "
    "same, for as many devices",
    "python3 examples/embedding/diary.py --config .tacit/agents/0/agent.json --seconds 300": "in the environment that "
    "runs the test: tests/e2e/test_embedding.py",
    "tacit learn run digits.json --test digits.csv --out digits.npz": "takes 40 hours: tests/scripts/"
    "test_cli_learn.py, with a shorter plan",
    "tacit learn run small.json --test test.csv --out small.npz": "takes ten minutes on such a stack: tests/scripts/"
    "test_cli_learn.py, with a shorter plan",
    "tacit fleet run --recipe digits-0 --devices 100000 --workers 2 --oracle": "beside a run of 40 hours: tests/e2e/"
    "test_fleet_learning.py, with fewer",
    "tacit learn model first.npz": "needs an application's arrays: tests/scripts/test_cli_learn_model.py",
    "tacit learn run walks.json --initial first.npz --out walks.npz": "takes as long as any run: tests/simulation/"
    "test_external_model.py",
    "tacit learn show digits": "beside such a run: tests/scripts/test_cli_learn.py",
    "python3 -m venv flower && flower/bin/pip install flwr==1.42.0 numpy": "fetches another framework: tests/unit/"
    "test_learning_in_memory.py writes what that one is given",
    "flower/bin/python benchmarks/flower_fedavg.py peer.npz": "in that environment",
    "tacit bench all --json --save": "gives what its parts give, for ten minutes: tests/scripts/test_cli_bench.py",
    "tacit bench soak --reports 100000 --save soak.png": "takes eight minutes: tests/e2e/test_bench_soak.py has fewer",
    "tacit series next words --state-dir .tacit": "goes on with a search: tests/e2e/test_search.py",
    "tacit series run words --state-dir .tacit": "goes on with a search: tests/e2e/test_search.py",
    "tacit staging up --agents 500 --mode processes": "takes the whole machine: tests/e2e/test_staging.py, with fewer",
    "tacit staging status": "beside such a deployment: tests/e2e/test_staging.py",
    "tacit staging agents --join 20 --leave 10 --restart 5": "beside such a deployment: tests/e2e/test_staging.py",
    "tacit staging restart leader helper": "beside such a deployment: tests/e2e/test_staging_operations.py",
    "tacit staging stop helper": "beside such a deployment: tests/e2e/test_staging_operations.py",
    "tacit staging start helper": "beside such a deployment: tests/e2e/test_staging_operations.py",
    "tacit staging report --json": "beside such a deployment: tests/e2e/test_staging.py",
    "tacit admin fleet --state-dir .tacit-staging": "beside such a deployment: tests/e2e/test_staging.py",
    "tacit staging down": "beside such a deployment: tests/e2e/test_staging.py",
    "tacit staging images --base docker.io/library/python:3.11-slim": "fetches a base: tests/e2e/"
    "test_containers.py builds on one that is here",
    "tacit admin people invite carol --out carol.invitation": "asks a provider: tests/http/test_admin_openid.py",
    "tacit admin people consent 5f0e3c2b1a09f8e7d6c5b4a3": "needs a waiting change: tests/http/test_admin_consent.py",
    "tacit admin people refuse 5f0e3c2b1a09f8e7d6c5b4a3": "needs a waiting change: tests/http/test_admin_consent.py",
    "tacit admin people recover dave --config admin.toml --key-sha256 SHA256": "names a file and a key of a real "
    "service: tests/http/test_admin_consent.py",
    "tacit serve interop --role client --port 8081 &": "takes a fixed port: tests/e2e/test_interop_page.py",
    "tacit serve interop --role leader --port 8082 &": "takes a fixed port: tests/e2e/test_interop_page.py",
    "tacit serve interop --role helper --port 8083 &": "takes a fixed port: tests/e2e/test_interop_page.py",
    "tacit serve interop --role collector --port 8084 &": "takes a fixed port: tests/e2e/test_interop_page.py",
    **{
        one.key: "needs aggregators at fixed ports, and their databases: tests/http/test_bench_dap.py"
        for one in (*in_document("docs/performance.md"), *in_help())
        if BESIDE_AGGREGATORS(one.key)
    },
}
"""Command -> why no test gives it. A file that a reason names exists."""

LONG = {
    "tacit demo": "tests/e2e/test_demo.py",
    "tacit demo --model pan-private": "tests/e2e/test_demo_watched.py",
    "tacit demo --input visits.csv --column visits --buckets 0,1,2,4": "tests/e2e/test_demo.py",
    **{
        one.key: "tests/e2e/test_search.py"
        for one in in_document("docs/ways-to-ask.md")
        if ".tacit-words" in one.text or "words.csv" in one.text
    },
    "tacit up": "tests/e2e/test_up.py",
    "tacit up --agents 24 --batch-floor 20": "tests/e2e/test_up.py",
    "tacit up --agents 60 --batch-floor 45 --epoch-seconds 120 --allow-unbounded-local --release-cap 5 --examples "
    "digits.csv": "tests/e2e/test_staging_learning.py",
    "tacit up --agents 60 --batch-floor 20 --with postgres,redis,mosquitto --together --batch-crypto": "tests/e2e/"
    "test_up_backends.py",
    "tacit up --tls --state-dir .tacit-tls --with postgres,redis,mosquitto": "tests/e2e/test_up_tls.py",
    "tacit status --state-dir .tacit-tls": "tests/e2e/test_up_tls.py",
    "tacit up --state-dir .tacit-load --agents 0 --epoch-seconds 7200 --allow-unbounded-local": "tests/e2e/test_up.py",
    "tacit agent run $(printf -- '--config %s ' .tacit/agents/[1-9]*/agent.json)": "tests/scripts/test_cli_agent.py",
    "tacit agent run --config .tacit/agents/0/agent.json": "tests/scripts/test_cli_agent.py",
    "tacit agent record visit --config .tacit/agents/0/agent.json": "tests/scripts/test_cli_agent.py",
    "tacit agent state --config .tacit/agents/0/agent.json": "tests/scripts/test_cli_agent.py",
    "tacit collect visits --wait 300": "tests/e2e/test_up.py",
    "tacit collect visits --wait 60": "tests/e2e/test_up.py",
    "tacit admin results weekly --wait 600": "tests/scripts/test_example_operator.py",
    "tacit results visits --html visits.html --format csv --out answers.csv": "tests/scripts/test_cli_recipe.py",
    "tacit serve relay --config .tacit/relay/config.json": "tests/e2e/test_serve.py",
    "tacit restore leader backups/leader --config .tacit/leader/config.json": "tests/http/test_backups.py",
    "tacit fleet run --devices 1000 --recipe visits --workers 2 --oracle --out fleet-out": "tests/e2e/test_fleet.py",
    "tacit fleet run --state-dir .tacit-load --devices 100000 --recipe m --workers 2 --oracle --out fleet-out": "tests/"
    "e2e/test_fleet.py",
    "tacit fleet run --state-dir .tacit-load --devices 5000 --recipe average --data normal:50,10 --oracle": "tests/e2e/"
    "test_fleet.py",
    "tacit fleet run --state-dir .tacit-load --devices 5000 --recipe silent --oracle": "tests/e2e/test_fleet.py",
    "tacit fleet run --state-dir .tacit-load --devices 300 --recipe mixed": "tests/e2e/test_fleet_shuffled.py",
    "tacit fleet prepare --devices 1000 --recipe visits --tokens direct --workers 2 --out visits.fleet": "tests/e2e/"
    "test_fleet.py",
    "tacit recipe new --state-dir .tacit-load --name rare --metric mdvis --buckets 0,1,2,4,8 --population 20000 "
    "--duration 1800 --importance-default 0 --importance-rate 0.05 --non-default-share 0.1 --attested-devices 20000 "
    "--out rare.json": "tests/scripts/test_cli_recipe.py",
    "tacit recipe design --population 1000000 --cells 16 --accuracy 0.001": "tests/scripts/test_cli_recipe.py",
    "tacit figures --out figures --population 100000 --measure": "tests/simulation/test_measure.py",
    "tacit figures pan-privacy --out figures": "tests/simulation/test_pan_private_figure.py",
    "tacit figures shuffled --out figures": "tests/unit/test_shuffled_theory_figures.py",
    "tacit up --epoch-seconds 7200": "tests/e2e/test_up.py",
    "tacit up --state-dir .tacit-load --agents 0 --epoch-seconds 7200": "tests/e2e/test_up.py",
    "tacit fleet run --state-dir .tacit-load --recipe watched --model pan-private-single --devices 1000 "
    "--data events:0.02 --oracle": "tests/e2e/test_fleet_watching.py",
    "tacit schemas --out docs/schemas": "tests/unit/test_documents.py",
    "tacit vectors --out docs/vectors": "tests/unit/test_documents.py",
    "tacit privacy examples --json": "tests/scripts/test_cli_ledger.py",
    "tacit bench pan-privacy --samples 1000": "tests/scripts/test_cli_bench.py",
    "tacit bench agents --devices 20 --window 5 --repetitions 1": "tests/e2e/test_bench.py",
    "tacit bench kernels": "tests/scripts/test_cli_bench.py",
    "tacit bench kernels --json": "tests/scripts/test_cli_bench.py",
    "tacit bench stages": "tests/scripts/test_cli_bench.py",
    "tacit bench ingest": "tests/e2e/test_bench.py",
    "tacit bench pipeline": "tests/e2e/test_bench.py",
    "tacit bench pipeline --repetitions 1": "tests/e2e/test_bench.py",
    "tacit bench overload --repetitions 1": "tests/e2e/test_bench.py",
    "tacit bench accounting": "tests/scripts/test_cli_bench.py",
    "tacit bench accuracy": "tests/unit/test_bench_accuracy.py",
    "tacit bench plot": "tests/scripts/test_cli_bench.py",
    "tacit bench soak --reports 1000 --with ''": "tests/e2e/test_bench_soak.py",
    "tacit bench scaling --share 0.1": "tests/unit/test_bench_parts.py",
    "tacit bench scaling --repetitions 1 --share 0.1": "tests/unit/test_bench_parts.py",
}
"""Command that takes long, waits for a released result or needs a stopped service -> where ``make test`` covers what it
does or, where that is long itself, ``make test-all``, which also gives it as printed."""

SHORTER = {
    "tacit log monitor --follow --port 9470": "tacit log monitor --follow --port 0",
    "tacit agent host .tacit/agents": "tacit agent host --every 0.5 .tacit/agents",
    "tacit bench admin --rows 200 --recipes 20 --seconds 2": "tacit bench admin --rows 50 --recipes 5 --seconds 0.5",
    "tacit figures succinct --out figures": "tacit figures succinct --out figures --runs 2",
}
"""Command -> the form that ``make test`` gives, beside whatever else runs on this machine and without waiting."""

REFUSED = {
    "tacit recipe new --state-dir .tacit-load --name linux --metric mdvis --buckets 0,1,2,4,8 --population 100 "
    "--target os=linux --out linux.json": "docs/ways-to-ask.md says that it is, before there is a census",
}
"""Command that is refused (exit code 1) as its document says -> why."""

AFTER = {
    "tacit agent record": "tacit agent run",
    "tacit agent state": "tacit agent record",
    "tacit fleet prepare": "tacit series show",
    "tacit fleet run": "tacit fleet prepare",
    "tacit serve": "tacit bench plot",
    "tacit restore leader": "tacit serve relay",
}
"""Beginning of an example of ``--help`` -> of the one that it follows: an agent at work hears of events, a fleet sends
while its recipe is open, which a series is made from before, and a service is started alone when the stack is down."""

SAVED_BENCH = "benchmarks/2026-11-27-09904095.json"
GIVEN = {
    "visits.csv": "id,visits\n" + "".join(f"{number},{number * number % 7}\n" for number in range(200)),
    "digits.csv": "".join((ROOT / "infra/lab/learning/digits.csv").read_text().splitlines(keepends=True)[:1400]),
    "weights.txt": "0.5,0.25\n",
    "randomizer.json": '[["3/4", "1/4"], [0.25, 0.75]]',
    SAVED_BENCH: (ROOT / SAVED_BENCH).read_text(),
}
"""The files of their own that people have."""


def put_given(folder: Path) -> None:
    """Write the ``GIVEN`` files."""
    for name, content in GIVEN.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def everything() -> dict[str, list[Printed]]:
    """The commands by document; those of ``--help`` together, as ``--help``, in the order in which they go on from each
    other."""
    examples = in_help()
    for moved, behind in AFTER.items():
        (one,) = [example for example in examples if example.key.startswith(moved + " ")]
        examples.remove(one)
        place = next(at for at, example in enumerate(examples) if example.key.startswith(behind))
        examples.insert(place + 1, one)
    return {**{place: in_document(place) for place in DOCUMENTS}, "--help": examples}
