"""Writes episodes.jsonl by the models of verifiers 0.3.1 themselves: python make_episodes.py > episodes.jsonl

One group of three episodes: a rollout with a tool call, one whose model went away, one that never began.
"""

import json

from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.episode import EnvInfo, Episode, GroupInfo, PolicySpan, TrainRunInfo, TrainWorkInfo
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import State
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, Error, ModelCall, Reward, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage

TASK = TraceTask(type="ReverseTextTask", data=WireTaskData(idx=7, prompt="abc", answer="cba"))


def node(parent, message, ids, logprobs=None):
    sampled = logprobs is not None
    credit = {"logprobs": logprobs, "advantages": [0.25] * len(ids)} if sampled else {}
    return MessageNode(
        parent=parent, message=message, sampled=sampled, token_ids=ids, mask=[sampled] * len(ids), **credit
    )


def trace(nodes, calls, reward, errors):
    return Trace[WireTaskData, State, WireAgentConfig](
        task=TASK,
        agent=AgentInfo(config=WireAgentConfig()),
        nodes=nodes,
        calls=calls,
        rewards={"lcs": reward},
        metrics={"num_turns": 2.0},
        info={"advantage": 0.25},
        is_completed=not errors,
        ok=not errors,
        stop_condition=None if errors else "agent_completed",
        errors=errors,
    )


def episode(traces, errors=()):
    return Episode[WireTaskData, State, WireAgentConfig](
        env=EnvInfo(id="primeintellect/reverse-text", name="reverse-text"),
        task=TASK,
        group=GroupInfo(id="g7"),
        run=TrainRunInfo(id="r", work=TrainWorkInfo(step=3, policy=PolicySpan(start=2, end=3))),
        ok=bool(traces) and all(each.ok for each in traces),
        errors=list(errors),
        traces=traces,
    )


prompt = [node(None, SystemMessage(content="Reverse."), [1, 2]), node(0, UserMessage(content="abc"), [3, 4])]
call = ToolCall(id="c1", name="check", arguments='{"x":1}')
said = [
    node(1, AssistantMessage(content="cba", reasoning_content="backwards", tool_calls=[call]), [5, 6, 7], [-0.1, -0.2, -0.3]),
    node(2, ToolMessage(tool_call_id="c1", content="right"), [8]),
    node(3, AssistantMessage(content="done"), [9], [-0.5]),
]
calls = [ModelCall(node=2, finish_reason="tool_calls"), ModelCall(node=4, finish_reason="stop")]
away = Error(type="ProviderError", message="the model was away")
for each in (
    episode([trace(prompt + said, calls, Reward(score=0.75), [])]),
    episode([trace(prompt, [], None, [away])]),
    episode([], [Error(type="SandboxError", message="no sandbox")]),
):
    print(json.dumps(each.to_record()))
