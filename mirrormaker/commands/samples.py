"""`mirrormaker sample-config` and `systemd-unit`: the files of conf/ and systemd/, as the installed package has them.

A wheel holds copies of both folders in mirrormaker/shipped (setup.py); an editable install reads them in the checkout.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import mirrormaker
from groundwork.commands import Command
from groundwork.output import fail, print_note, print_text, write
from mirrormaker import exits, listen

CONF, UNITS = "conf", "systemd"
CHECKOUT_ONLY = "docker/"  # of conf: what docker-compose.yml mounts
LISTENS = re.compile(r"^( *)(http\.listen:)", re.MULTILINE)  # not where the extra is missing that it needs
EXPECTED = "/usr/local/bin"  # where the units as they are written expect the programs
EXPECTED_SENTENCE = re.compile(r"^# The command is expected at .*\n", re.MULTILINE)
EXEC = re.compile(rf"^ExecStart={re.escape(EXPECTED)}/([\w-]+)", re.MULTILINE)
CONFIG = re.compile(r"/etc/\w+/%i\.yaml")
OWN_USER = "DynamicUser=yes"
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,30}")
HIDDEN = (Path("/home"), Path("/root"), Path("/run/user"))  # by ProtectHome=yes


def folder(name: str) -> Path:
    """conf or systemd of this installation."""
    package = Path(mirrormaker.__file__).parent
    shipped = package / "shipped" / name
    found = shipped if shipped.is_dir() else package.parent / name
    if not found.is_dir():
        fail(f"this installation has no samples: neither {shipped} nor {found} is a folder", exits.STATE_FOLDER)
    return found


def samples() -> dict[str, Path]:
    """Return the sample configurations by name: `mirror` for mirror.yaml, any other file by its path below conf."""
    top = folder(CONF)
    paths = [path for path in sorted(top.rglob("*")) if path.is_file()]
    named = {str(path.relative_to(top)): path for path in paths}
    return {name.removesuffix(".yaml"): path for name, path in named.items() if not name.startswith(CHECKOUT_ONLY)}


def units() -> dict[str, Path]:
    """Return the unit files by name."""
    return {path.name: path for path in sorted(folder(UNITS).iterdir())}


def about(path: Path) -> str | None:
    """Return the first sentence or clause of a file's first comment, or None without a comment."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return re.split(r"(?<=\w)[:.](?: |$)", first.removeprefix("# "))[0] if first.startswith("# ") else None


def _chosen(found: dict[str, Path], name: str, what: str) -> Path:
    if name not in found:
        raise click.UsageError(f"no {what} {name!r}; there are {', '.join(found)}")
    return found[name]


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = samples() if ctx.command is sample_config else units()
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _list(found: dict[str, Path]) -> int:
    write([(name, about(path)) for name, path in found.items()], ("name", "about"))
    return exits.CLEAN


list_option = click.option("--list", "list_them", is_flag=True, help="List the names instead.")


@click.command(
    "sample-config",
    cls=Command,
    examples=[
        "mirrormaker sample-config > mirror.yaml",
        "mirrormaker sample-config --name from-07 > old.yaml",
        "mirrormaker sample-config --name consumer.properties > consumer.properties",
        "mirrormaker sample-config --list",
    ],
)
@click.option(
    "--name",
    default="mirror",
    show_default=True,
    shell_complete=_names,
    help="Name of the sample, as --list prints it.",
)
@list_option
def sample_config(name: str, list_them: bool) -> int:
    """Print a commented sample configuration."""
    if list_them:
        return _list(samples())
    text = _chosen(samples(), name, "sample").read_text(encoding="utf-8")
    if listen.missing():
        text = LISTENS.sub(r"\1# \2", text)
    print_text(text, nl=False)
    return exits.CLEAN


@click.command(
    "systemd-unit",
    cls=Command,
    examples=[
        "mirrormaker systemd-unit > /etc/systemd/system/mirrormaker@.service",
        "mirrormaker systemd-unit --user kafka --config /srv/kafka/%i.yaml",
        "mirrormaker systemd-unit --name mirrormaker-verify@.timer",
    ],
)
@click.option(
    "--name",
    default="mirrormaker@.service",
    show_default=True,
    shell_complete=_names,
    help="Name of the unit, as --list prints it.",
)
@click.option("--user", metavar="NAME", help="User that the service runs as.  [default: one that systemd makes]")
@click.option(
    "--config",
    metavar="PATH",
    help="Configuration file; %i stands for the instance.  [default: /etc/mirrormaker/%i.yaml]",
)
@list_option
def systemd_unit(name: str, user: str | None, config: str | None, list_them: bool) -> int:
    """Print a systemd unit with the paths of this installation."""
    if list_them:
        return _list(units())
    text = _chosen(units(), name, "unit").read_text(encoding="utf-8")
    starts = EXEC.search(text)
    if starts is None:
        if user is not None or config is not None:
            raise click.UsageError(f"{name} starts no program: --user and --config are for services")
    else:
        command = program_path(starts[1])
        text = filled(text, command, user=user, config=config)
        for path in (command, Path(config or "/")):
            if hidden(path):
                print_note(
                    f"warning: {path} is hidden from the service by ProtectHome=yes in {name}: "
                    "use a folder such as /opt/mirrormaker",
                )
    print_text(text, nl=False)
    return exits.CLEAN


def program_path(program: str) -> Path:
    """Path of a program of this installation: a link to it that outlives an upgrade, otherwise the program itself.

    The link is the one where the units expect it, or the one that this command was called by.  Ends the command if the
    program is not installed.
    """
    called_in = Path(sys.argv[0]).absolute().parent
    folders = dict.fromkeys([Path(sysconfig.get_path("scripts")), called_in, Path(sys.executable).parent])
    found = next((place / program for place in folders if (place / program).is_file()), None)
    if found is None:
        searched = ", ".join(map(str, folders))
        fail(f"{program} is not installed beside this Python: it is in none of {searched}", exits.STATE_FOLDER)
    expected = Path(EXPECTED) / program
    for link in (expected, called_in / program):
        if link.resolve() == found.resolve() and not hidden(link):
            return link
    if expected.exists():
        print_note(f"warning: {expected} leads to another installation, so the unit names {found} itself")
    return found


def hidden(path: Path) -> bool:
    """True if ProtectHome=yes hides the path from a service."""
    return any(path.is_relative_to(folder) for folder in HIDDEN)


def filled(text: str, command: Path, *, user: str | None = None, config: str | None = None) -> str:
    """A service with `command` in place of the expected one.  Raises UsageError for values that no unit takes.

    user: in place of DynamicUser=yes; config: in place of /etc/…/%i.yaml.
    """
    if user is not None and not USER_NAME.fullmatch(user):
        raise click.UsageError(f"--user {user!r} is no user name: letters, digits, _ and -, at most 31")
    if config is not None and not Path(config).is_absolute():
        raise click.UsageError(f"--config {config!r} is not absolute: systemd starts the service in another folder")
    text = EXPECTED_SENTENCE.sub(f"# Printed by `mirrormaker systemd-unit` for {command.parent}.\n", text)
    text = EXEC.sub(lambda found: f"ExecStart={quoted(str(command).replace('%', '%%'))}", text)
    if config is not None:
        text = CONFIG.sub(lambda found: quoted(config), text)
    if user is not None:
        text = text.replace(OWN_USER, f"User={user}")
    return text


def quoted(word: str) -> str:
    """A word of a command line as systemd reads it; % is left as it is."""
    if not re.search(r"[\s\"'\\;]", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
