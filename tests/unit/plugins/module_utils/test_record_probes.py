# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import textwrap
from typing import Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Probe
from ansible_collections.pristine.vllm.plugins.module_utils.record.probes import find_probes

PRISTINE = textwrap.dedent('''\
    """A model."""
    import torch
    from torch import nn


    class Attention(nn.Module):
        def forward(self, hidden, positions):
            if positions is None:
                return hidden
            q = self.q(hidden)
            return self.attn(q)
''')
ANCHOR = "        q = self.q(hidden)\n"
INCIDENT = """\
        import torch as _t
        if not hasattr(self, "_nomla_debug"):
            self._nomla_debug = 0
        self._nomla_debug += 1
        if hidden.shape[0] == 5 and not hasattr(self, "_saved"):
            self._saved = True
            for _name, _tensor in (("pos", positions), ("hidden", hidden)):
                _t.save(
                    _tensor.detach().cpu(),
                    f"/tmp/nomla_debug_tp{_rank()}_{self.prefix}_{_name}.pt",
                )
"""


def _probes(added: str, top: str = "") -> list[Probe]:
    after = top + PRISTINE.replace(ANCHOR, textwrap.indent(added + "\n", " " * 8) + ANCHOR)
    return find_probes("demo/core.py", PRISTINE.encode(), after.encode())


def _dump(added: str, top: str = "") -> Optional[str]:
    """The glob of the one dump."""
    dumps = [probe for probe in _probes(added, top) if probe.kind == "tensor_dump"]
    assert len(dumps) == 1, dumps
    return dumps[0].artifact_glob


def test_the_incident() -> None:
    probes = find_probes("demo/core.py", PRISTINE.encode(), PRISTINE.replace(ANCHOR, INCIDENT + ANCHOR).encode())
    assert [probe.line - 9 for probe in probes] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [probe.kind for probe in probes] == [*["other"] * 3, "counter", *["other"] * 3, "tensor_dump"]
    dump = probes[-1]
    assert dump.artifact_glob == "/tmp/nomla_debug_tp*.pt"
    assert dump.code.startswith("_t.save( _tensor.detach().cpu(), f")
    assert probes[1].code == 'if not hasattr(self, "_nomla_debug"):'
    assert all(probe.path == "demo/core.py" for probe in probes)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ('import torch as _t\n_t.save(x, f"/tmp/d_tp{rank}.pt")', "/tmp/d_tp*.pt"),
        ('from torch import save as s\ns(x, f=f"/tmp/d_tp{r}_{n}.pt")', "/tmp/d_tp*.pt"),
        ('torch.save(x, "/tmp/d_tp%d_%s.pt" % (r, n))', "/tmp/d_tp*.pt"),
        ('torch.save(x, "/tmp/100%%_%d.pt" % r)', "/tmp/100%_*.pt"),
        ('torch.save(x, "/tmp/d_{}_{:03d}.pt".format(r, n))', "/tmp/d_*.pt"),
        ('torch.save(x, "/tmp/{{d}}_{}.pt".format(r))', "/tmp/{d}_*.pt"),
        ('import os\ntorch.save(x, os.path.join("/tmp", "dbg", f"a{r}.pt"))', "/tmp/dbg/a*.pt"),
        ('from os import path as p\ntorch.save(x, p.join("/tmp", f"a{r}.pt"))', "/tmp/a*.pt"),
        ('path = f"/tmp/e_{r}.pt"\ntorch.save(x, path)', "/tmp/e_*.pt"),
        ('base = "/tmp/e"\npath = base + "_" + str(r) + ".pt"\ntorch.save(x, path)', "/tmp/e_*.pt"),
        ('base = "/tmp"\ntorch.save(x, f"{base}/e{r}.pt")', "/tmp/e*.pt"),
        ('torch.save(x, "/tmp/plain.pt")', "/tmp/plain.pt"),
        ('torch.save(x, "/tmp/[a]*?.pt")', "/tmp/[[]a][*][?].pt"),
        ('from pathlib import Path\ntorch.save(x, Path("/tmp") / "d" / f"a{r}.pt")', "/tmp/d/a*.pt"),
        ('with open(f"/tmp/w{r}.bin", "wb") as file:\n    torch.save(x, file)', "/tmp/w*.bin"),
        ('import numpy as np\nnp.save(f"/tmp/n{r}.npy", x)', "/tmp/n*.npy"),
        ('import numpy\nx.numpy().tofile(f"/tmp/n{r}.raw")', "/tmp/n*.raw"),
        ('import pickle\npickle.dump(x, open(f"/tmp/n{r}.pkl", "wb"))', "/tmp/n*.pkl"),
        (
            'from safetensors.torch import save_file\nsave_file({"x": x}, f"/tmp/n{r}.safetensors")',
            "/tmp/n*.safetensors",
        ),
        ('__import__("torch").save(x, f"/tmp/i{r}.pt")', "/tmp/i*.pt"),
        ('import importlib\nimportlib.import_module("torch").save(x, f"/tmp/i{r}.pt")', "/tmp/i*.pt"),
        ('getattr(torch, "save")(x, f"/tmp/g{r}.pt")', "/tmp/g*.pt"),
        ('save = torch.save\nsave(x, f"/tmp/g{r}.pt")', "/tmp/g*.pt"),
        ('import tempfile, os\ntorch.save(x, os.path.join(tempfile.gettempdir(), f"g{r}.pt"))', "/tmp/g*.pt"),
        ('import os\ntorch.save(x, os.environ.get("D", "/tmp/d") + f"/g{r}.pt")', "/tmp/d/g*.pt"),
        ('torch.save(x, f"/tmp/{day}/a{r}.pt")', "/tmp/*/a*.pt"),
        # What could be anything is not guessed.
        ("torch.save(x, path)", None),
        ('torch.save(x, f"/tmp/{name}")', None),
        ('torch.save(x, f"/{name}/x.pt")', None),
        ('torch.save(x, "relative.pt")', None),
        ('torch.save(x, "/root.pt")', None),
        ("torch.save(x)", None),
        ('path = "/tmp/a.pt"\nif r:\n    path = "/tmp/b.pt"\ntorch.save(x, path)', None),
        ('for path in ("/tmp/a.pt", "/tmp/b.pt"):\n    torch.save(x, path)', None),
        ('path = "/tmp/" + path\ntorch.save(x, path)', None),
        ("import io\nbuffer = io.BytesIO()\ntorch.save(x, buffer)", None),
    ],
)
def test_what_a_dump_writes(added: str, expected: Optional[str]) -> None:
    assert _dump(added) == expected


