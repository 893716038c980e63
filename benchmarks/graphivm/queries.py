"""The nine queries of Tables 9.1 and 9.2. They project what the thesis's expressions leave: everything, once."""

from __future__ import annotations

SCHEMA = {
    "users": "userid BIGINT",
    "follower": "userid BIGINT, followerid BIGINT",
    "tweet": "userid BIGINT, tweetid BIGINT, tweetdate BIGINT",
    "retweet": "userid BIGINT, tweetid BIGINT, tweetdate BIGINT, retweettweetid BIGINT",
}
"""Figure 9.1."""

SIMPLE = {
    "q1": """
        SELECT u.userid, t.tweetid, t.tweetdate FROM users u JOIN tweet t ON u.userid = t.userid""",
    "q2": """
        SELECT f.followerid, t.userid, t.tweetid, t.tweetdate FROM follower f JOIN tweet t ON f.userid = t.userid""",
    "q3": """
        SELECT u.userid, t.tweetid, t.tweetdate, r.userid AS retweeter, r.tweetid AS retweetid, r.tweetdate AS passed
        FROM users u JOIN tweet t ON u.userid = t.userid JOIN retweet r ON t.tweetid = r.retweettweetid""",
    "q1agg": """
        SELECT u.userid, COUNT(t.tweetid) AS tweets
        FROM users u JOIN tweet t ON u.userid = t.userid GROUP BY u.userid""",
    "q2agg": """
        SELECT f.followerid, COUNT(t.tweetid) AS tweets
        FROM follower f JOIN tweet t ON f.userid = t.userid GROUP BY f.followerid""",
    "q3agg": """
        SELECT u.userid, COUNT(r.tweetid) AS retweets
        FROM users u JOIN tweet t ON u.userid = t.userid JOIN retweet r ON t.tweetid = r.retweettweetid
        GROUP BY u.userid""",
}
"""Table 9.1."""


def follower_chain(joins: int) -> str:
    """``QJoinChainLengthFollower``: tweets as followers of followers see them; with two joins it is ``QFanout``.

    The thesis prints ``F_n.followerId = T.userId`` for the last join. That would be followers of whom the author
    follows. We take ``F_n.userId``, as in ``QFanout``: then the fan-out grows with every join, as Table 9.3 says.

    >>> print(follower_chain(2))
    SELECT f1.followerid AS reader, f1.userid AS via1, t.userid, t.tweetid, t.tweetdate
    FROM follower f1
    JOIN follower f2 ON f1.userid = f2.followerid
    JOIN tweet t ON f2.userid = t.userid
    """
    via = [f"f{i}.userid AS via{i}" for i in range(1, joins)]
    steps = [f"JOIN follower f{i} ON f{i - 1}.userid = f{i}.followerid" for i in range(2, joins + 1)]
    return "\n".join(
        [
            f"SELECT {', '.join(['f1.followerid AS reader', *via, 't.userid', 't.tweetid', 't.tweetdate'])}",
            "FROM follower f1",
            *steps,
            f"JOIN tweet t ON f{joins}.userid = t.userid",
        ]
    )


def retweet_chain(joins: int) -> str:
    """``QJoinChainLengthRetweet``: who has seen retweets of retweets.

    >>> print(retweet_chain(2))
    SELECT r1.retweettweetid AS origin, r1.tweetid AS tweet1, r2.tweetid AS tweet2, f.userid, f.followerid
    FROM retweet r1
    JOIN retweet r2 ON r1.tweetid = r2.retweettweetid
    JOIN follower f ON r2.userid = f.userid
    """
    tweets = [f"r{i}.tweetid AS tweet{i}" for i in range(1, joins + 1)]
    steps = [f"JOIN retweet r{i} ON r{i - 1}.tweetid = r{i}.retweettweetid" for i in range(2, joins + 1)]
    return "\n".join(
        [
            f"SELECT {', '.join(['r1.retweettweetid AS origin', *tweets, 'f.userid', 'f.followerid'])}",
            "FROM retweet r1",
            *steps,
            f"JOIN follower f ON r{joins}.userid = f.userid",
        ]
    )
