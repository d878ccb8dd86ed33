"""Who we are to ZooKeeper, and what of it is printed."""

from __future__ import annotations

import pytest

from groundwork.options import OptionError, Secret
from groundwork.tlscontext import TlsUnusable, plain_tls
from groundwork.zksecurity import OPEN, Tls, ZkSecurity
from zkconsumer.options.config import ConsumerConfig, load_consumer

NEEDED = {"group.id": "g", "zookeeper.connect": "zk:2181", "auto.offset.reset": "smallest"}


def config(**options: object) -> ConsumerConfig:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return load_consumer(ConsumerConfig, {**NEEDED, **given}, "test")


def test_nothing_is_told_to_an_open_zookeeper():
    assert config().security == OPEN
    assert OPEN.for_kazoo() == {}


def test_an_identity_is_read_and_its_password_may_hold_colons():
    access = config(zookeeper_auth=" digest:mirror:sec:ret ", zookeeper_set_acl=True).security
    assert access == ZkSecurity(Secret("digest:mirror:sec:ret"), set_acl=True)
    told = access.for_kazoo()
    assert told["auth_data"] == [("digest", "mirror:sec:ret")]
    assert [(acl.id.scheme, acl.perms) for acl in told["default_acl"]] == [("auth", 31), ("world", 1)]


@pytest.mark.parametrize("wrong", ["mirror:sec-ret", "digest:sec-ret", "digest:mirror:", "sasl:mirror:sec-ret", 7])
def test_what_is_no_identity_is_refused_without_printing_it(wrong):
    with pytest.raises(OptionError, match=r"'zookeeper.auth' is \*\*\*, expected digest:USER:PASSWORD") as caught:
        config(zookeeper_auth=wrong)
    assert "sec-ret" not in str(caught.value)


def test_passwords_are_masked_in_every_form_of_the_configuration():
    secret = config(
        zookeeper_auth="digest:mirror:sec-ret",
        zookeeper_ssl_client_enable=True,
        zookeeper_ssl_key_location="/k",
        zookeeper_ssl_certificate_location="/c",
        zookeeper_ssl_key_password="pass-word",
    )
    printed = f"{secret!r} {secret} {secret.security!r} {secret.zookeeper_auth}"
    assert "sec-ret" not in printed
    assert "pass-word" not in printed
    assert "***" in printed


def test_closed_nodes_need_an_identity():
    with pytest.raises(OptionError, match=r"'zookeeper\.set\.acl' needs 'zookeeper\.auth'"):
        config(zookeeper_set_acl=True)


def test_files_of_tls_without_tls_are_refused():
    with pytest.raises(OptionError, match="nothing would be TLS"):
        config(zookeeper_ssl_ca_location="/ca.pem")


def test_a_key_without_a_certificate_is_refused():
    with pytest.raises(OptionError, match=r"'zookeeper\.ssl\.key\.location' needs"):
        config(zookeeper_ssl_client_enable=True, zookeeper_ssl_key_location="/k.pem")


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(TlsUnusable, match=r"/nowhere/ca\.pem cannot be used"):
        Tls(ca="/nowhere/ca.pem").context(plain_tls)
