// A cache of the newest diffs, bounded by their members: a diff of ten thousand is megabytes.
const MEMBERS = 50_000;

export const weight = (diff) => Object.keys(diff.members).length;

export class KeptDiffs {
  constructor() {
    this.clear();
  }

  clear() {
    this.bySeq = new Map();
    this.members = 0;
  }

  get(seq) {
    return this.bySeq.get(seq);
  }

  set(seq, diff) {
    this.delete(seq);
    this.bySeq.set(seq, diff);
    this.members += weight(diff);
    for (const oldest of this.bySeq.keys()) {
      if (this.members <= MEMBERS || oldest === seq) return;
      this.delete(oldest);
    }
  }

  delete(seq) {
    const diff = this.bySeq.get(seq);
    if (!diff) return;
    this.members -= weight(diff);
    this.bySeq.delete(seq);
  }
}

