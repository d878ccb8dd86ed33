"""Each bug that the original once fixed (and some it fixed late), and the test that holds it away from us.

A row names tests by module and function.  `story` and a file name stand for a story of
tests/scenarios/rebalance, `partition` and a file name for one of tests/scenarios/partition.  Or the row says why the
bug cannot occur here.  A name without a test fails.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
STORIES = {"story": TESTS / "scenarios" / "rebalance", "partition": TESTS / "scenarios" / "partition"}

# JIRA number -> names of tests, or ("cannot occur", why)
ROWS: dict[str, tuple[str, ...]] = {
    "84 shutdown did not commit": ("test_consumer_reading:test_a_clean_stop_and_start_repeats_and_loses_nothing",),
    "89 first start began at an invalid offset": (
        "test_fetcher:test_without_a_position_it_begins_where_the_reset_policy_says",
        "test_consumer_reading:test_the_start_position_is_committed_before_anything_is_done",
    ),
    "154 the position moved before the chunk was queued": ("partition:lease_over_with_work_in_flight.txt",),
    "160 endless loop on a too large message": (
        "test_fetcher:test_a_larger_message_grows_the_fetch_and_one_above_the_cap_parks",
    ),
    "212 mirror threads restarted illegally": (
        "test_mirror_crashes:test_the_first_death_inside_ends_the_daemon_with_its_reason",
    ),
    "225 mirror halts after a failed rebalance": ("story:never_gives_up.txt",),
    "213 retries were a constant": (
        "test_consumer_config:test_the_alarm_outlasts_a_dead_members_session_whatever_that_is",
    ),
    "234 backoff was a constant": (
        "test_consumer_config:test_the_alarm_outlasts_a_dead_members_session_whatever_that_is",
    ),
    "228 current chunk not dropped at rebalance": (
        "partition:revoked_while_messages_are_in_hand.txt",
        "partition:seek_back_and_forth_while_in_flight.txt",
    ),
    "241 iterator unusable after a time-out": ("test_delivery:test_an_iterator_goes_on_after_whatever_it_raised",),
    "256 rebalance skipped by a stale cache": ("story:a_second_member_takes_its_half.txt",),
    "262 released partitions it did not own": (
        "test_rebalance:test_an_owner_node_we_do_not_count_on_is_nothing_to_us",
        "story:owner_node_taken_away.txt",
    ),
    "265 one rebalance per watch event": ("story:many_changes_cost_one_round.txt",),
    "274 corrupt messages": (
        "test_delivery:test_a_damaged_message_ends_its_set_after_the_good_ones_and_is_reported_with_its_place",
        "test_consumer_policies:test_park_stands_still_at_each_damage_and_the_whole_one_goes_on",
    ),
    "286 partly won claims not released": ("story:a_claim_breaks_off.txt",),
    "326 dequeue hook not called on a time-out": ("cannot occur", "the producer has no dequeue hook"),
    "379 JSON parser not thread-safe": ("cannot occur", "Python's json keeps nothing between two calls"),
    "546 commit inside compressed sets": (
        "test_wire_messages:test_damage_before_the_wanted_start_is_not_looked_at",
        "test_wire_messages:test_a_nested_wrapper_the_broker_did_not_number_inside_loses_nothing_at_a_restart",
        "test_old_bugs_real:test_a_commit_inside_a_compressed_set_is_where_the_next_reader_begins",
    ),
    "550 wildcard with several streams fed only one": ("test_old_bugs_real:test_every_stream_of_a_filter_is_fed",),
    "693 a leaderless partition failed the rebalance": (
        "test_consumer_faults:test_a_partition_without_a_leader_waits_and_its_neighbours_flow",
    ),
    "732 shallow mirror unreadable": ("test_mirror_routes:test_what_passes_through_is_exactly_what_was_wanted",),
    "829 the mirror's channel": ("test_mirror_copies:test_everything_arrives_once_also_across_a_clean_stop_and_start",),
    "957 order per key": ("test_mirror_copies:test_a_smaller_target_gets_each_key_in_one_partition_and_in_order",),
    "832 deadlock with a slow stream": ("test_delivery:test_a_stream_that_stands_still_fills_its_own_lane_only",),
    "914 deadlock of rebalance and leader finder": (
        "cannot occur",
        "one greenlet takes the events, and no lock is held while anybody waits for a broker",
    ),
    "916 deadlock of fetcher and leader finder": (
        "cannot occur",
        "a fetcher hands a partition back by a list; it holds no lock of the finder's",
    ),
    "937 deadlock at the end of a fetcher": ("story:closing_without_zookeeper.txt",),
    "919 commit at rebalance despite auto-commit off": (
        "test_old_bugs_real:test_without_auto_commit_a_release_commits_nothing",
    ),
    "969 no brokers at start": ("test_consumer_reading:test_no_broker_that_lives_and_a_missing_topic_are_said_once",),
    "987 unchanged offsets rewritten": ("test_old_bugs_real:test_an_offset_that_did_not_move_is_not_written_again",),
    "989 shutdown against rebalance": ("story:closing_while_claiming.txt",),
    "992 false NodeExists on re-registration": (
        "test_groups_on_07:test_the_node_of_the_session_before_is_not_taken_for_ours",
        "story:stale_owner_nodes_of_a_dead_process.txt",
    ),
    "994 too large message: silent stall": (
        "test_consumer_policies:test_a_large_message_grows_the_fetch_and_one_above_the_limit_is_named",
    ),
    "1010 exception while reading brokers": ("test_zookeeper:test_f14_zookeeper_is_slow",),
    "1030 added partitions unseen": (
        "test_consumer_reading:test_partitions_added_while_running_are_read_from_their_beginning",
    ),
    "1075 added partitions unseen": ("story:new_partitions_and_topics.txt",),
    "1062 unsorted partitions": ("test_assignor:test_the_jvm_divides_like_this",),
    "1087 empty topic list = metadata of all topics": (
        "cannot occur",
        "leaders of a source are read in ZooKeeper; where Metadata is asked, None and the empty list are two things",
    ),
    "1103 two ZooKeeper clients": ("cannot occur", "a connector has one ZkSession, and filters read through it"),
    "1139 rebalance on the event thread": (
        "cannot occur",
        "watches put an event on the member's queue and return; kazoo's greenlet never rebalances",
    ),
    "1180 regex not JSON-escaped": (
        "test_znodes_v08:test_a_registration_is_the_jvms_text_byte_for_byte",
        "test_znodes_v08:test_what_we_write_everybody_reads_as_we_meant_it",
    ),
    "1469 abs() wrong": ("test_partitioners:test_the_default_partitioner_is_the_one_of_0_8_2",),
    "1510 idle offsets expire in Kafka storage": (
        "cannot occur",
        "offsets are stored in ZooKeeper, and refused elsewhere",
    ),
    "1603 mirror lost keys": ("test_mirror_copies:test_a_smaller_target_gets_each_key_in_one_partition_and_in_order",),
    "1719 mirror survived dead threads": (
        "test_mirror_crashes:test_the_first_death_inside_ends_the_daemon_with_its_reason",
    ),
    "1764 several end markers block shutdown": (
        "test_delivery:test_a_reader_ends_with_the_connector_and_raises_what_killed_it",
    ),
    "1387 endless re-registration against the own node": (
        "test_zookeeper:test_f10_the_session_expires",
        "story:session_lost.txt",
    ),
    "1650 mirror data loss": ("test_daemon:test_f03_kill_9_of_the_only_daemon",),
    "1997 mirror data loss": ("test_target:test_f19_target_leaders_go_away",),
    "2190 mirror data loss": (
        "test_mirror_crashes:test_a_stop_while_the_target_hangs_ends_in_time_with_75_and_commits_only_what_was_acknowledged",
    ),
    "1702 producer silently drops batches": (
        "test_sender:test_under_any_faults_nothing_is_lost_and_first_copies_are_in_order",
    ),
    "1848 shutdown waits for all retries": (
        "test_mirror_sources:test_a_stop_while_the_zookeeper_of_one_source_hangs_commits_what_the_other_has",
        "story:closing_without_zookeeper.txt",
    ),
    "2032 wrong strategy name accepted": ("test_consumer_config:test_what_cannot_work_is_refused_by_name",),
    "3965 mirror commits a record it could not send": (
        "test_progress:test_what_failed_parks_the_partition_and_nothing_after_it_is_committed",
    ),
    "4521 mirror commits a record it did not send yet": ("partition:acknowledged_in_any_order.txt",),
    "1648 roundrobin with no topics": ("test_assignor:test_nobody_reads_anything_and_nothing_is_dealt",),
    "2434 roundrobin's constraint on subscriptions": (
        "test_assignor:test_roundrobin_refuses_members_with_other_topics_until_0_10_2",
    ),
    "4409 deadlock of topic event and shutdown": ("story:closing_while_reading.txt",),
}


def known() -> frozenset[str]:
    found = {f"{kind}:{path.name}" for kind, folder in STORIES.items() for path in folder.glob("*.txt")}
    for path in TESTS.rglob("test_*.py"):
        found |= {f"{path.stem}:{name}" for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    return frozenset(found)


def test_each_old_bug_has_its_test_or_a_reason():
    there = known()
    for bug, row in ROWS.items():
        if row[0] == "cannot occur":
            assert len(row) == 2
            assert len(row[1].split()) > 4, f"{bug}: a reason is a sentence"
            continue
        assert row
        assert [name for name in row if name not in there] == [], f"{bug}: no such test"
