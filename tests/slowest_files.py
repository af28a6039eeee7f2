"""The test files that take longest, slowest first. They are started first.

Otherwise one test process would still be running a long file when the others
have finished.
"""

SLOWEST_FIRST = (
    "http/test_shared_cursors.py",
    "client/test_pull_runs.py",
    "client/test_cli.py",
    "client/test_pull.py",
    "e2e/test_serve.py",
    "client/test_reconcile.py",
    "cli/test_demo.py",
    "client/test_example_clients.py",
    "cli/test_load_watch.py",
    "faults/test_broken_files.py",
    "sync/test_faults.py",
    "cli/test_terminal.py",
    "ports/test_meter.py",
    "ports/test_ledger.py",
    "http/test_transactions_by_change.py",
    "sync/test_state_machine.py",
    "cli/test_streams.py",
    "ports/test_change_feed.py",
    "cli/test_log_format.py",
    "cli/test_signals.py",
    "importing/test_postgres_source.py",
    "demo/test_world.py",
    "deploy/test_package.py",
    "e2e/test_third_parties.py",
    "upkeep/test_house_rules.py",
    "console/test_key_forms.py",
    "console/test_pages.py",
    "cli/test_extras.py",
    "cost/test_requests.py",
    "client/test_clients.py",
    "client/test_pull_parquet.py",
    "ingest/test_pipeline.py",
    "cli/test_import.py",
    "faults/test_gate_away.py",
    "faults/test_store_away.py",
)
