"""What people have: pairs of consumer and producer files of the JVM's MirrorMaker, 0.7 to 2.x, with their start lines.

Each is a combination of keys that Kafka's own trees, recipes, images and guides publish, in our own words: hosts,
groups and topics are ours.  `of` says where the combination is from, `meant` what its owner meant by it, as options of
the mirror that runs; `refused` is what a refusal has to say, for the few that cannot run as they were meant.

C, C2 and P in a start line are the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BYTES = "org.apache.kafka.common.serialization.ByteArray"
ASSIGNORS = "org.apache.kafka.clients.consumer."
JAAS = "org.apache.kafka.common.security."
OLD_ZK, NEW_ZK = "zk-a:2181", "zk-b:2181"
OLD, NEW = "old-1:9092,old-2:9092", "new-1:9092,new-2:9092"
OLD_BROKERS = (("old-1", 9092), ("old-2", 9092))
NEW_BROKERS = (("new-1", 9092), ("new-2", 9092))

FILES = ("--consumer.config", "C", "--producer.config", "P")
ALL = (*FILES, "--whitelist", ".*")


@dataclass(frozen=True)
class Pair:
    of: str
    consumer: dict[str, str]
    producer: dict[str, str]
    line: tuple[str, ...] = ALL
    meant: dict[str, object] = field(default_factory=dict)
    refused: str = ""
    second: dict[str, str] | None = None


def by_zookeeper(**more: str) -> dict[str, str]:
    return {"zookeeper.connect": OLD_ZK, "group.id": "copy", **_dotted(more)}


def by_brokers(**more: str) -> dict[str, str]:
    return {"bootstrap.servers": OLD, "group.id": "copy", **_dotted(more)}


def into_0_8(**more: str) -> dict[str, str]:
    return {"metadata.broker.list": NEW, **_dotted(more)}


def into(**more: str) -> dict[str, str]:
    return {"bootstrap.servers": NEW, **_dotted(more)}


def _dotted(given: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in given.items()}


ZOOKEEPER = {"source.coordination": "zookeeper", "source.zookeeper_connect": OLD_ZK, "source.group_id": "copy"}
COORDINATOR = {"source.coordination": "kafka", "source.brokers": OLD_BROKERS, "source.group_id": "copy"}
INTO_NEW = {"target.brokers": NEW_BROKERS, "target.acks": -1, "target.version": ""}
FROM_0_7 = {"source.version": "0.7.2", "source.zookeeper_connect": OLD_ZK, "source.group_id": "copy"}
INTO_0_7 = {"target.version": "0.7.2", "target.zookeeper": NEW_ZK, "target.brokers": ()}

PAIRS = [
    # ---- Kafka's own trees --------------------------------------------------------------------------------------
    Pair(
        "system test of 0.7.2, whitelist, two sources",
        {
            "zk.connect": OLD_ZK,
            "zk.connection.timeout.ms": "1000000",
            "group.id": "copy",
            "shallow.iterator.enable": "true",
        },
        {
            "zk.connect": NEW_ZK,
            "producer.type": "async",
            "queue.enqueue.timeout.ms": "-1",
            "num.producers.per.broker": "2",
        },
        (
            "--consumer.config",
            "C",
            "--consumer.config",
            "C2",
            "--producer.config",
            "P",
            "--whitelist=white.*",
            "--num.streams",
            "2",
        ),
        FROM_0_7 | INTO_0_7 | {"source.connection_timeout_ms": 1000000, "mirror.num_streams": 2},
        second={
            "zk.connect": "zk-c:2181",
            "zk.connection.timeout.ms": "1000000",
            "group.id": "copy",
            "shallow.iterator.enable": "true",
        },
    ),
    Pair(
        "system test of 0.7.2, blacklist",
        {
            "zk.connect": OLD_ZK,
            "zk.connection.timeout.ms": "1000000",
            "group.id": "copy",
            "shallow.iterator.enable": "true",
        },
        {
            "zk.connect": NEW_ZK,
            "producer.type": "async",
            "queue.enqueue.timeout.ms": "-1",
            "num.producers.per.broker": "2",
        },
        (*FILES, "--blacklist=black.*", "--num.streams", "2"),
        FROM_0_7 | INTO_0_7 | {"mirror.blacklist": "black.*"},
    ),
    Pair(
        "config/ of 0.7.2: brokers by id",
        {"zk.connect": OLD_ZK, "zk.connectiontimeout.ms": "1000000", "groupid": "copy"},
        {
            "broker.list": "0:new-1:9092",
            "producer.type": "sync",
            "compression.codec": "0",
            "serializer.class": "kafka.serializer.StringEncoder",
        },
        refused="'broker.list' (0:new-1:9092)",
    ),
    Pair(
        "image for 0.7 with templates of consul",
        {
            "zk.connect": f"{OLD_ZK}/seven",
            "zk.connectiontimeout.ms": "1000000",
            "consumer.timeout.ms": "-1",
            "groupid": "copy",
            "shallow.iterator.enable": "true",
            "mirror.topics.whitelist": "clicks",
        },
        {
            "zk.connect": f"{NEW_ZK}/seven",
            "producer.type": "async",
            "compression.codec": "0",
            "serializer.class": "kafka.serializer.DefaultEncoder",
            "max.message.size": "10000000",
            "queue.time": "1000",
            "queue.enqueueTimeout.ms": "-1",
        },
        (*FILES, "--whitelist=clicks"),
        {
            "source.version": "0.7.2",
            "source.zookeeper_connect": f"{OLD_ZK}/seven",
            "target.version": "0.7.2",
            "target.zookeeper": f"{NEW_ZK}/seven",
            "target.message_max_bytes": 10000000,
            "target.linger_ms": 1000,
        },
    ),
    Pair(
        "0.7's consumer into a target of 0.8",
        {
            "zk.connect": OLD_ZK,
            "zk.sessiontimeout.ms": "6000",
            "zk.synctime.ms": "2000",
            "groupid": "copy",
            "autocommit.interval.ms": "1000",
            "autooffset.reset": "smallest",
            "fetch.size": "1048576",
            "socket.buffersize": "1048576",
            "rebalance.retries.max": "4",
            "queuedchunks.max": "10",
        },
        into_0_8(request_required_acks="1", compression_codec="gzip"),
        meant=FROM_0_7
        | {
            "target.brokers": NEW_BROKERS,
            "target.acks": 1,
            "target.codec": "gzip",
            "source.fetch_message_max_bytes": 1048576,
            "source.queued_max_chunks": 10,
        },
    ),
    Pair(
        "mirror test suite before 0.8.0",
        {
            "zk.connect": OLD_ZK,
            "zk.connectiontimeout.ms": "1000000",
            "groupid": "copy",
            "autocommit.interval.ms": "120000",
            "autooffset.reset": "smallest",
            "socket.buffersize": "1048576",
            "fetch.size": "1048576",
            "zk.synctime.ms": "15000",
            "shallowiterator.enable": "true",
        },
        {"producer.type": "async", "queue.enqueueTimeout.ms": "-1", "broker.list": NEW, "compression.codec": "0"},
        meant={
            "source.zookeeper_connect": OLD_ZK,
            "source.group_id": "copy",
            "source.sync_time_ms": 15000,
            "target.brokers": NEW_BROKERS,
            "target.codec": "none",
        },
    ),
    Pair(
        "system test of 0.8.2, both producers' keys in one file",
        by_zookeeper(
            zookeeper_connection_timeout_ms="1000000",
            auto_commit_interval_ms="120000",
            auto_offset_reset="smallest",
            socket_receive_buffer_bytes="1048576",
            fetch_message_max_bytes="1048576",
            zookeeper_sync_time_ms="15000",
            shallow_iterator_enable="false",
        ),
        {
            "metadata.broker.list": NEW,
            "compression.codec": "0",
            "request.retries": "3",
            "request.required.acks": "1",
            "block.on.buffer.full": "true",
            "bootstrap.servers": NEW,
            "compression.type": "none",
            "retries": "3",
            "acks": "1",
            "key.serializer": f"{BYTES}Serializer",
            "value.serializer": f"{BYTES}Serializer",
        },
        (*ALL, "--num.streams", "2"),
        ZOOKEEPER
        | {
            "target.brokers": NEW_BROKERS,
            "target.acks": 1,
            "target.codec": "none",
            "source.auto_offset_reset": "smallest",
            "source.sync_time_ms": 15000,
        },
    ),
    Pair(
        "system test of 0.8.2, with its new producer",
        by_zookeeper(
            zookeeper_connection_timeout_ms="1000000", auto_offset_reset="smallest", shallow_iterator_enable="false"
        ),
        {
            "metadata.broker.list": NEW,
            "compression.codec": "0",
            "request.retries": "3",
            "request.required.acks": "1",
            "block.on.buffer.full": "true",
            "bootstrap.servers": NEW,
            "compression.type": "snappy",
            "retries": "3",
            "acks": "all",
            "key.serializer": f"{BYTES}Serializer",
            "value.serializer": f"{BYTES}Serializer",
        },
        (*ALL, "--new.producer"),
        ZOOKEEPER | {"target.brokers": NEW_BROKERS, "target.acks": -1, "target.codec": "snappy"},
    ),
    Pair(
        "config/ of 0.8.2 and 0.9",
        by_zookeeper(zookeeper_connection_timeout_ms="6000"),
        into_0_8(producer_type="sync", compression_codec="none", serializer_class="kafka.serializer.DefaultEncoder"),
        meant=ZOOKEEPER | INTO_NEW | {"source.connection_timeout_ms": 6000},
    ),
    Pair(
        "config/ of 0.10.0 to 1.0",
        by_zookeeper(zookeeper_connection_timeout_ms="6000"),
        into(compression_type="none"),
        meant=ZOOKEEPER | INTO_NEW | {"target.codec": "none"},
    ),
    Pair(
        "config/ of 1.1 to 2.8",
        by_brokers(),
        into(compression_type="none"),
        meant=COORDINATOR | INTO_NEW,
    ),
    Pair(
        "kafkatest of 0.9, old consumer",
        by_zookeeper(
            zookeeper_connection_timeout_ms="6000",
            auto_offset_reset="largest",
            offsets_storage="kafka",
            partition_assignment_strategy="roundrobin",
        ),
        into(),
        (*FILES, "--offset.commit.interval.ms", "60000", "--num.streams", "1", "--whitelist=test.*"),
        ZOOKEEPER
        | INTO_NEW
        | {
            "source.auto_offset_reset": "largest",
            "source.offsets_storage": "kafka",
            "source.assignment_strategy": "roundrobin",
            "mirror.commit_interval_ms": 60000,
        },
    ),
    Pair(
        "kafkatest of 0.10, new consumer",
        by_brokers(
            auto_offset_reset="latest",
            offsets_storage="kafka",
            partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor",
            security_protocol="PLAINTEXT",
        ),
        into(security_protocol="PLAINTEXT"),
        (*FILES, "--offset.commit.interval.ms", "60000", "--num.streams", "1", "--whitelist=test.*", "--new.consumer"),
        COORDINATOR | INTO_NEW | {"source.auto_offset_reset": "largest", "source.assignment_strategy": "roundrobin"},
    ),
    Pair(
        "kafkatest of 1.1, offsets said to be in ZooKeeper",
        by_brokers(auto_offset_reset="earliest", offsets_storage="zookeeper", consumer_timeout_ms="60000"),
        into(),
        (*FILES, "--offset.commit.interval.ms", "1000", "--num.streams", "1", "--blacklist=hidden.*"),
        COORDINATOR | INTO_NEW | {"source.auto_offset_reset": "smallest", "source.offset_mode": "kafka"},
    ),
    # ---- recipes ------------------------------------------------------------------------------------------------
    Pair(
        "puppet recipe for 0.8",
        by_zookeeper(
            zookeeper_connection_timeout_ms="6000",
            zookeeper_session_timeout_ms="6000",
            auto_commit_enable="true",
            auto_commit_interval_ms="10000",
            auto_offset_reset="smallest",
        ),
        into_0_8(
            client_id="copy-a",
            producer_type="async",
            request_required_acks="1",
            compression_codec="snappy",
            batch_num_messages="200",
            queue_buffering_max_ms="5000",
            queue_buffering_max_messages="10000",
            queue_enqueue_timeout_ms="-1",
        ),
        (
            "--whitelist",
            "clicks.*",
            "--num.producers",
            "1",
            "--num.streams",
            "1",
            "--queue.size",
            "10000",
            "--producer.config",
            "P",
            "--consumer.config",
            "C",
        ),
        ZOOKEEPER
        | {
            "target.brokers": NEW_BROKERS,
            "target.acks": 1,
            "target.codec": "snappy",
            "target.linger_ms": 5000,
            "target.batch_messages": 200,
            "target.client_id": "copy-a",
        },
    ),
    Pair(
        "puppet recipe for 0.8, larger batches than its queue",
        by_zookeeper(zookeeper_session_timeout_ms="30000"),
        into_0_8(producer_type="async", batch_num_messages="20000", queue_buffering_max_messages="10000"),
        meant=ZOOKEEPER | INTO_NEW | {"source.session_timeout_ms": 30000, "target.batch_messages": 20000},
    ),
    Pair(
        "puppet recipe for 0.9",
        by_zookeeper(),
        into(),
        (*FILES, "--abort.on.send.failure", "true", "--num.streams", "2", "--whitelist", "clicks,orders"),
        ZOOKEEPER | INTO_NEW | {"mirror.num_streams": 2},
    ),
    Pair(
        "puppet recipe for 2.x",
        by_brokers(client_id="copy-in"),
        into(client_id="copy-out"),
        meant=COORDINATOR | INTO_NEW | {"source.client_id": "copy-in", "target.client_id": "copy-out"},
    ),
    Pair(
        "chef cookbook for 0.8.2",
        by_zookeeper(
            consumer_timeout_ms="-1",
            zookeeper_connection_timeout_ms="1000000",
            fetch_message_max_bytes="2097152",
            auto_offset_reset="smallest",
            socket_receive_buffer_bytes="1048576",
        ),
        into_0_8(request_required_acks="-1"),
        (*FILES, "--whitelist=clicks", "--num.streams=5", "--num.producers=5"),
        ZOOKEEPER
        | INTO_NEW
        | {"source.fetch_message_max_bytes": 2097152, "mirror.num_streams": 5, "source.receive_buffer_bytes": 1048576},
    ),
    Pair(
        "chef cookbook for 0.10, whose consumer is the new one",
        by_brokers(
            fetch_message_max_bytes="2097152",
            auto_offset_reset="earliest",
            socket_receive_buffer_bytes="1048576",
            security_protocol="PLAINTEXT",
        ),
        into(security_protocol="PLAINTEXT", max_request_size="2097152"),
        (*FILES, "--whitelist=clicks", "--num.streams=5"),
        COORDINATOR | INTO_NEW | {"source.fetch_message_max_bytes": 2097152, "target.message_max_bytes": 2097152},
    ),
    Pair(
        "chef cookbook for 0.10, with a map of topics",
        by_brokers(),
        into(),
        (*FILES, "--whitelist=clicks", "--topicMapList=clicks:clicks-copy"),
        refused="topic.rename",
    ),
    Pair(
        "ansible role for 0.10, offsets in Kafka",
        by_zookeeper(offsets_storage="kafka", dual_commit_enabled="false", zookeeper_session_timeout_ms="12000"),
        into(
            acks="all",
            compression_type="snappy",
            retries="2147483647",
            key_serializer=f"{BYTES}Serializer",
            value_serializer=f"{BYTES}Serializer",
            max_in_flight_requests_per_connection="1",
        ),
        meant=ZOOKEEPER
        | INTO_NEW
        | {
            "source.offset_mode": "kafka",
            "source.session_timeout_ms": 12000,
            "target.codec": "snappy",
            "target.max_in_flight": 1,
        },
    ),
    # ---- images -------------------------------------------------------------------------------------------------
    Pair(
        "image for 0.8 by environment",
        by_zookeeper(auto_offset_reset="largest"),
        into_0_8(),
        (*FILES, "--num.producers", "1", "--num.streams", "1", "--whitelist", "clicks"),
        ZOOKEEPER | INTO_NEW | {"source.auto_offset_reset": "largest"},
    ),
    Pair(
        "image for 0.8, nothing acknowledged",
        by_zookeeper(
            auto_commit_interval_ms="6000",
            rebalance_max_retries="4",
            socket_receive_buffer_bytes="262144",
            zookeeper_connection_timeout_ms="30000",
            zookeeper_session_timeout_ms="30000",
        ),
        into_0_8(
            compression_codec="gzip",
            producer_type="async",
            queue_buffering_max_ms="100",
            queue_enqueue_timeout_ms="-1",
            request_required_acks="0",
            serializer_class="kafka.serializer.DefaultEncoder",
        ),
        (*FILES, "--num.streams", "3", "--whitelist=clicks"),
        ZOOKEEPER | INTO_NEW | {"target.codec": "gzip", "target.linger_ms": 100, "source.session_timeout_ms": 30000},
    ),
    Pair(
        "image for 0.8.2, by its options",
        by_zookeeper(zookeeper_connection_timeout_ms="6000"),
        into_0_8(producer_type="sync", compression_codec="none", serializer_class="kafka.serializer.DefaultEncoder"),
        (*FILES, "--new.producer", "--num.producers", "2", "--blacklist", "test.*"),
        ZOOKEEPER | INTO_NEW,
    ),
    Pair(
        "image for 0.9 by environment",
        by_zookeeper(auto_offset_reset="smallest"),
        into(),
        (*FILES, "--num.producers", "1", "--num.streams", "4", "--whitelist", "clicks"),
        ZOOKEEPER | INTO_NEW,
    ),
    Pair(
        "image for 0.9 in a compose file",
        by_zookeeper(zookeeper_connection_timeout_ms="1000000"),
        into(compression_type="none"),
        (*FILES, "--num.streams", "1", "--whitelist", ".+_events$,clicks,orders"),
        ZOOKEEPER | INTO_NEW,
    ),
    Pair(
        "image for 0.10.2 by environment",
        by_brokers(partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor"),
        into(acks="all"),
        ("--consumer.config=C", "--producer.config=P", "--whitelist=clicks", "--offset.commit.interval.ms=30000"),
        COORDINATOR | INTO_NEW | {"source.assignment_strategy": "roundrobin", "mirror.commit_interval_ms": 30000},
    ),
    Pair(
        "image for HDP 2.6",
        by_brokers(security_protocol="PLAINTEXT"),
        into(security_protocol="PLAINTEXT"),
        (
            "--whitelist",
            "clicks",
            "--abort.on.send.failure",
            "true",
            "--new.consumer",
            "--producer.config",
            "P",
            "--consumer.config",
            "C",
        ),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "image for HDP 2.6 with Kerberos",
        by_brokers(security_protocol="SASL_PLAINTEXT"),
        into(security_protocol="SASL_PLAINTEXT"),
        (
            "--whitelist",
            "clicks",
            "--abort.on.send.failure",
            "true",
            "--new.consumer",
            "--producer.config",
            "P",
            "--consumer.config",
            "C",
        ),
        refused="'security.protocol' SASL_PLAINTEXT needs 'sasl.mechanism'",
    ),
    Pair(
        "image for 2.x, tuned",
        by_brokers(auto_offset_reset="earliest", send_buffer_bytes="1966080", session_timeout_ms="30000"),
        into(
            security_protocol="PLAINTEXT",
            compression_type="gzip",
            batch_size="50000",
            buffer_memory="2000000000",
            linger_ms="15000",
            max_request_size="1000000",
            max_in_flight_requests_per_connection="1",
            acks="all",
            enable_idempotence="true",
        ),
        (
            "--whitelist",
            "clicks",
            "--num.streams",
            "4",
            "--abort.on.send.failure",
            "true",
            "--new.consumer",
            "--producer.config",
            "P",
            "--consumer.config",
            "C",
        ),
        COORDINATOR
        | INTO_NEW
        | {
            "source.group_session_timeout_ms": 30000,
            "target.codec": "gzip",
            "target.batch_bytes": 50000,
            "target.linger_ms": 15000,
            "target.message_max_bytes": 1000000,
            "target.idempotence": True,
        },
    ),
    Pair(
        "image for 1.x by environment",
        by_brokers(
            client_id="copy-in",
            auto_offset_reset="latest",
            enable_auto_commit="false",
            partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor",
        ),
        into(
            client_id="copy-out",
            acks="all",
            retries="10",
            batch_size="16384",
            max_in_flight_requests_per_connection="1",
        ),
        (*FILES, "--whitelist", "clicks", "--num.streams", "2"),
        COORDINATOR | INTO_NEW | {"target.batch_bytes": 16384, "source.assignment_strategy": "roundrobin"},
    ),
    Pair(
        "image for 0.11, whose key no release has",
        {"bootstrap.servers": OLD, "group.id": "copy", "auto.commit.enabled": "false"},
        into(client_id="copy-out", block_on_buffer_full="true", acks="-1", max_in_flight_requests_per_connection="1"),
        (
            "--whitelist",
            "clicks",
            "--consumer.config",
            "C",
            "--producer.config",
            "P",
            "--abort.on.send.failure",
            "true",
        ),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "image with the smallest files",
        by_brokers(),
        into(),
        (*FILES, "--whitelist=clicks", "--abort.on.send.failure", "true", "--num.streams", "1"),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "compose example of 4.0 of Confluent's platform",
        by_brokers(
            exclude_internal_topics="true",
            auto_offset_reset="earliest",
            partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor",
        ),
        into(
            acks="-1",
            batch_size="1",
            client_id="copy-out",
            retries="2147483647",
            max_in_flight_requests_per_connection="1",
        ),
        (*FILES, "--whitelist", "clicks", "--num.streams", "1"),
        COORDINATOR | INTO_NEW | {"target.batch_bytes": 1024, "source.exclude_internal_topics": True},
    ),
    Pair(
        "image for Confluent's platform, all flags",
        by_brokers(auto_offset_reset="latest"),
        into(),
        (
            *FILES,
            "--whitelist",
            "^site1_((?!req).)*$",
            "--abort.on.send.failure",
            "true",
            "--offset.commit.interval.ms",
            "60000",
            "--num.streams",
            "1",
            "--consumer.rebalance.listener",
            "com.example.Listener",
            "--rebalance.listener.args",
            "a,b",
        ),
        COORDINATOR | INTO_NEW | {"source.auto_offset_reset": "largest"},
    ),
    Pair(
        "image for 1.0 by templates",
        by_brokers(client_id="copy-in", exclude_internal_topics="true", auto_offset_reset="earliest"),
        into(compression_type="none", acks="1", batch_size="100", client_id="copy-out"),
        (*FILES, "--num.streams=1", "--whitelist", "clicks"),
        COORDINATOR | {"target.brokers": NEW_BROKERS, "target.acks": 1, "target.batch_bytes": 1024},
    ),
    Pair(
        "framework for Mesos",
        by_brokers(
            enable_auto_commit="false",
            session_timeout_ms="30000",
            key_deserializer=f"{BYTES}Deserializer",
            value_deserializer=f"{BYTES}Deserializer",
        ),
        into(
            retries="2147483647",
            block_on_buffer_full="true",
            max_in_flight_requests_per_connection="1",
            acks="all",
            key_serializer=f"{BYTES}Serializer",
            value_serializer=f"{BYTES}Serializer",
        ),
        (*ALL, "--offset.commit.interval.ms", "60000"),
        COORDINATOR | INTO_NEW | {"source.group_session_timeout_ms": 30000},
    ),
    Pair(
        "image whose target's file has keys of librdkafka, and a truststore of Java",
        by_brokers(
            security_protocol="SSL",
            ssl_truststore_location="/etc/a.jks",
            ssl_truststore_type="JKS",
            ssl_keystore_type="JKS",
            ssl_keystore_password="hidden",
        ),
        into(
            compression_codec="snappy",
            message_max_bytes="10485760",
            message_timeout_ms="300000",
            queue_buffering_max_ms="100",
            queue_buffering_max_kbytes="524288",
            request_required_acks="1",
            retry_backoff_ms="150",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="copy",
            sasl_password="hidden",
        ),
        ("--whitelist", "clicks", "--abort.on.send.failure", "true", "--new.consumer", *FILES),
        refused="ssl.truststore.location",
    ),
    Pair(
        "target's file with keys of librdkafka",
        by_brokers(),
        into(
            compression_codec="snappy",
            message_max_bytes="10485760",
            message_timeout_ms="300000",
            queue_buffering_max_ms="100",
            queue_buffering_max_kbytes="524288",
            request_required_acks="1",
            retry_backoff_ms="150",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="copy",
            sasl_password="hidden",
        ),
        ("--whitelist", "clicks", "--new.consumer", *FILES),
        COORDINATOR
        | {
            "target.acks": 1,
            "target.codec": "snappy",
            "target.message_max_bytes": 10485760,
            "target.retry_backoff_ms": 150,
            "target.sasl_username": "copy",
        },
    ),
    Pair(
        "script that tunes the new consumer",
        by_brokers(
            request_timeout_ms="60000",
            exclude_internal_topics="true",
            heartbeat_interval_ms="30000",
            session_timeout_ms="40000",
            partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor",
            max_poll_records="20000",
            receive_buffer_bytes="524288",
            fetch_max_bytes="524288",
            max_partition_fetch_bytes="5248576",
        ),
        into(
            producer_type="sync",
            request_timeout_ms="10000",
            max_in_flight_requests_per_connection="1024",
            batch_size="65536",
        ),
        (*FILES, "--num.streams", "8", "--whitelist=clicks"),
        COORDINATOR
        | INTO_NEW
        | {
            "source.socket_timeout_ms": 60000,
            "source.receive_buffer_bytes": 524288,
            "source.fetch_message_max_bytes": 5248576,
            "target.batch_bytes": 65536,
            "target.request_timeout_ms": 10000,
        },
    ),
    # ---- guides and answers -------------------------------------------------------------------------------------
    Pair(
        "guide of HDP, nothing lost",
        by_zookeeper(auto_commit_enabled="false"),
        into(
            max_in_flight_requests_per_connection="1",
            retries="2147483647",
            acks="-1",
            block_on_buffer_full="true",
            metadata_fetch_timeout_ms="60000",
        ),
        (*FILES, "--whitelist", "clicks", "--num.streams", "4", "--abort.on.send.failure", "true"),
        ZOOKEEPER | INTO_NEW,
    ),
    Pair(
        "guide of CDP, nothing lost",
        by_brokers(auto_commit_enable="false"),
        into(acks="all", retries="2147483647", max_block_ms="9223372036854775807"),
        (*ALL, "--abort.on.send.failure", "true"),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "guide of HDInsight, by ZooKeeper",
        {"zookeeper.connect": "zk-a:2181,zk-d:2181", "group.id": "copy"},
        into(compression_type="none"),
        (*FILES, "--whitelist", "clicks", "--num.streams", "4"),
        {"source.coordination": "zookeeper", "source.zookeeper_connect": "zk-a:2181,zk-d:2181"} | INTO_NEW,
    ),
    Pair(
        "guide of HDInsight, by brokers",
        by_brokers(),
        into(compression_type="none"),
        (*FILES, "--whitelist", "clicks", "--num.streams", "4"),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "guide of Event Hubs, into them",
        by_brokers(exclude_internal_topics="true", client_id="copy-in"),
        into(
            client_id="copy-out",
            sasl_mechanism="PLAIN",
            security_protocol="SASL_SSL",
            request_timeout_ms="60000",
            sasl_jaas_config=f'{JAAS}plain.PlainLoginModule required username="$ConnectionString" '
            'password="Endpoint=sb://x/;SharedAccessKey=hidden=";',
        ),
        (*FILES, "--num.streams", "1", "--whitelist=.*"),
        COORDINATOR
        | INTO_NEW
        | {
            "target.sasl_username": "$ConnectionString",
            "target.sasl_mechanism": "PLAIN",
            "target.security_protocol": "SASL_SSL",
            "target.request_timeout_ms": 60000,
        },
    ),
    Pair(
        "guide of Event Hubs, from one to another",
        by_brokers(
            exclude_internal_topics="true",
            request_timeout_ms="60000",
            sasl_mechanism="PLAIN",
            security_protocol="SASL_SSL",
            sasl_jaas_config=f"{JAAS}plain.PlainLoginModule required username='a' password='hidden';",
        ),
        into(
            client_id="copy-out",
            sasl_mechanism="PLAIN",
            security_protocol="SASL_SSL",
            sasl_jaas_config=f'{JAAS}plain.PlainLoginModule required username="b" password="hidden";',
        ),
        meant=COORDINATOR | INTO_NEW | {"source.sasl_username": "a", "target.sasl_username": "b"},
    ),
    Pair(
        "guide of a hosted Kafka, from a cluster of 0.8",
        {
            "group.id": "copy",
            "auto.commit.enable": "true",
            "auto.commit.interval.ms": "2000",
            "zookeeper.connect": "zk-a:2181,zk-d:2181/kafka/one",
            "auto.offset.reset": "smallest",
        },
        into(
            acks="all",
            retries="3",
            batch_size="16384",
            buffer_memory="33554432",
            linger_ms="1",
            key_serializer="org.apache.kafka.common.serialization.StringSerializer",
            value_serializer="org.apache.kafka.common.serialization.StringSerializer",
        ),
        (*FILES, "--whitelist", "clicks|orders"),
        {
            "source.coordination": "zookeeper",
            "source.zookeeper_connect": "zk-a:2181,zk-d:2181/kafka/one",
            "target.linger_ms": 1,
            "target.batch_bytes": 16384,
        }
        | INTO_NEW,
    ),
    Pair(
        "answer: the old consumer with keys of the new one",
        by_zookeeper(
            request_timeout_ms="40000",
            heartbeat_interval_ms="15000",
            session_timeout_ms="30000",
            partition_assignment_strategy=f"{ASSIGNORS}RoundRobinAssignor",
            max_poll_records="20000",
            receive_buffer_bytes="524288",
            max_partition_fetch_bytes="5248576",
        ),
        into(producer_type="sync", compression_codec="none", serializer_class="kafka.serializer.DefaultEncoder"),
        (*FILES, "--num.streams", "2", "--whitelist=.*"),
        ZOOKEEPER
        | INTO_NEW
        | {
            "source.fetch_message_max_bytes": 5248576,
            "source.socket_timeout_ms": 40000,
            "source.assignment_strategy": "roundrobin",
        },
    ),
    Pair(
        "answer: two addresses in a consumer's file",
        by_brokers(
            zookeeper_connect=OLD_ZK,
            auto_offset_reset="largest",
            heartbeat_interval_ms="30000",
            session_timeout_ms="100000",
            max_poll_records="20000",
        ),
        into(
            buffer_memory="268435456",
            batch_size="104857",
            acks="0",
            linger_ms="10",
            max_request_size="10485760",
            send_buffer_bytes="10485760",
            compression_type="snappy",
        ),
        refused="'zookeeper.connect' and 'bootstrap.servers'",
    ),
    Pair(
        "answer: a slash behind the chroot",
        {"zookeeper.connect": "zk-a:2181,zk-d:2181/kafka/", "group.id": "copy"},
        into_0_8(compression_codec="none"),
        (*FILES, "--num.streams", "2", "--num.producers", "2", "--whitelist=clicks"),
        {"source.zookeeper_connect": "zk-a:2181,zk-d:2181/kafka"} | INTO_NEW,
    ),
    Pair(
        "answer: from an older release into a newer one",
        {
            "zookeeper.connect": "zk-a:2181,zk-d:2181,zk-e:2181",
            "group.id": "copy",
            "auto.offset.reset": "smallest",
            "partition.assignment.strategy": "roundrobin",
        },
        into(),
        (*FILES, "--num.streams=2", "--whitelist", "clicks"),
        {"source.assignment_strategy": "roundrobin", "source.auto_offset_reset": "smallest"} | INTO_NEW,
    ),
    Pair(
        "the wiki's page, one dash",
        by_zookeeper(zookeeper_session_timeout_ms="5000", queued_max_message_chunks="50"),
        into_0_8(),
        ("-consumer.config", "C", "-producer.config=P", "-num.str", "2", "--whitel=.*"),
        ZOOKEEPER | INTO_NEW | {"mirror.num_streams": 2, "source.queued_max_chunks": 50},
    ),
    Pair(
        "mirror of 0.8 with a chroot and patience",
        {
            "group.id": "copy",
            "client.id": "copy-1",
            "zookeeper.connect": "zk-a:2181/old",
            "rebalance.max.retries": "100",
        },
        into_0_8(client_id="copy-out", request_required_acks="1", producer_type="async"),
        (*FILES, "--queue.size", "1", "--whitelist", "clicks"),
        {"source.zookeeper_connect": "zk-a:2181/old", "source.client_id": "copy-1", "target.acks": 1},
    ),
    Pair(
        "config map of Kubernetes",
        by_brokers(auto_offset_reset="earliest"),
        into(acks="all", retries="3"),
        (*FILES, "--whitelist", r"sync\..*"),
        COORDINATOR | INTO_NEW | {"source.auto_offset_reset": "smallest"},
    ),
    Pair(
        "course on 2.3",
        by_brokers(auto_offset_reset="earliest"),
        into(),
        ("--producer.config", "P", "--consumer.config", "C", "--num.streams", "4", "--whitelist", ".*"),
        COORDINATOR | INTO_NEW | {"mirror.num_streams": 4},
    ),
    Pair(
        "script for each site, metrics by pattern",
        by_zookeeper(),
        into(),
        (
            "--abort.on.send.failure",
            "true",
            *FILES,
            "--num.streams",
            "4",
            "--whitelist",
            r"^.*\.application_metric\..*$,^.*\.infrastructure_metric\..*$",
        ),
        ZOOKEEPER | INTO_NEW,
    ),
    Pair(
        "service of Ambari for HDP 2.4",
        by_brokers(),
        into(),
        ("--new.consumer", *FILES, "--whitelist", "clicks"),
        COORDINATOR | INTO_NEW,
    ),
    Pair(
        "page on backups",
        by_brokers(auto_offset_reset="earliest", enable_auto_commit="false"),
        into(acks="all", retries="2147483647", max_in_flight_requests_per_connection="1"),
        (*FILES, "--whitelist", "clicks|orders"),
        COORDINATOR | INTO_NEW | {"target.max_in_flight": 1},
    ),
    Pair(
        "script with two lines of time-outs and no handler",
        by_zookeeper(
            zookeeper_session_timeout_ms="5000",
            zookeeper_connection_timeout_ms="10000",
            zookeeper_sync_time_ms="2000",
            rebalance_max_retries="5",
            rebalance_backoff_ms="1200",
        ),
        into_0_8(message_send_max_retries="10", topic_metadata_refresh_interval_ms="30000"),
        (
            *FILES,
            "--whitelist",
            "test",
            "--num.streams",
            "3",
            "--offset.commit.interval.ms",
            "6000",
            "--abort.on.send.failure",
            "false",
        ),
        ZOOKEEPER | INTO_NEW | {"source.backoff_ms": 1200, "target.refresh_ms": 30000},
    ),
    Pair(
        "handler in Java that renames topics",
        by_brokers(client_id="copy-in", auto_offset_reset="earliest"),
        into(client_id="copy-out"),
        (
            *FILES,
            "--whitelist",
            "test_.*",
            "--message.handler",
            "com.example.RenameTopicHandler",
            "--message.handler.args",
            "a,b;c,d",
        ),
        refused="topic.rename",
    ),
]
