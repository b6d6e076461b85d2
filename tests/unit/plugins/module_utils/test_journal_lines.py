# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.pristine.vllm.plugins.module_utils.journal_lines import (
    FATAL_PATTERNS,
    fatal_line,
    relevant_lines,
)

# As vLLM writes it: the engine's own traceback, then the server's, which only says that there was one.
DEATH = """\
INFO 11-30 03:25:13 [api_server.py:1351] vLLM API server version 0.16.0
(EngineCore_DP0 pid=81) INFO 11-30 03:25:20 [core.py:90] Initializing a V1 LLM engine
(EngineCore_DP0 pid=81) ERROR 11-30 03:25:31 [core.py:946] EngineCore failed to start.
(EngineCore_DP0 pid=81) ERROR 11-30 03:25:31 [core.py:946] Traceback (most recent call last):
(EngineCore_DP0 pid=81) ERROR 11-30 03:25:31 [core.py:946]   File "/opt/vllm/core.py", line 937, in run_engine_core
(EngineCore_DP0 pid=81) ERROR 11-30 03:25:31 [core.py:946]     engine_core = EngineCoreProc(*args, **kwargs)
(EngineCore_DP0 pid=81) ERROR 11-30 03:25:31 [core.py:946] ValueError: No valid attention backend found for cuda
(EngineCore_DP0 pid=81) Process EngineCore_DP0:
(APIServer pid=42) Traceback (most recent call last):
(APIServer pid=42)   File "/opt/vllm/current/bin/vllm", line 8, in <module>
(APIServer pid=42)     sys.exit(main())
(APIServer pid=42) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
vllm-kimi-k25.service: Main process exited, code=exited, status=1/FAILURE
vllm-kimi-k25.service: Failed with result 'exit-code'.
""".splitlines()


def test_the_root_cause_comes_first() -> None:
    lines = relevant_lines(DEATH)
    assert DEATH[3] in lines
    assert DEATH[6] in lines
    assert DEATH[12] in lines
    assert DEATH[0] not in lines
    assert lines == [line for line in DEATH if line in lines]


def test_never_more_than_asked_for() -> None:
    noise = [f"ERROR line {number}" for number in range(500)]
    long_traceback = ["Traceback (most recent call last):", *(f"  File {n}" for n in range(100)), "KeyError: 'x'"]
    lines = relevant_lines([*noise, *long_traceback, *noise])
    assert len(lines) == 20
    assert "Traceback (most recent call last):" in lines
    assert "KeyError: 'x'" in lines
    assert "ERROR line 499" in lines


def test_an_import_that_fails() -> None:
    lines = relevant_lines(
        [
            "Traceback (most recent call last):",
            '  File "/opt/vllm/current/bin/vllm", line 5, in <module>',
            "    from vllm.entrypoints.cli.main import main",
            "ImportError: this release cannot be imported",
            "vllm.service: Main process exited, code=exited, status=1/FAILURE",
        ]
    )
    assert "ImportError: this release cannot be imported" in lines


def test_a_quiet_end_shows_the_last_lines() -> None:
    lines = relevant_lines([f"INFO {number}" for number in range(100)])
    assert lines == [f"INFO {number}" for number in range(90, 100)]


def test_an_empty_journal() -> None:
    assert relevant_lines([]) == []


def test_long_lines_are_cut() -> None:
    assert len(relevant_lines(["ERROR " + "x" * 5000])[0]) == 240


def test_fatal_lines() -> None:
    assert fatal_line(DEATH, FATAL_PATTERNS) == DEATH[2]
    assert fatal_line(DEATH[:2], FATAL_PATTERNS) is None
    assert fatal_line(DEATH, []) is None


def test_what_a_client_did_wrong_is_not_fatal() -> None:
    journal = ["ERROR 11-30 [serving_chat.py:1] Error in preprocessing prompt inputs", "ValueError: too long"]
    assert fatal_line(journal, FATAL_PATTERNS) is None
