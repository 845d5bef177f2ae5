"""Random groups of each protocol; the actions of their members fill a :class:`~tests.support.timelines.Timeline`."""

from collections.abc import Callable
from random import Random

from streaming.collect.coordinator.records import RawRecord
from tests.support.epoch_log import EpochLog
from tests.support.offsets_topic import assignment, group_bytes, group_key, subscription
from tests.support.timelines import SESSION_MS, TOPIC, Timeline


def eager(chance: Random) -> Timeline:
    """Return the timeline of a classic group with ``range``, in which each round revokes all partitions."""
    line = Timeline(chance, chance.randint(1, 4))
    group = _EagerRebalance(line)
    group.join(chance.randint(1, 3))
    for _ in range(chance.randint(1, 6)):
        line.wait(*chance.choice([(1, 300), (500, 5000), (5000, 40_000)]))
        group.step()
    line.end()
    return line


class _EagerRebalance:
    assignor = "range"

    def __init__(self, line: Timeline) -> None:
        self.line, self.chance = line, line.chance
        self.members: list[str] = []
        self.generation, self.named = 0, 0

    def step(self) -> None:
        """Apply one random change to the group."""
        if not self.members:
            self.join(self.chance.randint(1, 3))
            return
        action = self.chance.choice(
            [self.join_new_member, self.leave, self.crash, self.restart, self.restart_static_member, self.away]
        )
        action()

    def new(self, count: int) -> list[str]:
        self.named += count
        return [f"m{self.named - place}" for place in range(count)]

    def join(self, count: int) -> None:
        self.round(self.line.now, new_members=self.new(count))

    def join_new_member(self) -> None:
        self.round(self.line.now, new_members=self.new(1))

    def leave(self) -> None:
        count = self.chance.choice([1, len(self.members)])
        gone = self.chance.sample(self.members, count)
        at = self.line.now
        self.round(at, gone=dict.fromkeys(gone, (at, at + 20, True)))

    def crash(self, begin: int | None = None) -> None:
        """Crash these members; the coordinator removes them when their sessions time out."""
        count = self.chance.choice([1, len(self.members)])
        crashed_at = self.line.now
        over = (crashed_at if begin is None else begin) + SESSION_MS
        gone = dict.fromkeys(self.chance.sample(self.members, count), (crashed_at, over, False))
        self.round(over, gone=gone)

    def restart(self) -> None:
        """Restart all members: they crash and rejoin under new ids before their old sessions time out."""
        crashed_at = self.line.now
        back = crashed_at + self.chance.randint(200, SESSION_MS - 1)
        gone = dict.fromkeys(self.members, (crashed_at, crashed_at + SESSION_MS, False))
        self.round(back, gone=gone, new_members=self.new(len(gone)), joined=crashed_at + SESSION_MS)

    def restart_static_member(self) -> None:
        """Restart a static member within its session: the coordinator writes the generation again with the new id."""
        crashed_at = self.line.now
        old = self.chance.choice(self.members)
        held, at = self.line.held(old), self.line.wait(200, SESSION_MS - 1)
        for partition in held:
            self.line.stop(partition, crashed_at, fenced=at, commits=False)
        new = f"{old.partition('#')[0]}#{self.named}"
        self.named += 1
        self.members[self.members.index(old)] = new
        self.rename(old, new)
        for partition in held:
            self.line.start(partition, new, at + self.chance.randint(0, 500))
        self.write(at)

    def rename(self, old: str, new: str) -> None:
        """Move the partitions of a static member's old id to its new id."""

    def away(self) -> None:
        """Make the coordinator unavailable for a random time, during which members may crash."""
        begin = self.line.now
        end = begin + self.chance.randint(500, 30_000)
        self.line.outages.append((begin, end))
        crashes = self.chance.random() < 0.6
        self.line.now = self.chance.randint(begin, end) if crashes else end
        if crashes:
            self.crash(begin=end)

    def round(
        self,
        requested_at: int,
        *,
        new_members: list[str] | None = None,
        gone: dict[str, tuple[int, int, bool]] | None = None,
        joined: int = 0,
    ) -> None:
        """Add a rebalance of the group to the timeline.

        Args:
            requested_at: time at which the members were requested to rejoin.
            new_members: the members that join.
            gone: for each removed member: when it stopped consuming, when it was removed, and whether it committed at
                its end.
            joined: earliest time at which all new members have joined.
        """
        line, gone = self.line, gone or {}
        staying_members = [member for member in self.members if member not in gone]
        stops = {stay: requested_at + self.chance.randint(0, 3000) for stay in staying_members}
        ready = max([requested_at + 1, joined, *stops.values(), *(fenced for _, fenced, _ in gone.values())])
        ready += self.chance.randint(1, 50)
        stops |= {member: stopped for member, (stopped, _, _) in gone.items()}
        for member in self.members:
            revoked = line.held(member)
            for partition in revoked:
                fenced = ready if member in staying_members else gone[member][1]
                commits = self.chance.random() < 0.9 and (member in staying_members or gone[member][2])
                line.stop(partition, stops[member], fenced=fenced, commits=commits)
            if member in staying_members:
                line.callbacks.append((stops[member], member, -1, revoked, []))
        self.members = sorted([*staying_members, *(new_members or [])])
        self.generation += 1
        line.now = ready + self.chance.randint(0, 40)
        line.joins[self.generation] = (requested_at if staying_members and (new_members or gone) else None), ready
        shares = self.shares()
        for member in self.members:
            at = line.now + self.chance.choice([1, 50, 800, 3000])
            for partition in shares[member]:
                line.start(partition, member, at)
            line.callbacks.append((at, member, self.generation, [], shares[member]))
        self.write(line.now)

    def shares(self) -> dict[str, list[int]]:
        count = len(self.members)
        return {
            member: list(range(place * self.line.partitions // count, (place + 1) * self.line.partitions // count))
            for place, member in enumerate(self.members)
        }

    def write(self, at: int) -> None:
        metadata = subscription([TOPIC])
        members = {
            name: (metadata, assignment({TOPIC: share} if share else {})) for name, share in self.shares().items()
        }
        instances = {member: f"i-{member.partition('#')[0]}" for member in self.members}
        value = group_bytes(self.generation, members, protocol=self.assignor if members else None, instances=instances)
        self.line.rows.append(RawRecord(0, 0, at, group_key("g"), value))


def cooperative(chance: Random) -> Timeline:
    """Return the timeline of a classic group with ``cooperative-sticky``, which revokes only moved partitions."""
    line = Timeline(chance, chance.randint(1, 4))
    group = _CooperativeRebalance(line)
    group.join(chance.randint(1, 3))
    for _ in range(chance.randint(1, 6)):
        line.wait(*chance.choice([(500, 5000), (5000, 40_000)]))
        group.step()
    line.end()
    return line


class _CooperativeRebalance(_EagerRebalance):
    """A cooperative rebalance: one generation that revokes partitions, and one generation that assigns them."""

    assignor = "cooperative-sticky"

    def __init__(self, line: Timeline) -> None:
        super().__init__(line)
        self.owners: dict[int, str] = {}

    def round(
        self,
        requested_at: int,
        *,
        new_members: list[str] | None = None,
        gone: dict[str, tuple[int, int, bool]] | None = None,
        joined: int = 0,
    ) -> None:
        line, gone = self.line, gone or {}
        ready = max([requested_at + 1, joined, *(fenced for _, fenced, _ in gone.values())]) + 2000
        for member, (stopped, fenced, commits) in gone.items():
            for partition in line.held(member):
                line.stop(partition, stopped, fenced=fenced, commits=commits)
        self.members = sorted([*(member for member in self.members if member not in gone), *(new_members or [])])
        wanted = {partition: member for member, share in super().shares().items() for partition in share}
        before = {partition: member for partition, member in self.owners.items() if member in self.members}
        self.owners = {place: member for place, member in wanted.items() if before.get(place, member) == member}
        self._generation(ready, before)
        revoked = {partition: member for partition, member in before.items() if wanted[partition] != member}
        if not revoked:
            return
        revoked_at = line.now
        for partition in revoked:
            line.stop(
                partition,
                revoked_at + self.chance.randint(1, 500),
                fenced=revoked_at + 600,
                commits=True,
                given_up_at=revoked_at,
            )
        self.owners = wanted
        self._generation(revoked_at + self.chance.randint(600, 3000), before)

    def _generation(self, ready: int, before: dict[int, str]) -> None:
        line = self.line
        self.generation += 1
        line.now = ready + self.chance.randint(0, 40)
        at = line.now + self.chance.choice([1, 50, 800])
        for partition, member in self.owners.items():
            if before.get(partition) != member and partition not in line.held(member):
                line.start(partition, member, at)
        self.write(line.now)

    def rename(self, old: str, new: str) -> None:
        self.owners = {partition: new if member == old else member for partition, member in self.owners.items()}

    def shares(self) -> dict[str, list[int]]:
        return {member: sorted(p for p, owner in self.owners.items() if owner == member) for member in self.members}


def epochs(chance: Random) -> Timeline:
    """Return the timeline of a KIP-848 group, in which heartbeats revoke and assign partitions."""
    line = Timeline(chance, chance.randint(1, 4))
    group = _EpochRebalance(line)
    group.join_new_member()
    for _ in range(chance.randint(1, 6)):
        group.send_heartbeats(chance.choice([0, 2, 30]))
        line.wait(*chance.choice([(50, 300), (500, 5000), (5000, 40_000)]))
        chance.choice(
            [
                group.join_new_member,
                group.join_new_member,
                group.leave,
                group.crash,
                group.away,
                group.restart_static_member,
            ]
        )()
    group.send_heartbeats(30)
    line.end()
    return line


class _EpochRebalance:
    def __init__(self, line: Timeline) -> None:
        self.line, self.chance = line, line.chance
        self.log = EpochLog({TOPIC: line.partitions})
        self.named = 0

    def join_new_member(self) -> None:
        self.named += 1
        name = f"m{self.named}"
        self._write(lambda: self.log.join(name, instance=f"i-{name}"))
        self._follow(name, set())

    def leave(self) -> None:
        members = sorted(self.log.members)
        for member_id in self.chance.sample(members, self.chance.choice([1, len(members)]) if members else 0):
            self.line.wait(50, 100)
            self._apply_response_late(member_id, self.line.now, commits=True)
            self._write(lambda member_id=member_id: self.log.leave(member_id))  # type: ignore[misc]

    def crash(self, begin: int | None = None) -> None:
        members = sorted(self.log.members)
        crashed_members = self.chance.sample(members, self.chance.choice([1, len(members)]) if members else 0)
        crashed_at = self.line.now
        self.line.now = (crashed_at if begin is None else begin) + SESSION_MS
        for member_id in crashed_members:
            self._apply_response_late(member_id, crashed_at, commits=False)
        for member_id in crashed_members:
            self._write(lambda member_id=member_id: self.log.leave(member_id))  # type: ignore[misc]

    def away(self) -> None:
        begin = self.line.wait(60, 100)
        end = begin + self.chance.randint(500, 30_000)
        self.line.outages.append((begin, end))
        if self.chance.random() < 0.6:
            self.line.now = self.chance.randint(begin, end)
            self.crash(begin=end)
        else:
            self.line.now = end

    def restart_static_member(self) -> None:
        """Let a static member leave and rejoin under a new id before its old session times out."""
        members_without_revocation = [name for name, member in sorted(self.log.members.items()) if not member.revoking]
        if not members_without_revocation:
            return
        self.send_heartbeats(1)
        old, left = self.chance.choice(members_without_revocation), self.line.wait(60, 100)
        held = self.line.held(old)
        if self.log.members[old].revoking:
            return
        for partition in held:
            self.line.stop(partition, left, fenced=left + 1, commits=True, given_up_at=left)
        self._write(lambda: self.log.away(old))
        self.named += 1
        new, back = f"m{self.named}", self.line.wait(200, SESSION_MS - 1)
        self._write(lambda: self.log.back(old, new))
        for partition in held:
            self.line.start(partition, new, back + self.chance.choice([1, 500]))

    def send_heartbeats(self, most: int) -> None:
        """Send heartbeats of all members, ``most`` times at most, until no assignment changes."""
        for _ in range(most):
            for member_id in sorted(self.log.members):
                self.line.wait(50, 600)
                held = {number for _, number in self.log.members[member_id].held}
                self._write(lambda member_id=member_id: self.log.beat(member_id))  # type: ignore[misc]
                self._follow(member_id, held)

    def _apply_response_late(self, member: str, at: int, *, commits: bool) -> None:
        for partition in self.line.held(member):
            self.line.stop(partition, at, fenced=self.line.now, commits=commits)

    def _follow(self, member: str, held: set[int]) -> None:
        """Let a member give up partitions within 50 ms, and start consuming the partitions that it gets within 2 s."""
        now = {number for _, number in self.log.members[member].held}
        for partition in held - now:
            stopped = self.line.now + self.chance.randint(0, 49)
            self.line.stop(partition, stopped, fenced=self.line.now + 49, commits=True, given_up_at=self.line.now)
        for partition in now - held:
            self.line.start(partition, member, self.line.now + self.chance.choice([1, 40, 2000]))

    def _write(self, records: Callable[[], list[RawRecord]]) -> None:
        self.log.now = self.line.now
        self.line.rows += [row._replace(timestamp=self.line.now) for row in records()]
