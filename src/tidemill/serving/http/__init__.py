"""HTTP: a starlette application over the public Python API, under ``/v1``.

- ``application``: the application, made of the declared endpoints
- ``endpoint``: what an endpoint declares, and a call of it; ``openapi``: their description, made from that
- ``endpoints``: the endpoints, by subject
- ``service``: what all requests share: the warehouse and the threads between it and the event loop
- ``conditions``: ``where`` and ``order`` of a request
- ``cancelling``: statements that end with the client who waits for them
- ``view_rows``: rows and changes for requests, without the lock of the warehouse
- ``metrics``: figures for Prometheus
- ``event_stream``: server-sent events
- ``ingest``: rows that are sent to tables
- ``streams``: live changes of views
- ``content``: rows in the forms that clients accept
- ``errors``: errors as responses, with their four fields
- ``authentication``: who asks, and what that allows
- ``request_limits``: how often one may ask, and how long a request may take to come
- ``guard``: who may ask, from where, and how much

This package is the only one that imports starlette.
"""
