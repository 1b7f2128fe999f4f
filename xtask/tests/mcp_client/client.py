"""Speaks to `lab mcp` with the client of the protocol's own Python package, as a program would.

Arguments: `legacy` or `auto`, the two ways to begin a session, then a directory for results, and the server's
command. Fails if an answer is not as expected.
"""

import asyncio
import json
import os
import re
import signal
import sys

from mcp import Client, StdioServerParameters

MODE, RESULTS, *COMMAND = sys.argv[1:]

MISSPELLED = "summary: misspelled\nsteps:\n  - wrkload: eventfd --sleep 0 1\n"

# Its machine is busy until it is stopped.
SLOW = "summary: waits\nsteps: [workload: eventfd --sleep 1000 1]\ntimeout: 100s\n"

# Seconds to wait for what takes one or two.
PATIENCE = 60


def text(answer):
    return "\n".join(block.text for block in answer.content)


def found(answer):
    assert not answer.is_error, text(answer)
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content["result"]


def status(pid):
    """Returns the parent, the name and the start time of a process, unless it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, rest = re.fullmatch(r"\d+ \((.*)\) (.*)", file.read(), re.DOTALL).groups()
    except OSError:
        return None
    fields = rest.split()
    return None if fields[0] in "ZX" else (int(fields[1]), name, fields[19])


def descendants(pid):
    """Returns the processes below this one: their PIDs, names and start times."""
    every = {int(entry): status(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    below, left = set(), [pid]
    while left:
        parent = left.pop()
        for child, of_child in every.items():
            if of_child and of_child[0] == parent:
                below.add((child, *of_child[1:]))
                left.append(child)
    return below


async def wait_for(what, condition):
    async with asyncio.timeout(PATIENCE):
        while not (value := condition()):
            await asyncio.sleep(0.05)
    print(what)
    return value


async def what_is_offered(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    verbs = {"list", "kernels", "explain", "check", "run", "trace", "judge", "resolve", "coverage"}
    assert tools.keys() == verbs, tools.keys()
    assert "where" in tools["trace"].input_schema["properties"]
    # The client checks every answer against these schemas.
    assert {name for name, tool in tools.items() if not tool.output_schema} == {"explain"}
    resources = {resource.name: resource.uri for resource in (await client.list_resources()).resources}
    for name, part in [("scenarios.md", "# The scenario file"), ("scenario.schema.json", '"expect_panic"')]:
        contents = (await client.read_resource(resources[name])).contents
        assert part in contents[0].text, name


async def questions(client):
    listed = found(await client.call_tool("list", {"filter": "^probes/"}))
    assert any(scenario["name"] == "probes/eventfd-write" for scenario in listed), listed
    assert any(kernel["default"] for kernel in found(await client.call_tool("kernels")))

    checked = await client.call_tool("check", {"yaml": MISSPELLED})
    assert checked.is_error and "did you mean `workload`" in text(checked), text(checked)
    assert re.search(r"scenario\.yaml:3:\d+", text(checked)), text(checked)
    unknown = await client.call_tool("list", {"filters": "x"})
    assert unknown.is_error and "unknown field `filters`" in text(unknown), text(unknown)
    # It is no option.
    option = await client.call_tool("list", {"paths": ["--json"]})
    assert option.is_error and "--json: no such file" in text(option), text(option)

    path = "file->f_inode->i_sb->s_type->name"
    resolved = found(await client.call_tool("resolve", {"kernel": "6.12", "function": "vfs_read", "paths": [path]}))
    fetch_arg = resolved["paths"][0]["resolved"]["fetch_arg"]
    explained = await client.call_tool("explain", {"paths": ["probes/eventfd-write"]})
    assert not explained.is_error and "eventfd_write" in text(explained), text(explained)
    assert fetch_arg.endswith(":string"), fetch_arg


async def a_run(client):
    messages = []

    async def progress(count, total, message):
        assert count > len(messages)
        messages.append(message)

    asked = {"paths": ["probes/eventfd-write"], "results": RESULTS, "coverage": True}
    ran = found(await client.call_tool("run", asked, progress_callback=progress))
    assert ran["passed"] == 1 and any("probes/eventfd-write" in message for message in messages), (ran, messages)
    place = ran["scenarios"][0]["directory"]

    events = found(await client.call_tool("trace", {"file": place, "event": ["efd_write"]}))
    some = found(await client.call_tool("trace", {"file": place, "event": ["efd_write"], "where": "value > 4"}))
    assert some == [event for event in events if event["fields"]["value"] > 4] and 0 < len(some) < len(events)
    nonsense = await client.call_tool("trace", {"file": place, "where": "value >"})
    assert nonsense.is_error and "value >" in text(nonsense), text(nonsense)

    assert found(await client.call_tool("judge", {"result": place}))[0]["status"] == "passed"
    with open(os.path.join(place, "scenario.yaml")) as file:
        stored = file.read()
    changed = stored.replace("14]", "15]").replace("- 14\n", "- 15\n")
    assert changed != stored, stored
    judged = await client.call_tool("judge", {"result": place, "yaml": changed})
    assert found(judged)[0]["status"] == "failed" and judged.structured_content["exit_code"] == 1, judged

    asked = {"results": ran["directory"], "files": ["fs/eventfd.c"], "function": "eventfd_write"}
    assert found(await client.call_tool("coverage", asked))[0]["run_by"] == ["probes/eventfd-write"]


async def a_long_answer(client):
    listed = await client.call_tool("list", {})
    assert listed.structured_content["left_out"] and len(text(listed)) < 70_000, listed.structured_content["left_out"]
    assert found(listed)


async def machine_of(call):
    """Waits for the processes of a call until QEMU is among them."""

    def runs():
        return any(name.startswith("qemu") for _, name, _ in descendants(os.getpid()))

    await wait_for("a machine runs", lambda: call.done() or runs())
    assert not call.done(), call
    return descendants(os.getpid())


def ended(processes):
    return not any((status(pid) or (0, "", ""))[2] == start for pid, _, start in processes)


async def a_call_is_cancelled(client, server):
    call = asyncio.create_task(client.call_tool("run", {"yaml": SLOW, "results": RESULTS}))
    below = await machine_of(call) - server
    call.cancel()
    await wait_for("the cancelled call has ended", lambda: ended(below))
    # The session goes on.
    assert found(await client.call_tool("kernels"))


async def main():
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=dict(os.environ))
    async with Client(parameters, mode=MODE) as client:
        server = descendants(os.getpid())
        await what_is_offered(client)
        await questions(client)
        await a_run(client)
        await a_long_answer(client)
        await a_call_is_cancelled(client, server)
        call = asyncio.create_task(client.call_tool("run", {"yaml": SLOW, "results": RESULTS}))
        below = await machine_of(call)
    # The client is gone.
    call.cancel()
    await wait_for("the server and what it ran have ended", lambda: ended(below))

    async with Client(parameters, mode=MODE) as client:
        [(server, *_)] = descendants(os.getpid())
        call = asyncio.create_task(client.call_tool("run", {"yaml": SLOW, "results": RESULTS}))
        below = await machine_of(call)
        os.kill(server, signal.SIGKILL)
        await wait_for("what a killed server ran has ended", lambda: ended(below))
        call.cancel()


asyncio.run(main())
