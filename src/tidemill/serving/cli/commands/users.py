"""``tidemill user``: who may use a server of a warehouse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidemill.model.errors import InvalidArgument, SetupError
from tidemill.serving.access.users import Users
from tidemill.serving.cli.warehouse_options import (
    DEFAULT_FOLDER,
    FolderOption,
    JsonOption,
    QuietOption,
    UsersOption,
    local_folder,
    say,
)
from tidemill.serving.render import json_line

__all__ = ["user"]

user = typer.Typer(
    name="user", help="Add and remove the users of a server, their passwords and tokens.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="The name of the user.", show_default=False)]
RolesOption = Annotated[
    list[str],
    typer.Option("--role", help="A role: owner, writer, reader, or one that rights are granted to."),
]


@user.command()
def add(
    name: NameArgument,
    role: RolesOption = [],  # noqa: B006 - typer copies it
    password: Annotated[bool, typer.Option("--password", help="Ask for a password, or read it from a pipe.")] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    users: UsersOption = None,
    quiet: QuietOption = False,
) -> None:
    """Add a user, with roles and perhaps a password.

    \b
    Examples:
      tidemill user add ann --role reader --password
      tidemill user add loader --role writer; tidemill user token loader
    """
    known = _users(warehouse, users)
    known.add(name, role, _asked_password(name) if password else None)
    say(f"added user {name.lower()}", quiet=quiet)


@user.command("list")
def list_(warehouse: FolderOption = DEFAULT_FOLDER, users: UsersOption = None, as_json: JsonOption = False) -> None:
    """List users, with their roles, and the labels of their tokens.

    \b
    Examples:
      tidemill user list -w shop
    """
    known = _users(warehouse, users)
    for name in known.names():
        entry = known.entry(name)
        labels = [label for label, _ in entry.tokens]
        if as_json:
            shown = {"name": name, "roles": entry.roles, "password": entry.verifier is not None, "tokens": labels}
            print(json_line(shown))
        else:
            ways = ["password"] * (entry.verifier is not None) + labels
            print(f"{name}: {', '.join(entry.roles) or 'no roles'}; {', '.join(ways) or 'no password or token'}")


@user.command()
def remove(
    name: NameArgument, warehouse: FolderOption = DEFAULT_FOLDER, users: UsersOption = None, quiet: QuietOption = False
) -> None:
    """Remove a user. A server that runs lets nobody in by that name after a second.

    \b
    Examples:
      tidemill user remove ann
    """
    _users(warehouse, users).remove(name)
    say(f"removed user {name.lower()}", quiet=quiet)


@user.command()
def roles(
    name: NameArgument,
    role: Annotated[list[str], typer.Argument(help="The roles, in place of those of before.", show_default=False)],
    warehouse: FolderOption = DEFAULT_FOLDER,
    users: UsersOption = None,
    quiet: QuietOption = False,
) -> None:
    """Give a user other roles.

    \b
    Examples:
      tidemill user roles ann reader eu
    """
    _users(warehouse, users).set_roles(name, role)
    say(f"{name.lower()} has the roles {', '.join(role)}", quiet=quiet)


@user.command()
def password(
    name: NameArgument, warehouse: FolderOption = DEFAULT_FOLDER, users: UsersOption = None, quiet: QuietOption = False
) -> None:
    """Set a password: it is asked for, or read from a pipe, and never part of the command.

    \b
    Examples:
      tidemill user password ann
      cat secret | tidemill user password ann
    """
    known = _users(warehouse, users)
    known.entry(name)
    known.set_password(name, _asked_password(name))
    say(f"set the password of {name.lower()}", quiet=quiet)


@user.command()
def token(
    name: NameArgument,
    label: Annotated[str, typer.Option(help="What the token is for; another one of this label ends.")] = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="End the token of this label.")] = False,
    warehouse: FolderOption = DEFAULT_FOLDER,
    users: UsersOption = None,
) -> None:
    """Make a token of a user, and print it: it is shown this once. Only its hash is kept.

    \b
    Examples:
      tidemill user token loader --label nightly > token
      tidemill user token loader --label nightly --revoke
    """
    known = _users(warehouse, users)
    if revoke:
        known.remove_token(name, label)
        say(f"revoked the token {label} of {name.lower()}")
        return
    print(known.add_token(name, label))


def _users(folder: str, users: Path | None) -> Users:
    if users is not None:
        return Users.load(users)
    found = local_folder(folder)
    if found is None:
        raise SetupError("there is no place for a file of users", where=folder, hint="Name a file with --users.")
    if not found.is_dir():
        raise SetupError("there is no warehouse", where=folder, hint="Make it first, or name a file with --users.")
    return Users.load(found)


def _asked_password(name: str) -> str:
    """A password from the terminal, asked twice, or the first line of a pipe."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise InvalidArgument("a password was expected on standard input", hint="Pipe it in, or use a terminal.")
    return line
