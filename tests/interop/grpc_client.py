"""Calls the example `grpc` with a quota of two that come back one in a second and a half:
grpc_client.py HOST:PORT"""

import json
import sys
import time

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

ADDRESS = sys.argv[1]
POLICY = {
    "methodConfig": [
        {
            "name": [{"service": "hello.Greeter"}],
            "retryPolicy": {
                "maxAttempts": 2,
                "initialBackoff": "0.01s",
                "maxBackoff": "0.01s",
                "backoffMultiplier": 1,
                "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
            },
        }
    ]
}


def greeter(channel):
    """Returns the one method; its message is a string in field 1, and so is the answer."""
    greet = channel.unary_unary("/hello.Greeter/Greet")
    return lambda: greet(b"\x0a\x03Ann", timeout=10)[2:].decode()


def refusal(greet):
    """Calls until it is refused, and returns the error."""
    for _ in range(4):
        try:
            assert greet() == "hello Ann"
        except grpc.RpcError as error:
            return error
    raise AssertionError("it is never refused")


def details_of(error):
    status = rpc_status.from_call(error)
    assert status.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    found = {}
    for detail in status.details:
        kind = getattr(error_details_pb2, detail.TypeName().rsplit(".")[-1])
        message = kind()
        assert detail.Unpack(message), detail
        found[kind.__name__] = message
    return found


with grpc.insecure_channel(ADDRESS, options=[("grpc.enable_retries", 0)]) as channel:
    greet = greeter(channel)
    error = refusal(greet)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
    details = details_of(error)
    delay = details["RetryInfo"].retry_delay.ToTimedelta().total_seconds()
    assert 0 < delay <= 1.5, delay
    assert [it.subject for it in details["QuotaFailure"].violations] == ["calls"]
    assert details["ErrorInfo"].reason == "RATE_LIMIT_EXCEEDED"
    assert details["ErrorInfo"].domain == "hello.example.org"
    print(f"grpcio: {error.code()}, RetryInfo {delay} s: {error.details()}")
    time.sleep(delay)
    assert greet() == "hello Ann"
    print("grpcio: admitted after that delay")

# A client that tries again by itself does so when it is told to, far later than its own policy says.
options = [("grpc.service_config", json.dumps(POLICY))]
with grpc.insecure_channel(ADDRESS, options=options) as channel:
    start = time.monotonic()
    assert greeter(channel)() == "hello Ann"
    waited = time.monotonic() - start
    assert waited > 1, f"{waited} s"
    print(f"grpcio: its own second attempt came after {waited:.1f} s and was admitted")
