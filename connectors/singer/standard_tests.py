"""The SDK's standard tests for taps. They need a service, and read its URL and key from the environment."""

import os

from singer_sdk.testing import get_tap_test_class
from tap_counterfoil.tap import TapCounterfoil

CONFIG = {"url": os.environ["TAP_COUNTERFOIL_URL"], "key": os.environ["TAP_COUNTERFOIL_KEY"]}

TestTapCounterfoil = get_tap_test_class(tap_class=TapCounterfoil, config=CONFIG)
