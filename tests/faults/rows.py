# ruff: noqa: E501
"""Every fault of the matrix: what is demanded, and the tests that show it.

A row that other tests prove with its figures names them; there is no second test of the same.  tests/faults/test_rows.py
holds that each named test exists, that none of F1 to F48 is missing, and that docs/reliability.md shows this table.

    python -m tests.faults.rows     writes it there
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- rows -->\n", "<!-- end of rows -->\n"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A fault.  tests: "folder/file.py::name" below tests/, or "make ..."; lacking: what is not shown, and why."""

    number: int
    fault: str
    acceptance: str
    tests: tuple[str, ...]
    lacking: str = ""


def _own(number: int, fault: str, acceptance: str, *tests: str, lacking: str = "") -> MatrixRow:
    return MatrixRow(number, fault, acceptance, tuple(f"faults/{test}" for test in tests), lacking)


def _shown(number: int, fault: str, acceptance: str, *tests: str, lacking: str = "") -> MatrixRow:
    return MatrixRow(number, fault, acceptance, tests, lacking)


ROWS = (
    _own(1, "SIGTERM of the only daemon, restart", "lost 0, twice 0, exit ≤ 10 s, recovery ≤ 5 s",
         "test_daemon.py::test_f01_sigterm_of_the_only_daemon"),
    _own(2, "SIGTERM of one of two", "lost 0, twice 0, recovery ≤ 5 s, others pause ≤ 1 s",
         "test_daemon.py::test_f02_sigterm_of_one_of_two"),
    _own(3, "kill -9 of the only daemon", "lost 0, twice ≤ D1, recovery ≤ 13 s",
         "test_daemon.py::test_f03_kill_9_of_the_only_daemon"),
    _own(4, "kill -9 of one of two", "lost 0, twice ≤ D1, recovery ≤ 13 s",
         "test_daemon.py::test_f04_kill_9_of_one_of_two"),
    _own(5, "ten kill -9", "lost 0, twice ≤ 10 D1, commits safe", "test_daemon.py::test_f05_kill_storm"),
    _own(6, "kill -9 at fail points", "lost 0, twice exactly what was not committed",
         "test_daemon.py::test_f06_killed_after_send_before_ack",
         "test_daemon.py::test_f06_killed_after_ack_before_commit", "test_daemon.py::test_f06_killed_inside_claims",
         "test_daemon.py::test_f06_killed_between_the_commits_of_dual",
         "test_daemon.py::test_f06_killed_before_the_first_commit"),
    _own(7, "SIGSTOP within the session", "twice 0, rebalances 0", "test_daemon.py::test_f07_frozen_for_half_a_session"),
    _own(8, "SIGSTOP for three sessions, one of two", "lost 0, a produce request per broker, commits 0 behind the session",
         "test_daemon.py::test_f08_frozen_for_three_sessions_one_of_two"),
    _own(9, "SIGSTOP for three sessions, alone", "lost 0, twice ≤ D1, recovery ≤ 5 s",
         "test_daemon.py::test_f09_frozen_for_three_sessions_alone"),
    _own(10, "the session expires", "lost 0, twice ≤ D1, recovery ≤ 5 s",
         "test_zookeeper.py::test_f10_the_session_expires"),
    _own(11, "ZooKeeper restarts within the session", "rebalances 0, twice 0",
         "test_zookeeper.py::test_f11_zookeeper_restarts_in_time"),
    _own(12, "ZooKeeper down for a minute, for ten", "lost 0, twice ≤ D1, resumes ≤ 10 s, memory + ≤ 64 MB",
         "test_zookeeper.py::test_f12_zookeeper_is_down_for_a_minute",
         "test_zookeeper.py::test_f12_zookeeper_is_down_for_ten_minutes"),
    _own(13, "ZooKeeper out of one daemon's reach", "no overlap, lost 0, twice ≤ D1",
         "test_zookeeper.py::test_f13_zookeeper_is_out_of_reach_of_one_of_two"),
    _own(14, "ZooKeeper slow", "rebalances 0", "test_zookeeper.py::test_f14_zookeeper_is_slow"),
    _own(15, "foreign owner node left behind", "recovery ≤ 5 s after its removal",
         "test_zookeeper.py::test_f15_a_foreign_owner_node_is_left_behind"),
    _own(16, "source broker SIGTERM", "lost 0, twice 0, recovery ≤ 5 s, rebalances 0",
         "test_source.py::test_f16_a_source_broker_is_stopped"),
    _own(17, "source leader kill -9, 15 s down", "lost 0, recovery ≤ 10 s after the new leader",
         "test_source.py::test_f17_source_leaders_are_killed"),
    _own(18, "only replica of a source partition down for 60 s", "others pause ≤ 2 s, lost 0",
         "test_source.py::test_f18_the_only_replica_of_source_partitions_is_down"),
    _own(19, "target leader SIGTERM, kill -9", "lost 0, order, twice ≤ in flight, recovery ≤ 10 s",
         "test_target.py::test_f19_target_leaders_go_away"),
    _own(20, "target leader SIGSTOP for 30 s", "lost 0, twice ≤ in flight × retries, recovery ≤ request.timeout.ms + 5 s",
         "test_target.py::test_f20_a_target_leader_is_frozen"),
    _own(21, "leaders moved by election or reassignment",
         "twice 0 (source), recovery ≤ 2 s (target: ≤ request.timeout.ms + 2 s), ≤ 5 lines a partition",
         "test_source.py::test_f21_source_leaders_are_moved", "test_target.py::test_f21_target_leaders_are_moved"),
    _own(22, "whole target down",
         "twice ≤ in flight, memory + ≤ 64 MB, recovery ≤ request.timeout.ms + 5 s, ≤ 1 connect a second and broker",
         "test_target.py::test_f22_the_whole_target_is_stopped", "test_target.py::test_f22_the_whole_target_is_killed",
         lacking="60 s by default, not 10 min: FAULT_DOWN_S=600; SIGTERM broker by broker, not to all at once: there 0.8.2.2"
                 " itself loses what it acknowledged (KIP-101)"),
    _own(23, "target disk full", "as F19", "test_target.py::test_f23_a_target_disk_is_full",
         lacking="the limit of a file's size, not a full file system: to a 0.8 broker both are an I/O error, and it halts"),
    _own(24, "slow target: 3 Mbit/s, 100 ms", "≥ 90 % of the link, lost 0, memory + ≤ 64 MB",
         "test_target.py::test_f24_f25_a_slow_or_long_link_is_used"),
    _own(25, "WAN: 80 ms, stalls of 200 ms on 1 % of writes", "≥ 80 % of 100 Mbit/s, in order",
         "test_target.py::test_f24_f25_a_slow_or_long_link_is_used"),
    _own(26, "resets, slices, cuts, half-open links", "lost 0, twice ≤ in flight per reset, no hang",
         "test_target.py::test_f26_resets", "test_target.py::test_f26_slices",
         "test_target.py::test_f26_cut_in_the_middle_of_a_frame", "test_target.py::test_f26_half_open"),
    _shown(27, "message larger than the target takes", "park: one partition; dead letter: exactly one record, others ≤ 2 s; skip: counted",
           "integration/test_mirror_troubles.py::test_a_message_larger_than_the_target_takes_parks_its_partition_and_no_other",
           "integration/test_bad_messages.py::test_each_policy_leaves_out_exactly_the_bad_messages_of_its_kind", lacking="the alarm's 5 s are not timed"),
    _shown(28, "message larger than a fetch", "delivered; above the limit a policy, never silent",
           "integration/test_consumer_policies.py::test_a_large_message_grows_the_fetch_and_one_above_the_limit_is_named",
           "integration/test_bad_messages_07.py::test_a_message_that_no_fetch_can_hold_is_left_out_and_its_letter_says_where_it_is"),
    _shown(29, "damaged message in the source log", "fetched again 3 times, then the policy; lost = the bad one, reported",
           "integration/test_bad_messages.py::test_each_policy_leaves_out_exactly_the_bad_messages_of_its_kind",
           "integration/test_mirror_troubles.py::test_a_corrupt_message_parks_its_partition_exactly_before_itself",
           "integration/test_consumer_policies.py::test_park_stands_still_at_each_damage_and_the_whole_one_goes_on"),
    _shown(30, "undecodable: streams, codecs, magic, sizes", "the daemon survives 10,000 fuzzed batches",
           "faults/test_source.py::test_f30_the_daemon_survives_fuzzed_batches", "make fuzz",
           lacking="bytes that pass through are not looked into ([limits](limits.md#mirror))"),
    _shown(31, "target topic missing", "flows ≤ 30 s after its creation, lost 0",
           "integration/test_mirror_troubles.py::test_a_target_topic_that_nobody_creates_waits_beside_the_others_and_flows_once_it_is_there",
           "integration/test_mirror_troubles.py::test_a_missing_target_topic_is_created_with_the_source_s_partitions_before_anybody_names_it"),
    _shown(32, "source topic deleted, and created again", "others unaffected, nothing of the new log lost, said",
           "integration/test_mirror_topics.py::test_a_deleted_topic_waits_beside_its_neighbours_and_a_new_one_is_told_from_a_cut_log",
           "integration/test_recreated_topics.py::test_a_running_mirror_copies_all_of_the_new_log",
           "integration/test_recreated_topics.py::test_a_mirror_that_was_stopped_copies_all_of_the_new_log"),
    _shown(33, "retention passes the committed offset", "goes on at the earliest; the gap is the exact number",
           "integration/test_mirror_topics.py::test_a_deleted_topic_waits_beside_its_neighbours_and_a_new_one_is_told_from_a_cut_log",
           "integration/test_mirror_topics.py::test_retention_that_overtakes_a_mirror_whose_target_waits_costs_what_it_says_and_nothing_that_was_fetched", lacking="the alarm's 5 s are not timed"),
    _shown(34, "more partitions, at the source and at the target", "lost 0; a smaller target parks with the reason",
           "integration/test_mirror_topics.py::test_the_target_grows_with_its_source_and_keeps_partitions",
           "integration/test_mirror_troubles.py::test_new_partitions_of_a_source_topic_lose_nothing",
           "integration/test_mirror_troubles.py::test_partitions_that_the_target_gets_later_are_used_without_a_restart", lacking="the first message is waited for 20 s, not 10"),
    _shown(35, "new topic, matching or not", "≤ 5 s; 0 messages",
           "integration/test_mirror_copies.py::test_a_new_topic_is_mirrored_within_five_seconds_of_its_creation"),
    _shown(36, "full disks: state, dead letters, log", "mirroring goes on; a dead letter that cannot be stored parks",
           "faults/test_machine.py::test_f36_the_disk_of_state_and_log_is_full",
           "integration/test_bad_messages.py::test_a_dead_letter_topic_that_takes_nothing_parks_until_it_does"),
    _own(37, "clock + 1 h, - 1 h, ± 5 s", "commits keep their interval ± 20 %, rebalances 0",
         "test_machine.py::test_f37_the_clock_jumps"),
    _shown(38, "limits of descriptors and memory", "clear error, exit code, clean restart, lost 0",
           "integration/test_few_files.py::test_a_mirror_that_cannot_start_for_lack_of_descriptors_says_so",
           "integration/test_few_files.py::test_a_mirror_that_runs_out_of_descriptors_says_so_and_goes_on_when_there_are_more",
           "faults/test_machine.py::test_f38_memory_is_refused"),
    _shown(39, "the processor is taken, batches are huge", "rebalances 0 at 100 %; a stall ends by the watchdog",
           "faults/test_machine.py::test_f39_the_processor_is_taken_and_batches_are_huge",
           "integration/test_mirror_unit_live.py::test_the_unit_is_ready_reloaded_watched_and_stopped",
           lacking="batches of 10 MB, not of 50: the brokers of the row have 192 MB"),
    _own(40, "SIGHUP with a wrong file, with another whitelist", "twice 0, others do not pause",
         "test_operation.py::test_f40_reloads"),
    _own(41, "two versions mixed, then rolled", "same assignment, lost 0, twice 0", "test_operation.py::test_f41_two_versions",
         lacking="skipped without the history of the repository; the older version is FAULT_OLDER, by default 100 commits ago"),
    _shown(42, "mixed group with JVM members", "no second owner, no partition without one for > 13 s",
           "faults/test_group_rounds.py::test_random_moves_of_a_mixed_group_lose_nothing"),
    _own(43, "dual commit, the coordinator killed", "lost 0, twice 0, stores differ by ≤ one interval",
         "test_operation.py::test_f43_the_coordinator_of_a_dual_group_is_killed",
         "test_offset_modes_long.py::test_the_coordinator_dies_in_each_mode_on_the_way"),
    _shown(44, "soak: a random fault each 20 to 60 s", "lost 0, order, descriptors and memory level", "make soak"),
    _shown(45, "silent name servers, while connections break", "rebalances 0, no fence, lost 0, twice ≤ in flight per reset",
           "faults/test_machine.py::test_f45_name_servers_are_silent_while_links_break",
           "zkconsumer/test_zksession_names.py::test_the_fence_comes_with_the_end_of_the_lease_while_the_name_servers_are_silent",
           lacking="brokers are named in metadata.broker.list alone: those of the row register by number"),
    _own(46, "the machine of one of two is suspended for three sessions, and hears nothing of ZooKeeper for 5 s more",
         "lost 0, twice ≤ D1, sent and committed 0 between the wake-up and the next claim",
         "test_daemon.py::test_f46_the_machine_of_one_of_two_daemons_is_suspended",
         lacking="SIGSTOP, with a monotonic clock that stood still for as long: no machine is suspended"),
    _own(47, "disk of the offset map takes 8 s for a sync", "rebalances 0, no fence, twice 0, no hole, pause ≤ 2 s",
         "test_machine.py::test_f47_the_disk_is_slow"),
    _own(48, "a NAT forgets idle connections to the target", "first messages stored ≤ 2 s, no warning, lost 0, twice 0",
         "test_target.py::test_f48_a_nat_forgets_idle_connections",
         lacking="it forgets after 182 s, not 240: as soon as the mirror allows"),
)  # fmt: skip


def section() -> str:
    """Return the table of docs/reliability.md: what each row demands, and what its tests do not show."""
    lines = ["| row | fault | demanded | not shown |", "|---|---|---|---|"]
    lines += [f"| F{row.number} | {row.fault} | {row.acceptance} | {row.lacking} |" for row in ROWS]
    return "\n".join(lines) + "\n"


def made(page: str) -> str:
    """Return the page with this table."""
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{section()}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
