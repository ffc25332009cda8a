"""`sluice auth`: who may log in to a cell's server, and do what."""

from pathlib import Path

import click
import msgspec

from sluice.cli.kit.errors import CliError
from sluice.cli.kit.options import Decorator
from sluice.cli.kit.table import aligned
from sluice.cli.kit.terminal import echo
from sluice.rights.parties import BUDGET, BUDGET_USER, services
from sluice.rights.roles import Roles, User

from .place import AuthPlace, reload, reload_whenever_changed

ROLES = ("operator", "team", "publisher", "executor", "controller", "manager", "viewer")


@click.group()
def auth() -> None:
    """Say who may log in to a cell's server: keys, roles, and TLS.

    One file, auth/public/roles.yaml, says who there is; what the server is to include is made of it. Users
    prove who they are with keys (NATS' NKeys): the server has the public halves, so its configuration holds
    no secrets. Give each user the folder auth/keys/NAME, and nobody another one.

    \b
    A user logs in with two files of its folder:
      export SLUICE_NATS_URL=tls://nats.example.com:4222
      export SLUICE_CREDENTIALS=auth/keys/NAME/key.nk SLUICE_CA=auth/keys/NAME/ca.pem

    \b
    A key that may be known to others is replaced while everybody works:
      sluice auth rotate NAME            the old one still counts
      ... put auth/keys/NAME where it is used ...
      sluice auth revoke NAME --old      now it does not
    """


def _place_option() -> Decorator:
    return click.option(
        "--dir", "directory", default="auth", show_default=True, metavar="DIR", help="Where all of it is."
    )


def _server_option(help_text: str = "The server's pid, or its pid file: it is told at once.") -> Decorator:
    return click.option("--server-pid", metavar="PID|FILE", help=help_text)


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

    Everything that a cell needs to start, and nobody has to type a password. The server's configuration is to
    include public/users.conf, and the gate to read public/roles.yaml (GATE_ROLES).

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
        place.certify(cell, hosts)
    users = [User(name=one.user, role="service") for one in services(cell) if one.user != BUDGET_USER]
    users += [User(name="admin", role="operator"), User(name="agent", role="executor")]
    place.save(Roles(cell=cell, users=[place.with_key(user) for user in users]))
    echo(f"{place.config_file} is for the server; each of {len(users)} users has a folder with its key in")
    echo(f"{place.directory / 'keys'}. `sluice auth add` makes further ones: teams, pools, viewers.")
    if not no_tls:
        echo(f"Keep {place.ca / 'ca.key'} elsewhere: it makes certificates of servers, and none needs it.")


