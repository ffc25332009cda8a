"""`sluice auth`: who may log in to a cell's server, and do what."""

from pathlib import Path

import click
import msgspec

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.table import aligned
from sluice.cli.kit.terminal import echo
from sluice.rights.parties import BUDGET, services
from sluice.rights.roles import Roles, User

from .place import AuthPlace, reload

HOSTS = ("localhost", "127.0.0.1")
ROLES = ("operator", "team", "executor", "controller", "viewer")


@click.group()
def auth() -> None:
    """Say who may log in to a cell's server: keys, roles, and TLS.

    One file, auth/roles.yaml, says who there is; what the server is to include is made of it. Users prove who
    they are with keys (NATS' NKeys): the server has the public halves, so its configuration holds no secrets.
    """


def _place_option() -> Decorator:
    return click.option(
        "--dir", "directory", default="auth", show_default=True, metavar="DIR", help="Where all of it is."
    )


def _server_option() -> Decorator:
    return click.option(
        "--server-pid", metavar="PID|FILE", help="The server's pid, or its pid file: it is told at once."
    )


@auth.command()
@_place_option()
@click.option("--cell", default="main", show_default=True, metavar="NAME", help="Cell that the users are of.")
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Name or address of the server; may be repeated."
)
@click.option("--no-tls", is_flag=True, help="Make no certificates.")
@click.option("--server-dir", default="", metavar="DIR", help="Where the server will see the directory.")
def init(directory: str, cell: str, hosts: tuple[str, ...], no_tls: bool, server_dir: str) -> None:
    """Make the directory: keys for services, an operator and an agent, and an authority for TLS.

    \b
    Examples:
      sluice auth init --host nats.example.com
      sluice auth init --host nats --server-dir /etc/nats/auth
    """
    place = AuthPlace(Path(directory), server_dir)
    if place.roles_file.exists():
        raise CliError(f"{place.roles_file} is there already", hint="`sluice auth add` adds to it.")
    place.directory.mkdir(parents=True, exist_ok=True)
    if not no_tls:
        _certificates(place, cell, (*hosts, *HOSTS))
    users = [User(name=one.user, role="service") for one in services(cell)]
    users += [User(name="admin", role="operator"), User(name="agent", role="executor")]
    place.save(Roles(cell=cell, users=[place.with_key(user) for user in users]))
    echo(f"{place.config_file} is for the server, {place.keys} has a key for each of {len(users)} users.")
    if not no_tls:
        echo(f"{place.tls / 'ca.pem'} is for everybody who connects; keep {place.tls / 'ca.key'} elsewhere.")


def _certificates(place: AuthPlace, cell: str, hosts: tuple[str, ...]) -> None:
    from sluice.local.certificates import new_authority, new_server

    place.tls.mkdir(exist_ok=True)
    if not (place.tls / "ca.pem").exists():
        new_authority(place.tls / "ca.pem", place.tls / "ca.key", f"Sluice cell {cell}")
    ca = place.tls / "ca.pem", place.tls / "ca.key"
    new_server(place.tls / "server.pem", place.tls / "server.key", *ca, tuple(dict.fromkeys(hosts)))


