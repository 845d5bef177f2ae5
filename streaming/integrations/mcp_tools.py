"""An MCP server whose tools are the GET operations in the OpenAPI document of the web service ``serve``.

The protocol is described at modelcontextprotocol.io; the server uses that project's SDK.
"""

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import anyio
import urllib3
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from assignors import __version__
from assignors.errors import BadInput, MonitorError, OutsideFailure

_API_PATH: Final = "/api/v1"
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=60.0)
#: Largest answer in bytes, as an assistant reads the whole answer.
_MAX_BYTES: Final = 200_000
#: The operation that streams events never ends, so it is not a tool.
_STREAM_OPERATION: Final = "stream"
_INSTRUCTIONS: Final = (
    "Rebalances of Kafka consumer groups: who owned what when, why a group rebalanced, what it cost, what would help. "
    "Begin with `groups`. An episode is the story of consecutive rebalances, an incident a condition that somebody "
    "should look at; cite their ids (group id and number) and times. Bounds are [at least, at most]; null is unknown, "
    "never zero. Times are milliseconds since the epoch. Nothing can be changed through these tools."
)


class ServiceApi:
    """Client of the API of a running ``serve``; ``token_file``: file with the bearer token, if the API requires one."""

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInput(f"--url {url}: must begin with http:// or https://")
        self._url = url.rstrip("/")
        self._headers = {"accept": "application/json"}
        if token_file is not None:
            try:
                self._headers["authorization"] = f"Bearer {token_file.read_text(encoding='utf-8').split()[0]}"
            except (OSError, UnicodeDecodeError, IndexError) as error:
                raise BadInput(f"--token-file {token_file}: {error}") from error
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)

    def get(self, path: str) -> tuple[int, bytes]:
        """Request a path below /api/v1, and return the status and the body of the answer."""
        try:
            answer = self._pool.request("GET", f"{self._url}{_API_PATH}{path}", headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            raise OutsideFailure(f"--url {self._url}: {error}") from error
        return answer.status, answer.data

    def operations(self) -> dict[str, dict[str, Any]]:
        """Return the GET operations of the OpenAPI document by operation id, with ``path`` added to each operation."""
        status, body = self.get("/openapi.json")
        try:
            paths = json.loads(body)["paths"]
        except (ValueError, KeyError, TypeError) as error:
            raise OutsideFailure(f"--url {self._url}: answers {status} without an OpenAPI document") from error
        return {
            methods["get"]["operationId"]: methods["get"] | {"path": path.removeprefix(_API_PATH)}
            for path, methods in paths.items()
            if "get" in methods and methods["get"]["operationId"] != _STREAM_OPERATION
        }


def _input_schema(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, which are the operation's parameters without headers."""
    parameters = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] != "header"]
    return {
        "type": "object",
        "properties": {
            parameter["name"]: parameter["schema"] | {"description": parameter.get("description", "")}
            for parameter in parameters
        },
        "required": [parameter["name"] for parameter in parameters if parameter.get("required")],
        "additionalProperties": False,
    }


def _request_path(operation: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return the path and query of the HTTP request for a call of an assistant's tool."""
    schema = _input_schema(operation)
    unknown = sorted(arguments.keys() - schema["properties"].keys())
    missing = [name for name in schema["required"] if name not in arguments]
    if unknown or missing:
        raise BadInput(f"arguments: unknown: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}")
    path, query = operation["path"], {}
    for name, value in arguments.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(text, safe=""))
        else:
            query[name] = text
    return f"{path}?{urlencode(query)}" if query else str(path)


def _call_tool(
    api: ServiceApi, operations: dict[str, dict[str, Any]], name: str, arguments: dict[str, Any]
) -> tuple[bool, str]:
    """Call a tool; return True if the call failed, and the answer as JSON or a sentence."""
    if name not in operations:
        return True, f"no tool {name!r}; there are {', '.join(sorted(operations))}"
    try:
        status, body = api.get(_request_path(operations[name], arguments))
    except MonitorError as error:
        return True, str(error)
    if len(body) > _MAX_BYTES:
        properties = _input_schema(operations[name])["properties"]
        filters = [parameter for parameter in ("limit", "from", "to", "view") if parameter in properties]
        advice = f"ask for less with {', '.join(filters)}" if filters else "ask another tool, such as search"
        return True, f"the answer has {len(body)} bytes, more than {_MAX_BYTES}: {advice}"
    return status >= 400, body.decode()  # noqa: PLR2004 - HTTP statuses of errors


def _build_server(api: ServiceApi) -> Server:
    operations = api.operations()
    hints = ToolAnnotations(read_only_hint=True)
    tools: list[Tool] = [
        Tool(name=name, description=operation["summary"], input_schema=_input_schema(operation), annotations=hints)
        for name, operation in operations.items()
    ]

    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: Any) -> CallToolResult:
        failed, text = await to_thread.run_sync(_call_tool, api, operations, params.name, params.arguments or {})
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)

    return Server(
        "kafka-rebalance-monitor",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def run(api: ServiceApi) -> None:
    """Serve the tools on standard input and output until the client closes them."""
    server = _build_server(api)

    async def serve() -> None:
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    anyio.run(serve)
