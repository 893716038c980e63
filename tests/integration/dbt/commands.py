"""Runs dbt in this process: a JSON list of arguments on each line of the input, its results as JSON on the output."""

import json
import sys

from dbt.cli.main import dbtRunner


def results_of(arguments):
    """Statuses and messages of the nodes that a command ran, what it logged, and its error if it could not run."""
    logged = []
    runner = dbtRunner(callbacks=[lambda event: logged.append(event.info.msg)])
    done = runner.invoke([*arguments, "--log-level-file", "none"])
    nodes = {}
    for result in getattr(done.result, "results", None) or []:
        if hasattr(result, "node"):
            nodes[result.node.name] = [str(result.status), result.message or ""]
    error = None if done.exception is None else str(done.exception)
    return {"success": done.success, "nodes": nodes, "logged": logged, "error": error}


for line in sys.stdin:
    print("\n@", json.dumps(results_of(json.loads(line)), default=str), flush=True)