def test_names_of_other_functions_are_not_taken() -> None:
    top = 'def other():\n    hidden = "/tmp/wrong.pt"\nDIR = "/tmp/right"\n'
    assert _dump("torch.save(x, hidden)", top) is None
    assert _dump('torch.save(x, f"{DIR}/a{r}.pt")', top) == "/tmp/right/a*.pt"
    assert (
        _dump("torch.save(x, self.where)", 'class B:\n    def f(self):\n        self.where = "/tmp/s.pt"\n')
        == "/tmp/s.pt"
    )


@pytest.mark.parametrize(
    ("added", "kind"),
    [
        ("self.n += 1", "counter"),
        ("self.n = self.n + 1", "counter"),
        ('self.n = getattr(self, "n", 0) + 1', "counter"),
        ("n = other + 1", "other"),
        ("self.n -= 1", "other"),
        ('print("x", hidden.shape)', "print"),
        ('from sys import stderr as e\ne.write("x")', "print"),
        ("breakpoint()", "breakpoint"),
        ("import pdb as p\np.set_trace()", "breakpoint"),
        ("from pdb import set_trace\nset_trace()", "breakpoint"),
        ('import os\nflag = os.environ["DBG"]', "env_read"),
        ('from os import getenv as g\nif g("DBG"):\n    pass', "env_read"),
        ('import os as o\nwhile o.environ.get("DBG"):\n    break', "env_read"),
        ("hidden = hidden * 2", "other"),
        ("x.save(1)", "other"),
    ],
)
def test_kinds(added: str, kind: str) -> None:
    kinds = {probe.kind for probe in _probes(added)}
    assert kind in kinds
    assert kinds <= {kind, "other"}


def test_changed_statements_count_and_moved_or_reformatted_ones_do_not() -> None:
    def kinds(after: str) -> list[str]:
        return [probe.code for probe in find_probes("x.py", PRISTINE.encode(), after.encode())]

    assert kinds(PRISTINE.replace("self.q(hidden)", "self.q(hidden * 2)")) == ["q = self.q(hidden * 2)"]
    assert kinds(PRISTINE.replace("positions is None", "True")) == ["if True:"]
    assert kinds("# comment\n" + PRISTINE.replace("self.q(hidden)", "self.q( hidden )")) == []
    assert kinds(PRISTINE.replace("        return self.attn(q)\n", "")) == []


def test_secrets_are_masked() -> None:
    probes = _probes('token = login(api_key="sk-abcdefghijklmnopqrstuvwxyz")')
    assert "abcdefgh" not in probes[0].code


@pytest.mark.parametrize("source", ["def (", "\0", "x = " + "(" * 5000, "if 1:\nx"])
def test_a_source_that_does_not_parse_has_none(source: str) -> None:
    assert find_probes("x.py", PRISTINE.encode(), source.encode()) == []
    assert find_probes("x.py", source.encode(), PRISTINE.encode()) == []


def test_there_is_an_end_to_them() -> None:
    assert len(_probes("\n".join(f"print({number})" for number in range(1000)))) == 200
