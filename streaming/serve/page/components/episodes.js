// The episodes of a group, and which of its rounds are whose. No element is touched here.

export class Episodes {
  constructor() {
    this.clear();
  }

  clear() {
    this.known = new Map(); // number → episode
    this.ofRound = new Map(); // diff id → number
    this.changed();
  }

  changed() {
    this.all = [...this.known.values()].sort((a, b) => b.episode - a.episode); // newest first
    this.bandsOf = null;
  }

  // An episode as it is now, unless a newer word of it is known.
  take(episode) {
    const known = this.known.get(episode.episode);
    // A group that was forgotten begins at 1 again.
    if (known && (known.openedAt > episode.openedAt || (known.openedAt === episode.openedAt && known.updatedAt > episode.updatedAt))) return;
    this.known.set(episode.episode, episode);
    for (const id of episode.rounds) this.ofRound.set(id, episode.episode);
    this.changed();
  }

  get newest() {
    return this.all[0] ?? null;
  }

  // The episode of a round; of a long one only the newest rounds are listed, the others are in its time.
  of({ id, timestamp }) {
    const found = this.known.get(this.ofRound.get(id));
    if (found) return found;
    return this.all.find((one) => one.roundCount > one.rounds.length && one.openedAt <= timestamp && timestamp <= one.updatedAt) ?? null;
  }

  // What a list shows, newest first: {episode, rounds}, rounds as indexes, newest first; episode null where none is known.
  // Episodes without a loaded round stand at their time, those before the oldest loaded round only if `whole`.
  bands(rounds, whole) {
    const of = [rounds.length, rounds[0]?.seq, rounds.at(-1)?.seq, whole].join();
    if (this.bandsOf !== of) {
      this.bandsOf = of;
      this.found = this.sorted(rounds, whole);
    }
    return this.found;
  }

  sorted(rounds, whole) {
    const bands = [];
    const seen = new Set();
    for (let index = rounds.length - 1; index >= 0; index -= 1) {
      const episode = this.of(rounds[index].summary);
      const last = bands.at(-1);
      if (last && last.episode === episode) last.rounds.push(index);
      else bands.push({ episode, rounds: [index], at: rounds[index].at });
      if (episode) seen.add(episode);
    }
    const oldest = whole ? -Infinity : (rounds[0]?.at ?? Infinity);
    for (const episode of this.all) {
      if (seen.has(episode) || episode.openedAt < oldest) continue;
      const place = bands.findIndex(({ at }) => at < episode.openedAt);
      bands.splice(place < 0 ? bands.length : place, 0, { episode, rounds: [], at: episode.openedAt });
    }
    return bands;
  }
}
