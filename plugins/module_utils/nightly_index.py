# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the one wheel that a pin names: kept on the host, in a per-commit nightly index, or in a folder.

The index is a tree of PEP 503 pages, ``<index>/<commit>/[<variant>/]vllm/``. A page lists the wheels of every machine,
without hashes, by links that are relative to the page's URL after redirects and in which ``+`` is ``%2B``.
Nothing but the pinned version, variant and machine will do: see https://github.com/vllm-project/vllm/issues/28340 and
42338 for what a lenient choice installs.
"""

from __future__ import annotations

import contextlib
import os
import re
import urllib.parse
from dataclasses import dataclass, field, replace
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import (
    FolderIndex,
    Index,
    as_address,
    as_path,
)
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import FetchError
from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_listing import (
    ListedWheel,
    Listing,
    NoListingError,
    list_wheels,
    read_folder,
    read_listing,
    some,
    variant_of,
    variants,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target

# What reads other indexes takes these from here.
__all__ = ["ListedWheel", "Pin", "Resolution", "find_kept", "list_wheels", "resolve"]
_NOT_LOCAL = "Nothing on this host was changed."


@dataclass(frozen=True)
class Pin:
    """What is wanted. ``sha256`` is empty when it is not known; ``variant`` is empty for the default one."""

    index_url: str
    version: str
    commit: str
    variant: str = ""
    sha256: str = ""
    target: Target = field(default_factory=Target)

    @property
    def commit_url(self) -> str:
        """The folder of the commit, where all its wheels are."""
        return f"{self.index_url.rstrip('/')}/{self.commit}/"

    @property
    def page_url(self) -> str:
        """The page that should list the wheel."""
        return f"{self.commit_url}{self.variant}/vllm/" if self.variant else f"{self.commit_url}vllm/"


@dataclass
class Resolution:
    """What was found. ``problem`` is None exactly when ``resolved``; ``offers`` is what the page lists.

    ``kept`` is the wheel's path where it needs no index; what is wrong with the index then is in ``cautions``.
    """

    resolved: bool = False
    url: Optional[str] = None
    filename: Optional[str] = None
    size: Optional[int] = None
    sha256: Optional[str] = None
    page: Optional[str] = None
    kept: Optional[str] = None
    problem: Optional[str] = None
    cautions: list[str] = field(default_factory=list)
    offers: list[str] = field(default_factory=list)


class _UnresolvedError(Exception):
    """Carries the problem up to `resolve`."""


def find_kept(pin: Pin, folder: str) -> Optional[str]:
    """The path of the pin's wheel in a folder, by its digest; None where the digest is not known or nothing has it."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    for filename in names:
        name = parse_wheel_name(filename)
        if name is None or name.name != "vllm" or canonical_version(name.version) != canonical_version(pin.version):
            continue
        path = os.path.join(folder, filename)
        try:
            if not pin.target.misfit(name) and sha256_file(path) == pin.sha256.lower():
                return path
        except OSError:
            # As good as none: the wheelhouse says what is wrong with it.
            continue
    return None


def resolve(pin: Pin, index: Optional[Index], kept: Optional[str] = None) -> Resolution:
    """Find the pinned wheel. Never raises for what an index or a pin can get wrong: that is the ``problem``.

    :param index: None where there is none to be asked.
    :param kept: the wheel itself, see `find_kept`: the index is then looked at and not needed.
    """
    found = Resolution(kept=kept)
    if as_path(pin.index_url):
        pin = replace(pin, index_url=as_address(as_path(pin.index_url) or ""))
    try:
        _check_pin(pin)
        found.filename = os.path.basename(kept) if kept else None
        found.sha256 = pin.sha256.lower() or None
        found.resolved = bool(kept)
        if index is not None:
            _look(pin, index, found)
        elif not kept:
            raise _UnresolvedError(_say(pin, "it is not kept here", "there is no index to ask", "Name vllm_index_url"))
        found.resolved = True
    except _UnresolvedError as error:
        problem = redact_urls(str(error))
        if found.resolved:
            found.cautions.append(f"{problem} The wheel is kept in {kept}, so that the index is not needed.")
            found.url = None
        else:
            found.problem = problem
    return found


