"""dbt projects over a warehouse, by the adapter in ``integrations/dbt``.

- ``jaffle``: a project of the shape that dbt's own example has
- ``running``: dbt in an environment and a process of its own, which runs one command after the other
- ``commands``: what that process runs
"""
