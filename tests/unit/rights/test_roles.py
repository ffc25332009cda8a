"""The file of roles, and what the server's configuration makes of it."""

from pathlib import Path

import pytest

from sluice.log.nats.nkeys import new_seed, public_of, read_seed, sign
from sluice.protocol.cells import end_of_names
from sluice.rights.parties import Bounds
from sluice.rights.roles import Roles, RolesError, User, config_of, dumped, parties_of, read

KEY = "U" + "A" * 55


def roles(*users: User) -> Roles:
    return Roles(users=list(users))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """And what is not said stands at its default."""
    wanted = roles(
        User(name="scheduler", role="service", keys=[KEY]),
        User(name="blue", role="team", namespaces=["a.b"], max_payload=10, keys=[KEY]),
        User(name="hello", role="controller", controller="example.com/hello"),
    )
    file = tmp_path / "roles.yaml"
    file.write_text(dumped(wanted))
    assert read(file) == wanted


@pytest.mark.parametrize(
    "users",
    [
        "[{name: Blue, role: viewer}]",
        "[{name: sluice, role: viewer}]",
        "[{name: blue, role: team}]",
        "[{name: blue, role: viewer}, {name: blue, role: viewer}]",
        "[{name: scheduler, role: viewer}]",
        "[{name: blue, role: service}]",
        "[{name: hello, role: controller}]",
        "[{name: blue, role: viewer, controller: x}]",
        "[{name: blue, role: viewer, keys: [SUAAAA]}]",
        "[{name: blue, role: king}]",
        "[{name: link, role: manager}]",
        "[{name: link, role: manager, manager: 'a.b'}]",
        "[{name: blue, role: viewer, manager: hub}]",
        "[{name: blue, role: viewer, queues: [a]}]",
        "[{name: blue, role: executor, rate: 1}]",
        "[{name: blue, role: team, namespaces: [blue], queues: [red/a]}]",
        "[{name: blue, role: team, namespaces: [blue], queues: ['']}]",
        "[{name: blue, role: team, namespaces: [blue], burst: 3}]",
        "[{name: blue, role: team, namespaces: [blue], rate: -1}]",
        "[{name: blue, role: viewer, keyes: []}]",
        "[" * 100,
        "3",
    ],
)
def test_wrong_roles_are_refused(tmp_path: Path, users: str) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text(f"users: {users}\n")
    with pytest.raises(RolesError, match=r"roles\.yaml: "):
        read(file)


def test_a_team_gets_its_namespaces() -> None:
    """In subjects a name is one token, whatever it holds."""
    team = User(name="blue", role="team", namespaces=["blue", "a.>"], keys=[KEY], max_payload=5)
    (party,) = parties_of(roles(team))
    assert party.says == ()
    assert party.offers == ("sluice.main.job.blue.>", "sluice.main.job.a%2E%3E.>")
    assert party.bounds == Bounds(max_bytes=5)
    assert party.reads == {}
    text = config_of(roles(team), {"cert_file": "/x"})
    assert f"nkey: {KEY}" in text
    own = "sluice.main.party.blue.job.blue.>"
    assert '{service: "sluice.main.party.blue.>", accounts: [BLUE]}' in text
    imported = f'{{service: {{account: SLUICE, subject: "{own}"}}, to: "sluice.main.job.blue.>"}}'
    assert imported in text
    assert 'cert_file: "/x"' in text


def test_a_link_speaks_of_its_managers_jobs_only() -> None:
    """Of those of its namespaces, if it has any; it reads what deciders say, and no manifests."""
    (link,) = parties_of(roles(User(name="link", role="manager", manager="hub", namespaces=["ml"])))
    assert link.offers == ("sluice.main.job.ml.>",)
    assert link.bounds == Bounds(kinds=("JobSubmitted", "JobDeleted"), ends=end_of_names("hub"))
    assert link.says[0] == "sluice.main.verdict.sluice%2Edev%2Fhold%2Ehub"
    assert not any("job" in subject for subjects in link.reads.values() for subject in subjects)


def test_keys_are_those_of_nats(tmp_path: Path) -> None:
    """In their form; seeds with a wrong checksum, and what is none, are refused without being quoted."""
    seed = new_seed()
    assert seed.startswith("SU")
    assert public_of(seed).startswith("U")
    assert len(sign(seed, "nonce")) == 86
    file = tmp_path / "k.nk"
    file.write_text(f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n")
    assert read_seed(str(file)) == seed
    # Of the last character, not all bits count.
    for wrong in (seed[:-2] + ("A" if seed[-2] != "A" else "B") + seed[-1], "SU1", "SUAA", public_of(seed)):
        with pytest.raises(ValueError, match=r"not a seed|not the seed") as caught:
            public_of(wrong)
        assert wrong not in str(caught.value)
    file.write_text("nothing")
    with pytest.raises(ValueError, match="no seed"):
        read_seed(str(file))
