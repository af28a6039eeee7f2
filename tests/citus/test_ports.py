"""The port suite on Citus: distributed tables keep the promises of every back end."""

from ports.test_books import *  # noqa: F403 - every test of the suite, whatever its name
from ports.test_cursors import *  # noqa: F403
from ports.test_keys import *  # noqa: F403
from ports.test_ledger import *  # noqa: F403
from ports.test_meter import *  # noqa: F403
from ports.test_request_log import *  # noqa: F403

# The fixture in test_meter.py uses other back ends; the one in conftest.py is needed here.
del store  # noqa: F821
