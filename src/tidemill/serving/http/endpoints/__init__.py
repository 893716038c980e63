"""The endpoints, by subject; ``ENDPOINTS`` lists them all, and is what routes and the OpenAPI description are made of.

- ``status``: the warehouse as it is, live, and its catalog
- ``statements``: statements of SQL
- ``tables``: rows that are sent, and epochs that are waited for
- ``views``: rows, changes, definition and explanation of a view
- ``inspection``: lineage, certificate, plans, quarantined rows, refresh and forecast
- ``sources``: what brings changes in and takes them out
- ``costs``: the refresh log, costs and statistics
- ``builds``: views that are built in the background
- ``health``: for whoever watches the process
- ``login``: logging in with a browser, and who asks
- ``console``: the page for people, and its files
"""

from tidemill.serving.http.endpoint import Endpoint
from tidemill.serving.http.endpoints import (
    builds,
    console,
    costs,
    health,
    inspection,
    login,
    sources,
    statements,
    status,
    tables,
    views,
)

__all__ = ["ENDPOINTS"]

ENDPOINTS: tuple[Endpoint, ...] = (
    *status.ENDPOINTS,
    *statements.ENDPOINTS,
    *views.ENDPOINTS,
    *tables.ENDPOINTS,
    *inspection.ENDPOINTS,
    *sources.ENDPOINTS,
    *builds.ENDPOINTS,
    *costs.ENDPOINTS,
    *health.ENDPOINTS,
    *login.ENDPOINTS,
    *console.ENDPOINTS,
)
