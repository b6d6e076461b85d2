# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state that every row begins with: an image of a host that serves and is dirty, and the index beside it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.pristine.vllm.molecule.shared import hosts
from ansible_collections.pristine.vllm.tests.faults.machine import (
    HERE,
    LABELS,
    ROOT,
    SCENARIO,
    MachineError,
    docker,
)
from ansible_collections.pristine.vllm.tests.faults.play import settings

WITH_SSH = f"pristine-vllm-faults-{hosts.CHECKOUT_ID}:ssh"
DIRTY = f"pristine-vllm-faults-{hosts.CHECKOUT_ID}:dirty"
_MADE_FROM = "pristine.vllm.faults"
_INVENTORY = ROOT / "molecule/inventory" / SCENARIO
# What the state depends on.
_SOURCES = ("molecule/shared", "playbooks", "plugins", "roles", "tests/faults/Dockerfile", "tests/fixtures")


def prepare(folder: Path) -> str:
    """Make the image of the dirty host, unless it is there for these very sources, and start the index; its name.

    :param folder: where the logs of it go.
    :raises MachineError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for script in ("dev/engine.sh", "dev/image.sh", "tests/faults/ssh.sh"):
        _run(folder, Path(script).stem, str(ROOT / script))
    labels = [word for label in LABELS for word in ("--label", label)]
    dockerfile = ("--file", str(HERE / "Dockerfile"), str(HERE / "on_host"))
    # The host's network, as in dev/image.sh: a fresh engine's bridge may have no way out.
    _run(folder, "build", "docker", "build", "--network", "host", *labels, "--tag", WITH_SSH, *dockerfile)
    wanted = fingerprint()
    _playbook(folder, "molecule/shared/create.yml", "--limit", "localhost,index")
    if _label(DIRTY) == wanted:
        return DIRTY
    host = hosts.container(SCENARIO, "vllm01")
    extra = [f"--extra-vars={name}={value}" for name, value in settings().items()]
    _playbook(folder, "molecule/shared/create.yml", f"--extra-vars=fixture_image={WITH_SSH}", "--limit=vllm_hosts")
    _playbook(folder, "molecule/shared/prepare.yml")
    _playbook(folder, "pristine.vllm.provision", *extra)
    # Not the model's configuration: with the key that SM120 cannot take, no boot would bring the service up.
    _playbook(folder, "tests/fixtures/incident/dirty.yml")
    docker("stop", host)
    changes = [word for label in (*LABELS, f"{_MADE_FROM}={wanted}") for word in ("--change", f"LABEL {label}")]
    docker("commit", *changes, host, DIRTY)
    docker("rm", "--force", host)
    return DIRTY


def tidy(folder: Path) -> None:
    """Remove the index and the network; the images stay for the next time, and `make clean` removes them.

    :raises MachineError: they cannot be removed.
    """
    _playbook(folder, "molecule/shared/destroy.yml")


def fingerprint() -> str:
    """Of everything that the state is made from."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        top = ROOT / source
        paths = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        for path in paths:
            if path.suffix != ".pyc":
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def make_key(folder: Path) -> tuple[Path, str]:
    """A key for ssh that opens the test hosts only: its path and its public half."""
    key = folder / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key, key.with_suffix(".pub").read_text(encoding="utf-8")


def _label(image: str) -> str:
    template = f'{{{{ index .Config.Labels "{_MADE_FROM}" }}}}'
    try:
        return docker("image", "inspect", "--format", template, image).strip()
    except MachineError:
        return ""


def _playbook(folder: Path, name: str, *flags: str) -> None:
    _run(folder, Path(name).stem, "ansible-playbook", "-i", str(_INVENTORY), name, *flags)


def _run(folder: Path, name: str, *words: str) -> None:
    log = folder / f"{name}.log"
    with log.open("w", encoding="utf-8") as stream:
        done = subprocess.run(words, cwd=ROOT, env=os.environ, stdout=stream, stderr=stream, check=False)
    if done.returncode:
        sys.stderr.write(log.read_text(encoding="utf-8")[-4000:])
        raise MachineError(f"{' '.join(words[:4])} ended with {done.returncode}: see above and {log}")
