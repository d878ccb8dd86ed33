"""What each release of Kafka does about groups, offsets and transactions: the only place here that asks for a release.

Numbers behind a fact are sections of broker-model-coordinators.md, where each fact has its class.
"""

from __future__ import annotations

from kafkawire.dialects import release_number

DAY_S = 86_400.0


class Codes:
    """Error codes of the protocol, by the names that the notes use."""

    NONE = 0
    UNKNOWN_TOPIC = 3
    NOT_LEADER = 6
    TIMED_OUT = 7
    METADATA_TOO_LARGE = 12
    LOADING = 14
    NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS = 19
    TOO_FEW_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_PROTOCOL = 23
    UNKNOWN_MEMBER = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCING = 27
    INVALID_COMMIT_SIZE = 28
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    INVALID_EPOCH = 47
    INVALID_TXN_STATE = 48
    UNKNOWN_PRODUCER = 49  # invalid producer id mapping
    INVALID_TXN_TIMEOUT = 50
    CONCURRENT = 51
    COORDINATOR_FENCED = 52
    NOT_ATTEMPTED = 55
    OFFLINE_DISK = 56
    MEMBER_ID_REQUIRED = 79
    GROUP_FULL = 81
    FENCED_INSTANCE = 82
    UNSTABLE = 88
    PRODUCER_FENCED = 90
    ABORTABLE = 120


class Rules:
    """Facts of one release."""

    def __init__(self, release: str) -> None:
        number = release_number(release)

        def since(*first: int) -> bool:
            return number >= first

        def before(*first: int) -> bool:
            return number < first

        self.release = release
        self.number = number

        # which requests there are
        self.zookeeper_offsets = since(0, 8, 1) and before(4)  # OffsetCommit and OffsetFetch v0
        self.keeps_offsets = since(0, 8, 2)
        self.coordinates_groups = since(0, 9)
        self.has_transactions = since(0, 11)
        self.new_coordinator = since(4)  # the Java group coordinator

        # 1.1: internal topics
        self.creates_with_fewer_replicas = before(
            0, 11
        )  # min(factor, brokers alive); later: not until there are enough
        self.unclean_by_default = before(0, 11)

        # 1.2: while a coordinator loads
        self.owner_by_leadership = before(0, 9)  # no cache is owned: whoever leads the partition answers
        self.commits_while_loading = before(0, 9)
        self.owned_when_loaded = since(0, 9) and before(2)  # 16 until the load is over, 14 in a re-election only
        self.queued_code = 14 if before(0, 9) or (since(2) and before(2, 8)) else 16
        self.sync_while_loading_27 = since(2) and before(4)
        self.one_background_thread = since(0, 9)
        self.unload_in_background = before(4)
        self.failed_load_owns = before(4)  # it answers from what it had read; the new coordinator answers 16
        self.epoch_guards_load = since(2, 8)
        self.unknown_key_fails_load = before(3)  # 2.2 at its end: 3.9 skips unknown keys, 2.8 fails
        self.load_to_high_watermark = before(0, 11)  # 2.8
        self.unload_race = since(0, 9) and before(4)  # 1.3

        # 2.2, 2.3: checks of a commit
        self.checks_topic = since(0, 9)
        self.checks_partition = since(2)  # of the topic, too
        self.checks_members = since(0, 9)
        self.fetch_unknown_topic_3 = before(0, 9)  # 2.5
        self.dead_code = 15 if since(2, 3) else 25
        self.static_members = since(2, 3)
        self.state_before_member = before(2, 4)  # 27 in Awaiting/CompletingRebalance before the member is looked up
        self.empty_state = since(0, 10, 1)  # 3.1
        self.commit_touches_member = since(0, 10)
        self.caches_refused = before(0, 9)  # a commit refused with 12 is in the cache all the same (seen on 0.8.2.2)
        self.keeps_refused_pending = since(0, 10, 2) and before(4)  # a refusal with 12 leaves a pending commit behind

        # 2.4: codes of an append that failed
        self.raw_replica_codes = before(0, 10)  # 19 and 20 are passed on
        self.timeout_code = 15 if since(4) else 7
        self.too_large_code = -1 if since(4) or before(0, 9) else 28
        self.sync_timeout_code = 15 if since(4) else 27
        self.sync_replica_codes_mapped = since(0, 10)

        # 2.5: what a fetch sees
        self.pending_decides = since(0, 10) and before(0, 11)  # of two commits the later request is kept
        self.log_order_decides = since(0, 11)  # the one with the larger log offset
        self.require_stable = since(2, 5)
        self.reads_committed_snapshot = since(4)  # a commit is visible once the high watermark passes it
        self.stable_waits = since(4)  # require_stable waits for a plain commit, up to 5 s

        # 2.6: offsets of transactions
        self.txn_checks_members = since(2, 5)
        self.txn_commit_verified = since(3, 7)
        self.txn_pending_protects = since(4)

        # 2.7: retention
        self.retention_s = 7 * DAY_S if since(2) else DAY_S
        self.expires_by_age = before(2, 1)  # live groups too
        self.commit_time_only = before(0, 9)  # 0.8.2 stores no expiry: the retention of the broker that asks
        self.expires_unsubscribed = since(2, 4)
        self.deletes_with_topic = since(0, 10, 2)
        self.commits_acks = before(4)  # offsets.commit.required.acks

        # 2.8, at its end: layouts of records
        self.magic = 0 if before(0, 10) else 1 if before(0, 11) else 2
        self.offset_key_version = 0 if before(0, 9) else 1
        self.offset_value_version = 0 if before(0, 9) else 1 if before(2, 1) else 3
        self.group_value_version = 0 if before(0, 10, 1) else 1 if before(2, 1) else 2 if before(2, 3) else 3

        # 3: membership
        self.syncing_name = "AwaitingSync" if before(1, 1) else "CompletingRebalance"
        self.initial_delay = since(0, 11)
        self.heartbeat_rebalance_first = before(0, 10)  # 27 to anyone, whatever the member
        self.heartbeat_generation_while_syncing = since(2, 3)
        self.heartbeat_ok_while_syncing = since(2, 6)
        self.new_members_expire = since(2, 1)  # 5 minutes in a join
        self.waits_for_pending_ids = since(2, 2)
        self.member_id_required_version = 4 if since(2, 2) else 99
        self.bounds_group_size = since(2, 2)
        self.expires_unsynced = since(2, 8)
        self.writes_replaced_static = since(2, 8)
        self.rebalance_timeout_is_session = before(0, 10, 1)
        self.session_max_s = 30.0 if before(0, 10, 1) else 300.0 if before(2, 3) else 1800.0

        # 4: transactions
        self.higher_epoch_ends = before(1)  # 0.11 accepts EndTxn of a higher epoch
        self.timeout_check_s = (
            10.0 if since(1) else 60.0
        )  # of transactions; 60 seen in 0.11, the border is not verified
        self.verifies_produce = since(3, 6)
        self.fenced_since_version = 2 if since(2, 7) else 99  # 90 in place of 47 (InitProducerId from 4)
