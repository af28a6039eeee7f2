"""The files with the longest tests, slowest first. They are started first.

Otherwise one process would still be running a long file when the others have finished.
In `make test`, only the state machine is both long and among the last files.
"""

SLOWEST_FIRST = (
    "e2e/test_serve.py",
    "cli/test_demo.py",
    "client/test_example_clients.py",
    "cli/test_load_watch.py",
    "faults/test_broken_files.py",
    "cli/test_terminal.py",
    "cli/test_signals.py",
    "deploy/test_package.py",
    "e2e/test_third_parties.py",
    "cli/test_extras.py",
    "faults/test_servers_away.py",
    "sync/test_state_machine.py",
)
