"""The manifests for Kubernetes as containers: what kustomize renders, files as kubelet puts them into pods.

No scheduler, no probes, one replica of each: who sees which files, as whom, and with which rights, is what
counts here. Files are links to a folder that is swapped as a whole, so that a change comes as in a cluster.
"""

import base64
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.command import sluice

from .compose import ROOT

DEPLOY = ROOT / "deploy"
DATA = "..data"


def docker(*arguments: str, timeout_s: float = 120) -> str:
    """Return what a command of docker prints.

    Raises:
        AssertionError: it failed; quotes it.
    """
    result = subprocess.run(
        ["docker", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s
    )
    assert result.returncode == 0, f"docker {' '.join(arguments)}:\n{result.stdout}{result.stderr}"
    return result.stdout.strip()


@dataclass
class Pods:
    """One cell. *name*: of the network, and what names of containers begin with."""

    name: str
    directory: Path
    image: str
    port: int = 0
    started: list[str] = field(default_factory=list)
    _versions: int = 0

    @property
    def auth(self) -> Path:
        return self.directory / "deploy" / "auth"

    def prepare(self) -> None:
        """Do what users do before they apply."""
        shutil.copytree(DEPLOY, self.directory / "deploy", ignore=shutil.ignore_patterns("auth", "wheels"))
        command = ("auth", "init", "--dir", str(self.auth), "--host", "nats")
        sluice(*command, "--server-dir", "/etc/nats/auth").ok()
        docker("network", "create", self.name)

    def apply(self) -> list[dict[str, Any]]:
        """Render the manifests, bring files to where pods see them, and return the workers."""
        command = ["kubectl", "kustomize", "deploy"]
        made = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=True)
        rendered = list(yaml.safe_load_all(made.stdout))
        self._versions += 1
        for one in rendered:
            if one["kind"] == "Secret":
                texts = {name: base64.b64decode(text) for name, text in one["data"].items()}
                self._put(one["metadata"]["name"], texts, 0o440)
            elif one["kind"] == "ConfigMap":
                texts = {name: text.encode() for name, text in one["data"].items()}
                self._put(one["metadata"]["name"], texts, 0o444)
        return [one for one in rendered if one["kind"] in ("Deployment", "StatefulSet")]

    def _put(self, name: str, texts: dict[str, bytes], mode: int) -> None:
        folder = self.directory / "volumes" / name
        version = folder / f"..{self._versions}"
        version.mkdir(parents=True)
        for file, text in texts.items():
            (version / file).write_bytes(text)
            (version / file).chmod(mode)
            # What fsGroup does.
            os.chown(version / file, 0, 10001)
            if not (folder / file).is_symlink():
                (folder / file).symlink_to(f"{DATA}/{file}")
        (folder / "..new").symlink_to(version.name)
        (folder / "..new").replace(folder / DATA)

    def start(self, worker: dict[str, Any]) -> None:
        """Start the containers of one pod."""
        pod, name = worker["spec"]["template"]["spec"], worker["metadata"]["name"]
        shared = []
        if pod.get("shareProcessNamespace"):
            pause = self._run(f"{name}-pause", [], self.image, ["sleep", "infinity"])
            shared = ["--pid", f"container:{pause}"]
        for one in pod["containers"]:
            options = [*shared, *self._security(pod["securityContext"], one["securityContext"])]
            if name == "nats" and one["name"] == "nats":
                options += ["--network-alias", "nats", "-p", "127.0.0.1::4222"]
            sources = {volume["name"]: volume for volume in pod.get("volumes", ())}
            for mount in one.get("volumeMounts", ()):
                source = self._source(name, mount["name"], sources.get(mount["name"], {}))
                options += ["-v", f"{source}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"]
            for key, value in self._env(f"{name}-0", one).items():
                options += ["-e", f"{key}={value}"]
            command = [*one.get("command", ()), *one.get("args", ())]
            image = self.image if one["image"].startswith("sluice") else one["image"]
            self._run(f"{name}-{one['name']}", options, image, command)
        if name == "nats":
            self.port = int(docker("port", f"{self.name}-nats-nats", "4222/tcp").rpartition(":")[2])

    def _run(self, name: str, options: list[str], image: str, command: list[str]) -> str:
        full = f"{self.name}-{name}"
        docker("run", "-d", "--name", full, "--network", self.name, *options, image, *command)
        self.started.append(full)
        return full

    def _security(self, pod: dict[str, Any], one: dict[str, Any]) -> list[str]:
        options = ["--user", f"{pod['runAsUser']}:{pod['runAsGroup']}", "--security-opt", "no-new-privileges"]
        options += ["--group-add", str(pod["fsGroup"])] if "fsGroup" in pod else []
        options += [f"--cap-drop={right}" for right in one["capabilities"]["drop"]]
        options += [f"--cap-add={right}" for right in one["capabilities"].get("add", ())]
        return [*options, *(["--read-only"] if one.get("readOnlyRootFilesystem") else [])]

    def _source(self, pod: str, name: str, volume: dict[str, Any]) -> Path:
        generated = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
        if generated:
            return self.directory / "volumes" / str(generated)
        empty = self.directory / "empty" / f"{pod}-{name}"
        empty.mkdir(parents=True, exist_ok=True)
        empty.chmod(0o777)
        return empty

    def _env(self, pod: str, one: dict[str, Any]) -> dict[str, str]:
        found = {}
        for source in one.get("envFrom", ()):
            folder = self.directory / "volumes" / source["configMapRef"]["name"] / DATA
            found |= {path.name: path.read_text() for path in folder.iterdir()}
        for variable in one.get("env", ()):
            found[variable["name"]] = variable.get("value", pod)
        return found

    def sluice(self, *arguments: str) -> str:
        """Run the command on this machine, as the operator."""
        folder = self.auth / "keys" / "admin"
        url = f"tls://127.0.0.1:{self.port}?credentials={folder / 'key.nk'}&ca={folder / 'ca.pem'}"
        return sluice("--server", url, *arguments, env={"COLUMNS": "200"}).ok().out

    def ready(self, service: str) -> bool:
        """Tell what the readiness probe would."""
        probe = ["python", "-m", "sluice.log.runtime.healthcheck"]
        flag = "--agent" if service == "agent" else "--ready"
        command = ["docker", "exec", f"{self.name}-{service}-{service}", *probe, flag]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    def beginnings(self) -> list[str]:
        """Return when each container was started, and how often again."""
        return [
            docker("inspect", "-f", "{{.State.StartedAt}} {{.RestartCount}} {{.State.Running}}", name)
            for name in self.started
        ]

    def remove(self) -> None:
        if self.started:
            docker("rm", "-f", *self.started)
        docker("network", "rm", self.name)
