import pytest
from integration.options.certificates import Certificates, make_certificates


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Certificates:
    """Make the certificates once."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
