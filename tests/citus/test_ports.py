"""The port suite on Citus: what every back end promises holds on distributed tables."""

from ports.test_books import *  # noqa: F403 - every test of the suite, whatever it is called
from ports.test_cursors import *  # noqa: F403
from ports.test_keys import *  # noqa: F403
from ports.test_ledger import *  # noqa: F403
from ports.test_meter import *  # noqa: F403
from ports.test_request_log import *  # noqa: F403

# The fixture of test_meter.py makes stores on other back ends: here it is that of conftest.py.
del store  # noqa: F821
