"""TLS and SASL of links: against TLS servers and logins made here."""

from __future__ import annotations

import pickle
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from groundwork import tasks
from groundwork.connecting import connect
from groundwork.options import Secret
from groundwork.threads import NoThread
from groundwork.tlscontext import TlsUnusable
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, SecurityRefused
from kafkawire.model import Broker, TopicPartition
from kafkawire.net import security as module
from kafkawire.net.link import Link, SecurityFailure
from kafkawire.net.sasl import Unexpected, scram
from kafkawire.net.security import OPEN, Sasl, Security
from kafkawire.net.tls import Tls
from kafkawire.protocol import requests08 as requests
from localkafka.certificates import PASSWORD, Authority, Identity
from localkafka.waiting import wait_until
from tests.fakes.broker import FakeCluster, Wait, entry
from tests.fakes.front import Front, server_context

D = dialect("0.8.2")
TP = TopicPartition("t", 0)
METADATA = requests.metadata(D, None)
USERS = {"a,n=n": "p=w,ü"}
USER, WORD = next(iter(USERS.items()))
token_ends_in_s = 60.0
tokens: list[str] = []


def a_token(config: str) -> tuple[str, float]:
    tokens.append(config)
    return "good", time.time() + token_ends_in_s


def another_token(config: str) -> tuple[str, float]:
    return "bad", time.time() + 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.issue("server")


@pytest.fixture(scope="module")
def ours(authority: Authority) -> Identity:
    return authority.issue("client")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 1}) as made:
        yield made


def trusting(authority: Authority, **more: Any) -> Security:
    return Security(protocol="SSL", tls=Tls(ca=str(authority.certificate), **more))


@contextmanager
def linked(front: Front, security: Security, timeout_ms: int = 5000) -> Iterator[Link]:
    link = Link(front.broker, "me", security.connect(), timeout_ms)
    yield link
    link.close()


def refused(front: Front | Broker, security: Security, timeout_ms: int = 5000) -> str:
    """The sentence of a link that cannot be used, however often it is asked."""
    broker = front.broker if isinstance(front, Front) else front
    link = Link(broker, "me", security.connect(), timeout_ms)
    with pytest.raises(SecurityRefused) as said:
        link.call(METADATA)
    with pytest.raises(SecurityRefused):
        link.call(METADATA)
    assert str(said.value).startswith(f"{broker}: ")
    return str(said.value)


# ---- TLS -------------------------------------------------------------------------------------------------------------


def test_large_sets_go_both_ways(cluster: FakeCluster, authority: Authority, server: Identity) -> None:
    entries = [entry(bytes([n]) * 900_000) for n in range(8)] + [entry(b"%d" % n) for n in range(2000)]
    with Front(cluster.ports[1], context=server_context(server)) as front, linked(front, trusting(authority)) as link:
        produced = link.call(requests.produce(D, 1, 1000, {TP: entries}))
        assert produced[TP].stored
        (fetched,) = link.call(requests.fetch(D, 10, 1, [(TP, 0, 1 << 24)]))
        assert bytes(fetched.buffer) == b"".join(entry_ for _, entry_ in cluster.logs["t", 0].entries)
        assert not link.closed_by_peer()


def test_replies_that_wait_inside_tls_are_no_silence(
    cluster: FakeCluster, authority: Authority, server: Identity
) -> None:
    with (
        Front(cluster.ports[1], context=server_context(server)) as front,
        linked(front, trusting(authority), 2000) as link,
    ):
        for _ in range(50):
            link.send(METADATA)
        cluster.wait(lambda: len(cluster.seen("metadata")) == 50)
        time.sleep(0.2)  # all have come: what is read in one go holds several
        assert [link.receive().request.api.name for _ in range(50)] == ["Metadata"] * 50


def test_a_peer_that_trickles_is_no_silence(cluster: FakeCluster, authority: Authority, server: Identity) -> None:
    """The response takes longer than the time-out, and no gap in it does, also where the peer's thread has to wait."""
    cluster.append("t", 0, entry(bytes(3500)))
    with (
        Front(cluster.ports[1], context=server_context(server), step=7) as front,
        linked(front, trusting(authority), 2000) as link,
    ):
        began = time.monotonic()
        (fetched,) = link.call(requests.fetch(D, 10, 1, [(TP, 0, 1 << 20)]))
        assert bytes(fetched.buffer) == entry(bytes(3500))
        assert time.monotonic() - began > 2.0


