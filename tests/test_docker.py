"""The Dockerfile, docker-compose.yml and docs/docker.md hold together: targets, files, commands, ports, versions.

What needs a daemon or a builder is not run here; `docker compose config` is, where that command is there.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from localkafka import containers, releases
from mirrormaker.config import from_yaml
from mirrormaker.systemd import Systemd
from sparkpipeline.load.config import read_config
from tests.docpages import blocks
from tests.fakes.helppages import code_of_help

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS = ROOT / "conf" / "docker" / "requirements"
PAGE = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
TARGETS = {"mirror", "full", "cluster"}
OURS = {*PROJECT["project"]["scripts"], "python"}


@dataclass
class Stage:
    """One FROM of the Dockerfile: what it is made from, and its instructions in order."""

    parent: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, word: str) -> str | None:
        return next((rest for name, rest in reversed(self.instructions) if name == word), None)


def stages() -> dict[str, Stage]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    current: Stage | None = None
    for line in filter(None, map(str.strip, lines.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            current = found[name] = Stage(parent)
        elif current is not None:
            current.instructions.append((word, rest.strip()))
    return found


STAGES = stages()


def inherited(stage: str, word: str) -> str | None:
    """The last instruction of this kind that counts in the image of a stage."""
    while stage in STAGES:
        own = STAGES[stage].last(word)
        if own is not None:
            return own
        stage = STAGES[stage].parent
    return None


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path of the checkout out of the build; the last pattern that fits decides."""
    out = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.strip().lstrip("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = path.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        if pattern.startswith("**/"):
            fits = any(fnmatch.fnmatch(part, pattern[3:]) for part in parts)
        else:
            fits = any(fnmatch.fnmatch(each, pattern) for each in above)
        if fits:
            out = not line.startswith("!")
    return out


# -- the Dockerfile ----------------------------------------------------------------------------------------------------


def test_stages_are_made_from_earlier_ones_and_the_last_is_the_full_image() -> None:
    names = list(STAGES)
    assert names[-1] == "full"
    assert set(names) >= TARGETS
    for position, stage in enumerate(STAGES.values()):
        assert stage.parent in ("${BASE}", *names[:position])
        for word, rest in stage.instructions:
            if word == "COPY" and "--from=" in rest:
                assert re.search(r"--from=(\w+)", rest)[1] in names[:position]  # type: ignore[index]


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_an_image_has_a_user_a_health_check_and_a_command_that_exists(target: str) -> None:
    assert inherited(target, "USER") == "10001:10001"
    assert STAGES[target].last("USER") == "10001:10001", "it was root to install"
    assert inherited(target, "HEALTHCHECK")
    command = json.loads(inherited(target, "CMD") or "")
    assert code_of_help(command) == 0
    health = json.loads((inherited(target, "HEALTHCHECK") or "").partition("CMD ")[2])
    if health[0] in PROJECT["project"]["scripts"]:
        assert code_of_help(health) == 0
    else:
        assert health == ["python", "/usr/local/share/kafka-legacy-mirror/health.py"]


def test_what_is_copied_from_the_checkout_exists_and_is_in_the_context() -> None:
    copied = [
        word
        for stage in STAGES.values()
        for name, rest in stage.instructions
        if name == "COPY" and "--from=" not in rest
        for word in rest.split()[:-1]
    ]
    assert "conf/docker/requirements" in copied
    assert "conf/docker/health.py" in copied
    for path in copied:
        assert (ROOT / path).exists(), path
        assert path == "." or not ignored(path), path


def test_the_context_has_every_package_and_nothing_that_changes_by_itself() -> None:
    packages = {name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    modules = {f"{name}.py" for name in PROJECT["tool"]["setuptools"]["py-modules"]}
    wanted = {
        *packages,
        *modules,
        "pyproject.toml",
        "setup.py",
        PROJECT["project"]["readme"],
        "LICENSE",
        "conf",
        "systemd",
    }
    found = {path.name for path in ROOT.iterdir() if not ignored(path.name)}
    assert found == wanted
    assert not ignored("localkafka/poms/0.8.2.2.xml")
    assert ignored("localkafka/__pycache__/jars.cpython-311.pyc")
    assert ignored(".git/HEAD")
    assert ignored("tests/test_docker.py")


def test_the_base_has_the_oldest_python_that_the_project_takes() -> None:
    base = re.search(r"^ARG BASE=python:([\d.]+)-slim-\w+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    assert PROJECT["project"]["requires-python"] == f">={base[1]}"


def test_the_image_of_clusters_starts_what_localkafka_starts() -> None:
    default = inherited("cluster", "ARG")
    assert default == f"KAFKA_VERSIONS={releases.DEFAULT}"
    assert STAGES["jars"].last("ARG") == default
    assert inherited("cluster", "ENV") == f"{containers.CACHE_VARIABLE}=/opt/localkafka"
    assert inherited("cluster", "LABEL") == f'{containers.VERSIONS}="${{KAFKA_VERSIONS}}"'
    assert f"kafka-legacy-mirror:{'cluster'}" == containers.IMAGE


def pinned(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by package, of a file of requirements."""
    text = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            package, *hashes = line.split()
            project, _, version = package.partition("==")
            found[canonicalize_name(project)] = version, hashes
    return found


def test_requirements_pin_all_that_the_images_install_within_the_ranges_of_the_project() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    asked = {"base": PROJECT["project"]["dependencies"], "build": PROJECT["build-system"]["requires"]}
    asked |= {name: extras[name] for name in ("metrics", "fast", "spark")}
    assert {path.stem for path in REQUIREMENTS.iterdir()} == asked.keys()
    versions: dict[str, str] = {}
    for name, requirements in asked.items():
        pins = pinned(name)
        for requirement in map(Requirement, requirements):
            assert pins[canonicalize_name(requirement.name)][0] in requirement.specifier, f"make requirements: {name}"
        for package, (version, _) in pins.items():
            assert versions.setdefault(package, version) == version, f"{package} has two versions"


def test_each_package_of_the_images_has_hashes_and_nothing_is_installed_without_them() -> None:
    for name in ("build", "base", "metrics", "fast", "spark"):
        for package, (version, hashes) in pinned(name).items():
            assert hashes, f"{package}=={version}"
            assert not [one for one in hashes if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one)]
    runs = [rest for stage in STAGES.values() for word, rest in stage.instructions if word == "RUN"]
    calls = [call for run in runs for call in run.split("&&") if re.search(r"\bpip (install|wheel)\b", call)]
    assert len(calls) == 11
    for call in calls:
        named = set(re.findall(r"([a-z]+)\.txt", call))
        assert ("--require-hashes" in call) != ("--no-index" in call and "--no-deps" in call), call
        assert named <= {path.stem for path in REQUIREMENTS.iterdir()}


# -- the health check --------------------------------------------------------------------------------------------------


@pytest.fixture
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health", ROOT / "conf" / "docker" / "health.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_mirror_that_pings_is_alive(health: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    path.touch()  # of a check that was killed
    mirror = Systemd({"NOTIFY_SOCKET": str(path)}, os.getpid())
    ended = threading.Event()

    def ping() -> None:
        while not ended.wait(0.05):
            mirror.status("0 msg/s")
            mirror.alive()

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        assert health.alive(path, 20)
    finally:
        ended.set()
        thread.join()
    assert not path.exists()


def test_a_mirror_that_only_shows_its_status_is_not(health: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    mirror = Systemd({"NOTIFY_SOCKET": str(path)}, os.getpid())
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(0.05):
            mirror.status("parked 1: orders/3")

    thread = threading.Thread(target=show)
    thread.start()
    try:
        began = time.monotonic()
        assert not health.alive(path, 0.5)
        assert time.monotonic() - began < 10
    finally:
        ended.set()
        thread.join()


def test_the_mirror_pings_several_times_while_the_check_waits(health: ModuleType) -> None:
    variables = dict(pair.split("=", 1) for pair in (inherited("mirror", "ENV") or "").split())
    watchdog_s = Systemd(variables, 1).watchdog_s
    assert watchdog_s is not None
    assert watchdog_s <= health.WAIT_S
    timeout = re.search(r"--timeout=(\d+)s", inherited("mirror", "HEALTHCHECK") or "")
    assert timeout is not None
    assert int(timeout[1]) > health.WAIT_S


# -- docker-compose.yml ------------------------------------------------------------------------------------------------

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def our_commands(words: list[str]) -> list[list[str]]:
    """The commands of ours in a command line; `sh -c` may have several."""
    if words[:2] != ["sh", "-c"]:
        return [words]
    parts = re.split(r"&&|\|\||\||;", words[2])
    split = [shlex.split(part.partition(">")[0]) for part in parts]
    return [one for one in split if one and one[0] in OURS]


BUILT = [name for name, service in SERVICES.items() if "build" in service]


def test_prometheus_scrapes_the_mirror_with_the_rules_that_are_shipped() -> None:
    """It is the only image that is not built here, and its release is named."""
    assert SERVICES.keys() - set(BUILT) == {"prometheus"}
    service = SERVICES["prometheus"]
    assert re.fullmatch(r"prom/prometheus:v\d+\.\d+\.\d+", service["image"])
    assert service["cap_drop"] == ["ALL"]
    mounted = dict(reversed(volume.removesuffix(":ro").split(":")) for volume in service["volumes"])
    file = next(word.partition("=")[2] for word in service["command"] if word.startswith("--config.file="))
    config = yaml.safe_load((ROOT / mounted[file]).read_text(encoding="utf-8"))
    for rules in config["rule_files"]:
        assert (ROOT / mounted[f"/etc/prometheus/{rules}"]).is_file()
    (job,) = config["scrape_configs"]
    (group,) = job["static_configs"]
    address = from_yaml(ROOT / "conf" / "docker" / "mirror.yaml").mirror.http_listen
    assert address is not None
    assert group["targets"] == [f"mirror:{address.port}"]
    assert f"127.0.0.1:{address.port}:{address.port}" in SERVICES["mirror"]["ports"]


@pytest.mark.parametrize("name", BUILT)
def test_a_service_is_built_here_and_runs_commands_that_exist(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    service = SERVICES[name]
    target = service["build"]["target"]
    assert target in TARGETS
    assert service["image"] == f"kafka-legacy-mirror:{target}"
    assert "privileged" not in service
    assert service["cap_drop"] == ["ALL"]
    commands = our_commands(service["command"])
    assert commands
    for words in commands:
        assert words[0] in OURS
        assert code_of_help(words) == 0, capfd.readouterr().err


def test_what_services_wait_for_and_mount_is_there() -> None:
    for name, service in SERVICES.items():
        for other, on in service.get("depends_on", {}).items():
            assert other in SERVICES
            if on["condition"] == "service_healthy":
                assert not SERVICES[other].get("healthcheck", {}).get("disable"), f"{name} waits for {other}"
        for volume in service.get("volumes", ()):
            source, _, inside = volume.partition(":")
            if source.startswith("."):
                assert (ROOT / source).is_file(), volume
                assert inside.endswith(":ro")
                if name in BUILT:
                    words = [word for one in our_commands(service["command"]) for word in one]
                    assert inside.removesuffix(":ro") in words
            else:
                assert source in COMPOSE["volumes"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name} publishes {port}"


def test_configurations_are_taken_and_name_the_clusters_that_run() -> None:
    mirror, load = ROOT / "conf" / "docker" / "mirror.yaml", ROOT / "conf" / "docker" / "load.yaml"
    from_yaml(mirror)
    config = read_config(load)
    assert config.base == "/warehouse"
    assert "warehouse:/warehouse" in SERVICES["load"]["volumes"]
    commands = "\n".join(str(service["command"]) for service in SERVICES.values())
    texts = (mirror.read_text(), load.read_text(), commands)
    named = {found for text in texts for found in re.findall(r"\b(source|target):(\d+)", text)}
    served = set()
    for name in ("source", "target"):
        words = SERVICES[name]["command"]
        assert words[words.index("--advertise") + 1] == name
        served |= {(name, words[words.index(option) + 1]) for option in ("--port", "--zookeeper-port")}
    assert named <= served
    assert {name for name, _ in named} == {"source", "target"}


def test_the_health_check_of_clusters_looks_where_they_are_started() -> None:
    check = inherited("cluster", "HEALTHCHECK") or ""
    for name in ("source", "target"):
        words = SERVICES[name]["command"]
        assert f"127.0.0.1:{words[words.index('--zookeeper-port') + 1]}/kafka" in check


def compose_command() -> list[str] | None:
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and subprocess.run([*words, "version"], capture_output=True).returncode == 0:
            return words
    return None


def test_the_compose_tool_takes_the_file() -> None:
    command = compose_command()
    if command is None:
        pytest.skip("needs `docker compose` or docker-compose")
    done = subprocess.run([*command, "-f", str(ROOT / "docker-compose.yml"), "config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["services"].keys() == SERVICES.keys()


# -- the page, and the wheel that the images install ------------------------------------------------------------------


def page_commands() -> list[list[str]]:
    text = "".join(block.text for block in blocks("docker.md") if block.language == "sh")
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_commands_of_the_page_name_targets_services_and_commands_that_exist(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    seen = set()
    for words in page_commands():
        for assignment in [word for word in words if re.fullmatch(r"[A-Z_]+=\S+", word)]:
            words.remove(assignment)
        if "--target" in words:
            assert words[words.index("--target") + 1] in TARGETS
        if words[:2] == ["docker", "compose"]:
            seen.add(words[2])
            if words[2] in ("exec", "run", "logs", "kill"):
                assert any(word in SERVICES for word in words[3:]), words
        starts = [at for at, word in enumerate(words) if word in PROJECT["project"]["scripts"] or word == "python"]
        inner = [words[at:] for at in starts[:1]]
        if "-c" in words:
            inner = our_commands(["sh", "-c", words[words.index("-c") + 1]])
        for one in inner:
            assert code_of_help(one) == 0, capfd.readouterr().err
    assert seen >= {"up", "down", "ps", "exec", "run", "logs", "kill"}


@pytest.mark.real
def test_the_context_makes_a_wheel_whose_commands_run(tmp_path: Path) -> None:
    """As the stages `wheel` and `mirror` do; what builds it and its dependencies are those of the tests."""
    context, wheels, folder = tmp_path / "src", tmp_path / "wheels", tmp_path / "venv"
    for path in ROOT.iterdir():
        if not ignored(path.name) and path.is_dir():
            shutil.copytree(path, context / path.name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif not ignored(path.name):
            context.mkdir(exist_ok=True)
            shutil.copy(path, context)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), str(context)]
    subprocess.run(build, env=environment, check=True, timeout=300)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    install = [
        *pip,
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--no-deps",
        "--no-index",
        *map(str, wheels.glob("*.whl")),
    ]
    subprocess.run(install, env=environment, check=True, timeout=120)
    site = next(folder.glob("lib/python*/site-packages"))
    site.joinpath("of-the-tests.pth").write_text(str(Path(yaml.__file__).parent.parent) + "\n")
    packages = {name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert {path.name for path in site.iterdir()} >= packages
    assert site.joinpath("localkafka", "poms", "0.8.2.2.xml").is_file()
    for script in ("mirrormaker", "zkconsumer", "zkproducer", "sparkpipeline"):
        done = subprocess.run(
            [folder / "bin" / script, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), script
    check = [folder / "bin" / "mirrormaker", "check", str(ROOT / "conf" / "docker" / "mirror.yaml")]
    assert subprocess.run(check, cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=60).returncode == 0
