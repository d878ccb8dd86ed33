"""Which release does what: one class of named facts, made from the release's number.

Each fact names its section of the broker model.  Code elsewhere asks for a fact, never for a release.
"""

from __future__ import annotations

from collections.abc import Mapping

# Highest version of each api that a release says it takes (ApiVersions; before 0.10: what its parsers know).
_HIGHEST: dict[str, dict[int, int]] = {
    "0.8.0": {0: 0, 1: 0, 2: 0, 3: 0},
    "0.8.1": {0: 0, 1: 0, 2: 0, 3: 0, 8: 0, 9: 0},
    "0.8.2": {0: 0, 1: 0, 2: 0, 3: 0, 8: 1, 9: 1, 10: 0},
    "0.9": {0: 1, 1: 1, 8: 2, 11: 0, 12: 0, 13: 0, 14: 0, 15: 0, 16: 0},
    "0.10.0": {0: 2, 1: 2, 3: 1, 17: 0, 18: 0},
    "0.10.1": {1: 3, 2: 1, 3: 2, 11: 1, 19: 0, 20: 0},
    "0.10.2": {9: 2, 19: 1},
    "0.11": {
        0: 3, 1: 5, 2: 2, 3: 4, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1, 18: 1, 19: 2, 20: 1,
        21: 0, 22: 0, 24: 0, 25: 0, 26: 0, 28: 0, 32: 0,
    },
    "1.0": {0: 5, 1: 6, 3: 5, 36: 0, 37: 0, 17: 1},
    "1.1": {1: 7, 32: 1},
    "2.0": {
        0: 6, 1: 8, 2: 3, 3: 6, 8: 4, 9: 4, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2, 18: 2, 19: 3, 20: 3,
        21: 1, 22: 1, 24: 1, 25: 1, 26: 1, 28: 1, 32: 2, 37: 1,
    },
    "2.1": {0: 7, 1: 10, 2: 4, 3: 7, 8: 6, 9: 5, 28: 2},
    "2.2": {2: 5, 11: 4, 36: 1},
    "2.3": {1: 11, 3: 8, 8: 7, 11: 5, 12: 3, 14: 3, 15: 3},
    "2.4": {0: 8, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3, 19: 5, 20: 4, 22: 2, 37: 2},
    "2.5": {9: 7, 11: 7, 14: 5, 22: 3, 28: 3, 24: 2, 25: 2, 26: 2, 21: 2},
    "2.6": {16: 4, 32: 3},
    "2.7": {1: 12, 22: 4, 24: 3, 25: 3, 26: 3, 19: 6, 20: 5, 37: 3},
    "2.8": {0: 9, 2: 6, 3: 11, 19: 7, 20: 6, 32: 4},
    "3.0": {2: 7, 3: 11, 9: 8, 10: 4},
    "3.1": {1: 13, 3: 12},
    "3.5": {1: 15, 24: 4},
    "3.6": {8: 9, 2: 8},
    "3.7": {0: 10, 1: 16, 9: 9, 18: 3},
    "3.8": {0: 11, 10: 5, 28: 4, 25: 4, 26: 4, 22: 5},
    "3.9": {1: 17, 2: 9, 10: 6, 11: 9, 13: 5, 16: 5, 18: 4, 24: 5},
    "4.0": {0: 12, 2: 10, 3: 13, 15: 6, 26: 5, 28: 5},
    "4.1": {0: 13, 1: 18},
    "4.2": {2: 11, 8: 10, 9: 10},
}  # fmt: skip
_LOWEST_SINCE_4 = {1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 32: 1}
_LOWEST_OF_4_0 = {**_LOWEST_SINCE_4, 11: 2}  # JoinGroup, restored in 4.1
_BATCHES_FROM = 3  # Produce: the first version whose sets are record batches
_NEVER = 1 << 62


def number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