@auth.command()
@click.argument("name")
@_place_option()
@click.option("--role", required=True, type=click.Choice(ROLES), help="What it is.")
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Of a team or executors; may be repeated."
)
@click.option("--controller", default="", metavar="NAME", help="Of a controller of admission checks.")
@click.option("--follows", is_flag=True, help="A team that may read the log and dispatch, of everybody.")
@click.option(
    "-q", "--queue", "queues", multiple=True, help="Local queue that a team's jobs may name; may be repeated."
)
@click.option("--rate", type=click.FloatRange(0), default=0.0, help="Messages a second that a team may send.")
@click.option("--burst", type=click.IntRange(0), default=0, help="... and how many of them at once.")
@click.option("--max-payload", type=click.IntRange(0), default=0, help="Most bytes of a team's message.")
@_server_option()
def add(
    name: str,
    directory: str,
    role: str,
    namespaces: tuple[str, ...],
    queues: tuple[str, ...],
    controller: str,
    server_pid: str | None,
    **more: object,
) -> None:
    """Add a user, with a key of its own.

    A team publishes jobs of its namespaces, and of no others: to its queues, if any are named, and as often
    and as large as it may. Executors run jobs of theirs, or of all.

    \b
    Examples:
      sluice auth add blue --role team -n blue -n blue-dev
      sluice auth add red --role team -n red -q red/batch --rate 50 --burst 500 --max-payload 100000
      sluice auth add gpu --role executor
      sluice auth add licences --role controller --controller example.com/licences
      sluice auth add bob --role viewer
    """
    place = AuthPlace(Path(directory))
    roles = place.load()
    if roles.user(name) is not None:
        raise CliError(f"there is a user {name} already", hint="`sluice auth rotate` gives it another key.")
    service = controller == BUDGET
    fields = {
        "name": "check_sluice_dev_budget" if service else name,
        "role": "service" if service else role,
        "namespaces": list(namespaces),
        "queues": list(queues),
        "controller": "" if service else controller,
        **{"maxPayload" if key == "max_payload" else key: value for key, value in more.items()},
    }
    user = msgspec.convert(fields, User)
    # Checked before a key is made of it.
    place.save(roles.put(user))
    place.save(roles.put(place.with_key(user)))
    _told(place, user.name, server_pid)


@auth.command()
@click.argument("name")
@_place_option()
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="With NAME `tls`: the server's names.")
@_server_option()
def rotate(name: str, directory: str, hosts: tuple[str, ...], server_pid: str | None) -> None:
    """Give a user another key; the earlier ones count until `sluice auth revoke NAME --old`.

    Nobody has to be restarted: programs read their key whenever they connect. With `tls` for NAME the server
    gets another certificate of the same authority.
    """
    place = AuthPlace(Path(directory))
    roles = place.load()
    if name == "tls":
        _certificates(place, roles.cell, (*hosts, *HOSTS))
        place.save(roles)
        for line in reload(server_pid):
            echo(line)
        return
    user = _known(roles, name)
    place.save(roles.put(place.with_key(user, keep=user.keys)))
    _told(place, name, server_pid)


@auth.command()
@click.argument("name")
@_place_option()
@click.option("--old", is_flag=True, help="Only its earlier keys; the newest one stays.")
@_server_option()
def revoke(name: str, directory: str, old: bool, server_pid: str | None) -> None:
    """Take a user out, or only its earlier keys. Who is logged in with one loses its connection."""
    place = AuthPlace(Path(directory))
    roles = place.load()
    user = _known(roles, name)
    if old:
        place.save(roles.put(msgspec.structs.replace(user, keys=user.keys[:1])))
    else:
        place.save(roles.without(name))
        place.seed_file(name).unlink(missing_ok=True)
    for line in reload(server_pid):
        echo(line)


@auth.command("list")
@_place_option()
def list_(directory: str) -> None:
    """List who may log in, as what."""
    rows = [["NAME", "ROLE", "OF", "KEYS"]]
    for user in AuthPlace(Path(directory)).load().users:
        about = ", ".join(user.namespaces) or user.controller
        rows.append([user.name, user.role, about, str(len(user.keys))])
    echo("\n".join(aligned(rows)))


def _known(roles: Roles, name: str) -> User:
    user = roles.user(name)
    if user is None:
        raise CliError(f"there is no user {name}", hint="`sluice auth list` lists them.")
    return user


def _told(place: AuthPlace, name: str, server_pid: str | None) -> None:
    echo(f"{place.seed_file(name)} is the key of {name}: SLUICE_CREDENTIALS names it where it is used.")
    for line in reload(server_pid):
        echo(line)
