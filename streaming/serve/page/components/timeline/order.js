// Which partitions the timeline shows, and in which order. No element is touched here.

export const ORDERS = { topic: "By topic", moves: "Most moved first", member: "By member" };
const MANY = 60;

// Of many partitions, those that moved are looked for.
export const usualOrder = ({ partitions }) => (partitions.length > MANY ? "moves" : "topic");

export const moves = ({ owners }) => owners.length - 1;

// `find`: a part of `topic-17`, or of the name of a member that owned the partition.
export function ordered({ partitions }, people, order, find) {
  const wanted = find.trim().toLowerCase();
  const found = (partition) => `${partition.topic}-${partition.number}`.toLowerCase().includes(wanted) ||
    partition.owners.some((owner) => owner >= 0 && people[owner].toLowerCase().includes(wanted));
  const rows = wanted ? partitions.filter(found) : [...partitions];
  if (order === "moves") return rows.sort((a, b) => moves(b) - moves(a));
  const ownerOf = ({ owners }) => (owners.at(-1) < 0 ? "" : people[owners.at(-1)]); // those without an owner first
  if (order === "member") return rows.sort((a, b) => (ownerOf(a) < ownerOf(b) ? -1 : ownerOf(a) > ownerOf(b) ? 1 : 0));
  return rows;
}
