# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.vllm_api import (
    RUNNING,
    TOKEN_COUNTERS,
    WAITING,
    ApiError,
    VllmApi,
    parse_metrics,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import MODEL, FakeVllm, closed_port, fake_vllm


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with fake_vllm() as running:
        yield running


def test_a_healthy_server(server: FakeVllm) -> None:
    api = VllmApi(server.url + "/")
    api.connect()
    api.health()
    assert api.models() == [MODEL]
    assert api.complete(MODEL, "The capital of France is", 8, 5.0) == " Paris"
    assert server.requests == [
        {"model": MODEL, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    ]
    assert api.metrics([RUNNING, WAITING, "nothing"]) == {RUNNING: 0.0, WAITING: 0.0}
    assert api.metrics(TOKEN_COUNTERS) == {TOKEN_COUNTERS[0]: 108.0, TOKEN_COUNTERS[1]: 216.0}


def test_a_hanging_completion_ends_in_time(server: FakeVllm) -> None:
    server.completion = None
    begun = time.monotonic()
    with pytest.raises(ApiError, match=r"POST http://127.0.0.1:\d+/v1/completions gave no answer within 0.3 seconds"):
        VllmApi(server.url).complete(MODEL, "x", 1, 0.3)
    assert time.monotonic() - begun < 3


def test_a_server_that_sends_a_byte_now_and_then_ends_in_time(server: FakeVllm) -> None:
    """A time-out for each read would never be met."""
    begun = time.monotonic()
    with pytest.raises(ApiError, match=r"within 0.4 seconds"):
        VllmApi(server.url, timeout=0.4)._call("GET", "/trickle")
    assert time.monotonic() - begun < 3


def test_a_port_that_refuses() -> None:
    api = VllmApi(closed_port())
    with pytest.raises(ApiError, match="Connection refused") as caught:
        api.connect()
    assert caught.value.status is None
    with pytest.raises(ApiError, match=r"GET http://127.0.0.1:\d+/health failed: Connection refused"):
        api.health()


@pytest.mark.parametrize(
    ("status", "permanent"), [(503, False), (500, False), (429, False), (408, False), (404, True), (400, True)]
)
def test_what_asking_again_can_help(server: FakeVllm, status: int, permanent: bool) -> None:
    server.completion = status
    with pytest.raises(ApiError, match=f"answered {status}: .*EngineCore encountered") as caught:
        VllmApi(server.url).complete(MODEL, "x", 1, 5.0)
    assert caught.value.permanent is permanent


def test_a_key_is_sent_and_never_shown(server: FakeVllm) -> None:
    server.api_key = "geheim-1"
    assert VllmApi(server.url, "geheim-1").models() == [MODEL]
    with pytest.raises(ApiError) as caught:
        VllmApi(server.url, "geheim-2").models()
    assert caught.value.status == 401
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "/v1"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a server"):
        VllmApi(url)


def test_credentials_in_a_url_are_refused_unseen() -> None:
    with pytest.raises(ValueError, match="leave them out") as caught:
        VllmApi("http://user:geheim@127.0.0.1")
    assert "geheim" not in str(caught.value)


def test_answers_that_are_none(server: FakeVllm) -> None:
    with pytest.raises(ApiError, match="/health gave no JSON"):
        VllmApi(server.url)._json("GET", "/health")
    server.completion = ["no text"]
    with pytest.raises(ApiError, match="gave no text"):
        VllmApi(server.url).complete(MODEL, "x", 1, 5.0)


def test_metrics_are_summed_over_their_labels() -> None:
    page = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a} b"} 2.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0 1764473112000
vllm:num_requests_running_by_x{engine="1"} 7.0
vllm:num_requests_waiting 4
process_start_time_seconds 1.7e+09
broken{ 1
vllm:broken
"""
    assert parse_metrics(page, [RUNNING, WAITING, "vllm:broken"]) == {RUNNING: 3.0, WAITING: 4.0}
