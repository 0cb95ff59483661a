"""One real Chromium for all tests of a file; without one they are skipped, and say why."""

import pytest
from serving_surveys import browser


@pytest.fixture(scope="module")
def chromium():
    with browser() as running:
        yield running


@pytest.fixture
def driver(chromium):
    """The browser with nothing stored and nothing recorded."""
    chromium.get("about:blank")
    chromium.execute_cdp_cmd("Network.enable", {})
    chromium.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    chromium.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
    chromium.get_log("performance")
    return chromium
