"""Asks the example `quickstart` with a quota of one in two seconds: retry_after.py URL"""

import sys
import time

import urllib3

URL = sys.argv[1]

with urllib3.PoolManager() as pool:
    assert pool.request("GET", URL, retries=False).status == 200
    refused = pool.request("GET", URL, retries=False)
    assert (refused.status, refused.headers["retry-after"]) == (429, "2"), refused.headers

    # Its own backoff is none: all that it waits is what it is told to.
    retries = urllib3.Retry(total=1, backoff_factor=0, status_forcelist=[429])
    start = time.monotonic()
    reply = pool.request("GET", URL, retries=retries)
    waited = time.monotonic() - start
    assert reply.status == 200
    assert [attempt.status for attempt in reply.retries.history] == [429]
    assert waited >= 2, f"{waited} s"
    print(f"urllib3: refused once, waited {waited:.1f} s as it was told, admitted")
