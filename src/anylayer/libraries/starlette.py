"""Requests and responses of HTTP by Starlette, which comes with ray[serve]; no other file imports it."""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

__all__ = ["ClientDisconnect", "Middleware", "Request", "Response", "StreamingResponse"]