def _look(pin: Pin, index: Index, found: Resolution) -> None:
    """Fill in what the index says.

    :raises _UnresolvedError: it does not have the wheel.
    """
    listing = _list(pin, index)
    found.page = listing.page
    found.offers = sorted({wheel.name.filename for wheel in listing.wheels})
    found.cautions += map(redact_urls, listing.cautions)
    if not listing.wheels:
        why = "what it holds links to none, if it is HTML at all: a proxy or a portal may answer in its place"
        if isinstance(index, FolderIndex):
            why = "there are neither the index's pages nor wheels in it"
        raise _UnresolvedError(_say(pin, f"{found.page} lists no vllm wheels", why))
    wheel = choose(pin, listing, index)
    found.url, found.filename = wheel.url, wheel.name.filename
    found.sha256 = wheel.sha256 or found.sha256
    found.size = _probe(pin, wheel, index)


def choose(pin: Pin, listing: Listing, index: Index) -> ListedWheel:
    """The wheel of exactly this version (local part included) for this machine, C library and Python.

    :raises _UnresolvedError: there is none, or its digest is another one, with what there is.
    """
    where = listing.page
    wanted = canonical_version(pin.version)
    same = [wheel for wheel in listing.wheels if canonical_version(wheel.name.version) == wanted]
    if not same:
        versions = some({wheel.name.version for wheel in listing.wheels})
        what = f"{where} does not list that version"
        raise _UnresolvedError(_say(pin, what, f"it lists {versions}", "Pin one of those or fix it"))
    fitting = [wheel for wheel in same if not pin.target.misfit(wheel.name)]
    if not fitting:
        raise _UnresolvedError(_say_misfit(pin, where, same))
    digests = [_digest(wheel, index) for wheel in fitting]
    for wheel, digest in zip(fitting, digests):
        if not pin.sha256 or digest == pin.sha256.lower():
            return replace(wheel, sha256=digest)
    for wheel, digest in zip(fitting, digests):
        if digest is None:
            return wheel
    who = "the file has" if isinstance(index, FolderIndex) else "the index says"
    why = f"{who} {digests[0]}, the pin says {pin.sha256.lower()}"
    raise _UnresolvedError(_say(pin, f"{fitting[0].url} has another sha256", why, "Find out which of the two is wrong"))


def _digest(wheel: ListedWheel, index: Index) -> Optional[str]:
    """What the index tells, or the file of a folder has; None where only fetching it would tell."""
    if not isinstance(index, FolderIndex):
        return wheel.sha256
    try:
        return index.sha256(wheel.url)
    except FetchError:
        return None


def _say_misfit(pin: Pin, where: str, same: list[ListedWheel]) -> str:
    """Nothing of that version fits: say what comes closest to it, and what there is."""
    reasons = {pin.target.misfit(wheel.name) for wheel in same}
    if "python" in reasons:
        tags = some({f"{wheel.name.python_tag}-{wheel.name.abi_tag}" for wheel in same})
        python = ".".join(map(str, pin.target.python or ()))
        next_step = "Set vllm_python to an interpreter that one of them is for, or pin another wheel"
        return _say(
            pin, f"{where} has no wheel for Python {python}", f"the version is there for {tags} only", next_step
        )
    tags = some({wheel.name.platform_tag for wheel in same})
    why = f"the version is there for {tags} only"
    if "glibc" in reasons:
        glibc = ".".join(map(str, pin.target.glibc or ()))
        what = f"{where} has no wheel for the C library of the host, glibc {glibc}"
        return _say(pin, what, why, "Pin a wheel that was built for it, or use a newer system")
    return _say(pin, f"{where} has no wheel for Linux on {pin.target.machine}", why)


def _check_pin(pin: Pin) -> None:
    server = urllib.parse.urlsplit(pin.index_url).scheme in ("http", "https")
    if pin.index_url and not server and not as_path(pin.index_url):
        what = f"index_url {pin.index_url!r} is no http(s) address and no absolute path"
        raise _UnresolvedError(_say(pin, what, "the index cannot be asked"))
    if not re.fullmatch(r"[0-9a-f]{40}", pin.commit):
        why = f"it has {len(pin.commit)} characters, and the index knows full commits only"
        raise _UnresolvedError(
            _say(pin, f"commit {pin.commit!r} is not 40 lower-case hexadecimal digits", why, "Pin the full commit")
        )
    if pin.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", pin.sha256):
        raise _UnresolvedError(_say(pin, f"sha256 {pin.sha256!r} is not 64 hexadecimal digits", "no wheel can have it"))
    if not re.fullmatch(r"[A-Za-z0-9._-]*", pin.variant) or pin.variant in (".", ".."):
        raise _UnresolvedError(_say(pin, f"variant {pin.variant!r} is no variant's name", "it would leave the index"))
    # setuptools-scm's local part: the g and the start of the commit's hash.
    short = re.search(r"\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)", pin.version.lower())
    if short and not pin.commit.startswith(short[1]):
        why = f"the version was built from {short[1]}..., the pinned commit is {pin.commit}"
        raise _UnresolvedError(_say(pin, "version and commit contradict each other", why, "Fix one of the two"))


