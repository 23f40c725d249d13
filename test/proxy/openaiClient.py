"""OpenAI's Python client, unchanged, against a proxy: python openaiClient.py http://127.0.0.1:PORT/v1
Prints what it saw as one JSON object. The proxy's nodes are those of clients.test.ts."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="user", max_retries=0)
messages = [{"role": "system", "content": "Reverse the text."}, {"role": "user", "content": "abcdef"}]
ask = {"model": "lab-nano", "messages": messages, "max_tokens": 8, "seed": 5}
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
seen = {}

whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2, extra_body={"return_token_ids": True})
text = whole.choices[0].message.content
chunks = client.chat.completions.create(**ask, stream=True)
seen["streamed_is_whole"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
with client.chat.completions.stream(**ask) as stream:
    for _event in stream:
        pass
    # get_final_completion() refuses an answer that max_tokens ended.
    seen["helper_is_whole"] = stream.current_completion_snapshot.choices[0].message.content == text
seen["logprobs"] = len(whole.choices[0].logprobs.content) > 0
seen["token_ids"] = len(whole.choices[0].token_ids) > 0

called = client.chat.completions.create(model="tools", messages=messages, tools=tools)
seen["tool"] = called.choices[0].message.tool_calls[0].function.model_dump(include={"name", "arguments"})
with client.chat.completions.stream(model="tools", messages=messages, tools=tools) as stream:
    for _event in stream:
        pass
    function = stream.get_final_completion().choices[0].message.tool_calls[0].function
seen["helper_tool"] = function.model_dump(include={"name", "arguments"})

embedded = client.embeddings.create(model="tools", input=["a", "b"], encoding_format="float")
seen["embeddings"] = [one.embedding for one in embedded.data]
seen["models"] = [one.id for one in client.models.list()]

try:
    client.chat.completions.create(**{**ask, "model": "gpt-5"})
except openai.APIStatusError as error:
    seen["unknown_model"] = type(error).__name__
try:
    client.chat.completions.create(**ask, n=500)
except openai.APIStatusError as error:
    seen["too_many"] = [type(error).__name__, error.param]
try:
    for _chunk in client.chat.completions.create(model="tools", messages=messages, stream=True, user="cut"):
        pass
except openai.APIError as error:
    seen["cut"] = type(error).__name__

print(json.dumps(seen))
