"""Reads a JSON list of TOML texts, and answers for each what prime-rl's own config models think of it: null, or why not.

The models import the package of every environment; for those that are not installed an empty one is made up.
"""

import importlib.abc
import importlib.machinery
import json
import sys
import tomllib
import types


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives an empty module for each name it was told of, and for no other."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module) -> None:
        module.__path__ = []


STUBS = Stubs()
sys.meta_path.append(STUBS)


def ids(value):
    if isinstance(value, dict):
        taskset = value.get("taskset")
        if isinstance(taskset, dict) and isinstance(taskset.get("id"), str):
            yield taskset["id"]
        for entry in value.values():
            yield from ids(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from ids(entry)


def judge(text: str) -> str | None:
    from prime_rl.configs.rl import RLConfig
    from pydantic import ValidationError

    config = tomllib.loads(text)
    for name in ids(config):
        STUBS.names.add(name.split("@")[0].split("/")[-1].replace("-", "_"))
    try:
        RLConfig.model_validate(config)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return None


print(json.dumps([judge(text) for text in json.load(sys.stdin)]))
