"""The options of `mirrormaker diff`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from groundwork.commands import as_argument, output_option
from mirrormaker.commands.verifyflags import topic_pattern, topics_option
from zkconsumer.filters import TopicFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffFlags:
    """Options of a diff, beside the configuration.  groups: those whose offsets are compared; None: none.

    everything: also print what does not differ.
    """

    only_topics: TopicFilter | None
    groups: TopicFilter | None
    everything: bool
    defaults: bool
    output: str

    def wants(self, topic: str) -> bool:
        return self.only_topics is None or self.only_topics.matches(topic, exclude_internal=False)


diff_options = as_argument(  # passes DiffFlags as asked
    "asked",
    DiffFlags,
    [
        topics_option,
        click.option(
            "--groups",
            callback=topic_pattern,
            help="Also compare which offsets these groups have: a Java regex, commas mean 'or'.",
        ),
        click.option("--all", "everything", is_flag=True, help="Also print rows that are the same or as configured."),
        click.option(
            "--defaults",
            is_flag=True,
            help="Also compare settings that neither topic sets, if the brokers tell them (0.11 and later).",
        ),
        output_option(help="Form of stdout."),
    ],
)