def test_a_greenlet_sends_while_another_receives(cluster: FakeCluster, authority: Authority, server: Identity) -> None:
    cluster.append("t", 0, entry(bytes(700_000)))
    got: list[int] = []
    with Front(cluster.ports[1], context=server_context(server)) as front:
        link = Link(front.broker, "me", trusting(authority).connect(tasks.connect), 10_000)
        link.open()

        def sending() -> None:
            for _ in range(20):
                link.send(requests.produce(D, 1, 1000, {TP: [entry(bytes(300_000))]}))
                link.send(requests.fetch(D, 10, 1, [(TP, 0, 800_000)]))
                tasks.sleep(0.001)

        group = tasks.TaskGroup()
        sender = group.spawn("sender", sending)
        while len(got) < 40:
            tasks.sleep(0)
            if link.outstanding:
                got.append(link.receive().request.api.key)
        sender.join(10)
        link.close()
    assert got == [0, 1] * 20


def test_a_connection_that_breaks_is_lost_for_who_sends_and_who_receives(
    cluster: FakeCluster, authority: Authority, server: Identity
) -> None:
    release = threading.Event()
    cluster.script("metadata", Wait(release))
    ended: list[BaseException] = []

    def until_lost(work: Callable[[], object]) -> None:
        try:
            while True:
                work()
                tasks.sleep(0.001)
        except BaseException as error:
            ended.append(error)

    with Front(cluster.ports[1], context=server_context(server)) as front:
        link = Link(front.broker, "me", trusting(authority).connect(tasks.connect), 10_000)
        link.send(METADATA)
        group = tasks.TaskGroup()
        receiver = group.spawn("receiver", until_lost, link.receive)
        tasks.sleep(0.05)
        front.reset()
        large = requests.produce(D, 0, 1000, {TP: [entry(bytes(900_000))]})
        sender = group.spawn("sender", until_lost, lambda: link.send(large))
        assert receiver.join(10)
        assert sender.join(10)
        release.set()
        link.close()
    assert [type(error) for error in ended] == [LinkLost, LinkLost], ended


def test_the_other_sides_end_is_seen(cluster: FakeCluster, authority: Authority, server: Identity) -> None:
    with Front(cluster.ports[1], context=server_context(server)) as front, linked(front, trusting(authority)) as link:
        link.call(METADATA)
        front.__exit__()
        until = time.monotonic() + 5
        while not link.closed_by_peer() and time.monotonic() < until:
            time.sleep(0.001)
        with pytest.raises(LinkLost, match=r"closed the connection|EOF|reset"):
            link.call(METADATA)


