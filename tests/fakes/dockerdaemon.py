"""A Docker daemon for tests of localkafka.containers: HTTP on a Unix socket, in the words of a real one.

Bodies and refusals are those that tests/localkafka/docker-api.json holds, recorded from a real daemon, with the ids,
labels and images of this one's containers.  Left out: images but one, networks, volumes, logs, exec, attach, events,
/wait, restart policies, health; nothing is executed, so a container ends only by a signal or `end`.
"""

from __future__ import annotations

import copy
import json
import re
import secrets
import socketserver
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "localkafka" / "docker-api.json").read_text(encoding="utf-8")
)
ID = re.compile(r"\b[0-9a-f]{64}\b")
Reply = tuple[int, Any]


@dataclass
class Kept:
    """A container: what was sent to create it, its state, and the signals it was given."""

    id: str
    sent: dict[str, Any]
    state: str = "created"
    ignores: set[int] = field(default_factory=set)
    signals: list[int] = field(default_factory=list)

    def end(self, state: str) -> None:
        self.state = state

    def document(self) -> dict[str, Any]:
        found = copy.deepcopy(RECORDED["container"])
        found["Id"] = self.id
        found["State"] = copy.deepcopy(RECORDED["states"][self.state])
        found["Config"].update({k: v for k, v in self.sent.items() if k not in ("HostConfig", "NetworkingConfig")})
        found["HostConfig"].update(self.sent["HostConfig"])
        return dict(found)


class DockerDaemon:
    """with DockerDaemon(folder) as daemon: DOCKER_HOST=daemon.url; .containers and .removed say what became of them.

    kernel   of the machine it says it runs on          image   the one it has
    """

    def __init__(self, folder: Path, kernel: str, image: str = "kafka-legacy-mirror:cluster") -> None:
        self.containers: dict[str, Kept] = {}
        self.removed: list[str] = []
        self.kernel = kernel
        self.image = image
        self.config: dict[str, Any] = copy.deepcopy(RECORDED["image"]["Config"])
        self.ignores: set[int] = set()  # signals that containers made from now on ignore
        path = folder / "docker.sock"
        self.url = f"unix://{path}"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.client_address = ("", 0)

            def log_message(self, *_: object) -> None: ...

            def answer(handler) -> None:
                size = int(handler.headers.get("Content-Length") or 0)
                sent = json.loads(handler.rfile.read(size)) if size else {}
                status, body = self.answer(handler.command, handler.path, sent)
                text = b"" if body is None else json.dumps(body).encode()
                handler.send_response(status)
                handler.send_header("Api-Version", RECORDED["version"]["ApiVersion"])
                handler.send_header("Content-Type", "application/json")
                if status != 204:
                    handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text)

            do_GET = do_POST = do_DELETE = answer

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Server(str(path), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> DockerDaemon:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def only(self) -> Kept:
        [one] = self.containers.values()
        return one

    def answer(self, method: str, target: str, sent: dict[str, Any]) -> Reply:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        match re.sub(r"^/v1\.\d+", "", parts.path).strip("/").split("/"):
            case ["version"]:
                return 200, RECORDED["version"]
            case ["info"]:
                return 200, {**RECORDED["info"], "KernelVersion": self.kernel}
            case ["images", name, "json"]:
                if name != self.image:
                    return 404, _named(RECORDED["no image"], "kafka-legacy-mirror:nothing", name)
                return 200, {**RECORDED["image"], "Config": self.config}
            case ["containers", "create"]:
                return self._create(sent)
            case ["containers", "json"]:
                [label] = json.loads(query["filters"])["label"]
                return 200, [_listed(one) for one in self.containers.values() if label in one.sent["Labels"]]
            case ["containers", named, *action]:
                one = self.containers.get(named)
                if one is None:
                    return _refused("gone", named)
                return self._act(one, method, *action, query=query)
        raise AssertionError(f"{method} {target}: not a request that containers.py makes")

    def _create(self, sent: dict[str, Any]) -> Reply:
        if sent["Image"] != self.image:
            return 404, _named(RECORDED["create without image"], "kafka-legacy-mirror:nothing", sent["Image"])
        one = Kept(secrets.token_hex(32), sent, ignores=set(self.ignores))
        self.containers[one.id] = one
        return 201, {**RECORDED["create"], "Id": one.id}

    def _act(self, one: Kept, method: str, action: str = "", *, query: dict[str, str]) -> Reply:
        match method, action:
            case "GET", "json":
                return 200, one.document()
            case "POST", "start":
                one.state = "running"
            case "POST", "pause":
                if one.state == "paused":
                    return _refused("pause paused", one.id)
                one.state = "paused"
            case "POST", "unpause":
                if one.state != "paused":
                    return _refused("unpause running", one.id)
                one.state = "running"
            case "POST", "kill":
                if one.state not in ("running", "paused"):
                    return _refused("kill ended", one.id)
                number = int(query["signal"])
                one.signals.append(number)
                if number not in one.ignores:
                    one.end("killed" if number == 9 else "terminated")
            case "DELETE", "":
                if one.state in ("running", "paused") and query.get("force") != "True":
                    return _refused("remove running", one.id)
                self.removed.append(one.id)
                del self.containers[one.id]
            case _:
                raise AssertionError(f"{method} {action}: not a request that containers.py makes")
        return 204, None


def _refused(what: str, container: str) -> Reply:
    status, body = RECORDED["errors"][what]
    return status, {"message": ID.sub(container, body["message"])}


def _named(body: dict[str, str], recorded: str, name: str) -> dict[str, str]:
    return {"message": body["message"].replace(recorded, name)}


def _listed(one: Kept) -> dict[str, Any]:
    return {
        **RECORDED["listed"],
        "Id": one.id,
        "Labels": one.sent["Labels"],
        "State": one.document()["State"]["Status"],
    }
