//! What Kafka's answers inherit from Java: `assignors.java`, for ASCII.

/// `String.hashCode`.
fn string_hash(text: &str) -> u32 {
    text.bytes().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

/// The places of keys as a `HashMap`, filled in this order, iterates them; None where more than eight share a bin:
/// the table then grew early or made it a tree.
pub fn map_order(keys: &[&str]) -> Option<Vec<usize>> {
    let spread: Vec<u32> = keys.iter().map(|key| string_hash(key)).map(|code| code ^ (code >> 16)).collect();
    let mut capacity = 16;
    loop {
        let threshold = capacity * 3 / 4;
        let mask = capacity as u32 - 1;
        let mut filled = vec![0u8; capacity];
        for code in spread.iter().take(threshold + 1) {
            let bin = &mut filled[(code & mask) as usize];
            *bin += 1;
            if *bin > 8 {
                return None;
            }
        }
        if keys.len() <= threshold {
            let mut order: Vec<usize> = (0..keys.len()).collect();
            order.sort_by_key(|&place| spread[place] & mask);
            return Some(order);
        }
        capacity *= 2;
    }
}
