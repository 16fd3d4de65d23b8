# SPDX-License-Identifier: Apache-2.0
"""What all tests of the package have in common: how many examples Hypothesis tries, and from which seed; and the
credentials of secure sums."""

import os
import pathlib

import hypothesis
import keys as credentials_of
import pytest

SEED = int(os.environ.get("TARRY_TEST_SEED", "1"))
LONG = bool(os.environ.get("TARRY_TEST_LONG"))
FULL = LONG or bool(os.environ.get("TARRY_TEST_FULL"))  # every case of a kind; else one or two that differ most

hypothesis.settings.register_profile(
    "tarry",
    max_examples=10_000 if LONG else 200,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("tarry")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same examples each time, unless TARRY_TEST_SEED has another seed; and time for the long form."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = SEED
    if LONG:
        config.option.timeout = 3600.0


def pytest_report_header() -> str:
    return f"TARRY_TEST_SEED={SEED}{', the long form' if LONG else ''}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return credentials_of.make_secure_cluster(
        tmp_path_factory.mktemp("keys") / "cluster", credentials_of.SECURE_WORKERS
    )


@pytest.fixture
def keys(authority: pathlib.Path) -> pathlib.Path:
    """Of workers that have agreed to nothing yet."""
    credentials_of.forget_agreements(authority)
    return authority
