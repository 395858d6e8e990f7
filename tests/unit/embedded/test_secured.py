"""Users of a development cluster: what is written for them, and who may read it."""

import stat

import pytest

from twophase.embedded import EmbeddedKafka, detached
from twophase.embedded.certificates import Authority
from twophase.embedded.secured import Secured, checked_users, write_private
from twophase.embedded.settings import DEFAULT_VERSION
from twophase.errors import ConfigurationError, SetupError


def test_users_are_checked():
    """Names that Kafka's own files cannot hold are refused; a super user is made along."""
    assert set(checked_users({"etl": "x"})) == {"admin", "etl"}
    assert "hunter2" not in repr(checked_users({"etl": "hunter2"}))
    for users, said in (
        ({"a b": "x"}, "users has the name 'a b'; allowed are letters"),
        ({"twophase-node": "x"}, "which is the nodes' own"),
        ({"etl": ""}, "users has no password for 'etl'"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            EmbeddedKafka(users=users)


def test_keys_are_readable_by_their_owner_alone(tmp_path):
    """Also a file that was there before with other rights; another cluster's are not taken."""
    users, authority = checked_users({"etl": "x"}), Authority()
    made = Secured.prepare(tmp_path / "s", users, authority)
    for path in (tmp_path / "s").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secured.prepare(tmp_path / "s", users, authority) == made
    with pytest.raises(ConfigurationError, match="holds the keys of another cluster"):
        Secured.prepare(tmp_path / "s", users, Authority())
    loose = tmp_path / "loose"
    loose.write_text("old")
    loose.chmod(0o644)
    write_private(loose, "new")
    assert (loose.read_text(), stat.S_IMODE(loose.stat().st_mode)) == ("new", 0o600)


def test_the_storage_tool_is_told_salted_passwords(tmp_path):
    """One argument a line; the login modules of PLAIN need the passwords themselves."""
    made = Secured.prepare(tmp_path, checked_users({"etl": "hunter2"}), Authority())
    lines = made.format_arguments().splitlines()
    assert lines[::2] == ["--add-scram"] * 2
    assert lines[3].startswith("SCRAM-SHA-512=[name=etl,iterations=4096,salt=")
    assert "hunter2" not in made.format_arguments()
    assert 'user_etl="hunter2"' in str(made.server_properties())


def test_what_a_cluster_does_not_have(tmp_path):
    """An unknown user, protocol or mechanism, and users where there are none."""
    made = Secured.prepare(tmp_path, checked_users({"etl": "x"}), Authority())
    for arguments in (("eve", "SSL", "PLAIN"), ("etl", "TLS", "PLAIN"), ("etl", "SSL", "MD5")):
        with pytest.raises(ConfigurationError, match="allowed are"):
            made.client_options(*arguments)
    with pytest.raises(ConfigurationError, match="give users"):
        EmbeddedKafka().client_options("etl")


def test_without_the_package_for_certificates(monkeypatch):
    """One sentence that says what to install, before anything starts."""
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(SetupError, match=r"pip install 'twophase\[secured\]'"):
        EmbeddedKafka(users={"etl": "x"})


@pytest.mark.parametrize("user", ["etl", "a b"])
def test_data_that_was_kept_is_not_deleted_for_users(user, tmp_path, monkeypatch):
    """Neither where all else is right, nor where the name is wrong."""
    monkeypatch.setattr(detached, "_folder", lambda: tmp_path)
    data = tmp_path / f"{DEFAULT_VERSION}-1" / "node-1" / "data" / "orders-0"
    data.mkdir(parents=True)
    with pytest.raises(ConfigurationError):
        detached.start(users=[user])
    assert data.exists()
