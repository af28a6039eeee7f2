"""Runs most of the port suite on Citus: a store with distributed tables must behave like every other back end."""

from ports.test_books import *  # noqa: F403 - every test of the suite, whatever its name
from ports.test_change_feed import *  # noqa: F403
from ports.test_cursors import *  # noqa: F403
from ports.test_digests import *  # noqa: F403
from ports.test_intake import *  # noqa: F403
from ports.test_keys import *  # noqa: F403
from ports.test_ledger import *  # noqa: F403
from ports.test_meter import *  # noqa: F403
from ports.test_operator_reads import test_each_active_key_has_the_share_of_its_quota_that_it_used_today  # noqa: F401
from ports.test_request_log import *  # noqa: F403
from ports.test_undo import *  # noqa: F403

# The `store` fixture in test_meter.py uses other back ends. These tests need the `store` fixture in conftest.py.
del store  # noqa: F821
