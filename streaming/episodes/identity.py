"""Member identity: client id, host and instance id, and the keys that match a member with its replacement."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from streaming.records.diffs import MemberNames

MEMBER_KEY: Final = "member id"
BY_INSTANCE_ID: Final = "instance id"
HOST_KEY: Final = "client id and host"
CLIENT_KEY: Final = "client id"
POD_KEY: Final = "pod names of one Deployment"
OWNER_KEY: Final = "client ids of one owner"
PATTERN_KEY: Final = "client id without its UUID"
BY_DEFAULT_CLIENT_ID: Final = "default client id"
#: All keys but the member id, the strongest first.
KEY_KINDS: Final = (BY_INSTANCE_ID, HOST_KEY, CLIENT_KEY, POD_KEY, PATTERN_KEY, OWNER_KEY, BY_DEFAULT_CLIENT_ID)
#: Keys with which a whole set of members may have been replaced by another set.
SHARED_KEY_KINDS: Final = frozenset({CLIENT_KEY, POD_KEY, OWNER_KEY, PATTERN_KEY})
#: Keys that don't prove a replacement, as many members may have the same key.
UNSURE: Final = frozenset({OWNER_KEY, PATTERN_KEY, BY_DEFAULT_CLIENT_ID})
#: Characters of generated Kubernetes names (``SafeEncodeString``): no vowels, no digits that look like letters.
_SAFE_CHARS: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_DEPLOYMENT: Final = re.compile(rf"(?P<name>.+)-(?P<hash>{_SAFE_CHARS}{{6,10}})-{_SAFE_CHARS}{{5}}(?P<thread>-\d+)?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Variable parts of generated names: pods' suffixes, containers' ids, ordinals, addresses, times.
_GENERATED_SUFFIXES: Final = (
    re.compile(rf"(?<=-){_SAFE_CHARS}{{5}}(?=-\d+$|$)"),
    re.compile(r"(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{8,64}(?![0-9A-Za-z])"),
    re.compile(r"(?<=[-_.])\d+(?=[-_.]|$)"),
)
#: Default client ids of client libraries.
_DEFAULT_CLIENT_ID: Final = re.compile(
    r"rdkafka|kafka-python-[\d.]+|aiokafka-[\d.]+|sarama|kgo|consumer-.+-\d+|consumer-\d+|console-consumer(-\d+)?"
)


def exact_keys(member_id: str, names: MemberNames) -> Iterator[tuple[str, str]]:
    """Yield keys that identify the member, such as its client id with its host, the most specific key first."""
    yield MEMBER_KEY, member_id
    if names.group_instance_id:
        # Members with different instance ids are different members, even if they have the same client id.
        yield BY_INSTANCE_ID, names.group_instance_id
    elif names.client_id:
        if names.client_host:
            yield HOST_KEY, f"{names.client_id} {names.client_host}"
        if not is_default_client_id(names.client_id):
            yield CLIENT_KEY, names.client_id


def is_default_client_id(client_id: str) -> bool:
    """Return whether a client id is the default of a client library."""
    return _DEFAULT_CLIENT_ID.fullmatch(client_id) is not None


@lru_cache(maxsize=1 << 12)
def keys_of_owner(client_id: str) -> tuple[tuple[str, str], ...]:
    """Return the keys that members of one deployment share, such as client id or pod name, the most specific first."""
    if is_default_client_id(client_id):
        return ((BY_DEFAULT_CLIENT_ID, client_id),)
    keys = [(CLIENT_KEY, client_id)]
    pod_match = _DEPLOYMENT.fullmatch(client_id)
    if pod_match is not None:
        keys.append((POD_KEY, f"{pod_match['name']} {pod_match['thread'] or ''}"))
    plain = _UUID.sub("", client_id)
    if plain != client_id:
        keys.append((PATTERN_KEY, plain))
    template = plain
    for suffix_pattern in _GENERATED_SUFFIXES:
        template = suffix_pattern.sub("*", template)
    if template != plain and template.strip("*-_. "):
        keys.append((OWNER_KEY, template))
    elif template != plain:
        keys.append((OWNER_KEY, f"{len(plain)}"))
    return tuple(keys)


def keys_of_set(names: MemberNames) -> list[tuple[str, str]]:
    """Return the keys, strongest first, that a member and its replacement share, possibly with other members.

    Different instance ids mean different members, except pod names: a pod that replaces another has a new name.
    """
    name = names.group_instance_id or names.client_id
    return [key for key in keys_of_owner(name) if key[0] == POD_KEY or not names.group_instance_id] if name else []


def replica_set(names: MemberNames) -> str | None:
    """Return the ReplicaSet's hash if a member has a pod name as instance id or client id; None otherwise."""
    pod_match = _DEPLOYMENT.fullmatch(names.group_instance_id or names.client_id or "")
    return None if pod_match is None else pod_match["hash"]
