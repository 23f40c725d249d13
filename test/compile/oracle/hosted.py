"""Reads a JSON list of TOML texts, and answers for each what Hosted Training's own client thinks of it: null, or why not."""

import json
import sys
import tomllib

from prime_cli.commands.rl import RLConfig
from pydantic import ValidationError


def judge(text: str) -> str | None:
    try:
        RLConfig.model_validate(tomllib.loads(text))
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return None


print(json.dumps([judge(text) for text in json.load(sys.stdin)]))