def _list(pin: Pin, index: Index) -> Listing:
    """What lists the pin's wheels, wherever the index keeps it.

    :raises _UnresolvedError: nothing does, with what is there instead.
    """
    try:
        return read_listing(index, pin.page_url, pin.commit_url)
    except NoListingError as error:
        if error.unreachable:
            what, next_step = (
                f"the index {pin.page_url} cannot be read",
                "Check the network, the proxy and vllm_index_url",
            )
            raise _UnresolvedError(_say(pin, what, error.reason, next_step)) from error
        if not error.absent:
            what = f"{error.page} is no index page"
            raise _UnresolvedError(_say(pin, what, error.reason, "Check vllm_index_url and any proxy")) from error
        if isinstance(index, FolderIndex):
            return _list_folder(pin, index, error)
        raise _UnresolvedError(_say_absent(pin, index, error)) from error


def _list_folder(pin: Pin, index: FolderIndex, error: NoListingError) -> Listing:
    """The wheels of a folder that has no pages: those of the commit's folder, else its own."""
    listing = None
    with contextlib.suppress(NoListingError):
        listing = read_folder(index, pin.commit_url)
    if listing and _versions(f"{pin.commit_url}vllm/", pin, index):
        # It is laid out as the index: what its pages do not know is not there.
        raise _UnresolvedError(_say_absent(pin, index, error))
    try:
        listing = listing or read_folder(index, pin.index_url.rstrip("/") + "/")
    except NoListingError as problem:
        what, next_step = f"the index folder {problem.page} cannot be read", "Mount it or check vllm_index_url"
        raise _UnresolvedError(_say(pin, what, problem.reason, next_step)) from problem
    mine = [wheel for wheel in listing.wheels if variant_of(wheel.name.version) == pin.variant]
    if listing.wheels and not mine:
        what = f"{listing.page} holds no wheel of " + (
            f"variant {pin.variant}" if pin.variant else "the default variant"
        )
        raise _UnresolvedError(_say(pin, what, f"it holds {some(wheel.name.filename for wheel in listing.wheels)}"))
    return replace(listing, wheels=mine)


def _say_absent(pin: Pin, index: Index, error: NoListingError) -> str:
    if pin.variant:
        names = [name or "vllm" for name in variants(index, pin.commit_url)]
        plain = replace(pin, variant="")
        offered = [f"variant {name}" for name in names if name != "vllm"]
        if "vllm" in names or _versions(plain.page_url, plain, index):
            offered.insert(0, "the default variant")
        if offered:
            why = f"{error.reason}, while the commit has {some(offered)}"
            next_step = "Pin a variant that was built for this commit, or a commit that has it; none is chosen for you"
            return _say(pin, f"the index has no variant {pin.variant!r} of this commit", why, next_step)
    nightly = _versions(f"{pin.index_url.rstrip('/')}/nightly/vllm/", pin, index)
    moved = f", and its nightly folder is at {some(nightly)} now" if nightly else ""
    next_step = "Check the commit; if its wheels were removed, pin a commit that is still there"
    return _say(pin, f"the index has nothing for commit {pin.commit}", error.reason + moved, next_step)


def _versions(page: str, pin: Pin, index: Index) -> set[str]:
    try:
        return {wheel.name.version for wheel in read_listing(index, page, pin.commit_url).wheels}
    except NoListingError:
        return set()


def _probe(pin: Pin, wheel: ListedWheel, index: Index) -> Optional[int]:
    """The wheel's size in bytes, or None where the server does not tell.

    :raises _UnresolvedError: the index lists the wheel and does not have it.
    """
    try:
        return index.probe(wheel.url).length
    except FetchError as error:
        what = f"the index lists {wheel.name.filename} and does not deliver it"
        next_step = "Use a copy of the wheel (the wheelhouse of another host has one) or pin another commit"
        raise _UnresolvedError(_say(pin, what, f"{wheel.url} answers {error.reason}", next_step)) from error


def _say(pin: Pin, what: str, why: str, next_step: str = "Check vllm_index_url, vllm_version and vllm_commit") -> str:
    variant = f", variant {pin.variant}" if pin.variant else ""
    about = f"vllm {pin.version} ({pin.target.machine}{variant})"
    return f"{about} cannot be had: {what}: {why}. {next_step}. {_NOT_LOCAL}"
