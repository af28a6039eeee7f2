"""Lists the test files that take longest, slowest first. They run first.

Otherwise one test process would still be running a long file when the others
have nothing left to do.
"""

SLOWEST_FIRST = (
    "http/test_shared_cursors.py",
    "client/test_reconcile.py",
    "cli/test_load_watch.py",
    "sync/test_faults.py",
    "client/test_example_clients.py",
    "client/test_cli.py",
    "e2e/test_serve.py",
    "faults/test_broken_files.py",
    "sync/test_state_machine.py",
    "client/test_pull.py",
    "client/test_pull_duckdb.py",
    "http/test_passes.py",
    "e2e/test_third_parties.py",
    "cli/test_demo.py",
    "cli/test_terminal.py",
    "cli/test_streams.py",
    "cli/test_log_format.py",
    "ports/test_meter.py",
    "ports/test_ledger.py",
    "cli/test_extras.py",
    "cost/test_requests.py",
    "client/test_clients.py",
    "client/test_pull_parquet.py",
    "ingest/test_pipeline.py",
    "faults/test_gate_away.py",
    "faults/test_store_away.py",
)
