"""The tables of a social network, for the compiler's tests of long joins."""

from __future__ import annotations

from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.program.stages import Program

DDL = """
CREATE TABLE users (username STRING, gender STRING, country STRING);
CREATE TABLE follower (userid INT, followerid INT);
CREATE TABLE tweet (username STRING, tweet STRING, date DATE, likes INT);
CREATE TABLE retweet (retweet STRING, username STRING, tweet STRING);
"""

SOCIAL: dict[str, Table] = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

RETWEET_TRACKER = """
SELECT u.username, u.gender, u.country, t.tweet, t.date, r.username AS retweeter
FROM users u, tweet t, retweet r WHERE u.username = t.username AND t.tweet = r.tweet
"""

TWEET_REACH_COUNTER = """
SELECT u.username, COUNT(r.retweet) AS n
FROM users u, tweet t, retweet r WHERE u.username = t.username AND t.tweet = r.tweet GROUP BY u.username
"""


def chain(joins: int) -> str:
    """Followers of followers of ... and the last of them."""
    more = (f"JOIN follower f{i} ON f{i - 1}.followerid = f{i}.userid" for i in range(1, joins + 1))
    return f"SELECT f0.userid, f{joins}.followerid FROM follower f0 {' '.join(more)}"


def social(sql: str) -> Relation:
    """The algebra of a query over the network."""
    return translate(sql, {name: table.fields for name, table in SOCIAL.items()}, name="v").relation


def social_program(sql: str, strategy: str = "joingraph", serve: str = "both") -> Program:
    """The program of a view over the network."""
    return compile_view("v", social(sql), SOCIAL, strategy, serve=serve)