def test_what_is_wrong_with_the_servers_certificate_is_one_sentence(
    cluster: FakeCluster, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    cases: list[tuple[Identity, Security, str]] = [
        (other.issue("foreign"), trusting(authority), f"not signed by any of ssl.ca.location {authority.certificate}"),
        (authority.issue("old", expired=True), trusting(authority), "has expired"),
        (
            authority.issue("elsewhere", "DNS:kafka.example.org"),
            trusting(authority),
            "does not name the host 127.0.0.1 .*ssl.endpoint.identification.algorithm: none",
        ),
    ]
    for identity, security, sentence in cases:
        with Front(cluster.ports[1], context=server_context(identity)) as front:
            said = refused(front, security)
            assert re.search(sentence, said), said
    with Front(cluster.ports[1], context=server_context(cases[2][0])) as front:
        unchecked = trusting(authority, host_check=False)
        with linked(front, unchecked) as link:
            assert link.call(METADATA)["brokers"]


def test_a_broker_that_asks_for_a_client_certificate_is_told_ours(
    cluster: FakeCluster, authority: Authority, server: Identity, ours: Identity, tmp_path: Path
) -> None:
    context = server_context(server, str(authority.certificate))
    stranger = Authority(tmp_path, "other").issue("stranger")
    with Front(cluster.ports[1], context=context) as front:
        mine = trusting(authority, certificate=str(ours.certificate), key=str(ours.locked), password=Secret(PASSWORD))
        with linked(front, mine) as link:
            assert link.call(METADATA)["brokers"]
        assert "give ssl.certificate.location and ssl.key.location" in refused(front, trusting(authority))
        foreign = trusting(authority, certificate=str(stranger.certificate), key=str(stranger.key))
        assert f"refuses our client certificate, ssl.certificate.location {stranger.certificate}" in refused(
            front, foreign
        )


def test_a_server_of_an_older_tls_is_named_as_that(
    cluster: FakeCluster, authority: Authority, server: Identity
) -> None:
    context = server_context(server)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Front(cluster.ports[1], context=context) as front:
        assert "ssl.min.version" in refused(front, trusting(authority, min_version="TLSv1.3"))
        with linked(front, trusting(authority)) as link:
            assert link.call(METADATA)["brokers"]


def test_what_is_no_tls_is_named_as_that(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answering() -> None:
            opened, _ = listener.accept()
            with opened:
                opened.recv(1000)
                opened.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answering)
        thread.start()
        said = refused(Broker(1, *listener.getsockname()), trusting(authority))
        thread.join(5)
    assert "does not answer in TLS" in said


@pytest.mark.parametrize("closes", [True, False])
def test_a_handshake_without_an_answer_ends_in_time(authority: Authority, closes: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = Link(Broker(1, *listener.getsockname()), "me", trusting(authority).connect(), 300)
        kept: list[socket.socket] = []

        def accepting() -> None:
            kept.append(listener.accept()[0])
            if closes:
                kept[0].recv(1000)
                kept[0].close()

        thread = threading.Thread(target=accepting)
        thread.start()
        began = time.monotonic()
        with pytest.raises(LinkLost, match=r"TLS handshake: it .*security.protocol PLAINTEXT") as lost:
            link.call(METADATA)
        assert not isinstance(lost.value, SecurityRefused)  # a broker that goes down does the same
        assert time.monotonic() - began < 5
        thread.join(5)
        kept[0].close()


def test_certificates_that_were_replaced_count_from_the_next_connection_on(
    cluster: FakeCluster, authority: Authority, server: Identity, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "other")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(other.certificate.read_bytes())
    with Front(cluster.ports[1], context=server_context(server)) as front:
        connect = Security(protocol="SSL", tls=Tls(ca=str(ca))).connect()
        with pytest.raises(SecurityRefused, match="not signed by any"):
            Link(front.broker, "me", connect, 5000).call(METADATA)
        ca.write_text("half a file")
        with pytest.raises(SecurityRefused, match="not signed by any"):
            Link(front.broker, "me", connect, 5000).call(METADATA)
        ca.write_bytes(authority.certificate.read_bytes() + b"\n")
        link = Link(front.broker, "me", connect, 5000)
        assert link.call(METADATA)["brokers"]
        link.close()


def test_a_disk_that_holds_certificates_and_does_not_answer_holds_up_one_connection(
    cluster: FakeCluster, authority: Authority, server: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, stamps = threading.Event(), Tls.stamps

    def waiting(tls: Tls) -> tuple[tuple[int, int], ...]:
        assert answers.wait(20)
        return stamps(tls)

    group = tasks.TaskGroup()
    with Front(cluster.ports[1], context=server_context(server)) as front:
        connect = Security(protocol="SSL", tls=Tls(ca=str(authority.certificate))).connect(tasks.connect)
        monkeypatch.setattr(Tls, "stamps", waiting)
        first, other = (Link(front.broker, "me", connect, 5000) for _ in range(2))
        held_up = group.spawn("first", first.call, METADATA)
        tasks.sleep(0.01)
        assert other.call(METADATA)["brokers"]
        assert not held_up.ended
        answers.set()
        assert held_up.join(10)
        assert group.death is None
        first.close()
        other.close()
    group.stop(1.0)


def test_a_connection_goes_on_with_the_certificates_that_were_read_where_their_disk_does_not_answer(
    cluster: FakeCluster,
    authority: Authority,
    server: Identity,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first connection waited for the disk without end, and with it the partitions of its broker."""
    answers, stamps, looks = threading.Event(), Tls.stamps, list[int]()

    def waiting(tls: Tls) -> tuple[tuple[int, int], ...]:
        looks.append(1)
        assert answers.wait(20)
        return stamps(tls)

    monkeypatch.setattr(module, "LOOK_S", 0.05)
    with Front(cluster.ports[1], context=server_context(server)) as front:
        connect = Security(protocol="SSL", tls=Tls(ca=str(authority.certificate))).connect(tasks.connect)
        monkeypatch.setattr(Tls, "stamps", waiting)
        for _ in range(2):
            link = Link(front.broker, "me", connect, 5000)
            assert link.call(METADATA)["brokers"]
            link.close()
        [line] = [record.getMessage() for record in caplog.records if "TLS" in record.getMessage()]
        assert line == (
            f"TLS: could not read {authority.certificate} within 0.05 s; connections use the files as last read"
        )
        assert len(looks) == 1
        answers.set()
        wait_until(lambda: not connect._looking, 10, "the look to end")  # type: ignore[attr-defined]
        link = Link(front.broker, "me", connect, 5000)
        assert link.call(METADATA)["brokers"]
        link.close()
        assert len(looks) == 2


def test_a_login_waits_for_its_token_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(module, "TOKEN_S", 0.05)
    monkeypatch.setattr(module, "load_callback", lambda named: lambda config: answers.wait(20))
    tokens = module.Tokens(Sasl("OAUTHBEARER", callback="m:f"), tasks.connect.in_thread)
    with pytest.raises(SecurityFailure, match=r"callback failed: TimeoutError: it took longer than 0\.05 s"):
        tokens.token()
    answers.set()


def test_where_no_thread_can_look_at_certificates_those_that_were_read_count(
    cluster: FakeCluster, authority: Authority, server: Identity
) -> None:
    def refuse(*_: object, within_s: float | None = None) -> None:
        raise NoThread("no further thread can be started")

    def base(address: tuple[str, int], timeout: float | None = None) -> Any:
        return socket.create_connection(address, timeout)

    base.in_thread = refuse  # type: ignore[attr-defined]
    with Front(cluster.ports[1], context=server_context(server)) as front:
        connect = Security(protocol="SSL", tls=Tls(ca=str(authority.certificate))).connect(base)
        link = Link(front.broker, "me", connect, 5000)
        assert link.call(METADATA)["brokers"]
        link.close()


def test_files_that_cannot_be_used_are_named_with_their_option(
    authority: Authority, ours: Identity, server: Identity, tmp_path: Path
) -> None:
    store, text = tmp_path / "trust.jks", tmp_path / "text.pem"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0")
    text.write_text("nothing")
    mine = {"certificate": str(ours.certificate)}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ca": "/nowhere/ca.pem"}, "ssl.ca.location /nowhere/ca.pem cannot be read: No such file"),
        ({"ca": str(store)}, "is a Java keystore, PEM is expected"),
        ({"ca": str(ours.store)}, "is PKCS12 or DER, PEM is expected"),
        ({"ca": str(text)}, f"ssl.ca.location {text} has no certificates in PEM"),
        (mine | {"key": str(ours.locked)}, "does the key need ssl.key.password"),
        (mine | {"key": str(ours.locked), "password": Secret("wrong")}, "is ssl.key.password right"),
        (mine | {"key": str(server.key)}, f"ssl.key.location {server.key} is not the key of"),
        (mine | {"key": str(text), "ca": str(authority.certificate)}, "cannot be used"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(TlsUnusable) as said:
            Security(protocol="SSL", tls=Tls(**arguments)).connect()
        assert sentence in str(said.value)


# ---- SASL ------------------------------------------------------------------------------------------------------------


def logging_in(mechanism: str, user: str = USER, password: str = WORD, callback: str = "a_token") -> Security:
    if mechanism == "OAUTHBEARER":
        sasl = Sasl(mechanism, callback=f"{__name__}:{callback}", config=Secret("the config"))
        return Security(protocol="SASL_PLAINTEXT", sasl=sasl)
    return Security(protocol="SASL_PLAINTEXT", sasl=Sasl(mechanism, user, Secret(password)))


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_logs_in_and_a_wrong_login_is_one_sentence(cluster: FakeCluster, mechanism: str) -> None:
    with Front(cluster.ports[1], users=USERS) as front:
        with linked(front, logging_in(mechanism)) as link:
            assert link.call(METADATA)["brokers"]
            assert link.call(METADATA)["brokers"]
        assert front.logins == 1
        said = refused(front, logging_in(mechanism, password="wrong", callback="another_token"))
        whose = " of 'a,n=n'" if mechanism != "OAUTHBEARER" else ""
        assert f"it refuses the login{whose} by {mechanism}: no such login" in said
        assert front.broken == []


def test_a_broker_at_a_host_that_is_not_listed_is_told_nothing(cluster: FakeCluster) -> None:
    open_to_all = logging_in("PLAIN")
    assert open_to_all.sasl is not None
    with Front(cluster.ports[1], users=USERS) as front:
        elsewhere = replace(open_to_all, sasl=replace(open_to_all.sasl, hosts=(".example.com",)))
        with (
            linked(front, elsewhere) as link,
            pytest.raises(LinkLost, match=r"sasl\.hosts does not list this host") as lost,
        ):
            link.call(METADATA)
        assert not isinstance(lost.value, SecurityRefused)  # a stranger's broker ends no start
        assert front.logins == 0
        with linked(front, replace(open_to_all, sasl=replace(open_to_all.sasl, hosts=("127.0.0.1",)))) as link:
            assert link.call(METADATA)["brokers"]


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_brokers_before_1_0_take_bare_tokens(cluster: FakeCluster, mechanism: str) -> None:
    with Front(cluster.ports[1], users=USERS, v0=True) as front:
        with linked(front, logging_in(mechanism)) as link:
            assert link.call(METADATA)["brokers"]
        said = refused(front, logging_in(mechanism, password="wrong"))
        assert f"closes the connection on the login of 'a,n=n' by {mechanism}; are sasl.username and" in said


def test_tls_and_login_go_together(cluster: FakeCluster, authority: Authority, server: Identity) -> None:
    security = Security(
        protocol="SASL_SSL", tls=Tls(ca=str(authority.certificate)), sasl=Sasl("SCRAM-SHA-512", USER, Secret(WORD))
    )
    with Front(cluster.ports[1], context=server_context(server), users=USERS) as front, linked(front, security) as link:
        assert link.call(METADATA)["brokers"]


def test_a_mechanism_that_is_not_there_is_named_with_those_that_are(cluster: FakeCluster) -> None:
    with Front(cluster.ports[1], users=USERS, mechanisms=("PLAIN", "GSSAPI")) as front:
        said = refused(front, logging_in("SCRAM-SHA-256"))
    assert (
        "this listener does not accept sasl.mechanism SCRAM-SHA-256; it offers GSSAPI, PLAIN: "
        "set sasl.mechanism to PLAIN" in said
    )


def test_a_server_that_does_not_know_the_password_is_none_of_ours(cluster: FakeCluster) -> None:
    with Front(cluster.ports[1], users=USERS, proves=False) as front:
        assert "cannot prove that it knows our password" in refused(front, logging_in("SCRAM-SHA-256"))


def test_a_broker_without_an_answer_to_the_login_is_no_hang() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = Link(Broker(1, *listener.getsockname()), "me", logging_in("PLAIN").connect(), 200)
        with pytest.raises(LinkLost, match="no answer to the login by PLAIN in time"):
            link.call(METADATA)


def test_a_token_serves_several_connections_until_most_of_its_time_is_over(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = logging_in("OAUTHBEARER")
    tokens.clear()
    with Front(cluster.ports[1], users=USERS) as front:
        connect = security.connect()
        for _ in range(3):
            link = Link(front.broker, "me", connect, 5000)
            link.call(METADATA)
            link.close()
        assert tokens == ["the config"]
        monkeypatch.setitem(globals(), "token_ends_in_s", -5.0)
        with (
            linked(front, security) as link,
            pytest.raises(LinkLost, match=r"sasl.oauthbearer.callback expired 5 s ago"),
        ):
            link.call(METADATA)
        raising = Security(protocol="SASL_PLAINTEXT", sasl=Sasl("OAUTHBEARER", callback=f"{__name__}:trusting"))
        with linked(front, raising) as link, pytest.raises(LinkLost, match=r"callback failed: .*Error"):
            link.call(METADATA)


def slow_token(config: str) -> tuple[str, float]:
    time.sleep(0.3)
    return "good", time.time() + 60


def test_a_callback_that_blocks_holds_up_no_greenlet(cluster: FakeCluster) -> None:
    turns: list[float] = []

    def turning() -> None:
        while True:
            turns.append(time.monotonic())
            tasks.sleep(0.01)

    group = tasks.TaskGroup()
    group.spawn("turns", turning)
    with Front(cluster.ports[1], users=USERS) as front:
        connect = logging_in("OAUTHBEARER", callback="slow_token").connect(partial(tasks.connect))
        link = Link(front.broker, "me", connect, 5000)
        link.call(METADATA)
        link.close()
    group.stop(1.0)
    assert max(after - before for before, after in pairwise(turns)) < 0.25
    assert len(turns) > 10


def test_a_login_is_renewed_with_nothing_in_flight_and_nothing_is_lost(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sends as fast as it may while another receives; each login of two seconds is renewed early, thrice."""
    monkeypatch.setattr("kafkawire.net.security.LOGIN_AGAIN", (0.1, 0.2))
    got: list[bytes] = []
    with Front(cluster.ports[1], users=USERS, lifetime_ms=2000) as front:
        link = Link(front.broker, "me", logging_in("SCRAM-SHA-256").connect(tasks.connect), 10_000)
        link.open()
        sent = 0
        until = time.monotonic() + 60
        done = tasks.Event()

        def sending() -> None:
            nonlocal sent
            while front.logins < 4 and time.monotonic() < until:
                while link.outstanding > 4:
                    tasks.sleep(0.0005)
                link.send(requests.produce(D, 1, 1000, {TP: [entry(b"%d" % sent)]}))
                sent += 1
            done.set()

        group = tasks.TaskGroup()
        group.spawn("sender", sending)
        while not done.is_set() or link.outstanding:
            if link.outstanding:
                reply = link.receive()
                got.append(reply.body[TP].base_offset)
            else:
                tasks.sleep(0)
        link.close()
        assert front.logins >= 4
        assert front.broken == []
    assert got == list(range(sent))
    assert cluster.values("t", 0) == [b"%d" % n for n in range(sent)]


@pytest.mark.thorough
def test_a_login_of_a_link_that_was_idle_is_renewed_before_the_next_request(cluster: FakeCluster) -> None:
    with Front(cluster.ports[1], users=USERS, lifetime_ms=1000) as front:
        link = Link(front.broker, "me", logging_in("PLAIN").connect(), 5000)
        for _ in range(3):
            link.send(requests.produce(D, 0, 1000, {TP: [entry(b"v")]}))  # has no response
            time.sleep(1.1)
        cluster.wait(lambda: len(cluster.values("t", 0)) == 3)
        link.close()
        assert front.logins == 3
        assert not [what for what in front.broken if "without a login" in what]


def test_scram_as_rfc_7677_has_it() -> None:
    talk = scram("SCRAM-SHA-256", "user", "pencil", nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    assert next(talk) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    nonce = first.partition(b",")[0]
    assert talk.send(first) == b"c=biws," + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    with pytest.raises(StopIteration):
        talk.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "a nonce that does not continue ours"),
        (b"r=ours,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "a nonce that does not continue ours"),
        (b"r=ours2,s=!,i=4096", "without a salt"),
        (b"r=ours2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "requires 1 iterations"),
        (b"r=ours2,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001", "requires 1000001 iterations of SCRAM; 4096 to 1000000 are"),
        (b"\xff", "bytes that are not text"),
        (b"e=other-error", "refuses the login: other-error"),
    ],
)
def test_scram_takes_no_answer_that_cannot_be_right(answer: bytes, why: str) -> None:
    talk = scram("SCRAM-SHA-256", "user", "pencil", nonce=lambda: "ours")
    next(talk)
    with pytest.raises(Unexpected, match=why):
        talk.send(answer)


# ---- values ----------------------------------------------------------------------------------------------------------


def test_a_security_can_be_pickled_and_shows_no_secret(authority: Authority) -> None:
    made = Security(
        protocol="SASL_SSL",
        tls=Tls(ca=str(authority.certificate), password=Secret("hidden")),
        sasl=Sasl("PLAIN", "ann", Secret("hidden"), config=Secret("hidden")),
    )
    assert pickle.loads(pickle.dumps(made)) == made
    assert "hidden" not in repr(made)
    assert pickle.loads(pickle.dumps(OPEN)).connect() is connect


def test_without_tls_and_login_nothing_changes() -> None:
    def base(address: tuple[str, int], timeout: float) -> Any:
        raise AssertionError

    connect: Callable[..., Any] = OPEN.connect(base)
    assert connect is base


def test_a_salt_of_other_characters_is_refused_and_no_error_of_ours() -> None:
    conversation = scram("SCRAM-SHA-256", "ann", "secret", nonce=lambda: "ours")
    next(conversation)
    with pytest.raises(Unexpected, match="without a salt"):
        conversation.send("r=ours+theirs,s=ü,i=4096".encode())