@auth.command()
@click.argument("name")
@_place_option()
@click.option("--role", required=True, type=click.Choice(ROLES), help="What it is.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Of a team, executors or a manager; may be repeated.",
)
@click.option("--controller", default="", metavar="NAME", help="Of a controller of admission checks.")
@click.option("--manager", default="", metavar="CELL", help="Of a manager's link: the name of its cell.")
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

    \b
    operator     runs the cell: the whole `sluice` command
    team         submits and sees jobs of its namespaces (-n): to its queues (-q), if any are named, and as
                 often and as large as it may
    publisher    a system that submits jobs of all namespaces, and reads the log
    executor     runs jobs: of its namespaces (-n) only, if any are named, else of all
    controller   answers admission checks as itself (--controller)
    manager      the link of another cell, which places jobs here (--manager): submits and deletes its own
                 jobs, of its namespaces (-n) only, if any are named, and reads what becomes of jobs
    viewer       looks

    \b
    Examples:
      sluice auth add blue --role team -n blue -n blue-dev
      sluice auth add red --role team -n red -q red/batch --rate 50 --burst 500 --max-payload 100000
      sluice auth add gpu --role executor -n ml -n vision
      sluice auth add licences --role controller --controller example.com/licences
      sluice auth add link_hub --role manager --manager hub
      sluice auth add bob --role viewer
    """
    place = AuthPlace(Path(directory))
    roles = place.load()
    # This one is a service of the cell, whose name is known.
    service = controller == BUDGET
    fields = {
        "name": BUDGET_USER if service else name,
        "role": "service" if service else role,
        "namespaces": list(namespaces),
        "queues": list(queues),
        "controller": "" if service else controller,
        **{"maxPayload" if key == "max_payload" else key: value for key, value in more.items()},
    }
    user = msgspec.convert(fields, User)
    if roles.user(user.name) is not None:
        hint = "`sluice auth rotate` gives it another key."
        raise CliError(f"there is a user {user.name} already", hint=hint)
    # Checked before a key is made of it.
    place.save(roles.put(user))
    place.save(roles.put(place.with_key(user)))
    _told(place, user.name, server_pid)


@auth.command()
@click.argument("name")
@_place_option()
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="With NAME `tls`: the server's names, if others."
)
@_server_option()
def rotate(name: str, directory: str, hosts: tuple[str, ...], server_pid: str | None) -> None:
    """Give a user another key; the earlier ones count until `sluice auth revoke NAME --old`.

    Nobody has to be restarted: programs read their key whenever they connect, and try again for as long as
    the server does not know it. With `tls` for NAME the server gets another certificate of the same
    authority, for the names that it has.

    \b
    Examples:
      sluice auth rotate scheduler --server-pid /run/nats.pid
      sluice auth revoke scheduler --old --server-pid /run/nats.pid
      sluice auth rotate tls
    """
    place = AuthPlace(Path(directory))
    roles = place.load()
    if name == "tls":
        place.certify(roles.cell, hosts)
        place.save(roles)
        _reloaded(server_pid)
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
    """Take a user out, or only its earlier keys. Who is logged in with one loses its connection.

    \b
    Examples:
      sluice auth revoke bob             bob is nobody any more
      sluice auth revoke blue --old      after `sluice auth rotate blue`
    """
    place = AuthPlace(Path(directory))
    roles = place.load()
    user = _known(roles, name)
    if old:
        place.save(roles.put(msgspec.structs.replace(user, keys=user.keys[:1])))
    else:
        place.save(roles.without(name))
        place.forget(name)
    _reloaded(server_pid)


@auth.command("reload")
@_place_option()
@click.option("--watch", is_flag=True, help="Go on for ever: tell it of each change.")
@_server_option("The server's pid, or its pid file.")
def reload_(directory: str, watch: bool, server_pid: str | None) -> None:
    """Write what the server reads anew, of roles.yaml as it is now, and have it loaded.

    For changes by hand, and after an update of Sluice, when functions need other rights. With --watch nothing
    is written: it runs beside a server, and tells it whenever somebody else has changed the files.

    \b
    Examples:
      sluice auth reload --server-pid /run/nats.pid
      sluice auth reload --watch --dir /etc/nats/auth --server-pid /run/nats.pid
    """
    place = AuthPlace(Path(directory))
    if not watch:
        place.save(place.load())
        _reloaded(server_pid)
        return
    if not server_pid:
        raise CliError("whom to tell? --watch goes with --server-pid")
    for line in reload_whenever_changed(place, server_pid):
        echo(line)


@auth.command("list")
@_place_option()
def list_(directory: str) -> None:
    """List who may log in, as what.

    Two keys are one that is being replaced: `sluice auth revoke NAME --old` ends the older one.
    """
    rows = [["NAME", "ROLE", "OF", "KEYS"]]
    for user in AuthPlace(Path(directory)).load().users:
        about = ", ".join(user.namespaces) or user.controller or user.manager
        rows.append([user.name, user.role, about, str(len(user.keys))])
    echo("\n".join(aligned(rows)))


def _known(roles: Roles, name: str) -> User:
    user = roles.user(name)
    if user is None:
        raise CliError(f"there is no user {name}", hint="`sluice auth list` lists them.")
    return user


def _told(place: AuthPlace, name: str, server_pid: str | None) -> None:
    echo(f"{place.folder(name)} is for {name} alone: SLUICE_CREDENTIALS names key.nk where it is used.")
    _reloaded(server_pid)


def _reloaded(server_pid: str | None) -> None:
    for line in reload(server_pid):
        echo(line)
