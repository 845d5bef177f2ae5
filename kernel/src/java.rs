//! What Kafka's answers inherit from Java: `assignors.java`, for ASCII.

const DEFAULT_CAPACITY: usize = 16;
/// A bin with more keys made the table grow early, or became a tree.
const MOST_IN_A_BIN: u8 = 8;

/// `String.hashCode`, four units a step.
pub fn string_hash(text: &str) -> u32 {
    let times = |hash: u32, power: u32| hash.wrapping_mul(31u32.pow(power));
    let units = text.as_bytes().chunks_exact(4);
    let rest = units.remainder();
    let hash = units.fold(0u32, |hash, unit| {
        let [a, b, c, d] = [unit[0], unit[1], unit[2], unit[3]].map(u32::from);
        times(hash, 4)
            .wrapping_add(times(a, 3))
            .wrapping_add(times(b, 2))
            .wrapping_add(times(c, 1))
            .wrapping_add(d)
    });
    rest.iter().fold(hash, |hash, &unit| times(hash, 1).wrapping_add(u32::from(unit)))
}

/// `Uuid.hashCode`.
pub fn uuid_hash(bits: u128) -> u32 {
    let folded = (bits >> 64) as u64 ^ bits as u64;
    (folded >> 32) as u32 ^ folded as u32
}

/// What `new HashSet(collection)` of this size allocates.
pub fn set_capacity(size: usize) -> usize {
    (size * 4 / 3 + 1).max(DEFAULT_CAPACITY).next_power_of_two()
}

/// The places of keys as a `HashMap`, filled in this order, iterates them; None where more than eight share a bin.
pub fn map_order(keys: &[&str]) -> Option<Vec<usize>> {
    let hashes: Vec<u32> = keys.iter().map(|key| string_hash(key)).collect();
    hash_order(&hashes, DEFAULT_CAPACITY).map(|order| order.into_iter().map(|place| place as usize).collect())
}

/// As [`map_order`], from the keys' hash codes, for a table that was made with room for `capacity`.
pub fn hash_order(hashes: &[u32], mut capacity: usize) -> Option<Vec<u32>> {
    let bin = |hash: u32, capacity: usize| (hash ^ (hash >> 16)) as usize & (capacity - 1);
    loop {
        let threshold = capacity * 3 / 4;
        if hashes.len() > usize::from(MOST_IN_A_BIN) {
            let mut filled = vec![0u8; capacity];
            for &hash in hashes.iter().take(threshold + 1) {
                let keys = &mut filled[bin(hash, capacity)];
                *keys += 1;
                if *keys > MOST_IN_A_BIN {
                    return None;
                }
            }
        }
        if hashes.len() <= threshold {
            break;
        }
        capacity *= 2;
    }
    let mut starts = vec![0u32; capacity + 1];
    for &hash in hashes {
        starts[bin(hash, capacity) + 1] += 1;
    }
    for at in 0..capacity {
        starts[at + 1] += starts[at];
    }
    let mut order = vec![0; hashes.len()];
    for (place, &hash) in (0u32..).zip(hashes) {
        let next = &mut starts[bin(hash, capacity)];
        order[*next as usize] = place;
        *next += 1;
    }
    Some(order)
}

/// The 16 bytes of a Uuid as Kafka prints it; None: it is none.
pub fn uuid_bits(text: &str) -> Option<u128> {
    // 22 digits of six bits: the last four are none of the Uuid's, and Python's reader ignores them.
    let digits: &[u8; 22] = text.strip_suffix("==").unwrap_or(text).as_bytes().try_into().ok()?;
    let values = digits.map(|digit| DIGITS[digit as usize]);
    if values.iter().fold(0, |bits, value| bits | value) == NO_DIGIT {
        return None; // digits have six bits; all at once is sooner done than a search
    }
    let joined = |values: &[u8]| values.iter().fold(0u64, |bits, &value| bits << 6 | u64::from(value));
    let last = joined(&values[20..]) >> 4;
    Some(
        u128::from(joined(&values[..10])) << 68 | u128::from(joined(&values[10..20])) << 8 | u128::from(last),
    )
}

const NO_DIGIT: u8 = u8::MAX;
/// What each character of url-safe base64 stands for.
const DIGITS: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
};