class Rules:
    """Facts of one release.  kraft: without ZooKeeper; always from 4.0 on."""

    def __init__(self, release: str, kraft: bool = False) -> None:
        r = number(release)
        self.release = release
        self.kraft = kraft or r >= (4,)
        self.v08 = r < (0, 9)
        # apis and connections (modern-brokers, wire-protocol 2.1 and 2.14)
        self.highest = _up_to(r)
        self.lowest = {} if r < (4,) else _LOWEST_OF_4_0 if r < (4, 1) else _LOWEST_SINCE_4
        self.produce_from = _BATCHES_FROM if r >= (4,) else 0  # ApiVersions says 0 all the same (KAFKA-18659)
        self.looks_at_versions = r >= (0, 9)  # 0.8 answers in the layout of v0 whatever version was sent
        self.describes_itself = r >= (0, 10)
        self.names_its_versions = r >= (2, 4)  # in its answer to a version of ApiVersions that it does not have
        self.silent_on_unknown = (0, 9) <= r < (0, 10)  # an unknown api is never answered; others close the connection
        # messages (1.1 rows 9 to 12, wire-protocol 4)
        self.message_format = 0 if r < (0, 10) else 1 if r < (0, 11) else 2
        self.invalid_record = 87 if r >= (2, 4) else 2
        self.closes_on_no_batch = r < (2, 1)  # Produce v3 with anything but one batch fails while it is parsed
        self.one_wrapper_a_set = r >= (2, 4)
        self.opens_nested = self.v08  # 0.8 flattens wrappers in wrappers, 0.9 keeps them, later ones refuse them
        self.refuses_nested = r >= (0, 10)
        self.checks_inner = r >= (0, 11)  # the checksums of messages in wrappers
        self.counts_records = r >= (1,)  # refuses a batch that tells another number than it holds
        self.timeless_passes = r >= (0, 11)  # the limit of time; seen: 0.10.2.2 refuses timestamp -1
        self.refuses_append_time = r < (3, 5)  # seen: 2.8.2 refuses the bit, 3.9.1 takes and clears it
        self.transaction_needs_id = r >= (1,)  # seen: 0.11.0.3 takes transactional batches without, 2.8.2 answers 53
        self.refuses_keyless = r >= (0, 9)  # on compacted topics
        self.max_message_bytes = 1000012 if r < (2, 4) else 1048588
        self.verifies_transactions = r >= (3, 6)
        self.zstd = r >= (2, 1)
        self.pads_converted = r >= (2, 0)  # lazy conversion: an answer is as long as the stored bytes
        # produce (1.1, 1.2)
        self.any_acks = self.v08  # others answer 21 to all but -1, 0 and 1
        self.cache_before_log = r >= (0, 10, 1)  # an unknown topic is 3 before anything else
        self.known_elsewhere_is_6 = r >= (2, 0)  # a partition that is not held here but is in the cache
        self.wakes_on_leader_change = r >= (0, 10)
        self.wakes_on_deletion = r >= (2, 4)
        # replication (2.1 to 2.4)
        self.lag_time_ms = 30000 if r >= (2, 5) else 10000
        self.lag_max_messages = 4000 if self.v08 else _NEVER
        self.isr_check_share = 1.0 if r < (0, 10) else 0.5  # of the lag time
        self.lags_by_fetch = self.v08  # any fetch counts; later only one that reads to the leader's end
        self.equal_end_is_in_sync = r >= (2, 1)
        self.hw_waits_for_caught_up = r >= (0, 10, 2)
        self.hw_waits_for_live = r >= (3, 6)
        self.hw_needs_min_isr = r >= (3, 7)
        self.min_isr_capped = r >= (3, 7)
        self.has_min_isr = r >= (0, 8, 2)
        self.joins_at_epoch_start = r >= (2, 0, 1)
        self.controller_alters_isr = r >= (2, 7) or self.kraft
        self.replicates_larger = r >= (0, 10, 1)  # than replica.fetch.max.bytes; before, the follower stalls
        self.hw_moves_with_altered_isr = not (2, 7) <= r < (3, 1)  # KAFKA-13091; seen with 2.8.2
        self.truncates_by_epoch = r >= (0, 11)
        self.epoch_answers_name_epoch = r >= (2, 0)  # KIP-279
        self.ignores_same_leader = r < (0, 11)
        self.halts_on_shorter_leader = r < (2, 0)  # with unclean elections off
        self.restarts_on_longer_leader = self.v08
        self.unclean = r < (0, 11)
        self.always_unclean = r < (0, 8, 2)
        self.rebalances_leaders = r >= (0, 8, 2)
        self.controlled_shutdown = r >= (0, 8, 2)
        # fetch and list offsets (2.5, 3)
        self.above_hw_fails = r < (0, 10)
        self.unknown_cuts_poll = r < (0, 10, 1)
        self.poll_counts_limits = r >= (0, 9)
        self.polls_wake_on_leader_change = r >= (0, 9)
        self.exact_log_start = r >= (0, 11)
        self.followers_serve = r >= (2, 4)
        self.epochs_are_checked = r >= (2, 1)
        self.ends_wait_for_hw = r >= (2, 2)  # KIP-207: 78, or 5 below v5
        self.by_time_up_to_hw = r < (0, 11)  # an offset equal to the high watermark still counts
        self.tells_stable_end = r >= (1,)  # also to readers of uncommitted messages; seen: 0.11.0.3 tells those -1
        self.nothing_if_cut = r >= (3,)  # a conversion without a whole batch is empty; seen: 2.8.2 pads it, 3.9.1 not
        self.unknown_lists_nothing = r >= (3,)  # aborted: an empty list; seen: 2.8.2 null, 3.9.1 empty
        self.null_sets = r >= (3,)  # beside 76: -1 bytes
        self.fetch_cap_bytes = 55 << 20 if r >= (2, 5) else _NEVER
        # retention (4)
        self.ages_by_file = r < (0, 10)
        self.keeps_above_hw = r >= (0, 11)
        self.has_log_start = r >= (0, 11)
        self.start_moves_before_44 = (0, 11) <= r < (1, 1)
        self.cleans = r >= (0, 9)
        self.has_topic_ids = r >= (2, 8)
        self.checks_assignment = r >= (1,)  # partitions 0, 1, ...; seen: 0.11.0.3 does not, 2.8.2 does
        self.deletes_topics = r >= (1,)
        # producer state (6)
        self.idempotent = r >= (0, 11)
        self.remembered = 1 if r < (1,) else 5
        self.unknown_producer = 45 if r < (1,) else 59 if r < (2, 5) else 0
        self.after_marker = 59 if (2,) <= r < (2, 5) else 45
        self.producers_go_with_records = r < (2, 4)
        self.producer_expiry = "producer.id.expiration.ms" if r >= (3, 4) else "transactional.id.expiration.ms"
        self.producer_expiry_ms = (1 if r >= (3, 4) else 7) * 86_400_000
        # topics (5)
        self.reports_dead_replicas = r < (0, 10)  # v0: 9, and dead ids are left out
        self.counts_cached_brokers = r >= (0, 11)  # when a topic is created by its name; before, those in ZooKeeper
        self.too_few_fails_all = self.v08
        self.tells_brokers_by_topic = r < (0, 8, 2)
        self.creating = 3 if self.kraft else 5
        # quotas (7)
        self.throttles_after_answer = r >= (2, 0)


def _up_to(release: tuple[int, ...]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for name, versions in _HIGHEST.items():
        if number(name) <= release:
            found.update(versions)
    return found


def takes(rules: Rules, key: int, version: int, newest: int) -> bool:
    """Whether a broker answers this version; newest: the newest version that a table describes."""
    lowest = rules.produce_from if key == 0 else rules.lowest.get(key, 0)
    return lowest <= version <= min(rules.highest.get(key, -1), newest)
